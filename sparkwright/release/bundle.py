"""A bundle: a folder with all that the replicas of an inventory need of the internet.

`sparkwright bundle` fills it where there is internet; where there is none, a run takes it from
there.

    bundle.json                           what is in it, with the digest of each file
    weights/OWNER--NAME@COMMIT/…          the files of a checkpoint
    images/blobs/sha256/…                 the parts of images, as a registry has them
    wheels/*.whl                          Python packages
    packages/ARCHITECTURE/NUMBER/…        archives of packages of the system, with signed lists

A replica's inventory has the digest of the index, and the index those of all else: nothing is
believed because it is on the disk that brings the bundle.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from sparkwright.common.command_line import next_line
from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import content_of
from sparkwright.common.schema import Model, Text, parse, shown
from sparkwright.recipe.recipe import Recipe
from sparkwright.release.lock import (
    CheckpointLock,
    Digest,
    ImageLock,
    Lock,
    Sha256,
    checkpoint_key,
    image_key,
    inside,
)

INDEX = "bundle.json"
WEIGHTS, IMAGES, WHEELS, PACKAGES = "weights", "images", "wheels", "packages"
# Bytes of an index: that of 300 checkpoints has 10 MB.
_LARGEST_INDEX = 64 * 1024 * 1024
# Bytes up to which a run reads a file to compare it before it begins. Larger ones are hashed on
# their way, and on the Spark.
_SMALL = 1024 * 1024
_CHUNK = 1024 * 1024


class BundledFile(Model):
    """A file of a bundle, whose path is its key in the index."""

    size: int = Field(ge=0, description="bytes")
    sha256: Sha256 = Field(description="64 hexadecimal digits")


class BundledImage(Model):
    """An image for one platform, in the parts that a registry has.

    Attributes:
        top: Digest of what the lock names: the index of all platforms, or the manifest itself.
        manifests: Digests of the index, if there is one, and of the manifest.
        layers: Digests, the lowest first.
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


def blob(digest: str) -> str:
    """Return the path of a part of an image, as in an image that Docker has saved."""
    return f"blobs/sha256/{digest.removeprefix('sha256:')}"


def checkpoint_folder(locked: CheckpointLock) -> str:
    """Return the path of a checkpoint's folder in a bundle."""
    return f"{WEIGHTS}/{locked.repo.replace('/', '--')}@{locked.commit[:12]}"


@dataclass(frozen=True)
class Bundle:
    """A bundle as it is on the disk.

    Attributes:
        folder: Where it is on the machine that runs pyinfra.
    """

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
        return self._folders.get(folder, [])

    @cached_property
    def _folders(self) -> Mapping[str, list[str]]:
        folders: dict[str, list[str]] = {}
        for path in sorted(self.index.files):
            parts = path.split("/")
            for end in range(1, len(parts)):
                folders.setdefault("/".join(parts[:end]), []).append(path)
        return folders

    def check(self, recipe: Recipe, lock: Lock) -> None:
        """Check that it has the image and the checkpoints of a recipe, as the lock has them.

        Raises:
            PlanError: All that it lacks.
        """
        problems = list(self._image_problems(image_key(recipe), lock.image(recipe)))
        for checkpoint in recipe.checkpoints.values():
            locked = lock.checkpoint(checkpoint)
            problems += self._checkpoint_problems(checkpoint_key(checkpoint), locked)
        problems += unbundled(recipe)
        if problems:
            raise PlanError(*problems)

    def _image_problems(self, key: str, locked: ImageLock | None) -> Iterator[str]:
        found = self.index.images.get(key)
        wanted = locked and (locked.digest, locked.config)
        if found is None or (found.top, found.config) != wanted:
            has = f"its image {found.top[:19]}…" if found else f"no image {key}"
            expected = f"{locked.digest[:19]}… of the lock" if locked else "it"
            yield f"{self.folder / INDEX}: images: found {has}; expected {expected}: {self.remedy}"
            return
        yield from self._absent(key, (f"{IMAGES}/{path}" for path in found.blobs))

    def _checkpoint_problems(self, key: str, locked: CheckpointLock | None) -> Iterator[str]:
        if locked is None:
            yield (
                f"{self.folder / INDEX}: lock.checkpoints: found no {key}; expected it: "
                f"{self.remedy}"
            )
            return
        folder = checkpoint_folder(locked)
        yield from self._absent(key, (f"{folder}/{path}" for path in locked.files))

    def _absent(self, key: str, paths: Iterator[str]) -> Iterator[str]:
        if lacking := [path for path in paths if path not in self.index.files]:
            more = f", and {len(lacking) - 1} more" if len(lacking) > 1 else ""
            yield (
                f"{self.folder / INDEX}: files: found no {lacking[0]}{more}; expected all files of "
                f"{key}: {self.remedy}"
            )


