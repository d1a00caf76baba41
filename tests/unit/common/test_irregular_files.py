"""What is no regular file is refused at once by whoever would read it."""

import os
import socket
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import content_of
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.door import keys
from sparkwright.plan.release.bundle import read_bundle
from sparkwright.plan.release.lock import read_lock
from sparkwright.plan.release.registry_login import login_of
from sparkwright.run.inventory.data import check_logins
from sparkwright.run.inventory.groups import load


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
    with pytest.raises(PlanError) as caught:
        read(tmp_path / name)
    said = str(caught.value)
    assert str(tmp_path / name) in said
    assert ("it is no regular file" in said) or make is Path.mkdir


@pytest.mark.parametrize("make", [os.mkfifo, _device])
def test_a_key_that_is_no_regular_file(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "key")
    with pytest.raises(PlanError) as caught:
        check_logins(tmp_path / "sparks.yaml", [], str(tmp_path / "key"))
    (problem,) = caught.value.problems
    assert problem.endswith("(it is no regular file); expected a private key")
