import os
from pathlib import Path

import pytest

from sparkwright.common.local_file import why_unwritable, write_file


def test_a_file_is_there_with_its_folder_and_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "reports" / "today" / "b.json"
    write_file(path, "ü\n", 0o600)
    assert path.read_bytes() == "ü\n".encode()
    assert path.stat().st_mode & 0o777 == 0o600
    write_file(path, "new")
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o644
    assert list(path.parent.iterdir()) == [path]
    # A reader keeps the previous file.
    with path.open() as reader:
        write_file(path, "newer")
        assert reader.read() == "new"
    with pytest.raises(UnicodeEncodeError):
        write_file(path, "\udc00")
    assert path.read_text() == "newer"
    assert list(path.parent.iterdir()) == [path]


def test_one_that_is_there_stays_where_only_a_new_one_is_meant(tmp_path: Path) -> None:
    path, link = tmp_path / "a.keys", tmp_path / "link"
    assert write_file(path, "first", 0o600, only_new=True)
    assert path.stat().st_mode & 0o777 == 0o600
    link.symlink_to("nowhere")
    os.mkfifo(pipe := tmp_path / "pipe")
    for each in (path, link, pipe):
        assert not write_file(each, "second", only_new=True)
    assert path.read_text() == "first"
    assert {*tmp_path.iterdir()} == {path, link, pipe}


def test_a_link_stays_a_link_and_a_pipe_a_pipe(tmp_path: Path) -> None:
    kept = tmp_path / "elsewhere" / "lock.yaml"
    write_file(kept, "previous")
    link = tmp_path / "lock.yaml"
    link.symlink_to(kept)
    write_file(link, "new")
    assert link.readlink() == kept
    assert kept.read_text() == "new"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with os.fdopen(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "r") as reader:
        write_file(pipe, "said")
        assert reader.read() == "said"
    assert pipe.is_fifo()


def test_a_file_that_cannot_be_written_is_known_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    for good in (file, tmp_path / "new", tmp_path / "a/b/new", Path("new"), Path("/dev/null")):
        assert why_unwritable(good) is None
    assert why_unwritable(tmp_path) == f"{tmp_path} is a folder"
    assert why_unwritable(file / "new") == f"{file} is no folder"
    assert why_unwritable(file / "a/b") == f"{file} is no folder"
    assert not (tmp_path / "a").exists()
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    assert why_unwritable(file) == f"no right to write to {tmp_path}"
