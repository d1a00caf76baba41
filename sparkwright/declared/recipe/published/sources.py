"""The places where recipes for Sparks are published, and the recipes that each has.

Of a repository a commit is fetched: an archive, of which plain files are written. Nothing of it
runs or is followed: no hook, filter, submodule or symbolic link.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from subprocess import DEVNULL
from tempfile import TemporaryDirectory, TemporaryFile

from sparkwright.common import yaml
from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import content_of
from sparkwright.common.schema import nearest
from sparkwright.declared.recipe.published import sparkrun, vllm_project
from sparkwright.declared.recipe.published.document import MOST_BYTES, Document
from sparkwright.declared.recipe.published.translated import Translated

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
_YAML = re.compile(r"[^.].*\.ya?ml", re.IGNORECASE | re.DOTALL)
# Parts of paths that tell no recipe from another.
_NOISE = ("models", "recipes", "linux", "recipe")
# A file that cannot be read is named as a recipe if it begins a line with one of their keys.
_LOOKS = re.compile(rb"^(recipe_version|variants|command):", re.MULTILINE)

PROTOCOLS: tuple[str, ...] = ("https", "ssh")
_URL = re.compile(r"((?P<protocol>[a-z]+)://|[A-Za-z0-9][\w.-]*@)[A-Za-z0-9/][^\s\x00-\x1f]*")
_LOGIN = re.compile(r"https://([^/@]*:[^/@]*|[^/@]{20,})@")
# Seconds; the largest of the sources, without history, is 60 MB.
_TIMEOUT = 300
# Bytes: git's address space, which a pack of some KB can fill; a file of git's; one of ours.
_MEMORY, _LARGEST, _MOST_OF_GIT, _MOST_ENTRIES = 2**29, 2**27, 4 * 2**20, 20_000
_PATH = re.compile(r"((?!\.git|\.\.?(/|$))[^/\\]{1,200}(/|$)){1,16}(?<!/)", re.IGNORECASE)
# Large files stay out of memory, which threads share.
_SETTINGS = "core.hooksPath=/dev/null fetch.unpackLimit=1 core.bigFileThreshold=4m pack.threads=1"
_OWN = {"GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "true", "SSH_ASKPASS": "true", "LC_ALL": "C"}
_OWN |= {"GIT_SSH_COMMAND": "ssh -o BatchMode=yes", "GIT_NO_LAZY_FETCH": "1"}
_CAUSES = Path(__file__).with_name("git_causes.yaml")


@dataclass(frozen=True)
class Checkout:
    """The files of a source; ``url`` is the folder's path where it was not fetched."""

    root: Path
    url: str
    commit: str | None = None

    def __str__(self) -> str:
        return f"{self.url} at {self.commit}" if self.commit else self.url


@dataclass(frozen=True)
class Published:
    """A recipe of a source: its path in short, its file or why that cannot be read, and its part.

    The part is its name within the file; "" for the only one.
    """

    key: str
    document: Document | PlanError
    part: str = ""

    def translated(self) -> Translated:
        """Return it as a recipe of ours."""
        if isinstance(self.document, PlanError):
            raise self.document
        if self.part:
            return vllm_project.translate(self.document, self.part)
        return sparkrun.translate(self.document)


@contextmanager
def checkout_of(text: str) -> Iterator[Checkout]:
    """Have the files of a source at hand: a short name, an address, ``…@COMMIT``, or a folder."""
    folder = Path(text).expanduser()
    if text not in SOURCES and folder.is_dir():
        folder = folder.resolve()
        commit = _commit_of(folder) if (folder / ".git").exists() else None
        yield Checkout(folder, str(folder), commit)
        return
    match = _WITH_COMMIT.fullmatch(text)
    source, ref = (match["source"], match["commit"]) if match else (text, "HEAD")
    url = SOURCES.get(source, source)
    protocol = _URL.fullmatch(url)
    if protocol is None or (protocol["protocol"] or "ssh") not in PROTOCOLS:
        known = nearest(source, SOURCES)
        raise PlanError(f"SOURCE: found {source}; {known}; or a folder, or an address of git")
    with TemporaryDirectory() as work:
        yield Checkout(Path(work), url, fetch(url, ref, Path(work)))


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
        try:
            document = Document(path, source, (path.parent, path.parent / "mods", *shared))
        except PlanError as error:
            with suppress(OSError):
                if _LOOKS.search(content_of(path, MOST_BYTES)):
                    yield Published(key, error)
            continue
        if vllm_project.is_vllm_project(document.data):
            for part in vllm_project.parts(document.data):
                yield Published(f"{key}/{part}", document, part)
        elif sparkrun.is_sparkrun(document.data):
            yield Published(key, document)


