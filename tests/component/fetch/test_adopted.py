"""Checkpoints that a Spark has already: a cache of Hugging Face, folders, another disk."""

import json
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from huggingface_hub import snapshot_download

from tests.clock import patience
from tests.component.fetch.conftest import REPO, Spark
from tests.programs import changed_program, host_program

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
# Nobody has this one.
OWNER = 59_998


@pytest.fixture(autouse=True)
def unmounted(spark: Spark, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """End what is mounted in the checkpoint's folder, however a test ends."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield
    for at in mounts(spark):
        subprocess.run(["umount", "--lazy", at], check=True)


@pytest.fixture
def cache(spark: Spark, tmp_path: Path) -> Path:
    """A user's cache, made by the library itself; what it cost is not counted."""
    folder = tmp_path / "home/.cache/huggingface/hub"
    snapshot_download(REPO, cache_dir=folder, endpoint=spark.url, token=False)
    given(tmp_path / "home", 0o755)
    spark.before = spark.sent
    return folder


def given(folder: Path, mode: int = 0o755) -> None:
    """Make all in a folder a user's."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, OWNER, OWNER, follow_symlinks=False)
    folder.chmod(mode)


def step(spark: Spark, name: str) -> tuple[int, str]:
    """Run one step of adoption; return its status and what it told the journal."""
    findings = spark.root / "findings"
    done = subprocess.run(
        host_program("adopt-weights", name, spark.root, spark.name, findings),
        stderr=subprocess.PIPE,
        text=True,
        timeout=patience(60),
    )
    return done.returncode, done.stderr


def ordered(spark: Spark, *folders: Path) -> None:
    """Name the folders of the group data."""
    spark.folder.mkdir(exist_ok=True)
    told = {"repo": REPO, "commit": spark.locked.commit, "folders": [str(each) for each in folders]}
    (spark.root / f"manifests/{spark.name}.folders").write_text(json.dumps(told))


def adopted(spark: Spark, *folders: Path) -> str:
    """Do what adopt@.service does; return what it says in the end."""
    ordered(spark, *folders)
    for name in ("ready", "find", "adopt"):
        status, errors = step(spark, name)
        assert status == 0, errors
    return said(spark)


def said(spark: Spark) -> str:
    report = json.loads((spark.root / f"jobs/adopt@{spark.name}.json").read_text())
    assert report["phase"] in ("done", "failed")
    return str(report["message"])


def sent(spark: Spark) -> dict[str, int]:
    """Return the bytes of each file that the hub has sent since the cache was there."""
    bytes_of = {path: seen["bytes"] for path, seen in spark.sent.items()}
    old = {path: seen["bytes"] for path, seen in spark.before.items()}
    new = {path: count - old.get(path, 0) for path, count in bytes_of.items()}
    return {path.removeprefix(f"{REPO}/"): count for path, count in new.items() if count}


@contextmanager
def disk(folder: Path) -> Iterator[None]:
    """Have another file system there."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture
def nas(spark: Spark, tmp_path: Path) -> Iterator[Path]:
    """A disk in the network, with a folder as its owner has filled it."""
    folder = tmp_path / "nas"
    with disk(folder):
        shutil.copytree(spark.source, folder / "models/tiny")
        given(folder / "models")
        spark.before = {}
        yield folder / "models"


def mounts(spark: Spark) -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [line.split(" ")[4].replace("\\040", " ") for line in lines]
    return [at for at in points if at.startswith(f"{spark.folder}/")]


def remount(spark: Spark, what: str = "mount") -> tuple[int, str]:
    """Mount as the start of an engine does, or a run, without their patience."""
    release = spark.root / "releases/r-1"
    release.mkdir(parents=True, exist_ok=True)
    told = {"checkpoints": {"model": {"folder": spark.name}}}
    (release / "release.json").write_text(json.dumps(told))
    words: list[object] = [spark.root, "r-1"]
    if what == "ready":
        words = ["ready", spark.root, spark.name, spark.root / "findings"]
    program = f"""
from host.weights import adopt, in_place
in_place.PATIENCE = adopt.PATIENCE = 0.1
{"adopt" if what == "ready" else "in_place"}.command()
"""
    command = changed_program(program, *words)
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=patience())
    return done.returncode, done.stderr


