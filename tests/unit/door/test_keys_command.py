"""API keys that a command of the owner's gives, in place of a file."""

import json
import shlex
from pathlib import Path

import pytest

from sparkwright.common import terminal
from sparkwright.common.errors import PlanError
from sparkwright.declared.fleet import fleet
from sparkwright.declared.fleet.file import load_fleet
from sparkwright.door.keys import api_keys, has_keys, keys_path, named_key
from tests.commands import sparkwright
from tests.makers.door import KEY
from tests.makers.refused import refusal

OWNER = f"{{keys: [{{name: owner, secret: {KEY}}}]}}"
FLEET = """\
sparks: {spark-a: {ssh_hostname: 192.0.2.1}}
replicas: {chat: {recipe: qwen3.6-35b-nvidia, sparks: [spark-a]}}
keys_command: WORDS
"""


def given(folder: Path, *words: object) -> Path:
    path = folder / "sparks.yaml"
    path.write_text(FLEET.replace("WORDS", json.dumps(words)))
    return path


def printing(key: str, more: str = "") -> str:
    """Return a script that prints a key of ann."""
    return f"echo '{{keys: [{{name: ann, secret: {key}{more}}}]}}'"


def by(folder: Path, script: str) -> Path:
    return given(folder, "sh", "-c", script)


def test_its_output_is_the_file_and_it_runs_once(tmp_path):
    script = f"echo ran >> {tmp_path}/log; echo '# ours'; {printing(KEY)}"
    path = by(tmp_path, script)
    assert [api_keys(path) for _ in range(3)] == [(KEY,)] * 3
    assert (tmp_path / "log").read_text() == "ran\n"
    assert has_keys(load_fleet(path))
    assert not keys_path(path).exists()


def test_it_may_ask_a_person(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It has this process's standard input and errors."""
    path = by(tmp_path, f"readlink /proc/self/fd/0 >&2; echo '{OWNER}'")
    assert api_keys(path) == (KEY,)
    assert capfd.readouterr().err == f"{Path('/proc/self/fd/0').readlink()}\n"


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (f"echo {KEY}; exit 3", "found a command that fails (exit status 3); expected the keys"),
        ("kill -9 $$", "found a command that fails (signal 9)"),
        ("true", "found a command that prints nothing"),
        (f"echo '# {KEY}'", "keys_command: its output: found no keys, or encrypted ones; expected"),
        (printing(KEY, ", places: [chat]"), "found no key that opens everything, today"),
        (printing(KEY, ", places: [x]"), "its output: keys[0].places: found 'x' for ann"),
        (printing(KEY[:16]), "its output: keys[0].secret: found another value; expected at least"),
        (f"printf '{KEY}\\000'", "its output:1: found"),
        (f"printf '{KEY}\\377'", "its output: found no keys, or encrypted ones"),
    ],
)
def test_what_it_gives_is_checked_and_never_shown(
    tmp_path: Path, script: str, told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    path = by(tmp_path, script)
    said = refusal(api_keys, path)
    assert said.startswith(f"{path}: keys_command: ")
    assert told in said
    # The words of the command are in the inventory; its output is nowhere.
    assert KEY[:16] not in said.replace(shlex.quote(script), "")
    assert capfd.readouterr() == ("", "")
    # A person is not asked again.
    assert refusal(api_keys, path) == said


@pytest.mark.parametrize("script", ["exec sleep 60", "exec sleep 60 >&-", "sleep 2 & exit"])
def test_one_that_does_not_end_is_ended(
    tmp_path: Path, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "PATIENCE", 0.2)
    said = refusal(api_keys, by(tmp_path, script))
    assert "found a command that has not ended after 0.2 s" in said


def test_one_that_takes_long_is_named_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "_SILENT", 0.1)
    path = by(tmp_path, f"sleep 0.5; echo '{OWNER}'")
    assert api_keys(path) == (KEY,)
    script = shlex.quote(f"sleep 0.5; echo '{OWNER}'")
    said = f"waiting for keys_command: sh -c {script}, for 60 s at the most\n"
    assert capfd.readouterr() == ("", said)


@pytest.mark.parametrize("words", ["pass show", [], [1], ["pass", ""], {"pass": "show"}])
def test_it_is_a_list_of_words(tmp_path: Path, words: object) -> None:
    path = given(tmp_path)
    path.write_text(FLEET.replace("WORDS", json.dumps(words)))
    said = refusal(api_keys, path)
    assert "keys_command" in said
    assert "expected a list of words, such as [pass, show, sparkwright/sparks]" in said


def test_one_that_cannot_be_run_or_that_a_file_is_beside_is_refused(tmp_path):
    said = refusal(api_keys, given(tmp_path, "no-such-store", "show"))
    assert "keys_command: found a command that cannot be run (No such file or dir" in said
    (tmp_path / "text").write_text("x")
    assert "cannot be run (Permission denied)" in refusal(
        api_keys, given(tmp_path, str(tmp_path / "text"))
    )
    path = by(tmp_path, printing(KEY))
    keys_path(path).touch()
    said = refusal(api_keys, path)
    assert f"sparks.keys: found a file of keys, and keys_command in {path}; expected one" in said
    assert f"remove {keys_path(path)} once its keys are in the store" in said


def test_what_shows_keys_works_and_what_changes_them_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = by(tmp_path, f"echo '{OWNER}'")
    assert sparkwright("keys", "show", inventory=path) == 0
    assert capsys.readouterr().out == f"{KEY}\n"
    assert sparkwright("keys", "list", inventory=path) == 0
    for words, what in (
        (["new"], "the first key"),
        (["add", "ann"], "a key of ann"),
        (["rotate", "owner"], "the change of owner"),
        (["remove", "owner"], "the change of owner"),
    ):
        assert sparkwright("keys", *words, inventory=path) == 1
        said = capsys.readouterr().err
        assert f"keys_command: found keys that are in a store of yours; expected {what}" in said
    with pytest.raises(PlanError, match="in a store of yours; expected a key of prometheus"):
        named_key(load_fleet(path), "prometheus", ("metrics",))
    assert list(tmp_path.iterdir()) == [path]
