"""The lab's image registry: Debian's docker-registry, and the engine image that it serves."""

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType

import requests

from tests.lab import cache, engine_image, oci
from tests.lab.state import Engine, LabError

IMAGE = f"sparkwright/vllm-cpu:{engine_image.VLLM}"
# An account of a private registry, and what docker-registry's htpasswd has of its password.
USER, PASSWORD = "lab-reader", "lab-registry-s3cret-7d1f"
_BCRYPT = "$2y$05$abcdefghijklmnopqrstuumhqzivvAcfEjEmSuJ2FQtIRLJcSlPeK"
ANYONE: Mapping[str, str] = MappingProxyType({})
CONFIG = engine_image.ENGINE / "registry.yaml"


def ensure_image(engine: Engine = "vllm") -> Path:
    """Return the registry's storage folder that holds IMAGE, built first if need be.

    Args:
        engine: what the image runs; the name and the tag are the same.
    """
    inputs = [Path(__file__), Path(oci.__file__), CONFIG, *engine_image.inputs(engine)]
    build = partial(_build, engine)
    return cache.entry(f"registry-{engine}", inputs, build) / "storage"


def unpacked(engine: Engine) -> Path:
    """Return the root of an engine's image as a container has it, unpacked first if need be.

    vLLM's takes 8 s and 1.3 GB.
    """
    storage = ensure_image(engine)

    def unpack(folder: Path) -> None:
        for layer in _layers(storage / "docker/registry/v2"):
            tar = ["tar", "--extract", "--zstd", f"--directory={folder}", f"--file={layer}"]
            subprocess.run(tar, check=True)

    return cache.entry(f"engine-{engine}", str(storage), unpack)


def serve_command(
    storage: Path, address: str, *, writable: bool = False, auth: Mapping[str, str] = ANYONE
) -> list[str]:
    """Return the command that serves a storage folder at HOST:PORT.

    Args:
        writable: it takes images, too.
        auth: who may come in: settings of docker-registry, such as those of `by_password`.
    """
    settings = {
        **auth,
        "REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY": str(storage),
        "REGISTRY_STORAGE_MAINTENANCE_READONLY": json.dumps({"enabled": not writable}),
        "REGISTRY_HTTP_ADDR": address,
    }
    variables = [f"{name}={value}" for name, value in settings.items()]
    return ["env", *variables, "docker-registry", "serve", str(CONFIG)]


def by_password(folder: Path) -> dict[str, str]:
    """Return the settings of a registry that lets in who has a password; its file is made here."""
    file = folder / "htpasswd"
    file.write_text(f"{USER}:{_BCRYPT}\n")
    return {
        "REGISTRY_AUTH": "htpasswd",
        "REGISTRY_AUTH_HTPASSWD_REALM": "lab",
        "REGISTRY_AUTH_HTPASSWD_PATH": str(file),
    }


@contextmanager
def serving(
    storage: Path, *, writable: bool = False, auth: Mapping[str, str] = ANYONE
) -> Iterator[str]:
    """Serve a storage folder on a free port of the loopback interface; yield its URL.

    Raises:
        LabError: docker-registry is missing, or does not answer within 10 s.
    """
    if shutil.which("docker-registry") is None:
        raise LabError("docker-registry is missing; install Debian's package of that name")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    process = subprocess.Popen(
        serve_command(storage, address, writable=writable, auth=auth),
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
        # A private one says that it wants a login.
        return requests.get(url, timeout=1).status_code in (200, 401)
    except requests.RequestException:
        return False


def _build(engine: Engine, folder: Path) -> None:
    """Push the engine image: a layer of Debian, which both engines share, and one of the engine."""
    storage, work = folder / "storage", folder / "work"
    root = work / "root"
    storage.mkdir()
    work.mkdir()
    engine_image.build_root(engine, root)
    print("engine image: packing and pushing", flush=True)
    layers = [
        oci.pack(engine_image.debian(), work / "debian.tar.zst", "."),
        oci.pack(root, work / "engine.tar.zst", "./usr/local"),
    ]
    environment, entrypoint = engine_image.ENVIRONMENT, ["vllm", "serve"]
    with serving(storage, writable=True) as url:
        oci.push(url, IMAGE, layers, environment=environment, entrypoint=entrypoint)
    shutil.rmtree(work)


def _layers(storage: Path) -> list[Path]:
    """Return the files of the image's layers in a registry's storage, the lowest first."""

    def blob(digest: str) -> Path:
        value = digest.removeprefix("sha256:")
        return storage / "blobs/sha256" / value[:2] / value / "data"

    name, _, tag = IMAGE.partition(":")
    link = storage / "repositories" / name / "_manifests/tags" / tag / "current/link"
    manifest = json.loads(blob(link.read_text()).read_text())
    return [blob(layer["digest"]) for layer in manifest["layers"]]
