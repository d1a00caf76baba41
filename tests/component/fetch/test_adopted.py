"""Checkpoints that a Spark has already, in caches and folders: what is used of them is root's."""

import mmap
import os
import shutil
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from huggingface_hub import snapshot_download

from sparkwright.artifacts.weights.weights import manifest_text
from sparkwright.plan.release.lock import places
from tests.makers.fetching import REPO, Spark

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
# Nobody has this one.
OWNER = 59_998
WEIGHTS = "model.safetensors"


@pytest.fixture
def cache(spark: Spark, tmp_path: Path) -> Path:
    """A user's cache, made by the library itself; what it cost is not counted."""
    folder = tmp_path / "home/.cache/huggingface/hub"
    snapshot_download(REPO, cache_dir=folder, endpoint=spark.url, token=False)
    given(tmp_path / "home")
    spark.before = spark.sent
    return folder


@pytest.fixture
def kept(spark: Spark, tmp_path: Path) -> Path:
    """A folder with the files of the checkpoint, as root has filled it."""
    folder = tmp_path / "models"
    shutil.copytree(spark.source, folder / "tiny")
    spark.before = {}
    return folder


def given(folder: Path, owner: int = OWNER) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, owner, owner, follow_symlinks=False)


def adopted(spark: Spark, *folders: Path) -> str:
    """Fetch with these in the group data; return what the job says in the end."""
    text = manifest_text(spark.locked, spark.url, places(REPO, spark.name, map(str, folders)))
    spark.manifest.write_text(text)
    spark.succeed()
    return spark.progress().message


def sent(spark: Spark) -> set[str]:
    """Return the files of which the hub has sent anything since the cache was there."""
    old = {path: seen["bytes"] for path, seen in spark.before.items()}
    new = {path: seen["bytes"] - old.get(path, 0) for path, seen in spark.sent.items()}
    return {path.removeprefix(f"{REPO}/") for path, count in new.items() if count}


def links(spark: Spark) -> int:
    return (spark.folder / WEIGHTS).stat().st_nlink


def test_a_users_cache_is_copied_and_stays_theirs(spark: Spark, cache: Path) -> None:
    blob = next(cache.glob(f"models--*/snapshots/*/{WEIGHTS}")).resolve()
    before = blob.stat()
    assert adopted(spark, cache.parent) == f"4 files copied from {blob.parent}"
    assert sent(spark) == set()
    after, ours = blob.stat(), (spark.folder / WEIGHTS).stat()
    assert (after.st_uid, after.st_mode, after.st_mtime_ns) == (
        OWNER,
        before.st_mode,
        before.st_mtime_ns,
    )
    assert (ours.st_uid, ours.st_nlink) == (0, 1)
    # A second time, nothing is read.
    assert adopted(spark, cache.parent) == ""


def test_a_wrong_file_is_named_fetched_and_left_to_its_owner(spark: Spark, cache: Path) -> None:
    blob = next(cache.glob(f"models--*/snapshots/*/{WEIGHTS}")).resolve()
    data = bytearray(blob.read_bytes())
    data[1000] ^= 1
    blob.write_bytes(data)
    other = next(cache.glob("models--*/snapshots/*/config.json")).resolve()
    other.write_bytes(b"")
    told = adopted(spark, cache)
    assert "2 files copied" in told
    assert f"left alone: {WEIGHTS} of {blob.parent} has another hash than the lock's" in told
    assert sent(spark) == {WEIGHTS, "config.json"}
    assert blob.stat().st_uid == OWNER
    assert blob.read_bytes() == data


def test_what_is_roots_alone_is_linked(spark: Spark, kept: Path) -> None:
    adopted(spark, kept)
    assert links(spark) == 2
    assert sent(spark) == set()


def writable(file: Path) -> Iterator[None]:
    with file.open("r+b"):
        yield


def mapped(file: Path) -> Iterator[None]:
    with file.open("r+b") as content:
        mapping = mmap.mmap(content.fileno(), 0)
    with closing(mapping):
        yield


