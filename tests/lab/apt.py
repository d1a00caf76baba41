"""The lab's apt repository: a stand-in of NVIDIA's container toolkit, signed, in NVIDIA's layout.

ROOT/deb/amd64/, ROOT/deb/arm64/ (flat, suite `/`) and the armored public key as ROOT/gpgkey. The
secret half of the key lives only while the repository is built.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab import cache

ADDRESS = "10.213.0.1:8091"
ARCHITECTURES = ("amd64", "arm64")
PACKAGE = "nvidia-container-toolkit"

_FILES = Path(__file__).with_name("toolkit")
_PROGRAMS = ("nvidia-ctk", "nvidia-container-runtime", "nvidia-container-runtime-hook")
# 2026-01-01, so that the same files make the same package.
_EPOCH = "1767225600"


def toolkit_deb() -> Path:
    """Return the stand-in package's file, built first if it is not in the cache."""
    inputs: list[Path | str] = [Path(__file__), _FILES / "control"]
    inputs += [_FILES / name for name in _PROGRAMS]
    (deb,) = cache.entry("toolkit", inputs, _build_deb).glob("*.deb")
    return deb


def ensure_repository() -> Path:
    """Return the folder of the signed repository, built first if it is not in the cache."""
    deb = toolkit_deb()

    def build(root: Path) -> None:
        with signing_key() as home:
            write_repository(root, deb, home)

    return cache.entry("apt", [Path(__file__), deb], build)


def fingerprint(repository: Path) -> str:
    """Return the fingerprint of the repository's public key: 40 hex digits, upper case."""
    with tempfile.TemporaryDirectory() as home:
        shown = _gpg(Path(home), "--with-colons", "--show-keys", str(repository / "gpgkey"))
    return next(line.split(":")[9] for line in shown.splitlines() if line.startswith("fpr:"))


def serve_command(repository: Path, address: str = ADDRESS) -> list[str]:
    """Return the command that serves a repository until it is ended; address is HOST:PORT."""
    host, _, port = address.rpartition(":")
    module = [sys.executable, "-m", "http.server", port]
    return [*module, "--bind", host, "--directory", str(repository)]


@contextmanager
def signing_key() -> Iterator[Path]:
    """Give a GnuPG home with a new signing key; key, home and agent are gone afterwards."""
    # Below /tmp rather than in the cache: an agent's socket wants a path under 108 characters.
    home = Path(tempfile.mkdtemp(prefix="swkey-", dir="/tmp"))
    try:
        name = "Sparkwright lab <lab@example.invalid>"
        _gpg(home, "--passphrase", "", "--quick-generate-key", name, "ed25519", "sign", "never")
        yield home
    finally:
        subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False)
        shutil.rmtree(home, ignore_errors=True)


def write_repository(root: Path, deb: Path, home: Path) -> None:
    """Write the repository of one package for all architectures, signed by the key of `home`."""
    for architecture in ARCHITECTURES:
        folder = root / "deb" / architecture
        folder.mkdir(parents=True)
        shutil.copy(deb, folder)
        write_index(folder, home, architecture)
    write_key(root / "gpgkey", home)


def write_index(folder: Path, home: Path, architecture: str) -> None:
    """Make a folder of packages a flat repository of one architecture, signed by a key."""
    (folder / "Packages").write_text(_run(["apt-ftparchive", "packages", "."], folder))
    release = _run(
        [
            "apt-ftparchive",
            *("-o", "APT::FTPArchive::Release::Origin=sparkwright-lab"),
            *("-o", f"APT::FTPArchive::Release::Architectures={architecture}"),
            *("release", "."),
        ],
        folder,
    )
    (folder / "Release").write_text(release)
    signed = str(folder / "Release")
    _gpg(home, "--clear-sign", "--output", str(folder / "InRelease"), signed)
    _gpg(home, "--armor", "--detach-sign", "--output", f"{signed}.gpg", signed)


def write_key(file: Path, home: Path) -> None:
    """Write the public half of a signing key, armored."""
    file.write_text(_gpg(home, "--armor", "--export"))


def _build_deb(folder: Path) -> None:
    tree = folder / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    shutil.copy(_FILES / "control", tree / "DEBIAN")
    programs = tree / "usr/bin"
    programs.mkdir(parents=True)
    for name in _PROGRAMS:
        shutil.copy(_FILES / name, programs)
        (programs / name).chmod(0o755)
    (programs / "nvidia-container-toolkit").symlink_to("nvidia-container-runtime-hook")
    _run(["dpkg-deb", "--root-owner-group", "--build", "tree", "."], folder)
    shutil.rmtree(tree)


def _run(command: list[str], folder: Path) -> str:
    environment = os.environ | {"SOURCE_DATE_EPOCH": _EPOCH}
    done = subprocess.run(
        command, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


def _gpg(home: Path, *arguments: str) -> str:
    command = ["gpg", "--homedir", str(home), "--batch", "--quiet", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