def find(checkout: Checkout, name: str, mods: Sequence[Path] = ()) -> Published:
    """Return the recipe of a source that a name means: a key of `entries`, or the end of one."""
    # Where no variant is named, the one called default is meant.
    names = (name, f"{name}/default")
    known = [*entries(checkout, mods, name)] if name else []
    same = [each for each in known if each.key in names]
    ends = tuple(f"/{each}" for each in names)
    fitting = same or [each for each in known if each.key.endswith(ends)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        several = ", ".join(each.key for each in fitting)
        raise PlanError(f"{checkout}: found {name} {len(fitting)} times; expected one of {several}")
    keys = [each.key for each in entries(checkout, mods)]
    raise PlanError(f"{checkout}: found no recipe {name}; {nearest(name, keys)}")


def _files(root: Path) -> Iterator[Path]:
    count = size = 0
    for folder, folders, names in os.walk(root, followlinks=False):
        folders[:] = [each for each in folders if not each.startswith(".git")]
        for path in (Path(folder, name) for name in names if _YAML.fullmatch(name)):
            if path.is_file() and not path.is_symlink():
                count, size = count + 1, size + min(path.stat().st_size, MOST_BYTES)
                if count > _MOST_FILES or size > _MOST_IN_ALL:
                    raise PlanError(f"{root}: found more files than sources have; expected recipes")
                yield path


def _registry(root: Path) -> Iterator[Path]:
    """Yield the folders that a registry of sparkrun names for mods."""
    file = root / ".sparkrun" / "registry.yaml"
    listed = None
    with suppress(PlanError):
        listed = yaml.load(file).get("registries") if not file.is_symlink() else None
    for registry in (listed if isinstance(listed, list) else [])[:20]:
        folder = registry.get("mods") if isinstance(registry, dict) else None
        if isinstance(folder, str) and ".." not in Path(folder).parts:
            yield root / folder.lstrip("/")


def fetch(url: str, ref: str, folder: Path) -> str:
    """Write the files of a commit, tag or branch into a folder; return the commit."""
    if _LOGIN.match(url):
        raise PlanError("found a login in the address; expected git's credential helper, or ssh")
    with TemporaryDirectory() as work:
        _git("init", "--quiet", "--bare", "--template=", work)
        _git("-C", work, "fetch", "--depth=1", "--no-tags", "--", url, ref, protocols=PROTOCOLS)
        Path(work, "info").mkdir(exist_ok=True)
        Path(work, "info/attributes").write_bytes(b"* -filter -ident -export-ignore -export-subst")
        archive = Path(work, "files.tar")
        _git("-C", work, "archive", f"--output={archive}", "FETCH_HEAD")
        _unpack(archive, folder, url)
        return _commit_of(Path(work), "FETCH_HEAD^{commit}")


def _commit_of(folder: Path, ref: str = "HEAD") -> str:
    """Return the commit of a repository; what the repository configures never runs."""
    return _git("-C", str(folder), "rev-parse", ref).strip()


def _unpack(archive: Path, folder: Path, url: str) -> None:
    with tarfile.open(archive, mode="r:") as tar:
        for count, entry in enumerate(tar):
            if count >= _MOST_ENTRIES:
                raise PlanError(f"{url}: found more than {_MOST_ENTRIES} files; expected recipes")
            fits = entry.isfile() and entry.size <= _MOST_OF_GIT and entry.name.isprintable()
            if fits and _PATH.fullmatch(entry.name) and (content := tar.extractfile(entry)):
                place = folder / entry.name
                place.parent.mkdir(parents=True, exist_ok=True)
                # Names that differ in their case alone are one on some machines: the first stays.
                with suppress(FileExistsError), place.open("xb") as file:
                    file.write(content.read())
                    place.chmod(0o755 if entry.mode & 0o100 else 0o644)


def _git(*words: str, protocols: tuple[str, ...] = ()) -> str:
    """Run git without prompts, in bounds, and with no way out but some protocols."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    env |= _OWN | {"GIT_ALLOW_PROTOCOL": ":".join(protocols)}
    command = ["git", *(word for each in _SETTINGS.split() for word in ("-c", each)), *words]
    with TemporaryFile() as log, TemporaryFile() as out:
        # With what it starts, it is ended as one, and has no terminal.
        start = partial(subprocess.Popen[bytes], preexec_fn=_bounded, start_new_session=True)
        try:
            process = start(command, stdin=DEVNULL, stdout=out, stderr=log, env=env, cwd="/")
        except FileNotFoundError:
            raise PlanError("git: found no such program; expected it: apt install git") from None
        try:
            status = process.wait(_TIMEOUT)
        except subprocess.TimeoutExpired:
            raise PlanError(f"git: not done after {_TIMEOUT} s; expected an answer") from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        log.seek(0)
        told = log.read(20_000).decode(errors="replace")
        if status:
            causes = yaml.load(_CAUSES)["causes"]
            known = (each["cause"] for each in causes if re.search(each["pattern"], told))
            said = " ".join(told.split())[-300:] or status
            raise PlanError(f"git: {next(known, 'failed')} ({said})")
        out.seek(0)
        return out.read(_MOST_OF_GIT).decode(errors="replace")


def _bounded() -> None:
    for kind, most in (("AS", _MEMORY), ("FSIZE", _LARGEST), ("CORE", 0), ("CPU", 300)):
        resource.setrlimit(getattr(resource, f"RLIMIT_{kind}"), (most, most))