FILES = ["config.json", "model.safetensors", "sub/a name.txt"]


def test_of_a_cache_nothing_is_fetched(spark: Spark, cache: Path) -> None:
    assert adopted(spark, cache.parent) == f"3 files linked from {cache.parent}, and root's now"
    spark.succeed()
    assert sent(spark) == {}
    blob = next(cache.glob("models--*/snapshots/*/model.safetensors")).resolve()
    found = spark.folder / "model.safetensors"
    assert found.samefile(blob)
    # Who has cached it can read it as before, and write it no more.
    kept = blob.stat()
    assert (kept.st_uid, stat.S_IMODE(kept.st_mode)) == (0, 0o444)
    assert snapshot_download(REPO, cache_dir=cache, endpoint=spark.url, local_files_only=True)
    # A second time, nothing is read.
    assert adopted(spark, cache) == ""


def test_a_wrong_file_is_named_fetched_and_left_to_its_owner(spark: Spark, cache: Path) -> None:
    blob = next(cache.glob("models--*/snapshots/*/model.safetensors")).resolve()
    data = bytearray(blob.read_bytes())
    data[1000] ^= 1
    blob.write_bytes(data)
    other = next(cache.glob("models--*/snapshots/*/config.json")).resolve()
    other.write_bytes(b"")
    told = adopted(spark, cache)
    assert "1 files linked" in told
    assert f"left alone: {blob} has another hash than the lock's" in told
    spark.succeed()
    assert sent(spark) == {"model.safetensors": len(data), "config.json": other_size(spark)}
    assert blob.stat().st_uid == OWNER
    assert blob.read_bytes() == data


def other_size(spark: Spark) -> int:
    return spark.locked.files["config.json"].size


def test_a_file_that_somebody_has_open_for_writing_is_not_taken(spark: Spark, cache: Path) -> None:
    blob = next(cache.glob("models--*/snapshots/*/model.safetensors")).resolve()
    mode = stat.S_IMODE(blob.stat().st_mode)
    with blob.open("r+b"):
        told = adopted(spark, cache)
    assert f"left alone: {blob} is open for writing" in told
    assert (blob.stat().st_uid, stat.S_IMODE(blob.stat().st_mode)) == (OWNER, mode)
    assert not (spark.folder / "model.safetensors").exists()
    spark.succeed()
    assert [*sent(spark)] == ["model.safetensors"]