def passed_on(file: Path) -> Iterator[None]:
    """Somebody opened it, has passed that on, and nobody has taken it yet."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with file.open("r+b") as content:
            socket.send_fds(ours, [b"x"], [content.fileno()])
        yield


def others_may(file: Path) -> Iterator[None]:
    file.chmod(0o646)
    yield


def by_list(file: Path) -> Iterator[None]:
    """An access list lets a user write: version 2, and entries of tag, permissions and id."""
    entries = [(1, 6, -1), (2, 6, OWNER), (4, 4, -1), (16, 6, -1), (32, 4, -1)]
    text = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *each) for each in entries)
    os.setxattr(file, "system.posix_acl_access", text)
    yield


def a_users(file: Path) -> Iterator[None]:
    os.chown(file, OWNER, OWNER)
    file.chmod(0o444)
    yield


def append_only(file: Path) -> Iterator[None]:
    subprocess.run(["chattr", "+a", file], check=True)
    yield
    subprocess.run(["chattr", "-a", file], check=True)


@pytest.mark.parametrize(
    "way", [writable, mapped, passed_on, others_may, by_list, a_users, append_only]
)
def test_what_others_can_change_is_copied(
    spark: Spark, kept: Path, way: Callable[[Path], Iterator[None]]
) -> None:
    with contextmanager(way)(kept / "tiny" / WEIGHTS):
        adopted(spark, kept)
        assert links(spark) == 1
    assert sent(spark) == set()


def test_no_link_leads_root_elsewhere(spark: Spark, tmp_path: Path) -> None:
    secret, home = tmp_path / "root-only", tmp_path / "home"
    shutil.copytree(spark.source, secret / "real")
    (home / "tiny").mkdir(parents=True)
    (home / "tiny" / WEIGHTS).symlink_to(secret / "real" / WEIGHTS)
    (home / "tiny/sub").symlink_to(secret / "real/sub")
    os.mkfifo(home / "tiny/config.json")
    spark.before = {}
    assert "left alone: " in adopted(spark, home)
    assert (secret / "real" / WEIGHTS).stat().st_nlink == 1
    assert len(sent(spark)) == 3


RACES = 8
# An owner who has the file open and mapped since before, and changes it back and forth while it is
# read, with its time set back: in every second race. In all of them, once all is done.
RACER = """
import mmap, os, sys, threading
name, flips = sys.argv[1], sys.argv[2] == "flips"
early = os.open(name, os.O_RDWR)
mapping = mmap.mmap(os.open(name, os.O_RDWR), 0)
right = mapping[:1]
times = os.stat(name)
print("ready", flush=True)
def change(content):
    mapping[:1] = content
    os.pwrite(early, content, 0)
    try:
        with open(name, "r+b") as now:
            now.write(content)
        os.utime(name, ns=(times.st_atime_ns, times.st_mtime_ns))
    except OSError:
        pass
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
while not ended.wait(0.002):
    if flips:
        change(b"?")
        change(right)
change(b"?")
"""


def test_an_owner_who_writes_meanwhile_changes_nothing(spark: Spark, kept: Path) -> None:
    theirs, right = kept / "tiny" / WEIGHTS, spark.original(WEIGHTS)
    for race in range(RACES):
        shutil.rmtree(spark.folder, ignore_errors=True)
        theirs.write_bytes(right)
        given(kept)
        words = [WEIGHTS, "flips" if race % 2 else "waits"]
        with subprocess.Popen(
            ["/usr/bin/python3", "-I", "-c", RACER, *words],
            cwd=theirs.parent,
            user=OWNER,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as owner:
            assert owner.stdout
            owner.stdout.readline()
            if race % 4 > 1:
                # Root makes it its own: whoever had it open goes on writing.
                given(kept, owner=0)
            adopted(spark, kept)
        assert owner.returncode == 0
        assert theirs.read_bytes() != right
        assert (spark.folder / WEIGHTS).read_bytes() == right
        assert spark.wrong() == {}
