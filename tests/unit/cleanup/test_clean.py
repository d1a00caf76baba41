"""What a Spark may lose, and what it may not."""

import json
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from sparkwright.cleanup.artifacts import (
    ORDER,
    Artifacts,
    StoredImage,
    artifacts_script,
    parse_artifacts,
)
from sparkwright.cleanup.clean import superfluous
from sparkwright.cleanup.footprint_survey import footprint_script
from sparkwright.cleanup.operations import clean
from sparkwright.common.placed import FOLDERS
from sparkwright.common.progress import size_text
from tests.unit.driven import fake_host

OLDEST, OLDER, OLD, NOW = (f"tiny-{digit * 8}" for digit in "0123")
SIZES = {"sha256:aa": 5_000_000_000, "sha256:bb": 6_000_000_000, "sha256:cc": 7_000_000_000}
_DOCKER = """#!/bin/sh
case "$*" in
  "image ls"*) cut -f 1 "$STATE/images" ;;
  "image inspect --format {{.Id}} "*) shift 4; grep -F "$1" "$STATE/images" | cut -f 1 ;;
  "image inspect"*) cat "$STATE/images" ;;
  "ps "*) cat "$STATE/containers" ;;
  "inspect "*) echo sha256:cc ;;
esac
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
        self.root, self.state = folder / "root", folder / "state"
        for path in (*(self.root / name for name in ("releases", "manifests", "state")),):
            path.mkdir(parents=True)
        (self.state / "bin").mkdir(parents=True)
        for name, text in (("docker", _DOCKER), ("systemctl", "#!/bin/sh\ntrue\n")):
            (self.state / "bin" / name).write_text(text)
            (self.state / "bin" / name).chmod(0o755)
        for name in ("images", "containers"):
            (self.state / name).touch()

    def release(self, name: str, folder: str, image: str) -> None:
        path = self.root / "releases" / name
        path.mkdir()
        (path / "run").write_text(_RUN % image)
        checkpoints = {"model": {"folder": folder}}
        (path / "release.json").write_text(json.dumps({"checkpoints": checkpoints}, indent=2))

    def image(self, id: str, *tags: str, digest: str = "") -> None:
        digests = [digest] if digest else []
        fields = [id, str(SIZES[id]), json.dumps(tags or None), json.dumps(digests)]
        with (self.state / "images").open("a") as file:
            file.write("\t".join(fields) + "\n")

    def orders(self, job: str, **told: object) -> None:
        (self.root / f"manifests/{job}.json").write_text(json.dumps(told) + "\n")

    def weights(self, name: str, *files: str) -> None:
        (self.root / name).mkdir()
        entries = {}
        for file in files:
            (self.root / name / file).write_text("x" * 1000)
            entries[file] = {"size": 1000, "mtime_ns": 1, "inode": 1, "hash": "h"}
        record = json.dumps({"files": entries})
        (self.root / name / ".sparkwright.json").write_text(record)

    @property
    def told(self) -> str:
        """What the script says, as it runs."""
        return subprocess.run(
            ["sh", "-c", artifacts_script(str(self.root))],
            env={"PATH": f"{self.state}/bin:{os.environ['PATH']}", "STATE": str(self.state)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    @property
    def found(self) -> Artifacts:
        return parse_artifacts(self.told.splitlines())


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    """Four releases of three images and three checkpoints, of which the last one serves."""
    disk = Disk(tmp_path)
    disk.release(OLDEST, "one", "example/a@sha256:1")
    disk.release(OLDER, "two", "example/a@sha256:1")
    disk.release(OLD, "three", "sparkwright/b:2")
    disk.release(NOW, "three", "example/c@sha256:3")
    (disk.root / "current").symlink_to(f"releases/{NOW}")
    served = [OLDEST, OLDER, OLD, NOW]
    lines = [f"170000000{number} {name}\n" for number, name in enumerate(served)]
    (disk.root / "state/history").write_text("".join(lines))
    disk.image("sha256:aa", digest="example/a@sha256:1")
    disk.image("sha256:bb", "sparkwright/b:2")
    disk.image("sha256:cc", digest="example/c@sha256:3")
    disk.orders("image@1", image="example/a@sha256:1", size=1)
    disk.orders("image-build@2", image="sparkwright/b:2", base="example/base@sha256:4", files={})
    disk.orders("image@3", image="example/c@sha256:3", size=1)
    for name in ("one", "two", "three"):
        disk.weights(name, "model.safetensors", "config.json")
    return disk


def test_what_a_build_is_made_of_stays_on_the_spark(disk: Disk) -> None:
    """The files of mods are megabytes; their image's name and base are enough to know it by."""
    files = {"Dockerfile": "FROM x\n", "mods/a/b": {"base64": "eHh4" * 100_000, "mode": 420}}
    orders = {"image": "sparkwright/mods:5", "base": "example/base@sha256:4", "args": {}}
    disk.orders("image-build@5", **orders, files=files)
    assert len(disk.told) < 10_000
    (order,) = (each for each in disk.found.brought if each.file == "image-build@5")
    assert (order.names, order.base) == (("sparkwright/mods:5",), "example/base@sha256:4")
    assert ORDER in footprint_script(str(disk.root))


