"""Files of this machine: written whole or not at all; what is no regular file is refused."""

import os
import socket
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import content_of, why_unwritable, write_file
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.door import keys
from sparkwright.plan.release.bundle import read_bundle
from sparkwright.plan.release.lock import read_lock
from sparkwright.plan.release.registry_login import login_of
from sparkwright.run.inventory.data import check_logins
from sparkwright.run.inventory.groups import load
from tests.makers.refused import refusal


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
    for place, why in (("/dev/null", "/dev/null is no folder"), ("/proc/x", "No such file")):
        said = rf"{place}/x: cannot be written \({why}.*; expected a"
        with pytest.raises(PlanError, match=said):
            write_file(Path(place, "x"), "")
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    assert why_unwritable(file) == f"no right to write to {tmp_path}"


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def _bundle(path: Path) -> None:
    try:
        digest = sha256(content_of(path, 1 << 27)).hexdigest()
    except OSError:
        digest = "0" * 64
    read_bundle(path.parent, digest, path)


def _login(path: Path) -> None:
    login_of.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_CONFIG", str(path.parent))
        login_of("registry.example.org")


READERS = {
    "sparks.yaml": load,
    "mine.yaml": lambda path: load_recipe(str(path)),
    "sparks.lock.yaml": read_lock,
    "sparks.keys": lambda path: keys.read_file(path, ()),
    "config.json": _login,
    "bundle.json": _bundle,
    "key": lambda path: check_logins(path.with_name("sparks.yaml"), [], str(path)),
}


@pytest.mark.parametrize("make", [os.mkfifo, _device, _socket, Path.mkdir])
@pytest.mark.parametrize(("name", "read"), READERS.items(), ids=READERS)
def test_what_is_no_regular_file_is_refused_at_once(
    tmp_path: Path,
    name: str,
    read: Callable[[Path], object],
    make: Callable[[Path], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    make(Path(name))
    said = refusal(read, tmp_path / name)
    assert str(tmp_path / name) in said
    assert ("it is no regular file" in said) or make is Path.mkdir
