"""What a Spark may lose, and what it may not."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from host.upkeep.cleanup.clean import Cleaning, Found, _freed, look, read, superfluous
from host.upkeep.cleanup.system import HeldImage
from sparkwright.upkeep.cleanup.deploy import delete
from tests.unit.driven import Driven, here

OLDEST, OLDER, OLD, NOW = (f"tiny-{digit * 8}" for digit in "0123")
SIZES = {"sha256:aa": 5_000_000_000, "sha256:bb": 6_000_000_000, "sha256:cc": 7_000_000_000}
# Each line of "names" is an image's id, and what it is called.
_DOCKER = """#!/bin/sh
case "$*" in
"image ls"*) cut -d " " -f 1 "$STATE/names" ;;
"image inspect --format {{.Id}} "*) grep -F -e "$5" "$STATE/names" | cut -d " " -f 1 ;;
"image inspect"*) cat "$STATE/images" ;;
"image rm"*) echo "$*" >>"$STATE/removed" ;;
"ps"*) echo 0123 ;;
"inspect"*) echo '[{"Image": "sha256:cc"}]' ;;
esac
"""
_SYSTEMCTL = """#!/bin/sh
case "$*" in list-units*switch@*) cat "$STATE/jobs" ;; list-units*) cat "$STATE/units" ;; esac
"""
_RUN = """#!/bin/sh
image=$(docker image inspect --format '{{.Id}}' %s 2>/dev/null | head -n 1)
[ -n "$image" ] || { echo "Docker has no image" >&2; exit 1; }
mkdir -p x || exit 1
exec docker run "$image"
"""


class Disk:
    """The root folder of a Spark, with a Docker and a systemd that are scripts."""

    def __init__(self, folder: Path) -> None:
        self.root, self.state = folder / "root", folder / "standins"
        for name in ("releases", "manifests", "jobs", "state"):
            (self.root / name).mkdir(parents=True)
        self.state.mkdir()
        for name, text in (("docker", _DOCKER), ("systemctl", _SYSTEMCTL)):
            (self.state / name).write_text(text)
            (self.state / name).chmod(0o755)
        for name in ("jobs", "units", "removed"):
            (self.state / name).touch()
        self.images: list[dict[str, Any]] = []
        self.image()

    def release(self, name: str, folder: str, image: str) -> None:
        path = self.root / "releases" / name
        path.mkdir()
        (path / "run").write_text(_RUN % image)
        checkpoints = {"model": {"folder": folder}}
        (path / "release.json").write_text(json.dumps({"checkpoints": checkpoints}, indent=2))

    def image(self, *images: tuple[str, list[str], list[str]]) -> None:
        for id, tags, digests in images:
            names = {"RepoTags": tags, "RepoDigests": digests}
            self.images.append({"Id": id, "Size": SIZES[id], **names})
        (self.state / "images").write_text(json.dumps(self.images))
        lines = [" ".join(map(str, each.values())) for each in self.images]
        (self.state / "names").write_text("".join(f"{line}\n" for line in lines))

    def orders(self, job: str, **told: object) -> None:
        (self.root / f"manifests/{job}.json").write_text(json.dumps(told) + "\n")

    def weights(self, name: str, *files: str) -> None:
        (self.root / name).mkdir()
        for file in files:
            (self.root / name / file).write_text("x" * 1000)
        record = json.dumps({"files": dict.fromkeys(files)})
        (self.root / name / ".sparkwright.json").write_text(record)

    def wanted(self, keep: int = 2, **given: list[str]) -> dict[str, Any]:
        asked: dict[str, list[str]] = {"releases": [], "folders": [], "images": []}
        return {"root": str(self.root), "keep": keep, **asked, **given}

    @property
    def found(self) -> Found:
        return read(self.root)

    def gone(self, keep: int, **given: list[str]) -> Cleaning:
        return superfluous(self.found, self.wanted(keep, **given))


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    """Four releases of three images and three checkpoints, of which the last one serves."""
    disk = Disk(tmp_path)
    monkeypatch.setenv("PATH", f"{disk.state}:{os.environ['PATH']}")
    monkeypatch.setenv("STATE", str(disk.state))
    monkeypatch.setattr("host.upkeep.cleanup.system._ENVIRONMENT", dict(os.environ))
    disk.release(OLDEST, "one", "example/a@sha256:1")
    disk.release(OLDER, "two", "example/a@sha256:1")
    disk.release(OLD, "three", "sparkwright/b:2")
    disk.release(NOW, "three", "example/c@sha256:3")
    (disk.root / "current").symlink_to(f"releases/{NOW}")
    lines = [f"17000000{number} {name}\n" for number, name in enumerate((OLDEST, OLDER, OLD, NOW))]
    (disk.root / "state/history").write_text("".join(lines))
    disk.image(
        ("sha256:aa", [], ["example/a@sha256:1"]),
        ("sha256:bb", ["sparkwright/b:2"], []),
        ("sha256:cc", [], ["example/c@sha256:3"]),
    )
    disk.orders("image@1", image="example/a@sha256:1", size=1)
    disk.orders("image-build@2", image="sparkwright/b:2", base="example/base@sha256:4", files={})
    disk.orders("image@3", image="example/c@sha256:3", size=1)
    for name in ("one", "two", "three"):
        disk.weights(name, "model.safetensors", "config.json")
    return disk


@pytest.mark.parametrize(
    ("keep", "releases", "images", "weights"),
    [
        (99, [], [], []),
        (3, [], [], []),
        (2, [OLDEST], [], ["one"]),
        (1, [OLDEST, OLDER], ["sha256:aa"], ["one", "two"]),
        (0, [OLDEST, OLDER, OLD], ["sha256:aa", "sha256:bb"], ["one", "two"]),
    ],
)
def test_what_serves_and_those_before_stay(
    disk: Disk, keep: int, releases: list[str], images: list[str], weights: list[str]
) -> None:
    gone = disk.gone(keep)
    assert gone == Cleaning(
        releases,
        [each for each in (OLDEST, OLDER, OLD) if each not in releases],
        [image for image in disk.found.docker if image.id in images],
        weights,
    )


def test_one_that_has_never_served_goes_unless_it_is_asked_for(disk: Disk) -> None:
    disk.release("tiny-9", "three", "example/c@sha256:3")
    assert disk.gone(3).releases == ["tiny-9"]
    assert disk.gone(3, releases=["tiny-9"]).releases == []


def test_weights_that_are_linked_to_others_free_nothing(disk: Disk) -> None:
    def freed() -> dict[str, int]:
        return dict(_freed(disk.root, disk.found, disk.gone(1).weights))

    alone = freed()
    assert all(size > 2000 for size in alone.values())
    for name in ("one", "three"):
        (disk.root / f"{name}/model.safetensors").unlink()
        os.link(disk.root / "two/model.safetensors", disk.root / f"{name}/model.safetensors")
    assert freed() == {name: size - 1000 for name, size in alone.items()}
    (disk.root / "three/model.safetensors").unlink()
    assert sum(freed().values()) == sum(alone.values()) - 1000


def test_what_the_inventory_asks_for_stays(disk: Disk) -> None:
    gone = disk.gone(0, releases=[OLDEST], folders=["two"], images=["sparkwright/b:2"])
    assert gone.releases == [OLDER, OLD]
    assert (gone.images, gone.weights) == ([], [])


def test_what_runs_or_serves_another_replica_stays(disk: Disk) -> None:
    (disk.state / "units").write_text(f"vllm@{OLDEST}.service loaded active running\n")
    assert OLDEST not in disk.gone(0).releases
    (disk.state / "units").write_text("")
    (disk.root / "seats/second").mkdir(parents=True)
    (disk.root / "seats/second/current").symlink_to(f"releases/{OLDEST}")
    assert disk.gone(0).releases == [OLDER, OLD]


def test_what_we_have_not_brought_stays(disk: Disk) -> None:
    (disk.root / "manifests/image@1.json").unlink()
    (disk.root / "one/.sparkwright.json").unlink()
    (disk.root / "two/notes.txt").write_text("mine")
    gone = disk.gone(1)
    assert (gone.images, gone.weights) == ([], [])
    assert gone.left == ["leaves weights two: notes.txt in it is not of the checkpoint"]


def test_what_somebody_else_names_or_uses_stays(disk: Disk) -> None:
    (disk.root / "one/.sparkwright-set-aside").mkdir()
    (disk.root / "one/.sparkwright-set-aside/notes.txt").write_text("mine")
    found = disk.found
    named = [replace(image, names=(*image.names, "mine:1")) for image in found.docker]
    assert superfluous(replace(found, docker=named), disk.wanted(0)).images == []
    used = {image.id for image in found.docker}
    assert superfluous(replace(found, used=used), disk.wanted(0)).images == []
    assert "one" not in disk.gone(0).weights


def test_the_base_of_what_is_built_stays_as_long_as_that(disk: Disk) -> None:
    base = HeldImage("sha256:dd", 1, ("example/base@sha256:4",))
    found = replace(disk.found, docker=[*disk.found.docker, base])
    assert base not in superfluous(found, disk.wanted(1)).images
    assert base in superfluous(found, disk.wanted(0)).images


def test_a_release_that_does_not_say_its_own_keeps_all(disk: Disk) -> None:
    (disk.root / f"releases/{NOW}/release.json").write_text("{")
    gone = disk.gone(0)
    assert (gone.images, gone.weights) == ([], [])
    assert gone.left == [f"keeps images and weights: {NOW} does not say which ones it uses"]


def test_compiled_code_goes_with_its_image(disk: Disk) -> None:
    for name in ("aa", "cc", "ee"):
        (disk.root / "cache/user" / name).mkdir(parents=True)
    assert disk.gone(3).caches == ["user/ee"]
    assert disk.gone(1).caches == ["user/aa", "user/ee"]
    assert superfluous(replace(disk.found, docker=[]), disk.wanted(0)).caches == []


def run(disk: Disk, keep: int) -> Driven:
    spark = here(root=str(disk.root))
    spark.run(delete, program="clean", given=disk.wanted(keep))
    return spark


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_it_deletes(disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    compiled = disk.root / "cache/compiled"
    compiled.mkdir(parents=True)
    for release in (OLDEST, NOW):
        (compiled / f"{release}.tar").write_bytes(bytes(2_000_000))
    run(disk, 1)
    assert names(compiled) == [f"{NOW}.tar"]
    shutil.rmtree(disk.root / "cache")
    assert names(disk.root / "releases") == [OLD, NOW]
    assert (disk.state / "removed").read_text() == "image rm sha256:aa\n"
    assert names(disk.root) == ["current", "jobs", "manifests", "releases", "state", "three"]
    assert names(disk.root / "manifests") == ["image-build@2.json", "image@3.json"]
    assert f"removes release {OLDEST} (2.0 MB" in caplog.text
    assert f"; {OLD} stays for a rollback." in look(disk.wanted(1))["result"]
    assert "removes image example/a@sha256:1, less what others share, (5.0 GB)" in caplog.text
    assert len(run(disk, 1).commands) == 1
    disk.root /= "absent"
    assert len(run(disk, 0).commands) == 1


def test_not_while_something_is_at_work(disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    (disk.state / "jobs").write_text("weights@one.service loaded active running\n")
    run(disk, 0)
    assert "at work: weights@one.service; wait until it ends" in caplog.text
    assert len(names(disk.root / "releases")) == 4
