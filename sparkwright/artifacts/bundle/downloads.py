"""Downloads images, wheels by pip, and the Sparks' packages by apt, into the folder of a bundle."""

from __future__ import annotations

import importlib.util
import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

from sparkwright.common.errors import PlanError
from sparkwright.common.progress import JobProgress, ProgressLines
from sparkwright.common.render import render
from sparkwright.plan.release.bundle import BundledImage, blob, file_hash
from sparkwright.plan.release.lock import inside
from sparkwright.plan.release.registry import RegistryImage, content_digest, registry_architecture
from sparkwright.plan.release.web import WebClient, look_up

# Seconds before each further try.
_DELAYS = (1, 2, 4, 8, 15, 30)
_CHUNK = 1024 * 1024
# CPython of Ubuntu 24.04, and of the next ones: the files of requirements have hashes for these.
_PYTHONS = ("3.12", "3.13")
# The C library of Ubuntu 24.04 is 2.39; wheels for older ones run with it.
_GLIBC = range(5, 40)
_KEYRING = "/usr/share/keyrings/ubuntu-archive-keyring.gpg"
# DGX OS 7 is Ubuntu 24.04. Its archives have each one kind of processors.
_ARCHIVES = {
    "arm64": "http://ports.ubuntu.com/ubuntu-ports",
    "amd64": "http://archive.ubuntu.com/ubuntu",
}
_SUITES = ("noble", "noble-updates", "noble-security")
_DEPENDENCIES = ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")
_SETTINGS = Path(__file__).with_name("apt.conf")
# Runs apt: words of a command, and the folder to run it in; returns what it prints.
_Apt = Callable[..., str]


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


def ubuntu_sources(architecture: str) -> list[str]:
    """Return apt's sources of Ubuntu 24.04."""
    if not Path(_KEYRING).exists():
        raise PlanError(
            f"{_KEYRING}: found no such file; expected the key of Ubuntu's archive: apt-get "
            "install ubuntu-keyring (Debian: ubuntu-archive-keyring), or name another source: "
            "--apt 'deb [signed-by=FILE] URL SUITE COMPONENTS'"
        )
    archive = _ARCHIVES[architecture]
    return [f"deb [signed-by={_KEYRING}] {archive} {suite} main universe" for suite in _SUITES]


def download_packages(
    wanted: Collection[str], architecture: str, sources: Sequence[str], folder: Path
) -> None:
    """Download packages, and all that they need, with the signed lists of their archives.

    Each archive is laid down as it is, but for the packages that nobody needs: with its signature,
    which the Spark's own apt checks. Nothing is downloaded if an earlier run has done so for the
    same packages and sources, which are lines as in apt's sources.list. A package that no source
    has is only reported: NVIDIA's are on every Spark.
    """
    asked, marker = "\n".join([*sorted(wanted), *sources, ""]), folder / ".asked"
    if marker.is_file() and marker.read_text("utf-8") == asked + _content(folder):
        return
    if shutil.which("apt-get") is None:
        raise PlanError(
            "found no apt-get; expected it, as it verifies and downloads the Sparks' packages: run "
            "this on Debian or Ubuntu, or in a container of it, with the same folder"
        )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with _private_apt(architecture, sources) as apt:
        say(f"packages: reading the lists of {len(sources)} sources for {architecture}")
        apt("apt-get", "update", "--quiet", "-o", "APT::Update::Error-Mode=any")
        there = {*apt("apt-cache", "pkgnames").split()}
        if lacking := sorted({*wanted} - there):
            say(f"packages: no source has {', '.join(lacking)}: a Spark is to have it already")
        chosen = _needed(apt, {*wanted} & there)
        say(f"packages: downloading {len(chosen)} for {architecture}")
        archives = _lay_lists(apt, folder)
        named = apt("apt-get", "download", "--print-uris", *chosen) if chosen else ""
        apt("apt-get", "download", "--quiet", *chosen, folder=folder)
        for url, name in re.findall(r"^'([^']+)' (\S+) ", named, re.MULTILINE):
            archive = max((each for each in archives if url.startswith(each)), key=len)
            place = _below(archives[archive], unquote(url.removeprefix(archive)))
            (folder / name).replace(place)
    marker.write_text(asked + _content(folder), "utf-8")


def _content(folder: Path) -> str:
    """Return the hashes of all files in a folder, so that a damaged one is fetched anew."""
    files = sorted(path for path in folder.rglob("[!.]*") if path.is_file())
    return "".join(f"{file_hash(path)}  {path.relative_to(folder)}\n" for path in files)


def _needed(apt: _Apt, wanted: Collection[str]) -> list[str]:
    """Return packages and all that they depend on, every alternative included.

    What no source has is assumed to be on the Spark: the sources may be a part of its system's.
    """
    if not wanted:
        return []
    words = ("--recurse", *(f"--no-{kind}" for kind in _DEPENDENCIES), *sorted(wanted))
    listed = apt("apt-cache", "depends", *words)
    # What depends on it is indented below a package; virtual ones are in angle brackets.
    return sorted({line for line in listed.splitlines() if line[:1] not in ("", " ", "<")})


def _lay_lists(apt: _Apt, folder: Path) -> dict[str, Path]:
    """Lay down the lists of all sources, signed; return the folder of each archive by its URL."""
    archives: dict[str, Path] = {}
    told = apt(
        *("apt-get", "indextargets", "--format"),
        *("$(REPO_URI)\t$(URI)\t$(METAKEY)\t$(FILENAME)", "Created-By: Packages"),
    )
    for line in told.splitlines():
        archive, url, key, file = line.split("\t")
        own = archives.setdefault(archive, folder / str(len(archives)))
        suite = url.removeprefix(archive).removesuffix(key)
        release = Path(file.removesuffix(key.replace("/", "_")) + "InRelease")
        if not release.exists():
            raise PlanError(
                f"{archive}: found no InRelease; expected it, as the Sparks' apt checks "
                "packages by the archive's signature"
            )
        shutil.copy(file, _below(own, suite + key))
        shutil.copy(release, _below(own, f"{suite}InRelease"))
    return archives


def _below(folder: Path, path: str) -> Path:
    """Return a place in a folder, which is made; the path is an archive's word."""
    place = folder / inside(posixpath.normpath(path))
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


@contextmanager
def _private_apt(architecture: str, sources: Sequence[str]) -> Iterator[_Apt]:
    """Give apt with a folder of its own for all that it reads and writes."""
    with tempfile.TemporaryDirectory(prefix="sparkwright-apt-") as name:
        own = Path(name)
        (own / "lists/partial").mkdir(parents=True)
        (own / "cache/archives/partial").mkdir(parents=True)
        (own / "status").touch()
        (own / "sources.list").write_text("".join(f"{line}\n" for line in sources), "utf-8")
        settings = render(_SETTINGS, own=own, architecture=architecture)
        (own / "apt.conf").write_text(settings, "utf-8")
        environment = {**os.environ, "APT_CONFIG": f"{own}/apt.conf", "LC_ALL": "C"}

        def run(program: str, *words: str, folder: Path | None = None) -> str:
            # Containers have this set by a file that comes after ours.
            command = [program, "-o", "Acquire::GzipIndexes=false", *words]
            done = subprocess.run(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                said = " ".join(done.stderr.split())[-800:]
                raise PlanError(f"{program} {words[0]} failed: {said}")
            return done.stdout

        yield run
