"""By uv from an empty account: `uvx`, `uv run` and an update, with a release and without one."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.clock import patience
from tests.driver.wheels import wheel
from tests.lab import cache

PROJECT = Path(__file__).parents[2]
UPDATED = "0.99.0"
REFUSED = "nvidia@127.0.0.1:1 --no-connect"


@dataclass(frozen=True)
class Account:
    """An account with uv, Python and git, whose folder has what it installs Sparkwright from."""

    folder: Path
    index: Path

    @property
    def clone(self) -> Path:
        return self.folder / "sparkwright"

    def types(self, line: str, status: int = 0) -> str:
        """Run a line, in the site once there is one; return what it prints."""
        known = {name: os.environ[name] for name in ("SSL_CERT_FILE",) if name in os.environ}
        uv = cache.python("uv", Path(__file__).with_name("uv.txt")).parent
        own = {
            "HOME": str(self.folder),
            "PATH": f"{uv}:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "UV_PYTHON": str(Path(sys.executable).resolve()),
            "UV_PYTHON_DOWNLOADS": "never",
            "UV_CACHE_DIR": str(cache.cache_folder() / "uv-downloads"),
            "UV_FIND_LINKS": str(self.index),
        }
        site = self.folder / "my-sparks"
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=site if site.exists() else self.folder,
            env=known | own,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=patience(300),
            check=False,
        )
        assert done.returncode == status, f"{line}\n{done.stdout}"
        return done.stdout

    def commits(self, what: str) -> None:
        """Commit all that is in the clone."""
        git = f"git -C {self.clone} -c user.name=x -c user.email=x@example.org"
        self.types(f"{git} add --all && {git} commit --quiet --message {what}")


@pytest.fixture
def account(tmp_path: Path) -> Account:
    made = Account(tmp_path / "home", tmp_path / "index")
    made.index.mkdir()
    names = subprocess.check_output(["git", "ls-files"], cwd=PROJECT, text=True).splitlines()
    for name in filter(Path.exists, map(PROJECT.joinpath, names)):
        own = made.clone / name.relative_to(PROJECT)
        own.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(name, own)
    made.types(f"git init --quiet {made.clone}")
    made.commits("one")
    return made


def new_version(account: Account) -> None:
    """Have the clone at a new version, as `git pull` brings it."""
    module = account.clone / "sparkwright/__init__.py"
    module.write_text(module.read_text() + f'__version__ = "{UPDATED}"\n')
    account.commits("two")


def new_release(account: Account) -> None:
    wheel(account.index, UPDATED)


@pytest.mark.parametrize(
    ("source", "updated"),
    [
        ("--from ./sparkwright ", new_version),
        ("--from git+file://$HOME/sparkwright ", new_version),
        ("", new_release),
    ],
    ids=["clone", "git", "release"],
)
def test_a_site_and_its_update(
    account: Account, source: str, updated: Callable[[Account], None]
) -> None:
    if not source:
        wheel(account.index)
        shutil.rmtree(account.clone)
    said = account.types(f"uvx {source}sparkwright init my-sparks --spark {REFUSED}")
    assert "uv run sparkwright plan" in said
    said = account.types("uv run sparkwright plan", status=1)
    assert "spark-a: no connection: it refuses the connection" in said
    assert "continue with: uv run sparkwright plan" in said
    assert "qwen3.6-35b-nvidia  (gb10 x 1 or 2)" in account.types("uv run sparkwright recipes list")
    updated(account)
    account.types("uv lock --upgrade-package sparkwright && uv sync")
    assert UPDATED in account.types("uv run sparkwright --version")