def unbundled(recipe: Recipe) -> list[str]:
    """Return the problems, for a PlanError, of a recipe that no bundle can serve."""
    if recipe.build is None:
        return []
    return [
        f"recipe {recipe.name}: image: found one that a Spark builds, for which it needs internet; "
        "expected one of a registry: a bundle can bring no other"
    ]


def read_bundle(folder: Path, digest: str | None, inventory: Path) -> Bundle:
    """Read a bundle; compare its files with the index by size, and small ones by content.

    Args:
        digest: Of its index, by the inventory.

    Raises:
        PlanError: There is no bundle, or all that is wrong with it.
    """
    path = folder / INDEX
    remedy = f"`{next_line('bundle', str(folder))}`, where there is internet, makes it"
    try:
        text = content_of(path, _LARGEST_INDEX)
    except OSError as error:
        found = f"no {INDEX}" if folder.is_dir() else "no such folder"
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            found = f"a file that cannot be read ({error.strerror})"
        raise PlanError(f"{path}: found {found}; expected a complete bundle: {remedy}") from None
    said = f"`{next_line('bundle', str(folder))}` printed, where there is internet"
    if digest is None:
        raise PlanError(
            f"{inventory}: source.sha256: found nothing; expected the line that {said}: "
            "`sha256: ` and 64 hexadecimal digits. Without it, whoever had the disk that brings a "
            "bundle could put anything on the Sparks"
        )
    if len(text) > _LARGEST_INDEX:
        raise PlanError(
            f"{path}: found more than {_LARGEST_INDEX:,} bytes; expected an index: {remedy}"
        )
    if sha256(text).hexdigest() != digest:
        raise PlanError(
            f"{inventory}: source.sha256: found {digest}; expected that of {path}, which is "
            "another: bring the bundle anew; or, if it was filled again since, take over the line "
            f"that {said}"
        )
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PlanError(f"{path}: found no JSON ({error}); expected an index: {remedy}") from None
    if not isinstance(data, dict):
        raise PlanError(f"{path}: found {shown(data)}; expected an index: {remedy}")
    bundle = Bundle(folder, parse(BundleIndex, data, str(path)))
    if problems := list(_wrong_files(bundle)):
        raise PlanError(*problems[:20])
    return bundle


def _wrong_files(bundle: Bundle) -> Iterator[str]:
    for name, file in bundle.index.files.items():
        path = bundle.folder / name
        try:
            if path.resolve() != bundle.folder.resolve() / name:
                yield f"{path}: found a link; expected a file: {bundle.remedy}"
                continue
            size = path.stat().st_size if path.is_file() else None
            if size == file.size and size <= _SMALL and file_hash(path) != file.sha256:
                yield (
                    f"{path}: found another content than {INDEX} says; expected the file as it was "
                    f"fetched: {bundle.remedy}"
                )
        except OSError as error:
            yield f"{path}: found a file that cannot be read ({error.strerror}); expected one"
            continue
        if size != file.size:
            found = "no file" if size is None else f"{size} bytes"
            yield f"{path}: found {found}; expected {file.size} bytes: {bundle.remedy}"


def file_hash(path: Path, seen: Callable[[int], None] = lambda _: None) -> str:
    """Return the sha256 of a file; tell `seen` of bytes read."""
    digest = sha256()
    with path.open("rb") as content:
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
            seen(len(chunk))
    return digest.hexdigest()


_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def wheels_of(bundle: Bundle, requirements: str, name: str) -> list[str]:
    """Return the paths of the wheels that requirements allow.

    Raises:
        PlanError: There is none for one of them.
    """
    by_hash = {bundle.index.files[path].sha256: path for path in bundle.below(WHEELS)}
    found: list[str] = []
    problems = []
    for pin, hashes in pins(requirements).items():
        paths = [by_hash[each] for each in hashes if each in by_hash]
        found += paths
        if not paths:
            problems.append(
                f"{bundle.folder / INDEX}: files: found no wheel of {pin}, which {name} names; "
                f"expected it: {bundle.remedy}"
            )
    if problems:
        raise PlanError(*problems)
    return found


def pins(requirements: str) -> dict[str, list[str]]:
    """Return the hashes of each requirement, by its line without them."""
    text = re.sub(r"^\s*#.*$", "", requirements, flags=re.MULTILINE).replace("\\\n", " ")
    lines = (line.strip() for line in text.splitlines())
    return {
        _HASH.sub("", line).partition(";")[0].strip(): _HASH.findall(line) for line in lines if line
    }
