"""An operator's machine that is no Linux with GNU's tools, as far as Linux can stand in for one.

Its PATH has a POSIX shell alone, /proc is empty, and Python has nothing of what it offers on Linux
alone, as on macOS. The Spark is a machine of its own, by a real SSH.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.component.small_site import SITECUSTOMIZE, Site, sparkwright
from tests.component.sshd import Machine, machines
from tests.programs import ended

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a mount")
# What macOS lacks of Python's standard library, of what the product could be tempted to use.
LINUX = """
import _socket, os, resource, select, signal, socket
for module, names in (
    (os, "sched_getaffinity sched_setaffinity pidfd_open memfd_create eventfd O_TMPFILE O_PATH"),
    (os, "getxattr setxattr listxattr posix_fadvise posix_fallocate copy_file_range splice"),
    (os, "getrandom setresuid setresgid fdatasync pipe2"),
    (signal, "sigtimedwait sigwaitinfo pidfd_send_signal"),
    (select, "epoll"),
    *((each, "SO_PEERCRED SO_BINDTODEVICE TCP_USER_TIMEOUT") for each in (socket, _socket)),
    (resource, "prlimit"),
):
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
        # gevent copies what is named here.
        if name in getattr(module, "__all__", ()):
            module.__all__.remove(name)
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Machine]]:
    with machines(tmp_path_factory.mktemp("sparks"), "spark-a") as found:
        yield found


@pytest.fixture
def site(tmp_path: Path, running: dict[str, Machine]) -> Site:
    made = Site(tmp_path, running, 1)
    (tmp_path / "python/sitecustomize.py").write_text(LINUX + SITECUSTOMIZE)
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs/sh").symlink_to(Path("/bin/sh").resolve())
    made.write("done")
    return made


def typed(site: Site, line: str) -> "subprocess.CompletedProcess[str]":
    """Run a command there; whether /proc is hidden is asked as well."""
    own = {"PATH": str(site.folder / "programs"), "HOME": str(site.folder)}
    mount, unshare = map(shutil.which, ("mount", "unshare"))
    inside = f'{mount} -t tmpfs none /proc && [ ! -e /proc/self ] && exec "$@"'
    words = [str(unshare), "--mount", "/bin/sh", "-c", inside, "sh", *sparkwright(line)]
    done = ended(words, cwd=site.folder, env=site.environment() | own)
    assert "Traceback" not in done.stderr
    assert "fault of the program" not in done.stderr
    return done


def test_a_site_is_written_and_looked_at(site: Site) -> None:
    own = f"nvidia@127.0.0.1:{site.machines['spark-a'].port}"
    made = typed(site, f"init sub/my-sparks --spark {own} --no-connect")
    # This folder is a site; a new one lies outside of any.
    assert "expected a new folder outside of any site" in made.stderr
    elsewhere = site.folder.parent / f"{site.folder.name}-new"
    made = typed(site, f"init {elsewhere} --spark {own} --no-connect")
    assert made.returncode == 0, made.stderr
    assert (elsewhere / "inventory/sparks.yaml").exists()
    tried = typed(site, f"init {elsewhere}-2 --spark ann@127.0.0.1:1")
    assert "refuses the connection" in tried.stdout + tried.stderr
    assert not Path(f"{elsewhere}-2").exists()


def test_files_of_a_site(site: Site) -> None:
    for line, said in (
        ("recipes list", "qwen3.6-35b-nvidia  (gb10 x 1 or 2)"),
        ("recipes check qwen3.6-35b-nvidia", "its file is valid"),
        ("recipes command qwen3.6-35b-nvidia", "docker run"),
        ("keys new", "the API keys; back it up"),
        ("keys add ann --until 2099-01-01", "ann"),
        ("keys list", "2099-01-01"),
        ("monitoring", "prometheus.yml"),
        ("openclaw", "providers"),
        ("status --help", "--watch"),
    ):
        done = typed(site, line)
        assert (done.returncode, said in done.stdout + done.stderr) == (0, True), done
    for line, said in (
        ("lock --check --hf-endpoint http://127.0.0.1:1", "127.0.0.1:1"),
        ("logs", "found no ssh; expected OpenSSH's client"),
        ("recipes import eugr", "git: found no such program"),
    ):
        done = typed(site, line)
        assert (done.returncode, said in done.stdout + done.stderr) == (1, True), done


def test_runs_by_ssh(site: Site) -> None:
    site.write("nowhere")
    changed = site.machines["spark-a"].folder / "changed"
    for line, changes in (("plan", False), ("apply -y", True)):
        done = typed(site, line)
        assert done.returncode == 0, done.stdout + done.stderr
        assert changed.exists() is changes
    site.write("refused")
    done = typed(site, "apply -y")
    assert (done.returncode, "no room for the weights" in done.stderr) == (1, True), done


def test_what_stands_for_another_system_is_one(site: Site) -> None:
    """The stand-ins for another system are in force: what reads /proc, or starts GNU's, fails."""
    probe = site.folder / "sparkwright.py"
    shown = "os.listdir('/proc'), shutil.which('grep'), hasattr(os, 'pipe2')"
    probe.write_text(f"import os, shutil\nprint({shown})\n")
    own = {"PYTHONPATH": f"{site.folder / 'python'}:{site.folder}"}
    environment = {**site.environment(), **own}
    site.environment = lambda at="": environment  # type: ignore[method-assign]
    assert typed(site, "").stdout == "[] None False\n"
    assert sys.platform == "linux"
