"""A release: one id for all that the engine would notice; and the archives of programs."""

import ast
import json
import os
import re
import stat
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from sparkwright.plan.release.command import Ranks, docker_run
from sparkwright.plan.release.lock import Lock, image_key
from sparkwright.plan.release.programs import (
    HOST_FILES,
    _imports,
    program,
    spark_programs,
)
from sparkwright.plan.release.release import SCRIPTS, repository
from tests.clock import patience
from tests.makers.refused import refusal
from tests.makers.release import DIGEST, NASTY, PAIR, lock, pair, recipe, release
from tests.programs import ended, script


def test_the_same_makes_the_same_and_needs_a_lock() -> None:
    assert release() == release()
    assert release().id.startswith("try-")
    assert len(release().id) == len("try-") + 8
    said = refusal(release, lock_=Lock())
    for name in ("owner/drafter@main", "example.org/vllm:1"):
        assert f"{name} is not in the lock yet" in said


def test_what_the_engine_would_notice_is_another_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """The id is made of the files, so that a folder never needs to be written twice."""
    one = release()
    for other in (
        release(recipe(args={"max-model-len": 1})),
        release(recipe(env={"A": "b"})),
        release(recipe(served_names=["other"])),
        release(recipe(start_timeout=99)),
        release(lock_=lock(commit="e" * 40)),
        release(lock_=lock(digest="sha256:" + "e" * 64)),
        release(root="/opt/y"),
        pair(0),
    ):
        assert other.id != one.id, other.recipe
    for change in ({"description": "Other."}, {"source": "other"}):
        assert release(recipe(**change)).id == one.id
        assert release(recipe(**change)).files == one.files
    assert one.files["run"].count(one.id) == 10
    assert not any(one.id in text for name, text in one.files.items() if name not in SCRIPTS)
    assert release(ranks=Ranks(("other",))).id == one.id
    monkeypatch.setattr("sparkwright.plan.release.release.program", lambda module: b"another")
    after = release()
    assert after.id != one.id
    assert (after.program, after.files.keys()) == (b"another", one.files.keys())


@pytest.mark.parametrize(
    ("changes", "key", "value"),
    [
        ({"hardware": ["gb10"]}, "unified", True),
        ({"hardware": ["rtx-5090"]}, "unified", False),
        ({"answers": "chat"}, "answers", "chat"),
        ({"answers": "scores", "args": {"runner": "pooling"}}, "answers", "scores"),
    ],
)
def test_the_unit_knows_the_memory_and_what_the_engine_answers(
    changes: dict[str, object], key: str, value: object
) -> None:
    one = recipe(**changes)
    (image,) = lock().images.values()
    made = release(one, lock().model_copy(update={"images": {image_key(one): image}}))
    assert json.loads(made.files["unit.json"])[key] == value


def test_the_supervisor_knows_how_many_copies_it_can_ask() -> None:
    """vLLM takes no number of a copy for texts to embed or to score."""
    copies, texts = {"data-parallel-size": 2}, {"runner": "pooling"}
    for changes, asked in (
        ({"args": copies}, 2),
        ({}, None),
        ({"args": copies | texts, "answers": "embeddings"}, None),
    ):
        made = release(recipe(sparks=[2], **changes), ranks=Ranks(("a", "b"), PAIR, 0))
        assert json.loads(made.files["unit.json"]).get("copies") == asked


@pytest.mark.parametrize("context", [None, "auto", 4096, 262_144, "1M"])
@pytest.mark.parametrize("tokens", [None, 2048, "64K"])
def test_the_supervisor_knows_how_long_a_step_may_take(context: object, tokens: object) -> None:
    """It grows with tokens and context; what vLLM chooses is taken as no less than that."""
    given = {"max-model-len": context, "max-num-batched-tokens": tokens}
    args = {name: value for name, value in given.items() if value}
    step = json.loads(release(recipe(args=args)).files["unit.json"])["longest_step"]
    read = {None: 8192, 2048: 2048, "64K": 65_536}[tokens]
    before = {None: 262_144, "auto": 262_144, "1M": 1_048_576}.get(context, context)
    assert step == pytest.approx(read / 1000 * (1 + 11e-6 * before), abs=0.06)


