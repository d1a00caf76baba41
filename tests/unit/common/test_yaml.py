"""YAML files that cannot be read say where and why."""

from pathlib import Path

import pytest
import yaml as pyyaml

from sparkwright.common import yaml
from sparkwright.common.errors import PlanError
from sparkwright.common.yaml import lines_of, load
from tests.makers.refused import refused

PROJECT = Path(__file__).parents[3]


class Older(pyyaml.SafeLoader):
    """YAML 1.1, but for dates, which become text in the end."""


Older.add_constructor("tag:yaml.org,2002:timestamp", Older.construct_yaml_str)


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "x.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_values_keep_their_types(tmp_path: Path) -> None:
    path = written(tmp_path, "a: {b: [1, 0.5, true, null, text, 0o17, 0x1F, -1e3, ~, '1', ]}\n")
    assert load(path) == {"a": {"b": [1, 0.5, True, None, "text", 15, 31, -1000.0, None, "1"]}}
    for text in ("", "# only a comment\n", "---\n"):
        assert load(written(tmp_path, text)) == {}
    # A byte order mark is no content.
    assert load(written(tmp_path, b"\xef\xbb\xbfa: 1\n")) == {"a": 1}


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="found no such file; expected a YAML file"):
        load(tmp_path / "none.yaml")
    with pytest.raises(PlanError, match="found a folder; expected a YAML file"):
        load(tmp_path)
    with pytest.raises(PlanError, match="cannot be read as UTF-8 text"):
        load(Path("a\0b.yaml"))


OLD = ["on", "Yes", "off", "NO", "y", "20:22", "2_2", "0b11", "2026-04-19", "=", "<<", "0x_1"]


def test_words_of_yaml_1_1_are_text(tmp_path: Path) -> None:
    text = "".join(f"{word}: {word}\n" for word in OLD)
    assert load(written(tmp_path, text)) == {word: word for word in OLD}
    # 18 in YAML 1.1.
    assert load(written(tmp_path, "a: 022\n")) == {"a": 22}


@pytest.mark.parametrize("parser", [yaml._FAST, yaml._PYTHON])
def test_what_is_written_is_the_same_text_to_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parser: type
) -> None:
    monkeypatch.setattr(yaml, "_FAST", parser)
    shared = [1, 2.5, 1e30, None, True]
    words = [*OLD, "1e3", "0o17", "022", ".inf", "null", "", "true", "- a", "a: b", "\u00e9", "#"]
    data = {**{word: word for word in words}, "others": shared, "same": shared}
    for style in ({}, {"default_flow_style": True}, {"sort_keys": True}):
        text = yaml.dump(data, **style)
        assert load(written(tmp_path, text)) == data
        assert pyyaml.safe_load(text) == data
        assert "&" not in text


def test_files_of_ours_are_read_alike_by_both_versions() -> None:
    """An editor, or a program of an owner's, may read YAML 1.1."""
    paths = [*(PROJECT / "files").rglob("*.yaml"), *(PROJECT / "sparkwright").rglob("*.yaml")]
    assert len(paths) > 30
    for path in paths:
        assert load(path) == pyyaml.load(path.read_text(), Loader=Older)


def test_a_key_of_another_kind(tmp_path: Path) -> None:
    for key, read in (("007", "the number 7"), ("true", "true"), ("~", "null"), ("1.5", "the num")):
        with pytest.raises(PlanError, match=f":2: found the key {key}, which YAML reads as {read}"):
            load(written(tmp_path, f"a: 1\n{key}: 2\n"))


def test_all_duplicates_are_listed_with_their_lines(tmp_path: Path) -> None:
    path = written(tmp_path, "sparks:\n  a: 1\n  b: 2\n  a: 3\nsparks: 4\n")
    assert sorted(refused(load, path)) == [
        f"{path}:4: a: found twice; expected once",
        f"{path}:5: sparks: found twice; expected once",
    ]


@pytest.mark.parametrize(
    ("text", "place", "found"),
    [
        ("a: 1\nb: [1, 2\n", ":2:", "a [ without its ]"),
        ("a: 1\n\tb: 2\n", ":2:", "a tab; expected spaces"),
        ("a: !!python/object/apply:os.system [id]\n", ":1:", "python/object"),
        ("a: 1\n---\nb: 2\n", ":2:", "a second document"),
        ("- a\n- b\n", ":", "found a list; expected a mapping"),
        ("just text\n", ":", "found text without a key; expected a mapping"),
        (b"a: \xff\n", ":", "cannot be read as UTF-8 text"),
        (b"a: \x00\n", ":1:", "the control character #x00"),
        ("a: 1\nb: -1e999\n", ":2:", "found -1e999; expected a smaller number"),
        ("a: !!str 1\n", ":1:", "the tag !!str"),
        ('a: "\\UFFFFFFFF"\n', ":", "no YAML"),
        ("a: 1\n  b: 2\n", ":2:", "a ': ' where no key can be"),
        ('a: {b: "x}\n', ":1:", "found a quote that is not closed"),
        ("a:\n  b: {}\n c: {}\n", ":3:", "found a line that begins farther left"),
        ("a: 1\nb\n", ":2:", "found a line without a colon"),
        ("a: @x\n", ":1:", "a value that begins with @; expected the value in quote"),
        ("<<<<<<< HEAD\na: 1\n=======\n", ":1:", "found a conflict mark of git; expected one ver"),
    ],
)
def test_what_is_no_mapping_of_yaml(
    tmp_path: Path, text: str | bytes, place: str, found: str
) -> None:
    path = written(tmp_path, text)
    (problem,) = refused(load, path)
    assert problem.startswith(f"{path}{place}")
    assert found in problem


@pytest.mark.parametrize(
    ("text", "problem", "placed"),
    [
        ("a:\n  b.c: {d: 1}\n", "a.b.c.d: found 1; expected 2", "2: a.b.c.d: found 1; expected 2"),
        ("a:\n- 1\n- on\n", 'a[1]: found "on"; x', '3: a[1]: found "on"; x'),
        ("a: 1\n", "b: found nothing; x", " b: found nothing; x"),
        ("a: {b: }\n", "a.b: found null; x", "1: a.b: found nothing; x"),
        ("a: b: c\n", "a: found 1; x", " a: found 1; x"),
        (f"a: {'x' * 2**20}\n", "a: found 1; x", " a: found 1; x"),
    ],
)
def test_a_problem_names_the_line_of_its_value(
    tmp_path: Path, text: str, problem: str, placed: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(PlanError) as caught, lines_of(path):
        raise PlanError(f"{path}: {problem}", f"other.yaml: {problem}")
    assert caught.value.problems == (f"{path}:{placed}", f"other.yaml: {problem}")
