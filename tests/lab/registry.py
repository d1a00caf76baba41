"""The lab's image registry: Debian's docker-registry, and the images that it serves."""

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests

from tests.lab import cache, engine_image, oci
from tests.lab.state import LabError

IMAGE = f"sparkwright/vllm-cpu:{engine_image.VLLM}"
HELLO = "sparkwright/hello:1"
CONFIG = engine_image.ENGINE / "registry.yaml"


def ensure_image() -> Path:
    """Return the registry's storage folder that holds IMAGE and HELLO, built first if need be."""
    inputs = [Path(__file__), Path(oci.__file__), CONFIG, *engine_image.inputs()]
    return cache.entry("registry", inputs, _build) / "storage"


def serve_command(storage: Path, address: str, *, writable: bool = False) -> list[str]:
    """Return the command that serves a storage folder at HOST:PORT, by default read-only."""
    settings = {
        "REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY": str(storage),
        "REGISTRY_STORAGE_MAINTENANCE_READONLY": json.dumps({"enabled": not writable}),
        "REGISTRY_HTTP_ADDR": address,
    }
    variables = [f"{name}={value}" for name, value in settings.items()]
    return ["env", *variables, "docker-registry", "serve", str(CONFIG)]


@contextmanager
def serving(storage: Path, *, writable: bool = False) -> Iterator[str]:
    """Serve a storage folder on a free port of the loopback interface; yield its URL.

    Raises:
        LabError: docker-registry is missing, or does not answer within 10 s.
    """
    if shutil.which("docker-registry") is None:
        raise LabError("docker-registry is missing; install Debian's package of that name")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    process = subprocess.Popen(
        serve_command(storage, address, writable=writable),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 10
        while not _answers(f"http://{address}/v2/"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise LabError(f"the registry does not answer at {address}")
            time.sleep(0.05)
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait()


def _answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=1).ok
    except requests.RequestException:
        return False


def _build(folder: Path) -> None:
    storage, work = folder / "storage", folder / "work"
    storage.mkdir()
    work.mkdir()
    with serving(storage, writable=True) as url:
        _push_hello(url, work)
        _push_engine(url, work)
    shutil.rmtree(work)


def _push_hello(url: str, work: Path) -> None:
    """Push an image of one program, BusyBox: what needs a pull, but no engine, takes this."""
    debian, root = work / "busybox", work / "hello"
    engine_image.debian(debian, "--variant=extract", "--include=busybox-static")
    (root / "bin").mkdir(parents=True)
    busybox = next(path for path in debian.rglob("bin/busybox") if path.is_file())
    shutil.copy(busybox, root / "bin/busybox")
    for name in ("sh", "sleep", "cat", "true", "false"):
        (root / "bin" / name).symlink_to("busybox")
    layer = oci.pack(root, work / "hello.tar.zst", ".")
    oci.push(url, HELLO, [layer], environment={"PATH": "/bin"}, entrypoint=["/bin/busybox"])


def _push_engine(url: str, work: Path) -> None:
    """Push the engine image: a layer of Debian, and a layer of Python packages."""
    root, packages = work / "root", str(engine_image.PACKAGES)
    engine_image.build_root(root)
    print("engine image: packing and pushing", flush=True)
    layers = [
        oci.pack(root, work / "debian.tar.zst", f"--exclude=./{packages}", "."),
        oci.pack(root, work / "packages.tar.zst", f"./{packages}"),
    ]
    oci.push(url, IMAGE, layers, environment=engine_image.ENVIRONMENT, entrypoint=["vllm", "serve"])
