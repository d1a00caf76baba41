"""The file system that all virtual Sparks share: Debian below, the factory's layer above."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.lab import apt, cache
from tests.lab.state import PROJECT, LabError

SPARKS = ("spark1", "spark2", "spark3", "spark4")
AUTHORITIES = Path("/usr/local/share/ca-certificates")
DGX_OS = Path(__file__).with_name("dgx-os")

_SUITE = "trixie"
# What DGX OS (Ubuntu 24.04) ships of what a deploy or its owner may want on the first day.
_PACKAGES = (
    *("systemd", "systemd-sysv", "systemd-timesyncd", "dbus", "udev", "kmod", "procps", "sudo"),
    *("openssh-server", "netplan.io", "iproute2", "iputils-ping", "ethtool", "iptables", "ufw"),
    *("docker.io", "docker-cli", "docker-buildx", "python3", "python3-venv", "ca-certificates"),
    *("curl", "gnupg", "openssl", "openssh-client", "rsync", "less"),
)
# What some variants of the factory have besides: a layer of their own, above the factory's.
_MORE = {"network-manager": ("network-manager",)}


def layers(variant: str = "standard") -> list[Path]:
    """Return the folders to be stacked as a Spark's root, topmost first; built if need be.

    Args:
        variant: how the Spark leaves the factory; one of variants.VARIANTS.
    """
    base = _base()
    stack = [_factory(base) / "upper", base / "root"]
    packages = _MORE.get(variant)
    return [_packages(stack, packages) / "upper", *stack] if packages else stack


def build() -> None:
    """Have the layers of all variants in the cache."""
    for variant in ("standard", *_MORE):
        layers(variant)


def download(stack: Sequence[Path], packages: Sequence[str], folder: Path) -> list[Path]:
    """Fetch packages of Debian's that a stack lacks, and what they need; return their files.

    Args:
        stack: the folders of a root, topmost first.
        packages: their names.
        folder: where the files are to lie, somewhere in `upper`.
    """
    _fill(folder, stack, *packages, "--download")
    return list((folder / "upper/var/cache/apt/archives").glob("*.deb"))


def architecture() -> str:
    """Return Debian's name of this machine's architecture, which is that of the Sparks."""
    return _run(["dpkg", "--print-architecture"]).strip()


def keys() -> Path:
    """Return the folder of SSH keys: `id_ed25519` of the user, and each Spark's own by its name."""

    def build(folder: Path) -> None:
        for name in ("id_ed25519", *SPARKS):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"lab {name}"]
            _run([*command, "-f", str(folder / name)])

    return cache.entry("keys", "".join(SPARKS), build)


def _base() -> Path:
    def build(folder: Path) -> None:
        include = f"--include={','.join(_PACKAGES)}"
        command = ["mmdebstrap", "--quiet", "--variant=minbase", include, _SUITE]
        _run([*command, str(folder / "root")])

    return cache.entry("root", [_SUITE, *_PACKAGES], build)


def _factory(base: Path) -> Path:
    def build(folder: Path) -> None:
        _fill(folder, [base / "root"])

    content = [path for path in sorted(DGX_OS.rglob("*")) if path.is_file()]
    names = [str(path.relative_to(DGX_OS)) for path in content]
    built_by = [Path(__file__), Path(__file__).with_name("factory.py"), apt.toolkit_deb()]
    user_key = keys() / "id_ed25519.pub"
    inputs: list[Path | str] = [
        base.name,
        *names,
        *content,
        *built_by,
        user_key,
        *sorted(AUTHORITIES.glob("*.crt")),
    ]
    return cache.entry("factory", inputs, build)


def _packages(stack: Sequence[Path], packages: Sequence[str]) -> Path:
    def build(folder: Path) -> None:
        _fill(folder, stack, *packages)

    names = [layer.parent.name for layer in stack]
    return cache.entry(packages[0], [*names, *packages], build)


def _fill(folder: Path, stack: Sequence[Path], *words: str) -> None:
    """Have the factory fill the layer `folder`/upper over a stack, as its command line says."""
    # In a mount namespace of its own: whatever happens to it, no mount is left behind.
    private = ["unshare", "--mount", "--propagation", "private"]
    lower = ":".join(map(str, stack))
    _run([*private, sys.executable, "-m", "tests.lab.factory", lower, str(folder), *words])
    (folder / "root").rmdir()
    shutil.rmtree(folder / "work")


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(
        command, cwd=PROJECT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise LabError(f"{' '.join(command)[:200]}: {(done.stderr or done.stdout)[-2000:]}")
    return done.stdout
