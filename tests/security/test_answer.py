"""What a hostile Spark answers to a benchmark, and the files that are made of it."""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkwright.insight.benchmark import deploy as benchmark
from sparkwright.insight.benchmark.measured import Answer, check_answer
from sparkwright.insight.benchmark.verdict import report
from tests.makers.benchmark import answer, recorded
from tests.security.hostile import ESCAPES, places, put

RELEASE = SimpleNamespace(
    id="r-1",
    ranks=SimpleNamespace(sparks=("a",)),
    recipe=SimpleNamespace(name="r", vllm="0.28.0", served_names=["m"], expected={}),
)


def _shortened(value: Any) -> Any:
    """Return a result with lists of three at most: as hostile as a whole one, and quicker."""
    if isinstance(value, dict):
        return {key: _shortened(each) for key, each in value.items()}
    return [_shortened(each) for each in value[:3]] if isinstance(value, list) else value


SHORT = _shortened(recorded("within"))
ORDERS = "{}"


def _answered(**changes: Any) -> Answer:
    """An answer to `ORDERS`."""
    return answer(recorded("within") | {"orders": _HASH} | changes)


# sha256 of `ORDERS`.
_HASH = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
NAMES = [each["name"] for each in recorded("within")["workloads"]]


def test_an_answer_to_the_orders_is_taken() -> None:
    assert check_answer(_answered(), ORDERS, NAMES) == ""


def test_an_answer_to_other_orders_is_refused() -> None:
    assert check_answer(_answered(), "{ }", NAMES) == "it is of another manifest"
    said = check_answer(_answered(), ORDERS, ["short"])
    assert "expected those that were ordered" in said
    twice = recorded("within")["workloads"][:1] * 2
    assert "expected those" in check_answer(_answered(workloads=twice), ORDERS, NAMES)


def test_figures_that_we_do_not_know_are_left_out() -> None:
    hostile = recorded("within")["workloads"][0]
    hostile["figures"] |= {"../../pwned": 1.0}
    assert "../../pwned" not in _answered(workloads=[hostile]).figures[hostile["name"]]


def test_files_are_named_by_the_inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "RESULTS", tmp_path / "benchmarks")
    host = SimpleNamespace(log=lambda line: None)
    hostile = _answered(orders="../../pwned", started=0)
    benchmark._keep(None, host, "chat", hostile, RELEASE, "gb10")  # type: ignore[arg-type]
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted(path.suffix for path in written) == [".json", ".md"]
    assert {path.parent for path in written} == {tmp_path / "benchmarks"}
    assert all(path.name.startswith("chat-2") for path in written)
    with pytest.raises(ValueError, match="expected the name of a file"):
        benchmark._keep(None, host, "../chat", hostile, RELEASE, "gb10")  # type: ignore[arg-type]


PLACES = [*places(SHORT)]
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
    for path, value in changes:
        with suppress(TypeError, KeyError, IndexError):
            put(result, path, value)
    try:
        read = Answer.model_validate_json(json.dumps(result))
    except ValueError:
        return
    table, page = report(read, "chat", "gb10", {"single": {"tok_s": 50.0}})
    assert all(line.isprintable() for line in (*table, *page))