def test_a_file_that_changes_after_it_was_hashed_is_not_taken(spark: Spark, cache: Path) -> None:
    ordered(spark, cache)
    assert step(spark, "find")[0] == 0
    blob = next(cache.glob("models--*/snapshots/*/model.safetensors")).resolve()
    before = blob.stat()
    with blob.open("r+b") as file:
        file.write(b"?")
    # What a writer can set back is not what counts.
    os.utime(blob, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert step(spark, "adopt")[0] == 0
    assert f"left alone: {blob} changed since it was hashed" in said(spark)
    spark.succeed()
    assert [*sent(spark)] == ["model.safetensors"]


def test_no_link_leads_root_elsewhere(spark: Spark, tmp_path: Path) -> None:
    secret, home = tmp_path / "root-only", tmp_path / "home"
    shutil.copytree(spark.source, secret / "real")
    (home / "tiny").mkdir(parents=True)
    (home / "tiny/model.safetensors").symlink_to(secret / "real/model.safetensors")
    (home / "lab").symlink_to(secret)
    (secret / "tiny").symlink_to("real")
    os.mkfifo(home / "tiny/config.json")
    spark.before = {}
    assert adopted(spark, home) == ""
    assert (secret / "real/model.safetensors").stat().st_nlink == 1
    spark.succeed()
    assert len(sent(spark)) == 3


def test_another_disk_is_used_in_place(spark: Spark, nas: Path) -> None:
    assert adopted(spark, nas) == f"3 used where they are, in {nas}"
    assert sorted(mounts(spark)) == sorted(str(spark.folder / path) for path in FILES)
    spark.succeed()
    assert sent(spark) == {}
    with pytest.raises(OSError, match="Read-only"):
        (spark.folder / "model.safetensors").open("r+b")
    owner = (nas / "tiny/model.safetensors").stat()
    assert owner.st_uid == OWNER
    # Handing the folder over to who fetches, and back, changes nothing of it.
    for who in (spark.source, Path("/")):
        subprocess.run(host_program("hand-over", spark.folder, who), check=True)
    assert (nas / "tiny/model.safetensors").stat() == owner
    assert spark.wrong() == {}


def test_it_is_mounted_again_after_a_boot(spark: Spark, nas: Path) -> None:
    adopted(spark, nas)
    spark.succeed()
    assert remount(spark) == (0, "")
    for at in mounts(spark):
        subprocess.run(["umount", at], check=True)
    assert set(spark.wrong()) == {*FILES}
    assert remount(spark) == (0, "")
    assert spark.wrong() == {}


def test_a_disk_that_is_away_ends_the_start_and_is_named(spark: Spark, nas: Path) -> None:
    adopted(spark, nas)
    spark.succeed()
    for at in mounts(spark):
        subprocess.run(["umount", at], check=True)
    (nas / "tiny").rename(nas / "away")
    status, told = remount(spark)
    assert status == 1
    assert f"weights in place: {nas}/tiny/" in told
    assert "is away (No such file or directory): have" in told
    # A run does not fetch behind the owner's back what is only away.
    status, _ = remount(spark, "ready")
    assert status == 1
    assert "is away" in said(spark)
    assert "take it out of model_folders" in said(spark)
    (nas / "away").rename(nas / "tiny")
    assert remount(spark) == (0, "")
    assert spark.wrong() == {}


def test_what_changes_there_is_hashed_anew_and_fetched(spark: Spark, nas: Path) -> None:
    adopted(spark, nas)
    spark.succeed()
    theirs = nas / "tiny/model.safetensors"
    with theirs.open("r+b") as file:
        file.write(b"?")
    assert [*spark.wrong()] == ["model.safetensors"]
    told = adopted(spark, nas)
    assert f"left alone: {theirs} has another hash than the lock's" in told
    spark.succeed()
    assert [*sent(spark)] == ["model.safetensors"]
    assert len(mounts(spark)) == 2
    assert remount(spark) == (0, "")


def test_it_is_hashed_anew_where_all_is(spark: Spark, nas: Path) -> None:
    adopted(spark, nas)
    (spark.folder / ".sparkwright.json").unlink()
    assert adopted(spark, nas) == f"3 used where they are, in {nas}"
    spark.succeed()
    assert sent(spark) == {}


def test_a_folder_that_is_no_longer_named_is_not_used(spark: Spark, nas: Path) -> None:
    adopted(spark, nas)
    spark.succeed()
    adopted(spark)
    assert mounts(spark) == []
    assert not list((spark.root / "manifests").glob("*.in-place.json"))
    spark.succeed()
    assert len(sent(spark)) == 3


@pytest.mark.parametrize(
    ("path", "mode", "said"),
    [
        ("tiny/model.safetensors", 0o646, "can be written by others than its owner"),
        ("tiny", 0o777, "can be written by others than its owner"),
        ("tiny/model.safetensors", 0o640, "cannot be read by all, as the engine has to"),
    ],
)
def test_on_another_disk_nobody_but_its_owner_may_write(
    spark: Spark, nas: Path, path: str, mode: int, said: str
) -> None:
    (nas / path).chmod(mode)
    told = adopted(spark, nas)
    assert f"{nas}/tiny/model.safetensors {said}" in told
    spark.succeed()
    assert "model.safetensors" in sent(spark)