def test_what_serves_and_those_before_stay(disk: Disk) -> None:
    assert superfluous(disk.found, keep=3) == superfluous(disk.found, keep=99)
    assert not list(superfluous(disk.found, keep=3).lines())
    gone = superfluous(disk.found, keep=2)
    assert list(gone.lines()) == [
        f"removes release {OLDEST}, {size_text(gone.releases[OLDEST])}",
        "removes weights one, 2 kB",
    ]
    assert gone.releases[OLDEST] > 1000
    assert gone.result == f"freed {size_text(gone.size)}; {OLDER} and {OLD} stay for a rollback."
    kept = superfluous(disk.found, keep=3).result
    assert kept == f"nothing to free; {OLDEST} and {OLDER} and {OLD} stay for a rollback."
    gone = superfluous(disk.found, keep=1)
    assert [*gone.releases] == [OLDEST, OLDER]
    assert [(image.id, jobs) for image, jobs in gone.images] == [("sha256:aa", ("image@1",))]
    assert gone.weights == {"one": 2000, "two": 2000}


def test_weights_that_are_linked_to_others_free_nothing(disk: Disk) -> None:
    for name in ("one", "three"):
        (disk.root / f"{name}/model.safetensors").unlink()
        os.link(disk.root / "two/model.safetensors", disk.root / f"{name}/model.safetensors")
    assert superfluous(disk.found, keep=1).weights == {"one": 1000, "two": 1000}
    (disk.root / "three/model.safetensors").unlink()
    assert superfluous(disk.found, keep=1).weights == {"one": 2000, "two": 1000}


def test_nothing_but_what_serves(disk: Disk) -> None:
    gone = superfluous(disk.found, keep=0)
    assert [*gone.releases] == [OLDEST, OLDER, OLD]
    assert gone.result.startswith("freed up to 11.0 GB")
    assert "rollback" not in gone.result
    assert [image.id for image, _ in gone.images] == ["sha256:aa", "sha256:bb"]
    assert "removes image sparkwright/b:2, 6.0 GB less what others share with it" in gone.lines()


def test_what_the_inventory_asks_for_stays(disk: Disk) -> None:
    gone = superfluous(disk.found, 0, [OLDEST], folders=["two"], images=["sparkwright/b:2"])
    assert [*gone.releases] == [OLDER, OLD]
    assert gone.images == ()
    assert gone.weights == {}


def test_a_release_that_never_served_goes(disk: Disk) -> None:
    disk.release("tiny-99999999", "three", "example/c@sha256:3")
    assert [*superfluous(disk.found, keep=3).releases] == ["tiny-99999999"]
    assert superfluous(disk.found, 3, wanted=["tiny-99999999"]).releases == {}


def test_what_runs_or_boots_stays(disk: Disk) -> None:
    found = disk.found
    unit = "Id=vllm@{}.service\nActiveState={}\nNRestarts=0\nNeedDaemonReload=no\nJob=\n"
    for name, state, enabled in ((OLDEST, "active", ""), (OLDEST, "failed", OLDEST)):
        wants = f"vllm@{enabled}.service" if enabled else ""
        lines = ["@@current", "@@enabled", wants, "@@share", "@@units"]
        engines = parse_artifacts(
            [*lines, *unit.format(name, state).splitlines(), "@@images", "@@used", "@@jobs"]
        ).engines
        gone = superfluous(replace(found, engines=engines), keep=0)
        assert OLDEST not in gone.releases


def test_what_we_have_not_brought_stays(disk: Disk) -> None:
    (disk.root / "manifests/image@1.json").unlink()
    (disk.root / "one/.sparkwright.json").unlink()
    (disk.root / "two/notes.txt").write_text("mine")
    gone = superfluous(disk.found, keep=1)
    assert gone.images == ()
    assert gone.weights == {}
    assert gone.left == (
        "leaves weights two: notes.txt in it is not of the checkpoint",
        "keeps image example/a@sha256:1, 5.0 GB: we did not fetch it. "
        "To remove it: sudo docker image rm sha256:aa",
    )


