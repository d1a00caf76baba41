"""Repositories of a stranger: nothing of them runs, is followed, or grows without bounds."""

import copy
import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparkwright.common.errors import PlanError
from sparkwright.declared.recipe.imports import import_recipe, listing
from sparkwright.declared.recipe.published import sources
from tests.component.repository import FILES, RECIPE, Repository
from tests.makers.vllm_project import TEXT
from tests.programs import script
from tests.published import published
from tests.security.hostile import places, put

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    # Of an owner's addresses, none is a file's.
    monkeypatch.setattr(sources, "PROTOCOLS", ("https", "ssh", "file"))
    return Repository(tmp_path / "theirs")


@pytest.fixture
def into(tmp_path: Path) -> Path:
    folder = tmp_path / "into"
    folder.mkdir()
    return folder


def keys(source: str) -> list[str]:
    with sources.checkout_of(source) as checkout:
        return [each.key for each in sources.entries(checkout)]


def test_only_plain_files_of_a_bounded_size_come_out(repository: Repository, into: Path) -> None:
    plain, link = repository.blob(RECIPE.encode()), repository.blob(b"/etc/passwd")
    commit = repository.tree(
        ("100644", plain, ".gitmodules"),
        ("100644", plain, "a\nb.yaml"),
        ("100644", repository.blob(b"x" * (4 * 2**20 + 1)), "big.yaml"),
        ("100755", plain, "good.yaml"),
        ("120000", link, "link.yaml"),
        ("160000", repository.head, "module"),
    )
    sources.fetch(repository.url, commit, into)
    assert [path.name for path in into.rglob("*")] == ["good.yaml"]
    assert not list(into.parent.rglob("escaped.yaml"))


@pytest.mark.parametrize("name", ["..", "../../escaped.yaml", ".git", "/etc/x"])
def test_names_that_lead_elsewhere_are_refused(
    repository: Repository, into: Path, name: str
) -> None:
    commit = repository.tree(("100644", repository.blob(b"x"), name))
    with pytest.raises(PlanError, match="git: "):
        sources.fetch(repository.url, commit, into)
    assert not list(into.parent.rglob("escaped.yaml"))


