"""What a hostile Spark answers to a benchmark, and the files that are made of it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkwright.benchmark import operations as benchmark
from sparkwright.benchmark.measured import IDENTITY, Answer, check_answer, result_of
from sparkwright.benchmark.page import report
from tests.security.hostile import ESCAPES

RESULTS = Path(__file__).parents[1] / "unit" / "results"


def _measured() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / "within.json").read_text())
    return found


def _shortened(value: Any) -> Any:
    """Return a result with lists of three at most: as hostile as a whole one, and quicker."""
    if isinstance(value, dict):
        return {key: _shortened(each) for key, each in value.items()}
    return [_shortened(each) for each in value[:3]] if isinstance(value, list) else value


SHORT = _shortened(_measured())


def _orders(result: dict[str, Any]) -> dict[str, Any]:
    return {key: result[key] for key in IDENTITY}


def _names(result: dict[str, Any]) -> list[str]:
    return [each["name"] for each in result["workloads"]]


class _Host:
    """Takes what a run would log."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def log(self, line: str) -> None:
        self.lines.append(line)


def test_an_answer_to_the_orders_is_taken() -> None:
    result = _measured()
    answer = Answer.model_validate_json(json.dumps(result))
    assert check_answer(answer, _orders(result), _names(result)) == ""
    assert report(result_of(answer), {}).table == report(result, {}).table
    assert result_of(answer)["format"] == 1


@pytest.mark.parametrize("key", IDENTITY)
def test_an_answer_to_other_orders_is_refused(key: str) -> None:
    result = _measured()
    other = 2 if key == "sparks" else "../../home/operator/.bashrc.d/00"
    answer = Answer.model_validate_json(json.dumps(result | {key: other}))
    assert check_answer(answer, _orders(result), _names(result)).startswith(f"{key}: found")


def test_a_workload_that_nobody_ordered_is_refused() -> None:
    result = _measured()
    answer = Answer.model_validate_json(json.dumps(result))
    assert "expected those that were ordered" in check_answer(answer, _orders(result), ["short"])


def test_files_are_named_by_the_inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "RESULTS", tmp_path / "benchmarks")
    hostile = _measured()
    hostile |= dict.fromkeys(IDENTITY, "../../pwned") | {"sparks": 1, "started": 0}
    result = result_of(Answer.model_validate_json(json.dumps(hostile)))
    host = _Host()
    benchmark._keep(None, host, "chat", result, {})  # type: ignore[arg-type]
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted(path.suffix for path in written) == [".html", ".json"]
    assert {path.parent for path in written} == {tmp_path / "benchmarks"}
    assert all(path.name.startswith("chat-2") for path in written)
    with pytest.raises(ValueError, match="expected the name of a file"):
        benchmark._keep(None, host, "../chat", result, {})  # type: ignore[arg-type]


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where something stands in a result, of lists only the first."""
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from _places(value[key], (*path, key))
    elif isinstance(value, list) and value:
        yield from _places(value[0], (*path, 0))


PLACES = [path for path in _places(SHORT) if path]
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, -1, 2**63, 10**400, 10**4000])
    | st.floats()
    | st.text()
    | st.sampled_from(["", "NaN", "../../x", ESCAPES, "9" * 5000]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@settings(deadline=None)
@given(changes=st.lists(st.tuples(st.sampled_from(PLACES), ANYTHING), min_size=1, max_size=3))
def test_an_answer_is_refused_or_makes_a_page(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    result = copy.deepcopy(SHORT)
    for (*way, last), value in changes:
        place = result
        try:
            for step in way:
                place = place[step]
            place[last] = value
        except (TypeError, KeyError, IndexError):
            continue
    try:
        answer = Answer.model_validate_json(json.dumps(result))
    except ValueError:
        return
    told = report(result_of(answer), {"single": {"tok_s": 50.0}})
    assert all(line.isprintable() for line in told.table)