def test_what_somebody_else_names_or_uses_stays(disk: Disk) -> None:
    (disk.root / "one/.sparkwright-set-aside").mkdir()
    (disk.root / "one/.sparkwright-set-aside/notes.txt").write_text("mine")
    found = disk.found
    named = tuple(replace(image, tags=(*image.tags, "mine:1")) for image in found.docker)
    assert superfluous(replace(found, docker=named), keep=0).images == ()
    used = frozenset(image.id for image in found.docker)
    assert superfluous(replace(found, used=used), keep=0).images == ()
    assert "one" not in superfluous(found, keep=0).weights


def test_the_base_of_what_is_built_stays_as_long_as_that(disk: Disk) -> None:
    found = disk.found
    base = StoredImage("sha256:dd", 1, (), ("example/base@sha256:4",))
    found = replace(found, docker=(*found.docker, base))
    assert base not in [image for image, _ in superfluous(found, keep=1).images]
    assert base in [image for image, _ in superfluous(found, keep=0).images]


def test_a_release_that_does_not_say_its_own_keeps_all(disk: Disk) -> None:
    (disk.root / f"releases/{NOW}/release.json").write_text("{")
    gone = superfluous(disk.found, keep=0)
    assert (gone.images, gone.weights) == ((), {})
    assert gone.left == (f"keeps images and weights: {NOW} does not say which ones it uses",)


def test_a_clean_host_has_nothing(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.root = tmp_path / "absent"
    assert not list(superfluous(disk.found, keep=0).lines())


def test_compiled_code_goes_with_its_image(disk: Disk) -> None:
    for name in ("aa", "cc", "ee"):
        (disk.root / "cache/user" / name).mkdir(parents=True)
        (disk.root / "cache/user" / name / "kernel.so").write_bytes(b"x" * 3000)
    found = disk.found
    assert [cache.name for cache in superfluous(found, keep=3).caches] == ["user/ee"]
    assert [cache.name for cache in superfluous(found, keep=1).caches] == ["user/aa", "user/ee"]
    gone = superfluous(found, keep=0)
    assert [cache.name for cache in gone.caches] == ["user/aa", "user/ee"]
    assert any(line.startswith("removes compiled code cache/user/ee, ") for line in gone.lines())
    assert superfluous(replace(found, docker=()), keep=0).caches == ()


def removes(folder: str) -> str:
    """The command that removes what is known of a checkpoint's folder."""
    return f"rm -rf /r/manifests/{folder}.json /r/jobs/weights@{folder}.json"


class TestOperation:
    """What is done with it."""

    @staticmethod
    def run(found: str, keep: int) -> tuple[list[str], bool]:
        spark = fake_host({"echo @@current": {"stdout": found}}, root="/r")
        arguments = {"root": "/r", "keep": keep, "wanted": [], "folders": [], "images": []}
        result = spark.run(clean, **arguments)
        cleaned = [folder.name for folder in FOLDERS if folder.cleaned]
        removals = [each for each in spark.scripts() if each.startswith("rm -rf ")]
        assert set(re.findall("/r/([^/ ]+)/", " ".join(removals))) <= set(cleaned)
        return spark.scripts()[1:], result.did_succeed()

    def test_nothing_to_do(self, disk: Disk) -> None:
        assert self.run(disk.told, 3) == ([], True)

    def test_what_it_removes(self, disk: Disk) -> None:
        scripts, succeeded = self.run(disk.told, 1)
        assert succeeded
        assert [script for script in scripts if not script.startswith("systemctl")] == [
            *(
                f"rm -rf /r/releases/{name} /r/manifests/switch@{name}.json "
                f"/r/jobs/switch@{name}.json"
                for name in (OLDEST, OLDER)
            ),
            "docker image rm sha256:aa",
            "rm -rf /r/manifests/image@1.json /r/jobs/image@1.json",
            "find -H /r/one -mindepth 1 -delete && rm -d /r/one",
            removes("one"),
            "find -H /r/two -mindepth 1 -delete && rm -d /r/two",
            removes("two"),
        ]

    def test_a_cache(self, disk: Disk) -> None:
        (disk.root / "cache/user/ee").mkdir(parents=True)
        assert self.run(disk.told, 3) == (["rm -rf /r/cache/user/ee"], True)

    def test_not_while_something_is_at_work(self, disk: Disk) -> None:
        (scripts, succeeded) = self.run(disk.told + "weights@one.service\n", 0)
        assert not succeeded
        assert len(scripts) == 1
