"""The program that reads a Spark: what fails, hangs or is too large ends its own part alone."""

import base64
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

import pytest

from host.state import docker, gpu, readers, state
from host.state import placed as placed_part
from sparkwright.common.part import Bounded, Part
from sparkwright.machine.host.state import ask_placed
from sparkwright.plan.release.programs import spark_programs, state_program
from sparkwright.run.state import RUN
from tests.makers.shell import program


class Inner(Bounded):
    number: int


class Sample(Part):
    part: ClassVar = "sample"

    text: str
    inner: tuple[Inner, ...] = ()


def said(*asks: Any) -> list[str]:
    """Return the lines that the program prints, sent as a run sends it."""
    program = state_program(frozenset(ask[0] for ask in asks))
    request = f"{program}\n{json.dumps(asks)}\n"
    done = subprocess.run(["sh", "-c", RUN], input=request, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_the_program_travels_by_standard_input_and_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/x").write_text("text")
    before = sorted(tmp_path.rglob("*"))
    lines = said(*(json.loads(ask.key) for ask in (ask_placed(str(tmp_path)),) * 2))
    found = ask_placed(str(tmp_path)).value(lines[0])
    assert found.files[f"{tmp_path}/bin/x"].kind == "file"
    assert lines[0] == lines[1]
    assert sorted(tmp_path.rglob("*")) == before
    # Sudo's log has the command of each run.
    assert len(RUN) < 200
    assert len(base64.b64decode(state_program(frozenset({"placed"})))) < 20_000


def test_a_part_that_fails_hangs_or_says_too_much_ends_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def module(name: str) -> Any:
        def read(**arguments: Any) -> Any:
            if name == "host.state.hangs":
                time.sleep(60)
            if name == "host.state.fails":
                raise PermissionError(13, "Permission denied", "/x")
            return "x" * state.MOST if name == "host.state.large" else float("nan")

        return type("Module", (), {"read": staticmethod(read)})

    monkeypatch.setattr(state.importlib, "import_module", module)
    names = ("hangs", "fails", "large", "odd")
    asks: list[state.Ask] = [(name, {}, 0.2 if name == "hangs" else 30) for name in names]
    begun = time.monotonic()
    found = dict(zip(names, map(json.loads, state.answers(asks)), strict=True))
    assert time.monotonic() - begun < 30
    assert found["hangs"] == {"unknown": "no answer within 0.2 s"}
    assert found["fails"] == {"unknown": "/x: Permission denied"}
    assert found["large"]["unknown"].startswith("found 8388")
    assert "not JSON compliant" in found["odd"]["unknown"]


def test_what_a_spark_says_is_strict_and_bounded() -> None:
    ask = Sample.ask(root="/r")
    assert json.loads(ask.key) == ["sample", {"root": "/r"}, 30]
    assert ask.value('{"known": {"text": "x", "inner": [{"number": 3}]}}').inner[0].number == 3
    for line, problem in (
        ('{"unknown": "no such file"}', "sample: no such file"),
        ('{"known": {"text": 3}}', "sample.text: Input should be a valid string"),
        ('{"known": {"text": "x", "inner": [{"number": "3"}]}}', "sample.inner.0.number"),
        ('{"known": {"text": "x", "inner": [{"number": true}]}}', "sample.inner.0.number"),
        ('{"known": {"text": "x", "more": 1}}', "sample.more: Extra inputs are not permitted"),
        (f'{{"known": {{"text": "{"x" * (1 << 21)}"}}}}', "sample.text: String should have at"),
        (f'{{"known": {{"text": "x", "inner": [{{"number": {"9" * 40}}}]}}}}', "40 digits"),
        ("[" * 100_000, "nested too deeply"),
        ("null", "sample: no answer"),
        ("", "Expecting value"),
    ):
        with pytest.raises(ValueError, match=r"^[^\n]*$") as error:
            ask.value(line)
        assert problem in str(error.value)


def by_itself(code: str, given: str = "") -> str:
    """Return what a process of its own prints."""
    return subprocess.run(
        [sys.executable, "-c", code],
        input=given,
        env={**os.environ, "PYTHONPATH": "files"},
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=True,
    ).stdout


def test_a_line_is_one_whatever_is_in_it() -> None:
    code = (
        "from host.state import state\n"
        'state.answers = lambda asks: [\'{"known": "a\\u2028b\\x85\\udcff"}\']\n'
        "state.show([])"
    )
    (line,) = by_itself(code).splitlines()
    assert json.loads(line) == {"known": "a\u2028b\x85?"}


def test_files_of_every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder/a/b/c/d/e").mkdir(parents=True)
    (tmp_path / "folder/env").mkdir()
    (tmp_path / "folder/env/pyvenv.cfg").touch()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "folder/link").symlink_to("..")
    names = ("file", "pipe", "loop", "none", "file/below")
    found = placed_part.read([f"{tmp_path}/folder"], [f"{tmp_path}/{each}" for each in names])
    kinds = {path.removeprefix(f"{tmp_path}/"): each for path, each in found["files"].items()}
    assert {name: each["kind"] for name, each in kinds.items()} == {
        **{"file": "file", "pipe": "other", "loop": "unreadable", "file/below": "unreadable"},
        **dict.fromkeys(("folder", "folder/a", "folder/a/b", "folder/a/b/c"), "directory"),
        **dict.fromkeys(("folder/a/b/c/d", "folder/env", "folder/link"), "directory"),
    }
    assert kinds["folder/link"]["link"] == ".."
    monkeypatch.setattr(placed_part, "_MOST_FILES", 3)
    with pytest.raises(readers.UnknownError, match="at most 3"):
        placed_part.read([f"{tmp_path}/folder"])


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose programs come before the system's."""
    path = f"{tmp_path}:{os.environ['PATH']}"
    monkeypatch.setattr(readers, "_ENVIRONMENT", {"PATH": path, "LC_ALL": "C"})
    monkeypatch.setenv("PATH", path)
    return tmp_path


