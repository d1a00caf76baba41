"""The distribution's archive on the LAN: Debian's own packages, those that deploys install.

apt reads the lists of all that a source has whenever it runs: those of the whole of Debian would
take most of a first deploy.
"""

import shutil
from pathlib import Path

from tests.lab import apt, cache, rootfs

PORT = 8092
PACKAGES = ("earlyoom", "haproxy", "prometheus-node-exporter")
KEY = "key.asc"


def ensure() -> Path:
    """Return the folder of the signed repository, its public key in it, built first if need be."""
    # What Debian's own packages need, whatever the factory makes of them.
    stack = rootfs.layers()[-1:]

    def build(folder: Path) -> None:
        for package in rootfs.download(stack, PACKAGES, folder):
            package.rename(folder / package.name)
        shutil.rmtree(folder / "upper")
        with apt.signing_key() as home:
            apt.write_index(folder, home, rootfs.architecture())
            apt.write_key(folder / KEY, home)

    layers = [layer.parent.name for layer in stack]
    return cache.entry("archive", [Path(__file__), Path(apt.__file__), *layers, *PACKAGES], build)
