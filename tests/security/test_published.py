"""Repositories of a stranger: nothing of them runs, is followed, or grows without bounds."""

import os
from pathlib import Path

import pytest

from sparkwright.common.errors import PlanError
from sparkwright.recipe.imports import import_recipe
from sparkwright.recipe.loader import load_published
from sparkwright.recipe.published import git, sources
from tests.component.repository import FILES, RECIPE, Repository


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Repository(tmp_path / "theirs")


def test_only_plain_files_of_a_bounded_size_come_out(repository: Repository) -> None:
    plain, link = repository.blob(RECIPE.encode()), repository.blob(b"/etc/passwd")
    inner = repository.git("rev-parse", "HEAD^{tree}")
    commit = repository.tree(
        ("100644", plain, ".."),
        ("100644", plain, "../../escaped.yaml"),
        ("040000", inner, ".git"),
        ("100644", plain, ".gitmodules"),
        ("100644", plain, "a\nb.yaml"),
        ("100644", repository.blob(b"x" * (4 * 2**20 + 1)), "big.yaml"),
        ("100755", plain, "good.yaml"),
        ("120000", link, "link.yaml"),
        ("160000", repository.head, "module"),
    )
    fetched = git.fetch(repository.url, commit)
    found = sorted(path.name for path in fetched.root.rglob("*"))
    assert found == ["good.yaml"]
    cache = git.cache_folder().parent.parent
    assert not [path for path in cache.rglob("*") if path.is_symlink()]
    assert not list(cache.parent.rglob("escaped.yaml"))


def test_nothing_of_a_repository_runs(repository: Repository, tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {touched}\n")
    program.chmod(0o755)
    hooks = repository.folder / ".git/hooks"
    for name in ("post-checkout", "pre-upload", "post-upload-pack", "reference-transaction"):
        (hooks / name).write_text(program.read_text())
        (hooks / name).chmod(0o755)
    for key in ("core.fsmonitor", "core.sshCommand", "uploadpack.packObjectsHook", "core.pager"):
        repository.git("config", key, str(program))
    repository.git("config", "filter.x.smudge", str(program))
    repository.commit({".gitattributes": "* filter=x\n"})
    touched.unlink(missing_ok=True)
    assert sources.entries(sources.checkout_of(repository.url))
    assert sources.entries(sources.checkout_of(str(repository.folder)))
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
        "/etc/passwd",
        "a@b:c@--upload-pack=touch",
    ],
)
def test_words_that_git_could_take_for_more(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PlanError):
        sources.checkout_of(source)
    assert not [*Path("/").glob("touched"), *tmp_path.glob("touched")]


def test_a_repository_that_grows(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    (repository.folder / "noise.bin").write_bytes(os.urandom(3 * 2**20))
    commit = repository.commit({})
    with monkeypatch.context() as patched:
        patched.setattr(git, "_MOST_PACK", 2**20)
        with pytest.raises(PlanError, match="git: failed"):
            git.fetch(repository.url, commit)
    with monkeypatch.context() as patched:
        patched.setattr(git, "_MOST_FILES", 3)
        with pytest.raises(PlanError, match="found more than 3 files"):
            git.fetch(repository.url, commit)
    # What failed leaves nothing behind.
    assert not list(git.cache_folder().glob("*/*"))
    assert git.fetch(repository.url, commit).commit == commit


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("recipe_version: '1'\na: &a [x]\nb: *a\n", ":2: found the anchor &a"),
        ("command: " + "[" * 100_000, "levels"),
        ("command: x\ncontainer: " + "1" * 200, "a number of 200 characters"),
        ("command: vllm\n" + "x: y\n" * 300_000, "found more than 1,048,576 bytes"),
        ("command: \0", "found the control character"),
        (RECIPE.replace("{port}", "{port.__class__}"), "command: found {port.__cl"),
        (RECIPE.replace("mods/fix-template", "../../../etc"), "mods[0]: found ../../../etc"),
        (RECIPE.replace("mods/fix-template", "/etc"), "mods[0]: found /etc, a mod that is not"),
        (RECIPE.replace("owner/Model-1B", "$(touch touched)"), "which a shell expands"),
        (RECIPE.replace("--port {port}", "--port `id`; touch x"), "expected one vllm serve line"),
        (RECIPE.replace("-tp", "'"), "found a ' that is not closed"),
        ("command: 'vllm serve a/b " + "-x " * 30_000 + "'", "expected vLLM's long option"),
    ],
    ids=lambda value: value[:20],
)
def test_files_of_a_stranger(repository: Repository, text: str, told: str) -> None:
    (repository.folder / "recipes/small.yaml").write_text(text)
    entry = next(
        each
        for each in sources.entries(sources.checkout_of(str(repository.folder)))
        if each.key == "small"
    )
    with pytest.raises(PlanError) as error:
        load_published(entry.path, entry.part, entry.origin)
    assert any(told in problem for problem in error.value.problems), error.value.problems[:3]


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/etc/passwd", "--replace", "small@x", "a\nb", "", ".", "*"]
)
def test_names_stay_names(repository: Repository, name: str) -> None:
    with pytest.raises(PlanError):
        sources.find(sources.checkout_of(repository.url), name)


def test_a_folder_with_links(repository: Repository, tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "passwd.yaml").symlink_to("/etc/passwd")
    (folder / "other.yaml").symlink_to(repository.folder / "recipes/small.yaml")
    os.mkfifo(folder / "pipe.yaml")
    assert sources.entries(sources.checkout_of(str(folder))) == []


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
