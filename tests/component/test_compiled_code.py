"""Compiled code on its way: from the first engine of a release to the home of another's."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pyinfra.api import operation

from sparkwright.artifacts.compiled import deploy
from sparkwright.artifacts.compiled.deploy import collect, lent
from sparkwright.plan.release import release as plan
from sparkwright.plan.release.bundle import archives
from sparkwright.plan.release.release import Release
from tests.makers.release import numbered, recipe, release
from tests.programs import script
from tests.unit.driven import Driven, fake_host, this_machine

# What a container with a home and tar would do.
_DOCKER = """#!/bin/bash
[ "$1 $2" = "image inspect" ] && { echo sha256:1234; exit; }
for word; do case $last in --volume) home=${word%:/home/engine} ;; esac; last=$word; done
cd "$home" && case "$*" in
  *" sha256:1234 --create --file - --directory /home/engine .") exec tar --create --file - . ;;
  *" sha256:1234 --extract --file - --directory /home/engine") exec tar --extract --file - ;;
esac
exit 125
"""
COMPILED = "cache/sparkwright-engine/1234/triton/kernel"


class Spark:
    """A Spark's root folder, on which the scripts of a release run."""

    def __init__(self, folder: Path, switches: bool = True) -> None:
        self.root, self.bin = folder / "root", folder / "bin"
        for path in (self.root / "state", self.bin):
            path.mkdir(parents=True)
        script(self.bin / "docker", _DOCKER)
        script(self.bin / "id", "#!/bin/sh\necho 1\n")
        script(self.bin / "chown", "#!/bin/sh\n")
        if switches:
            (self.root / "state/switch.json").write_text("{}")
        self.release = release(root=str(self.root))
        self.archive = Path(self.release.place.compiled(self.release.id))

    def begin(self, made: Release | None = None) -> None:
        """Do what comes before the engine."""
        before, found, _ = (made or self.release).files["run"].partition("\nexec docker run")
        assert found
        assert self._run(before) == 0

    def compile(self, content: bytes = b"code") -> None:
        file = self.root / COMPILED
        file.parent.mkdir(parents=True)
        file.write_bytes(content)

    def keep(self) -> int:
        return self._run(self.release.files["keep"])

    def _run(self, text: str) -> int:
        path = {"PATH": f"{self.bin}:{os.environ['PATH']}"}
        return subprocess.run(["sh", "-c", text], env=path, check=False).returncode


def test_an_engine_begins_with_what_another_has_compiled(tmp_path: Path) -> None:
    first, second = Spark(tmp_path / "a"), Spark(tmp_path / "b", switches=False)
    first.begin()
    first.compile()
    assert first.keep() == 0
    assert first.archive.stat().st_mode & 0o777 == 0o600
    second.archive.parent.mkdir(parents=True)
    first.archive.rename(second.archive)
    second.begin()
    assert (second.root / COMPILED).read_text() == "code"
    # It has its home: it is not begun anew, and once it has had clients nothing is packed.
    (second.root / COMPILED).write_text("changed")
    second.begin()
    assert (second.root / COMPILED).read_text() == "changed"
    for each in (first, second):
        each.archive.unlink(missing_ok=True)
        assert each.keep() == 0
        assert not each.archive.exists()


def test_a_home_that_another_engine_may_have_served_from_is_not_packed(tmp_path: Path) -> None:
    at_once, shared = Spark(tmp_path / "a", switches=False), Spark(tmp_path / "b")
    at_once.begin()
    shared.begin()
    shared.begin(release(recipe(sparks=[2]), root=str(shared.root), ranks=numbered(2)))
    for each in (at_once, shared):
        each.compile()
        assert each.keep() == 0
        assert not each.archive.exists()


def test_what_is_too_large_or_damaged_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "MOST_COMPILED", 64 * 1024)
    spark = Spark(tmp_path)
    spark.begin()
    spark.compile(bytes(100_000))
    assert spark.keep() == 1
    assert list(spark.archive.parent.iterdir()) == []
    other = Spark(tmp_path / "other")
    other.archive.parent.mkdir(parents=True)
    other.archive.write_bytes(b"no archive")
    other.begin()
    assert list((other.root / "cache/sparkwright-engine/1234").iterdir()) == []


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return archives()


@operation()
def fetched(served: Release):  # type: ignore[no-untyped-def]
    yield from collect(served)


def test_a_run_fetches_it_and_a_later_one_sends_it(tmp_path: Path, store: Path) -> None:
    first, second = Spark(tmp_path / "a"), Spark(tmp_path / "b")
    first.begin()
    first.compile()
    first.keep()
    assert this_machine(spark="a").run(fetched, name="Fetched", served=first.release).did_succeed()
    # Their roots differ here, and so the names of the same release.
    (store / first.archive.name).rename(store / second.archive.name)
    assert [path.name for path in store.iterdir()] == [second.archive.name]
    sent = this_machine(spark="b", root=str(second.root))
    assert sent.run(lent, name="Lent", served=second.release).did_change()
    second.begin()
    assert (second.root / COMPILED).read_text() == "code"
    assert not sent.run(lent, name="Lent", served=second.release).did_change()


@pytest.mark.parametrize(
    ("size", "current", "is_lent"),
    [(None, "old", True), (9, "old", False), (None, "NEW", False)],
)
def test_only_what_does_not_serve_yet_gets_one(
    size: int | None, current: str, is_lent: bool, store: Path
) -> None:
    served = release()
    found: dict[str, Any] = {"size": size, "current": current.replace("NEW", served.id)}
    spark: Driven = fake_host(state={"artifacts.compiled": found}, spark="a")
    assert not spark.predicts_change(lent, served=served)
    store.mkdir(parents=True)
    (store / f"{served.id}.tar").touch()
    assert spark.predicts_change(lent, served=served) is is_lent


def test_few_are_kept_here_and_none_of_a_damaged_size(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = release()
    monkeypatch.setattr(deploy, "MOST_COMPILED", 8)
    part = {"artifacts.compiled": {"size": 9, "current": ""}}
    assert not fake_host(state=part, spark="a").predicts_change(fetched, served=served)
    store.mkdir(parents=True, exist_ok=True)
    for number in range(9):
        path = store / f"{number}.tar"
        path.touch()
        os.utime(path, (number, number))
    (store / "a.part").touch()
    deploy._take(None, None, store / "a.part", store / "new.tar")
    assert {path.name for path in store.iterdir()} == {
        *(f"{n}.tar" for n in range(2, 9)),
        "new.tar",
    }
