"""Downloads images from their registries, and wheels by pip, into the folder of a bundle."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from sparkwright.common.errors import PlanError
from sparkwright.common.progress import JobProgress, ProgressLines
from sparkwright.plan.release.bundle import BundledImage, blob
from sparkwright.plan.release.registry import RegistryImage, content_digest, registry_architecture
from sparkwright.plan.release.web import WebClient, look_up

# Seconds before each further try.
_DELAYS = (1, 2, 4, 8, 15, 30)
_CHUNK = 1024 * 1024
# CPython of Ubuntu 24.04, and of the next ones: the files of requirements have hashes for these.
_PYTHONS = ("3.12", "3.13")
# The C library of Ubuntu 24.04 is 2.39; wheels for older ones run with it.
_GLIBC = range(5, 40)


def say(line: str) -> None:
    """Tell a person how far it is."""
    print(line, file=sys.stderr, flush=True)


def fetch_image(reference: str, arch: str, folder: Path) -> BundledImage:
    """Download the parts of an image into a folder, except those that are there.

    This needs no Docker, and the image may be for another processor (`arch`, as ``uname -m`` prints
    it). The digests are compared when the bundle's index is made.
    """

    def ask(client: WebClient) -> list[bytes]:
        return RegistryImage(reference, client).manifests(registry_architecture(arch))

    manifests = look_up(ask, reference, "registry", "manifest", "the image's name")
    for content in manifests:
        place = folder / blob(content_digest(content))
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    manifest = json.loads(manifests[-1])
    config, layers = manifest["config"], manifest["layers"]
    sizes = {part["digest"]: part["size"] for part in (config, *layers)}
    lines = ProgressLines(lambda line: say(f"image {reference}: {line}"))
    image, done, total = RegistryImage(reference, WebClient()), 0, sum(sizes.values())
    for digest, size in sizes.items():
        for come in fetch_part(image, digest, size, folder / blob(digest)):
            lines.show(JobProgress("downloading", done + come, total, ""))
        done += size
    top = json.loads(manifests[0])
    kind = "index" if "manifests" in top else "manifest"
    return BundledImage(
        # OCI's need not name it.
        media_type=top.get("mediaType") or f"application/vnd.oci.image.{kind}.v1+json",
        top=content_digest(manifests[0]),
        manifests=[content_digest(content) for content in manifests],
        config=config["digest"],
        layers=[layer["digest"] for layer in layers],
    )


def fetch_part(image: RegistryImage, digest: str, size: int, place: Path) -> Iterator[int]:
    """Download a part of an image, from where an earlier run has ended; yield the bytes so far.

    Its digest is compared when the bundle's index is made.
    """
    if place.exists():
        return
    partial, delays = place.with_name(f"{place.name}.part"), iter(_DELAYS)
    with partial.open("ab") as file:
        while (begin := file.tell()) < size:
            try:
                with image.blob(digest, begin) as answer:
                    if answer.status_code == 200:
                        file.truncate(0)
                        file.seek(0)
                    for chunk in answer.iter_content(_CHUNK):
                        file.write(chunk[: size - file.tell()])
                        yield file.tell()
                    if file.tell() == begin:
                        raise OSError("nothing more comes")
            except (OSError, PlanError) as error:
                if (delay := next(delays, None)) is None:
                    raise PlanError(
                        f"{image.reference}: no content of {digest} ({error}); run again, which "
                        "goes on where this ended"
                    ) from None
                time.sleep(delay)
    partial.replace(place)


def download_wheels(requirements: Path, architectures: Collection[str], folder: Path) -> None:
    """Have the wheels of a file of requirements, which has their hashes, in a folder."""
    if not importlib.util.find_spec("pip"):
        raise PlanError(
            "found no pip; expected it, as it downloads the wheels: install it beside Sparkwright "
            "(uv pip install pip)"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for architecture in sorted(architectures):
        for python in _PYTHONS:
            # Where an earlier run has brought all of them, PyPI is not asked.
            said = _pip(requirements, architecture, python, folder, "--no-index")
            if said and (said := _pip(requirements, architecture, python, folder)):
                raise PlanError(
                    f"{requirements}: pip cannot download its wheels for Python {python} on "
                    f"{architecture}: {said}"
                )


def _pip(requirements: Path, architecture: str, python: str, folder: Path, *words: str) -> str:
    """Return why pip failed; "" if it did not."""
    platforms = [f"manylinux_2_{minor}_{architecture}" for minor in reversed(_GLIBC)]
    platforms += [f"manylinux2014_{architecture}", f"linux_{architecture}"]
    command = [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
        *("--no-deps", "--require-hashes", "--only-binary", ":all:", "--implementation", "cp"),
        *("--dest", str(folder), "--find-links", str(folder), "--python-version", python, *words),
        *(f"--abi={each}" for each in (f"cp{python.replace('.', '')}", "abi3", "none")),
        *(f"--platform={each}" for each in platforms),
        *("--requirement", str(requirements)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return " ".join(done.stderr.split())[-800:] if done.returncode else ""