def test_a_program_that_hangs_is_ended_and_one_that_is_absent_says_nothing(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(programs / "hangs", "exec sleep 60")
    with pytest.raises(readers.UnknownError, match=r"hangs did not end within 0\.2 s"):
        readers.run("hangs", patience=0.2)
    assert readers.lines("no-such-program") == []
    monkeypatch.setattr(docker, "SOCKET", f"{programs}/none")
    with pytest.raises(readers.UnknownError, match="Docker does not answer: No such file"):
        docker.get("/version")


def test_the_gpu_with_the_most_memory_by_whatever_its_driver_knows(programs: Path) -> None:
    row = "NVIDIA {}, 580.1, {}, 1, 2, 208, 3.64, 45, 0"
    program(
        programs / "nvidia-smi",
        f"case $1 in *clocks_event*) echo unknown field; exit 2 ;; esac\n"
        f"echo '{row.format('T4', 100)}'; echo '{row.format('GB10', '[N/A]')}'",
    )
    read = gpu.read.__wrapped__  # type: ignore[attr-defined]
    found = read()["gpu"]
    told = (found["name"], found["memory_total"], found["reasons"])
    assert told == ("NVIDIA T4", 100 << 20, None)
    program(programs / "nvidia-smi", "echo 'NVIDIA-SMI has failed.'; exit 9")
    assert read() == {"gpu": None, "said": "NVIDIA-SMI has failed."}


PARTS = (
    *("placed", "machine", "machine.memory", "gpu", "engines", "door", "sockets", "firewall"),
    *("network.link", "network.fabric", "status", "status.running", "checkup"),
    *("sockets.exporter", "updates"),
)
# What a Spark is by systemd's word alone.
OF_SYSTEMD = {
    *("placed", "engines", "door", "status", "checkup", "machine", "machine.memory", "firewall"),
    "status.running",
}


def unknown(folder: Path) -> dict[str, str]:
    """Read all parts by a process of its own; return why some are unknown."""
    asks = [
        (part, {"units": ["ssh.service"]} if part == "placed" else {"root": str(folder)}, 25)
        for part in PARTS
    ]
    code = (
        "import json, sys\n"
        "from host.state import docker, readers, state\n"
        f"docker.SOCKET = {str(folder / 'docker.sock')!r}\n"
        "docker._PATIENCE = readers.PATIENCE = 3\n"
        "print(json.dumps(state.answers(json.load(sys.stdin))))\n"
    )
    answers = map(json.loads, json.loads(by_itself(code, json.dumps(asks))))
    said = zip(PARTS, answers, strict=True)
    return {part: answer["unknown"] for part, answer in said if "unknown" in answer}


@pytest.mark.parametrize("faults", [("nvidia-smi", "docker"), ("systemctl",)])
def test_what_hangs_takes_no_more_with_it_than_it_must(
    faults: tuple[str, ...], programs: Path, tmp_path: Path
) -> None:
    """After a fault of its driver, or with Docker stuck, a Spark still says all else."""
    # That of a busy machine takes seconds itself.
    program(programs / "apt-mark", "true")
    with socket.socket(socket.AF_UNIX) as silent:
        if "docker" in faults:
            silent.bind(f"{tmp_path}/docker.sock")
            silent.listen(50)
        program(programs / faults[0], "exec sleep 60")
        found = unknown(tmp_path)
    assert found.keys() <= (OF_SYSTEMD if "systemctl" in faults else set()), found
    assert ("placed" in found) == ("systemctl" in faults)


def test_a_person_gets_the_parts_of_this_spark_by_whatever_link(tmp_path: Path) -> None:
    (tmp_path / "r/bin").mkdir(parents=True)
    (tmp_path / "r/bin/sparkwright-host").write_bytes(spark_programs())
    (tmp_path / "r/current").symlink_to("releases/chat-1")
    (tmp_path / "link").symlink_to("r/bin/sparkwright-host")
    for name in ("link", "r/bin/sparkwright-host"):
        words = [sys.executable, "-B", str(tmp_path / name), "state", "engines"]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        assert json.loads(done.stdout)["engines"]["known"]["current"] == "chat-1"
