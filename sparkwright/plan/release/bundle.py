"""A bundle: a folder with all that the replicas of an inventory need of the internet.

`sparkwright bundle` fills it where there is internet; where there is none, a run takes it from
there.

    bundle.json                           what is in it, with the digest of each file
    weights/OWNER--NAME@COMMIT/…          the files of a checkpoint
    images/blobs/sha256/…                 the parts of images, as a registry has them
    wheels/*.whl                          Python packages
    packages/ARCHITECTURE/NUMBER/…        archives of packages of the system, with signed lists
    compiled/RELEASE.tar                  what engines of that release begin with, if it is known

A replica's inventory has the digest of the index, and the index those of all else: nothing is
believed because it is on the disk that brings the bundle.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import file_digest, sha256
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from sparkwright.common.command_line import next_line
from sparkwright.common.errors import PlanError, refuse
from sparkwright.common.local_file import read_text
from sparkwright.common.schema import Model, Text, parse
from sparkwright.declared.recipe.recipe import Recipe
from sparkwright.plan.release.lock import (
    CheckpointLock,
    Digest,
    Lock,
    Sha256,
    checkpoint_key,
    image_key,
    inside,
)

INDEX = "bundle.json"
WEIGHTS, IMAGES, WHEELS, PACKAGES = "weights", "images", "wheels", "packages"
COMPILED = "compiled"
# Bytes of an index: that of 300 checkpoints has 10 MB.
_LARGEST_INDEX = 64 * 1024 * 1024
# Bytes up to which a run reads a file to compare it before it begins. Larger ones are hashed on
# their way, and on the Spark.
_SMALL = 1024 * 1024
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def archives() -> Path:
    """Return this machine's folder of what Sparks have compiled: RELEASE.tar."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "sparkwright" / COMPILED


def own_archive(name: str) -> Bundle | None:
    """Return this machine's folder as a bundle of one archive, by its path in one; None without."""
    file = archives().parent / name
    if not file.is_file():
        return None
    files = {name: BundledFile(size=file.stat().st_size, sha256=file_hash(file))}
    return Bundle(archives().parent, BundleIndex(version=1, lock=Lock(), images={}, files=files))


def blob(digest: str) -> str:
    """Return the path of a part of an image, as in an image that Docker has saved."""
    return f"blobs/sha256/{digest.removeprefix('sha256:')}"


class BundledFile(Model):
    """A file of a bundle, whose path is its key in the index."""

    size: int = Field(ge=0, description="bytes")
    sha256: Sha256 = Field(description="64 hexadecimal digits")


class BundledImage(Model):
    """An image for one platform, in the parts that a registry has.

    Its top is what the lock names, the index of all platforms or the manifest itself; its manifests
    are the index, if there is one, and the manifest; the lowest layer is the first.
    """

    media_type: Text = Field(description="the media type of the image's index or manifest")
    top: Digest = Field(description="sha256:, and 64 hexadecimal digits")
    manifests: list[Digest] = Field(min_length=1, max_length=2, description="digests")
    config: Digest = Field(description="sha256:, and 64 hexadecimal digits")
    layers: list[Digest] = Field(min_length=1, description="digests")

    @property
    def blobs(self) -> list[str]:
        """The paths of its parts below the folder of images."""
        return list(dict.fromkeys(map(blob, (*self.manifests, self.config, *self.layers))))


class BundleIndex(Model):
    """The content of a bundle's index."""

    version: Literal[1] = Field(description="1; a newer Sparkwright writes others")
    lock: Lock
    images: dict[Text, BundledImage]
    files: dict[Annotated[str, AfterValidator(inside)], BundledFile]


def checkpoint_folder(locked: CheckpointLock) -> str:
    """Return the path of a checkpoint's folder in a bundle."""
    return f"{WEIGHTS}/{locked.repo.replace('/', '--')}@{locked.commit[:12]}"


