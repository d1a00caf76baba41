"""A file that grows on the disk: what it keeps, where it writes, and what it does at once."""

import errno
import mmap
import os
from collections.abc import Callable
from hashlib import sha256
from io import BytesIO
from pathlib import Path

import pytest

from host.artifacts.weights import hashing_file
from host.artifacts.weights.hashing_file import ALIGNED, File, ResumableFile
from host.common.progress import JobError

CONTENT = bytes(range(256)) * 40
WHOLE = File("model.safetensors", len(CONTENT), sha256(CONTENT).hexdigest())


def test_a_partial_file_that_is_too_long_begins_again(tmp_path: Path):
    """Of another commit, say: it is cut, so that what follows can be right."""
    partial, content = tmp_path / "partial", BytesIO(CONTENT)
    partial.write_bytes(bytes(WHOLE.size + ALIGNED))
    with ResumableFile(partial, WHOLE) as growing:
        assert growing.position == 0
        growing.append(lambda part: content.readinto(part[:1000]))
        assert growing.digest == WHOLE.digest
    assert partial.read_bytes() == CONTENT


def breaks(content: bytes) -> Callable[[memoryview], int]:
    """Read content as of a connection that breaks after it."""
    source = BytesIO(content)

    def read(part: memoryview) -> int:
        if count := source.readinto(part):
            return count
        raise ConnectionResetError

    return read


def test_what_came_before_a_break_is_kept_and_hashed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(hashing_file, "BLOCK", ALIGNED)
    with ResumableFile(tmp_path / "partial", WHOLE) as growing:
        with pytest.raises(ConnectionResetError):
            growing.append(breaks(CONTENT[: 2 * ALIGNED + 100]))
        assert growing.position == 2 * ALIGNED
        growing.append(BytesIO(CONTENT[2 * ALIGNED :]).readinto)
        assert growing.digest == WHOLE.digest
    assert (tmp_path / "partial").read_bytes() == CONTENT


def test_a_full_disk_is_not_lost_behind_a_broken_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fails(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", fails)
    monkeypatch.setattr(hashing_file, "BLOCK", ALIGNED)
    with (
        ResumableFile(tmp_path / "partial", WHOLE) as growing,
        pytest.raises(JobError, match="No space left"),
    ):
        growing.append(breaks(CONTENT[:ALIGNED]))


def is_in_memory(file: Path) -> bool:
    """Whether a file can be read without a disk."""
    with file.open("rb", buffering=0) as content:
        try:
            return os.preadv(content.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT) == 1
        except BlockingIOError:
            return False


def test_what_is_written_leaves_the_memory_to_others(tmp_path: Path):
    """On a Spark it is the GPU's, and vLLM counts files in it as used."""
    block = memoryview(mmap.mmap(-1, ALIGNED))
    probe = os.open(tmp_path / "probe", os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
    os.write(probe, block)
    os.close(probe)
    if is_in_memory(tmp_path / "probe"):
        pytest.skip("this file system keeps all in memory")
    content = bytes(16 * ALIGNED)
    whole = File("model.safetensors", len(content), sha256(content).hexdigest())
    with ResumableFile(tmp_path / "partial", whole) as growing:
        growing.append(len)
        assert growing.complete
    assert not is_in_memory(tmp_path / "partial")