def test_both_ranks_have_one_release_and_differ_in_their_own_part() -> None:
    head, worker = pair(0), pair(1)
    assert head.id == worker.id
    assert pair(0, PAIR[::-1]).id != head.id
    assert pair(0, names="xy").id == head.id
    same = {name for name in head.files if head.files[name] == worker.files[name]}
    assert {name for name in same if not name.startswith("plugin/")} == {
        "release.json",
        "engine.env",
    }
    assert head.program == worker.program
    for rank, made in enumerate((head, worker)):
        unit = json.loads(made.files["unit.json"])
        assert (unit["rank"], unit["sparks"]) == (rank, ["a", "b"])
        assert unit["fabric"] == [list(addresses) for addresses in PAIR]
    assert "--headless" in worker.files["run"]
    assert "--headless" not in head.files["run"]
    assert "--uds" not in worker.files["run"]
    for rank, made in enumerate((head, worker)):
        assert f"--node-rank {rank}" in made.files["run"]
        for word in ("--tensor-parallel-size 2", "--nnodes 2", "--master-addr 192.168.100.11"):
            assert word in made.files["run"]
    assert "--env NCCL_SOCKET_IFNAME" in head.files["run"]
    assert "NCCL" not in release().files["run"]


def test_release_json_says_what_names_stood_for() -> None:
    content = json.loads(release().files["release.json"])
    assert content["image"] == f"example.org/vllm@{DIGEST}" == release().image
    assert content["checkpoints"] == {
        name: {"repo": f"owner/{name}", "commit": "c" * 40, "folder": f"{name}@{'c' * 12}"}
        for name in ("model", "drafter")
    }
    assert content["arguments"][:2] == ["serve", "/models/model"]
    assert content["environment"]["HF_HUB_OFFLINE"] == "1"


def test_the_environment_file_is_what_docker_reads() -> None:
    assert release(recipe(env={"A": " b=c #d ", "E": ""})).files["engine.env"] == (
        "TRITON_CACHE_DIR=/home/engine/.triton/cache\n"
        "A= b=c #d \nE=\nHF_HUB_OFFLINE=1\nVLLM_NO_USAGE_STATS=1\n"
        "VLLM_MEDIA_URL_ALLOW_REDIRECTS=0\n"
        "VLLM_HOST_IP=127.0.0.1\nGLOO_SOCKET_IFNAME=lo\nNCCL_SOCKET_IFNAME=lo\n"
    )


def test_run_becomes_docker_with_exactly_its_words(tmp_path: Path) -> None:
    """Runs the script itself, with a `docker` that tells what it was called with."""
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    script(
        docker,
        "#!/bin/sh\n"
        f"[ $1 = run ] || {{ [ $7 = sha256:{'f' * 64} ] && echo sha256:the-image; exit; }}\n"
        "echo $$ >pid\nprintf '%s\\0' \"$@\" >words\n",
    )
    values = [word for word in NASTY if "${" not in word]
    nasty = recipe(args={"stop": values, "json": {"x": values}}, served_names=["a", *values])
    made = release(nasty, root=str(tmp_path / "root"))
    for name, text in {"id": "echo 7", "chown": "exit"}.items():
        script(docker.parent / name, f"#!/bin/sh\n{text}\n")
    run = tmp_path / "run"
    script(run, made.files["run"])
    path = f"{docker.parent}:{os.environ['PATH']}"
    with subprocess.Popen([run], cwd=tmp_path, env={"PATH": path}) as process:
        assert process.wait(timeout=patience()) == 0
    where = {"release": made.id, "folders": made.folders, "user": "7:7", "cache": "the-image"}
    expected = docker_run(nasty, Ranks(), made.place, image="sha256:the-image", **where)
    # What is for a standby alone goes away.
    words = [
        re.sub(r"\$\{SPARKWRIGHT_STANDBY:.*\}", "", word)
        for word in expected[1:]
        if not word.startswith("${SPARKWRIGHT_STANDBY:")
    ]
    assert (tmp_path / "words").read_text().split("\0")[:-1] == words
    assert int((tmp_path / "pid").read_text()) == process.pid, "signals must reach docker itself"
    assert {path.name for path in tmp_path.iterdir()} == {"bin", "root", "run", "words", "pid"}


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("a:1", "a"),
        ("example.org:5000/a/b:1.2", "example.org:5000/a/b"),
        (f"example.org/a@{DIGEST}", "example.org/a"),
        (f"example.org:5000/a:1@{DIGEST}", "example.org:5000/a"),
    ],
)
def test_repository(image: str, name: str) -> None:
    assert repository(image) == name