@dataclass(frozen=True)
class Bundle:
    """A bundle in a folder of the machine that runs pyinfra."""

    folder: Path
    index: BundleIndex

    @property
    def remedy(self) -> str:
        """How to complete it."""
        return (
            f"run `{next_line('bundle', str(self.folder))}` where there is internet; bring it here"
        )

    def below(self, folder: str) -> list[str]:
        """Return the paths of the files in a folder of it."""
        return [path for path in sorted(self.index.files) if path.startswith(f"{folder}/")]

    def lacks(self, recipe: Recipe, lock: Lock) -> list[str]:
        """Return a problem, for a PlanError, for each name of a recipe that the bundle lacks."""
        image, there = lock.image(recipe), self.index.lock.image(recipe)
        missing = [] if image and there and image.digest == there.digest else [image_key(recipe)]
        for checkpoint in recipe.checkpoints.values():
            locked = lock.checkpoint(checkpoint)
            folder = checkpoint_folder(locked) if locked else ""
            paths = {f"{folder}/{path}" for path in locked.files} if locked else {""}
            if not paths <= self.index.files.keys():
                missing.append(checkpoint_key(checkpoint))
        return unbundled(recipe) + [
            f"{self.folder / INDEX}: found no {key} as the lock has it; expected it: {self.remedy}"
            for key in missing
        ]


def unbundled(recipe: Recipe) -> list[str]:
    """Return the problems, for a PlanError, of a recipe that no bundle can serve."""
    problem = (
        f"recipe {recipe.name}: image: found one that a Spark builds, for which it needs internet; "
        "expected one of a registry: a bundle can bring no other"
    )
    return [problem] if recipe.build else []


def read_bundle(folder: Path, digest: str | None, inventory: Path) -> Bundle:
    """Read a bundle whose index has the digest that the inventory names.

    Its files are compared with the index by size, and small ones by content.
    """
    path, line = folder / INDEX, f"`{next_line('bundle', str(folder))}`"
    expected = f"a complete bundle: {line}, where there is internet, makes it"
    text = read_text(path, expected, _LARGEST_INDEX)
    if text is None:
        found = f"no {INDEX}" if folder.is_dir() else "no such folder"
        raise PlanError(f"{path}: found {found}; expected {expected}")
    if digest is None:
        raise PlanError(
            f"{inventory}: source.sha256: found nothing; expected the line that {line} printed, "
            "where there is internet: `sha256: ` and 64 hexadecimal digits. Without it, whoever "
            "had the disk that brings a bundle could put anything on the Sparks"
        )
    if sha256(text.encode()).hexdigest() != digest:
        raise PlanError(
            f"{inventory}: source.sha256: found {digest}; expected that of {path}, which is "
            "another: bring the bundle anew; or, if it was filled again since, take over the line "
            f"that {line} printed, where there is internet"
        )
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PlanError(f"{path}: found no JSON ({error}); expected {expected}") from None
    bundle = Bundle(folder, parse(BundleIndex, data, str(path)))
    refuse(islice(_wrong_files(bundle), 20))
    return bundle


def _wrong_files(bundle: Bundle) -> Iterator[str]:
    for name, file in bundle.index.files.items():
        path, found = bundle.folder / name, ""
        try:
            if path.resolve() != bundle.folder.resolve() / name:
                found = "a link; expected a file"
            elif not path.is_file():
                found = f"no file; expected {file.size} bytes"
            elif (size := path.stat().st_size) != file.size:
                found = f"{size} bytes; expected {file.size} bytes"
            elif size <= _SMALL and file_hash(path) != file.sha256:
                found = f"another content than {INDEX} says; expected the file as it was fetched"
        except OSError as error:
            found = f"a file that cannot be read ({error.strerror}); expected one"
        if found:
            yield f"{path}: found {found}: {bundle.remedy}"


def file_hash(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as content:
        return file_digest(content, "sha256").hexdigest()


def wheels_of(bundle: Bundle, requirements: str, name: str) -> list[str]:
    """Return the paths of the wheels that requirements allow."""
    by_hash = {bundle.index.files[path].sha256: path for path in bundle.below(WHEELS)}
    found: list[str] = []
    problems: list[str] = []
    # Of a requirement, what follows its first line is indented.
    for requirement in re.split(r"\n(?=\S)", requirements):
        hashes = _HASH.findall(requirement)
        paths = [by_hash[each] for each in hashes if each in by_hash]
        found += paths
        if hashes and not paths:
            problems.append(
                f"{bundle.folder / INDEX}: files: found no wheel of {requirement.split()[0]}, "
                f"which {name} names; expected it: {bundle.remedy}"
            )
    refuse(problems)
    return found
