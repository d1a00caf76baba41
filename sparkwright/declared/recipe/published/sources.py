"""The places where recipes for Sparks are published, and the recipes that each has."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from sparkwright.common import yaml
from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import content_of
from sparkwright.common.schema import nearest
from sparkwright.declared.recipe.published import git, sparkrun, vllm_project
from sparkwright.declared.recipe.published.document import MOST_BYTES, Document
from sparkwright.declared.recipe.published.draft import Origin, Translated

# Short names. Owners of Sparks read these: sparkrun's own registry; the launcher that NVIDIA's page
# on clusters names; vLLM's own recipes, ten of which are for a GB10.
SOURCES = {
    "arena": "https://github.com/spark-arena/recipe-registry",
    "eugr": "https://github.com/eugr/spark-vllm-docker",
    "vllm": "https://github.com/vllm-project/recipes",
}
_WITH_COMMIT = re.compile(r"(?P<source>.+?)@(?P<commit>[A-Za-z0-9][A-Za-z0-9._-]*)")
# Files of a source, and bytes of them.
_MOST_FILES, _MOST_IN_ALL = 5_000, 2**24
# Parts of paths that tell no recipe from another.
_NOISE = ("models", "recipes", "linux", "recipe")
# The variant of a recipe with variants that is meant where none is named.
_DEFAULT = "default"
# A file that cannot be read is named as a recipe if it begins a line with one of their keys.
_LOOKS = re.compile(rb"^(recipe_version|variants|command):", re.MULTILINE)


@dataclass(frozen=True)
class Checkout:
    """The files of a source; ``url`` is the folder's path where it was not fetched."""

    root: Path
    url: str
    commit: str | None = None


@dataclass(frozen=True)
class Published:
    """A recipe of a source.

    Attributes:
        key: Its path in short; the end of it names it as long as no other's ends so.
        document: Its file, or why it cannot be read.
        part: Its name within the file; "" for the only one.
    """

    key: str
    document: Document | PlanError
    part: str
    origin: Origin

    def translated(self) -> Translated:
        """Return it as a recipe of ours."""
        if isinstance(self.document, PlanError):
            raise self.document
        if self.part:
            return vllm_project.translate(self.document, self.origin, self.part)
        return sparkrun.translate(self.document, self.origin)


@contextmanager
def checkout_of(text: str) -> Iterator[Checkout]:
    """Have the files of a source at hand: a short name, an address, ``…@COMMIT``, or a folder."""
    folder = Path(text).expanduser()
    if text not in SOURCES and folder.is_dir():
        folder = folder.resolve()
        commit = git.commit_of(folder) if (folder / ".git").exists() else None
        yield Checkout(folder, str(folder), commit)
        return
    match = _WITH_COMMIT.fullmatch(text)
    source, ref = (match["source"], match["commit"]) if match else (text, "HEAD")
    url = SOURCES.get(source, source)
    if not git.is_url(url):
        known = nearest(source, SOURCES)
        raise PlanError(f"SOURCE: found {source}; {known}; or a folder, or an address of git")
    with TemporaryDirectory() as work:
        yield Checkout(Path(work), url, git.fetch(url, ref, Path(work)))


def entries(checkout: Checkout, mods: Sequence[Path] = (), name: str = "") -> Iterator[Published]:
    """Yield the recipes of a source by their paths; with a name, those that it may mean."""
    # What is in a folder may have been changed since its commit.
    at = " at" if checkout.url != str(checkout.root) else ", in a checkout of"
    version = f"{at} {checkout.commit}" if checkout.commit else ""
    shared = (checkout.root / "mods", *_registry(checkout.root), *mods)
    for path in sorted(_files(checkout.root)):
        relative = path.relative_to(checkout.root)
        words = [*relative.parts[:-1], path.stem]
        key = "/".join(word for word in words if word not in _NOISE)
        ends = [each for each in (name, name.rpartition("/")[0]) if each]
        if name and not any(f"/{key}".endswith(f"/{each}") for each in ends):
            continue
        source = f"{checkout.url}, {relative}{version}."
        origin = Origin(source, (path.parent, path.parent / "mods", *shared))
        try:
            document = Document(path)
        except PlanError as error:
            with suppress(OSError):
                if _LOOKS.search(content_of(path, MOST_BYTES)):
                    yield Published(key, error, "", origin)
            continue
        if vllm_project.is_vllm_project(document.data):
            for part in vllm_project.parts(document.data):
                yield Published(f"{key}/{part}", document, part, origin)
        elif sparkrun.is_sparkrun(document.data):
            yield Published(key, document, "", origin)


def find(checkout: Checkout, name: str, mods: Sequence[Path] = ()) -> Published:
    """Return the recipe of a source that a name means: a key of `entries`, or the end of one."""
    names = (name, f"{name}/{_DEFAULT}")
    known = [*entries(checkout, mods, name)] if name else []
    same = [each for each in known if each.key in names]
    ends = tuple(f"/{each}" for each in names)
    fitting = same or [each for each in known if each.key.endswith(ends)]
    if len(fitting) == 1:
        return fitting[0]
    where = f"{checkout.url}{f' at {checkout.commit}' if checkout.commit else ''}"
    if fitting:
        several = ", ".join(each.key for each in fitting)
        raise PlanError(f"{where}: found {name} {len(fitting)} times; expected one of {several}")
    keys = [each.key for each in entries(checkout, mods)]
    raise PlanError(f"{where}: found no recipe {name}; {nearest(name, keys)}")


def _files(root: Path) -> Iterator[Path]:
    count = size = 0
    for folder, folders, names in os.walk(root, followlinks=False):
        folders[:] = [each for each in folders if not each.startswith(".git")]
        for path in (Path(folder, name) for name in names if not name.startswith(".")):
            if (
                path.suffix.lower() in (".yaml", ".yml")
                and path.is_file()
                and not path.is_symlink()
            ):
                count, size = count + 1, size + min(path.stat().st_size, MOST_BYTES)
                if count > _MOST_FILES or size > _MOST_IN_ALL:
                    raise PlanError(f"{root}: found more files than sources have; expected recipes")
                yield path


def _registry(root: Path) -> Iterator[Path]:
    """Yield the folders that a registry of sparkrun names for mods."""
    file = root / ".sparkrun" / "registry.yaml"
    try:
        listed = yaml.load(file).get("registries") if not file.is_symlink() else None
    except PlanError:
        return
    for registry in (listed if isinstance(listed, list) else [])[:20]:
        folder = registry.get("mods") if isinstance(registry, dict) else None
        if isinstance(folder, str) and ".." not in Path(folder).parts:
            yield root / folder.lstrip("/")
