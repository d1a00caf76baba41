"""The places where recipes for Sparks are published, and the recipes that each has."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import yaml as pyyaml

from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import content_of
from sparkwright.common.schema import nearest
from sparkwright.common.yaml import MOST_BYTES
from sparkwright.recipe.published import formats, git, playbook
from sparkwright.recipe.published.draft import Origin
from sparkwright.recipe.published.mods import mod_folders

# Short names. Owners of Sparks read these: sparkrun's own registry; the launcher that NVIDIA's page
# on clusters names; vLLM's own recipes, ten of which are for a GB10; NVIDIA's two.
SOURCES = {
    "arena": "https://github.com/spark-arena/recipe-registry",
    "eugr": "https://github.com/eugr/spark-vllm-docker",
    "vllm": "https://github.com/vllm-project/recipes",
    "nvidia": "https://github.com/NVIDIA/local-ai-inference-recipes",
    "playbooks": "https://github.com/NVIDIA/dgx-spark-playbooks",
}
# Where sparkrun looks for mods that a registry lacks (spark-arena/sparkrun, core/mods.py).
MODS_OF_ALL = "eugr"

_REFERENCE = re.compile(rf"(?P<source>{'|'.join(SOURCES)}):(?P<name>[^@]*)(@(?P<commit>.*))?")
_WITH_COMMIT = re.compile(r"(?P<source>.+?)@(?P<commit>[A-Za-z0-9][A-Za-z0-9._-]*)")
_YAML, _PAGES = (".yaml", ".yml"), (".md", ".sh")
_MOST_FILES = 5_000
# Parts of paths that tell no recipe from another.
_NOISE = ("models", "recipes", "linux", "recipe", "README")
# A file that cannot be read is named as a recipe if it begins a line with one of their keys.
_LOOKS = re.compile(rb"^(recipe_version|schema_version|variants|command):", re.MULTILINE)


@dataclass(frozen=True)
class Checkout:
    """The files of a source.

    Attributes:
        url: Of the repository; the folder's path where there is none.
        commit: 40 hexadecimal digits; None: the folder is under no version control.
        hashes: Of a folder that a person may have changed: what git calls its files' content at the
            commit, by their paths.
    """

    root: Path
    url: str
    commit: str | None = None
    day: date | None = None
    hashes: Mapping[str, str] | None = None

    def of(self, path: Path) -> str:
        """Say which version of a file it has: `` at COMMIT``, or that it was changed since."""
        if self.commit is None:
            return ""
        name = path.relative_to(self.root).as_posix()
        if self.hashes is None or self.hashes.get(name) == git.content_hash(path):
            return f" at {self.commit}"
        return f", changed since {self.commit}"


@dataclass(frozen=True)
class Published:
    """A recipe of a source.

    Attributes:
        key: Its path in short; the end of it names it as long as no other's ends so.
        part: Its name within the file; "" for the only one.
    """

    key: str
    path: Path
    part: str
    origin: Origin


def is_reference(name: str) -> bool:
    """Tell whether the name of a recipe is one of a source: SOURCE:NAME@COMMIT."""
    return _REFERENCE.fullmatch(name) is not None


def reference_problem(name: str) -> str | None:
    """Return what is wrong with a SOURCE:NAME@COMMIT, as ``found X; expected Y``; None: nothing."""
    match = _REFERENCE.fullmatch(name)
    if match is None or not match["name"]:
        return f"found {name}; expected SOURCE:NAME@COMMIT"
    if not git.COMMIT.fullmatch(match["commit"] or ""):
        url = SOURCES[match["source"]]
        return (
            f"found {name}, which moves; expected {match['source']}:{match['name']}@ and a full "
            f"commit: `git ls-remote {url} HEAD` prints the current one"
        )
    return None


def locate(name: str) -> Published:
    """Return the recipe that a SOURCE:NAME@COMMIT names, fetched unless it was before.

    Raises:
        PlanError: It names no commit, or there is no such recipe, or it cannot be fetched.
    """
    if problem := reference_problem(name):
        raise PlanError(problem)
    match = _REFERENCE.fullmatch(name)
    assert match
    try:
        checkout = _of(git.fetch(SOURCES[match["source"]], match["commit"]))
    except PlanError as error:
        raise PlanError(*(f"{name}: {problem}" for problem in error.problems)) from None
    return find(checkout, match["name"])


def checkout_of(text: str) -> Checkout:
    """Return the files of a source.

    Args:
        text: Its short name, the path of a folder, or an address; ``@COMMIT`` (or a tag or branch)
            may follow.

    Raises:
        PlanError: There is no such source, or it cannot be fetched.
    """
    source, ref = text, "HEAD"
    match = _WITH_COMMIT.fullmatch(text)
    if match and not Path(text).exists():
        source, ref = match["source"], match["commit"]
    folder = Path(source).expanduser()
    if source not in SOURCES and folder.is_dir():
        folder = folder.resolve()
        if ref == "HEAD":
            return _as_it_lies(folder)
        source = str(folder)
    elif source not in SOURCES and not git.is_url(source):
        known = nearest(source, SOURCES)
        raise PlanError(f"SOURCE: found {source}; {known}; or a folder, or an address of git")
    url = SOURCES.get(source, source)
    return _of(git.fetch(url, git.resolve(url, ref)))


def _as_it_lies(folder: Path) -> Checkout:
    """Return a folder that a person has, with the commit that it was checked out from, if any."""
    if not (folder / ".git").exists():
        return Checkout(folder, str(folder))
    commit = git.resolve(str(folder))
    url, day, hashes = git.about(folder, commit)
    return Checkout(folder, url or str(folder), commit, day, hashes)


def _of(fetched: git.Fetched) -> Checkout:
    return Checkout(fetched.root, fetched.url, fetched.commit, fetched.day)


def entries(checkout: Checkout, mods: Sequence[Path] = ()) -> list[Published]:
    """Return the recipes of a source, by their keys; ``mods`` are folders of mods that it lacks.

    Raises:
        PlanError: There are too many files.
    """
    files = sorted(_files(checkout.root))
    found = [
        each
        for path in files
        if path.suffix.lower() in _YAML
        for each in _entries(checkout, path, mods)
    ]
    if not found:
        # A page beside recipes describes these.
        pages = [path for path in files if path.suffix.lower() in _PAGES]
        found = [each for path in pages for each in _entries(checkout, path, mods)]
    known = {each.path for each in found}
    found += [
        _published(checkout, path, "", mods)
        for path in files
        if path.suffix.lower() in _YAML and path not in known and not _is_yaml(path)
    ]
    return sorted(found, key=lambda each: each.key)


def find(checkout: Checkout, name: str, mods: Sequence[Path] = ()) -> Published:
    """Return the recipe of a source that a name means: a key of `entries`, or the end of one.

    Raises:
        PlanError: There is none, or more than one.
    """
    default = f"{name}/{formats.DEFAULT}"
    # A source may have hundreds of files: those alone are read that can hold it.
    known = [
        each
        for path in _files(checkout.root)
        if path.suffix.lower() in _YAML and _may_be(_key(path.relative_to(checkout.root), ""), name)
        for each in _entries(checkout, path, mods)
    ] or entries(checkout, mods)
    same = [each for each in known if each.key in (name, default)]
    fitting = same or [each for each in known if each.key.endswith((f"/{name}", f"/{default}"))]
    if len(fitting) == 1:
        return fitting[0]
    where = f"{checkout.url}{f' at {checkout.commit}' if checkout.commit else ''}"
    if fitting:
        several = ", ".join(each.key for each in fitting)
        raise PlanError(f"{where}: found {name} {len(fitting)} times; expected one of {several}")
    keys = [each.key for each in entries(checkout, mods)]
    raise PlanError(f"{where}: found no recipe {name}; {nearest(name, keys)}")


def _may_be(key: str, name: str) -> bool:
    """Tell whether a file of a key may hold a recipe of a name, alone or as one of several."""
    return any(f"/{key}".endswith(f"/{each}") for each in (name, name.rpartition("/")[0]) if each)


def _files(root: Path) -> Iterator[Path]:
    count = 0
    for folder, folders, names in os.walk(root, followlinks=False):
        folders[:] = sorted(each for each in folders if each not in (".git", ".github"))
        for name in names:
            path = Path(folder, name)
            is_text = path.is_file() and not path.is_symlink()
            if path.suffix.lower() not in (*_YAML, *_PAGES) or not is_text:
                continue
            count += 1
            if count > _MOST_FILES:
                raise PlanError(f"{root}: found more than {_MOST_FILES} files; expected recipes")
            yield path


def _entries(checkout: Checkout, path: Path, mods: Sequence[Path]) -> Iterator[Published]:
    if path.name.startswith(".") or not path.is_file():
        return
    try:
        parts = formats.parts(path)
    except PlanError:
        parts = [""] if not playbook.is_playbook(path) and _looks_like_one(path) else []
    for part in parts:
        yield _published(checkout, path, part, mods)


def _published(checkout: Checkout, path: Path, part: str, mods: Sequence[Path]) -> Published:
    relative, inside = path.relative_to(checkout.root), f" ({part})" if part else ""
    source = f"{checkout.url}, {relative}{inside}{checkout.of(path)}."
    folders = (*mod_folders(path, checkout.root), *mods)
    origin = Origin(path, source, checkout.day, folders)
    return Published(_key(relative, part), path, part, origin)


def _looks_like_one(path: Path) -> bool:
    return _LOOKS.search(content_of(path, MOST_BYTES)) is not None


def _is_yaml(path: Path) -> bool:
    try:
        return all(pyyaml.parse(content_of(path, MOST_BYTES)))
    except (OSError, pyyaml.YAMLError):
        return False


def _key(relative: Path, part: str) -> str:
    words = [*relative.parts[:-1], relative.name.removesuffix(relative.suffix)]
    kept = [word for word in words if word not in _NOISE]
    return "/".join([*kept, *([part] if part else [])])