def test_nothing_of_a_repository_runs(repository: Repository, tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    program = tmp_path / "program"
    script(program, f"#!/bin/sh\ntouch {touched}\n")
    hooks = repository.folder / ".git/hooks"
    for name in ("post-checkout", "pre-upload", "post-upload-pack", "reference-transaction"):
        script((hooks / name), program.read_text())
    for key in ("core.fsmonitor", "core.sshCommand", "uploadpack.packObjectsHook", "core.pager"):
        repository.git("config", key, str(program))
    repository.git("config", "filter.x.smudge", str(program))
    repository.commit({".gitattributes": "* filter=x\n"})
    touched.unlink(missing_ok=True)
    repository.git("config", "log.showSignature", "true")
    repository.git("config", "gpg.program", str(program))
    assert keys(repository.url)
    assert keys(str(repository.folder))
    assert not touched.exists()


def test_a_folder_that_lacks_objects_and_says_who_has_them(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit of a folder is read without its objects, so that no remote is asked for them."""
    touched = tmp_path / "touched"
    program = tmp_path / "program"
    script(program, f"#!/bin/sh\ntouch {touched}\nexit 1\n")
    for key, value in (
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.url", str(tmp_path)),
        ("remote.origin.promisor", "true"),
        ("remote.origin.uploadpack", str(program)),
    ):
        repository.git("config", key, value)
    head = repository.head
    (repository.folder / ".git/objects" / head[:2] / head[2:]).unlink()
    # A git that does not know the variable would ask the remote for what is missing.
    monkeypatch.delitem(sources._OWN, "GIT_NO_LAZY_FETCH")
    assert sources._commit_of(repository.folder) == head
    assert not touched.exists()


@pytest.mark.parametrize(
    "source",
    [
        "--upload-pack=touch touched",
        "-x",
        "ext::sh -c touch% touched",
        "ssh://-oProxyCommand=touch%20touched/x",
        "git://127.0.0.1/x",
        "http://127.0.0.1/x",
        "fd::17",
        "file:///etc/passwd",
        "file:///",
        "/etc/passwd@main",
        "/etc/passwd",
        "a@b:c@--upload-pack=touch",
    ],
)
def test_words_that_git_could_take_for_more(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PlanError):
        keys(source)
    assert not [*Path("/").glob("touched"), *tmp_path.glob("touched")]


def test_a_repository_that_grows(
    repository: Repository, into: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository.folder / "noise.bin").write_bytes(os.urandom(3 * 2**20))
    commit = repository.commit({})
    with monkeypatch.context() as patched:
        patched.setattr(sources, "_LARGEST", 2**20)
        with pytest.raises(PlanError, match="git: found more than it may take"):
            sources.fetch(repository.url, commit, into)
    with monkeypatch.context() as patched:
        patched.setattr(sources, "_MOST_ENTRIES", 3)
        with pytest.raises(PlanError, match="found more than 3 files"):
            sources.fetch(repository.url, commit, into)


# Most of this is git's own: the programs that it runs, and the bound of each.
BOUND = sources._MEMORY + 2**27


def taken(*words: str) -> int:
    """Return the largest memory of a process that fetches, or of one that it starts, in bytes."""
    program = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from sparkwright.common.errors import PlanError\n"
        "from sparkwright.declared.recipe.published import sources\n"
        "sources.PROTOCOLS = ('file',)\n"
        "try:\n"
        "    sources.fetch(sys.argv[1], sys.argv[2], Path(sys.argv[3]))\n"
        "except PlanError as error:\n"
        "    print(error, file=sys.stderr)\n"
        # Not by getrusage: that of a process begins with what its parent had.
        "own = Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0]\n"
        "gits = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss\n"
        "print(max(int(own), gits) * 1024)\n"
    )
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_a_tree_that_holds_itself_many_times(repository: Repository, into: Path) -> None:
    """Some KB of it are as many files as one likes."""
    tree = repository.git("rev-parse", "HEAD^{tree}")
    for _ in range(7):
        entries = "".join(f"040000 tree {tree}\tfolder{n:02}\n" for n in range(20))
        tree = repository.git("mktree", given=entries.encode())
    commit = repository.git("commit-tree", "-m", "x", tree)
    assert taken(repository.url, commit, str(into)) < BOUND
    assert sum(1 for _ in into.rglob("*")) <= 2 * sources._MOST_ENTRIES


@pytest.mark.parametrize("kind", ["tree", "blob"])
def test_an_object_that_is_large_once_it_is_unpacked(
    repository: Repository, into: Path, kind: str
) -> None:
    most = BOUND
    if kind == "blob":
        # It is never in memory.
        with (repository.folder / "zeros").open("wb") as file:
            file.truncate(2**28)
        commit, most = repository.commit({}), 2**27
    else:
        name = b"x" * (225 * 2**20)
        blob = bytes.fromhex(repository.blob(b"x"))
        words = ("hash-object", "-t", "tree", "-w", "--stdin", "--literally")
        tree = repository.git(*words, given=b"100644 %s\0%s" % (name, blob))
        commit = repository.git("commit-tree", "-m", "x", tree)
    assert taken(repository.url, commit, str(into)) < most


def seconds(work: Callable[[], object]) -> float:
    begun = time.process_time()
    with suppress(PlanError):
        work()
    return time.process_time() - begun


LONG = "x" * 60_000
BOMBS = {
    "keys that become long": RECIPE.replace("{port}", "{port}" * 8_000).replace(
        "port: 8000", f"port: '{LONG}'"
    ),
    "keys in keys": RECIPE.replace("{port}", "{a}" * 20_000).replace(
        "port: 8000", "a: '" + "{e}" * 20_000 + "', e: ''"
    ),
    "variables that become long": RECIPE.replace("port: 8000", f"port: '{LONG}'").replace(
        "name: Small", "env: {" + ", ".join(f"A{n}: '{{port}}'" for n in range(4_000)) + "}"
    ),
    "options that nobody has": RECIPE.replace(
        "--port {port}", " ".join(f"--a{n}" for n in range(9_000))
    ),
    "options of one letter": RECIPE.replace("--port {port}", "-x " * 20_000),
    "open quotes": RECIPE.replace("--port {port}", "--a '" * 12_001),
    "open brackets": RECIPE.replace("--port {port}", "$(" * 30_000),
    "backslashes": RECIPE.replace("--port {port}", "\\   " * 15_000),
    "comments": RECIPE.replace("--port {port}", "\n  #" * 15_000),
    "operators": RECIPE.replace("--port {port}", ";&" * 30_000),
    "deep options": RECIPE.replace("--port {port}", "--a" + ".a" * 30_000 + " 1"),
    "deep JSON": RECIPE.replace("--port {port}", "--a '" + '{"a":' * 12_000 + "'"),
    "sizes": RECIPE.replace("--port {port}", "-tp " * 15_000),
    "mods": RECIPE.replace("[mods/fix-template]", "[" + "mods/fix-template, " * 6_000 + "]"),
    "hooks": RECIPE.replace("name: Small", "pre_exec: [" + "echo a, " * 12_000 + "]"),
    "variants": "meta: {hardware: {dgx_spark_gb10: verified}}\nmodel: {model_id: a/b}\n"
    + "variants: {" + ", ".join(f"v{n}: {{}}" for n in range(5_000)) + "}\n"
    + "compatible_strategies: [single_node_tp]\n"
    + "features: {" + ", ".join(f"f{n}: {{args: [-x]}}" for n in range(2_500)) + "}\n",
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_texts_that_are_made_to_grow_take_no_longer_than_a_plain_one_of_their_size(
    repository: Repository, name: str
) -> None:
    """Neither time nor memory: a plain one has the same size, and nothing but a long remark."""
    file, text = repository.folder / "recipes/small.yaml", BOMBS[name]
    for other in ("recipes/wrong.yaml", "recipes/other.yaml"):
        (repository.folder / other).unlink()
    lines = len(text) // 8
    plain = RECIPE + "metadata: {a: [" + "abcde, " * (lines or 1) + "]}\n"
    file.write_text(plain)
    usual = seconds(lambda: list(listing(str(repository.folder))))
    file.write_text(text)
    tracemalloc.start()
    assert seconds(lambda: list(listing(str(repository.folder)))) < 20 * usual + 1
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2**27


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("recipe_version: '1'\na: &a [x]\nb: *a\n", ":2: found the anchor &a"),
        ("command: " + "[" * 100_000, "levels"),
        ("command: x\ncontainer: " + "1" * 200, "a number of 200 characters"),
        ("command: vllm\n" + "x: y\n" * 300_000, "found more than 131,072 bytes"),
        ("command: \0", "found the control character"),
        (RECIPE.replace("{port}", "{port.__class__}"), "command: found {port.__cl"),
        (RECIPE.replace("mods/fix-template", "../../../etc"), "mods[0]: found ../../../etc"),
        (RECIPE.replace("mods/fix-template", "/etc"), "mods[0]: found /etc, a mod that is not"),
        (RECIPE.replace("owner/Model-1B", "$(touch touched)"), "which a shell expands"),
        (RECIPE.replace("--port {port}", "--port `id`; touch x"), "expected one vllm serve line"),
        (RECIPE.replace("-tp", "'"), "found a ' that is not closed"),
        ("command: 'vllm serve a/b " + "-x " * 30_000 + "'", "found more than 65,536 characters"),
        ("command: 'vllm serve a/b " + "-x " * 20_000 + "'", "found 20000 options; expected 300"),
    ],
    ids=lambda value: value[:20],
)
def test_files_of_a_stranger(repository: Repository, text: str, told: str) -> None:
    (repository.folder / "recipes/small.yaml").write_text(text)
    with pytest.raises(PlanError) as error:
        published(repository.folder / "recipes/small.yaml")
    assert any(told in problem for problem in error.value.problems), error.value.problems[:3]


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/etc/passwd", "--replace", "small@x", "a\nb", "", ".", "*"]
)
def test_names_stay_names(repository: Repository, name: str) -> None:
    with sources.checkout_of(repository.url) as checkout, pytest.raises(PlanError):
        sources.find(checkout, name)


def test_a_folder_with_links(repository: Repository, tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "passwd.yaml").symlink_to("/etc/passwd")
    (folder / "other.yaml").symlink_to(repository.folder / "recipes/small.yaml")
    os.mkfifo(folder / "pipe.yaml")
    assert keys(str(folder)) == []


def test_an_imported_name_is_a_file_of_the_site(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.chdir(site)
    odd = "recipes/a..%2f..%2fx ;touch y.yaml"
    repository.commit({odd: FILES["recipes/small.yaml"]})
    import_recipe(repository.url, "a..%2f..%2fx ;touch y")
    written = list(site.rglob("*.yaml"))
    assert [path.relative_to(site).as_posix() for path in written] == [
        "files/recipes/a..-2f..-2fx-touch-y.yaml"
    ]


WHOLE = {"sparkrun": (RECIPE, ""), "vllm": (TEXT, "large")}
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 300),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(alphabet="a-$'\"{}\\ \n/:=.", max_size=12),
    st.dates(),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SCALARS, inner, max_size=3)
)


@pytest.mark.parametrize("kind", WHOLE)
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150
)
@given(data=st.data())
def test_no_shape_ends_otherwise_than_with_words(tmp_path: Path, kind: str, data: Any) -> None:
    text, part = WHOLE[kind]
    content = copy.deepcopy(yaml.safe_load(text))
    for _ in range(data.draw(st.integers(1, 2))):
        put(content, data.draw(st.sampled_from([*places(content)])), data.draw(VALUES))
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(content))
    try:
        published(path, part or "default")
    except PlanError as error:
        for problem in error.problems:
            assert problem.startswith(f"{path}:")