def test_the_second_engine_of_a_spark_has_a_release_of_its_own() -> None:
    """Its seat is in it, and so in its id; of the first one nothing tells that there is another."""
    first, second = release(), release(seat="embed")
    assert first.id != second.id
    assert "/opt/x/sockets/engines/try-" in first.files["run"]
    assert "/opt/x/seats/embed/sockets/engines/try-" in second.files["run"]
    assert "id -u sparkwright-engine)" in first.files["run"]
    assert "id -u sparkwright-second)" in second.files["run"]
    assert "mkdir -p /opt/x/cache/sparkwright-second-embed/ " in second.files["run"]
    assert "seat" not in json.loads(first.files["unit.json"])
    assert json.loads(second.files["unit.json"])["seat"] == "embed"
    # As the shell of a Spark finds it.
    assert '\n  "seat": "embed",\n' in second.files["unit.json"]
    assert (first.place, second.place) == ("/opt/x", "/opt/x/seats/embed")
    assert release(seat="other").id != second.id


def _members(archive: bytes) -> set[str]:
    return set(zipfile.ZipFile(BytesIO(archive)).namelist())


def test_the_same_files_make_the_same_bytes(tmp_path: Path) -> None:
    """On another machine, in another folder, with other dates and rights."""
    made = "from sparkwright.plan.release.programs import *; import hashlib; "
    made += "print(*(hashlib.sha256(it).hexdigest() for it in "
    made += "(spark_programs(), program('host.engine.supervisor'))))"
    for name in ("one", "two"):
        copy = ["cp", "-r", str(HOST_FILES.parent.parent / "sparkwright"), str(HOST_FILES.parent)]
        (tmp_path / name).mkdir()
        subprocess.run([*copy, str(tmp_path / name)], check=True)
    for path in (tmp_path / "two/files").rglob("*.py"):
        os.utime(path, (0, 0))
        path.chmod(stat.S_IRUSR)
    hashes = {
        subprocess.run(
            [sys.executable, "-B", "-c", made],
            cwd=tmp_path / name,
            env={"PYTHONPATH": str(tmp_path / name), "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for name in ("one", "two")
    }
    assert len(hashes) == 1


@pytest.mark.parametrize("path", sorted(HOST_FILES.rglob("*.py")), ids=lambda path: path.name)
def test_the_imports_of_a_program_are_those_that_python_sees(path: Path) -> None:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    froms = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    seen = [f"{node.module}.{alias.name}" for node in froms for alias in node.names]
    assert sorted(_imports(path)) == sorted(name for name in seen if name.startswith("host."))
    # No other form of import would be found.
    others = [name.name for node in nodes if isinstance(node, ast.Import) for name in node.names]
    assert not [name for name in others if name.split(".")[0] == "host"]


def test_an_engine_has_what_it_imports_and_no_more() -> None:
    """What else changes in the programs of a Spark makes no other release."""
    members = _members(program("host.engine.supervisor"))
    assert {"host/engine/peer_link.py", "host/common/probe.py", "__main__.py"} <= members
    others = ("host/engine/switch", "host/artifacts")
    assert not [name for name in members if name.startswith(others)]
    assert members < _members(spark_programs())
    # A Spark has all but the gateway.
    there = {path.relative_to(HOST_FILES.parent).as_posix() for path in HOST_FILES.rglob("*.py")}
    left = there - _members(spark_programs())
    assert {name.rpartition("/")[0] for name in left} == {"host/door/gateway"}


@pytest.mark.parametrize("module", ["host.engine.supervisor", "host.engine.switch.course"])
def test_an_archive_alone_is_enough(module: str, tmp_path: Path) -> None:
    """The system's Python is told of nothing else."""
    file = tmp_path / "program"
    file.write_bytes(program(module))
    done = ended([sys.executable, "-I", "-S", "-B", file, "--help"])
    assert (done.returncode, done.stderr) == (0, "")
    assert "usage: " in done.stdout
