"""Recipes that others publish, fetched by git, and imported into a site."""

import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sparkwright.common.errors import PlanError
from sparkwright.inventory.groups import load
from sparkwright.recipe.imports import import_recipe
from sparkwright.recipe.loader import load_recipe
from sparkwright.recipe.published import git, sources
from sparkwright.recipe.trust import needs
from sparkwright.release.lock import CheckpointLock, ImageLock, Lock, LockedFile, checkpoint_key
from sparkwright.release.release import Ranks, make_release
from sparkwright.site.site import NewSpark, inventory_text, site_files, write_site
from tests.clock import patience
from tests.component.repository import FILES, RECIPE, Repository

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """What `eugr` stands for."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = Repository(tmp_path / "theirs")
    monkeypatch.setitem(sources.SOURCES, "eugr", made.url)
    return made


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    inventory = inventory_text([NewSpark("192.0.2.1", "a")], "qwen3.6-35b-nvidia", False)
    write_site(folder, site_files("x", inventory))
    return folder


def run(site: Path, *words: str) -> tuple[int, str]:
    """Run sparkwright in a site; return its exit status and what it says."""
    done = subprocess.run(
        [sys.executable, "-m", "sparkwright", *words],
        cwd=site,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(PROJECT), "HOME": str(site.parent)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=patience(60),
        check=False,
    )
    assert "Traceback" not in done.stdout
    return done.returncode, done.stdout


def locked(name: str) -> str:
    """Return the id of the release that a recipe becomes."""
    recipe = load_recipe(name)
    checkpoints = {
        checkpoint_key(each): CheckpointLock(
            repo=each.repo,
            revision=each.revision,
            commit="c" * 40,
            files={"config.json": LockedFile(size=1, git="b" * 40)},
        )
        for each in recipe.checkpoints.values()
    }
    image = ImageLock(digest="sha256:" + "d" * 64, config="sha256:" + "f" * 64, size=1)
    lock = Lock(images={recipe.base_image: image}, checkpoints=checkpoints)
    return make_release(recipe, lock, root="/opt/x", ranks=Ranks(("a",))).id


def test_a_recipe_by_its_source_and_commit(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"eugr:small@{repository.head}"
    recipe = load_recipe(name)
    assert (recipe.name, recipe.args["chat-template"]) == ("small", "fixed.jinja")
    source = f"{repository.url}, recipes/small.yaml at {repository.head}."
    assert (recipe.source, recipe.judged_by) == (source, "0.24.0")
    words = [need.name for need in needs(recipe)]
    assert any(word.startswith("mod:fix-template@") for word in words)
    # The tag's day counts, not the commit's.
    first = locked(name)
    # Nothing of the cache's place is in it, and nothing of a later commit.
    repository.commit({"recipes/small.yaml": RECIPE.replace("fixed", "other")})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    assert locked(name) == first
    # With the cache there, nothing else is needed.
    shutil.rmtree(repository.folder)
    assert locked(name) == first
    with pytest.raises(PlanError, match="git: "):
        load_recipe(f"eugr:small@{'a' * 40}")


def test_a_problem_names_the_line_in_the_fetched_file(repository: Repository) -> None:
    with pytest.raises(PlanError) as error:
        load_recipe(f"eugr:wrong@{repository.head}")
    (problem,) = error.value.problems
    assert problem.endswith(": args.uds: found it set; expected it left out: Sparkwright sets it")
    file, line, _ = problem.split(":", 2)
    assert Path(file).read_text().splitlines()[int(line) - 1].strip() == "--uds /run/x \\"


def test_a_recipe_of_a_source_in_the_inventory(repository: Repository, tmp_path: Path) -> None:
    inventory = tmp_path / "inventory/sparks.yaml"
    inventory.parent.mkdir()
    text = "sparks: {a: {ssh_hostname: 192.0.2.1}}\nreplicas:\n  x: {recipe: '%s', sparks: [a]%s}\n"
    name = f"eugr:small@{repository.head}"
    words = ", ".join(need.name for need in needs(load_recipe(name)))
    inventory.write_text(text % (name, f", trusts: [{words}]"))
    ((_, data),) = load(inventory)["x"]
    assert data["recipe"] == name
    inventory.write_text(text % (name, ""))
    with pytest.raises(PlanError, match=r"image.mods"):
        load(inventory)
    for wrong in ("eugr:small", "eugr:small@main", "eugr:small@7a4f0ac"):
        inventory.write_text(text % (wrong, ""))
        with pytest.raises(PlanError) as error:
            load(inventory)
        assert f"`git ls-remote {repository.url} HEAD` prints the current one" in str(error.value)


def test_a_source_is_listed_and_imported(repository: Repository, site: Path) -> None:
    status, said = run(site, "recipes", "import", str(repository.folder))
    assert status == 0, said
    assert "taken    small (1 Spark, near vLLM 0.24.0)\n" in said
    assert "refused  wrong: recipes/wrong.yaml:10: args.uds: found it set" in said
    assert "for others: 1 another engine" in said
    status, said = run(site, "recipes", "import", f"{repository.url}@{repository.head}", "small")
    assert status == 0, said
    (mod,) = (site / "files/mods").iterdir()
    assert f"its replica needs: trusts: [mod:{mod.name}@" in said
    assert (mod / "run.sh").read_text() == FILES["mods/fix-template/run.sh"]
    text = (site / "files/recipes/small.yaml").read_text()
    assert f"source: {repository.url}, recipes/small.yaml at {repository.head}." in text
    assert "judged_by: 0.24.0" in text
    # It is one of the site's own now.
    status, said = run(site, "recipes", "command", "small")
    assert status == 0, said
    assert "--chat-template fixed.jinja" in said
    status, said = run(site, "recipes", "import", repository.url, "small")
    assert (status, "is there already" in said) == (0, True), said


def test_a_file_that_is_no_yaml_is_named(site: Path, tmp_path: Path) -> None:
    folder = tmp_path / "recipes"
    folder.mkdir()
    (folder / "broken.yaml").write_text("name: [x\nb: 1\n")
    (folder / "other.yaml").write_text("services: {web: {image: x}}\n")
    (folder / "README.md").write_text("vllm serve owner/model --port 8000\n")
    _, said = run(site, "recipes", "import", str(folder))
    assert "refused  broken: broken.yaml:1: found a [ without its ]" in said
    assert "other" not in said.replace("for others", "")


def test_a_recipe_with_another_content_stays(repository: Repository, site: Path) -> None:
    assert run(site, "recipes", "import", repository.url, "small")[0] == 0
    old = (site / "files/recipes/small.yaml").read_text()
    repository.commit({"recipes/small.yaml": RECIPE.replace("A small", "Another")})
    status, said = run(site, "recipes", "import", repository.url, "small")
    assert (status, "--replace writes over it" in said) == (1, True)
    assert (site / "files/recipes/small.yaml").read_text() == old
    assert run(site, "recipes", "import", repository.url, "small", "--replace")[0] == 0
    assert "Another model" in (site / "files/recipes/small.yaml").read_text()


def test_a_folder_that_was_changed_since_its_commit(repository: Repository) -> None:
    before = sources.find(sources.checkout_of(str(repository.folder)), "small")
    assert before.origin.source.endswith(f" at {repository.head}.")
    (repository.folder / "recipes/small.yaml").write_text(RECIPE.replace("A small", "My"))
    after = sources.find(sources.checkout_of(str(repository.folder)), "small")
    assert after.origin.source.endswith(f", changed since {repository.head}.")
    assert sources.checkout_of(f"{repository.url}@main").commit == repository.head


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("nowhere", "found nowhere; expected one of arena, eugr, nvidia, playbooks, vllm; or a"),
        ("{url}@{a}", "found no such commit in the repository"),
        ("{url}@nothing", "found no branch or tag nothing"),
        ("{url}@7a4f0ac", "found the short commit 7a4f0ac; expected all of its 40 digits"),
        ("file:///none", "found no repository of git"),
        ("https://127.0.0.1:9/x", "cannot be reached; expected a network that leads there"),
        ("https://me:secret@127.0.0.1:9/x", "found an address with a password or token in it"),
    ],
)
def test_what_cannot_be_fetched(repository: Repository, source: str, told: str) -> None:
    with pytest.raises(PlanError) as error:
        sources.checkout_of(source.format(url=repository.url, a="a" * 40))
    assert told in str(error.value)
    assert "secret" not in str(error.value)


def test_a_server_that_never_answers(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git, "_TIMEOUT", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/x"
        with pytest.raises(PlanError, match=r"git: not done after 0.5 s; expected an answer"):
            git.resolve(url)
        # Nothing of it is left: the connection ends.
        accepted, _ = silent.accept()
        with accepted:
            accepted.settimeout(patience(10))
            while accepted.recv(4096):
                pass


def test_without_git(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(PlanError, match="git: found no such program"):
        git.fetch(repository.url, "a" * 40)


def test_names_that_mean_more_than_one(repository: Repository) -> None:
    commit = repository.commit({"recipes/4x/small.yaml": RECIPE, "x/deep/one.yaml": RECIPE})
    checkout = sources.checkout_of(f"{repository.url}@{commit}")
    assert sources.find(checkout, "small").key == "small"
    assert sources.find(checkout, "4x/small").key == "4x/small"
    assert sources.find(checkout, "one").key == "x/deep/one"
    repository.commit({"y/one.yaml": RECIPE})
    with pytest.raises(PlanError, match="found one 2 times; expected one of x/deep/one, y/one"):
        sources.find(sources.checkout_of(repository.url), "one")
    with pytest.raises(PlanError, match="found no recipe smal; did you mean 'small'"):
        sources.find(checkout, "smal")


def test_what_is_kept_says_where_it_is_from(repository: Repository) -> None:
    fetched = git.fetch(repository.url, repository.head)
    about = json.loads((fetched.root.parent / "about.json").read_text())
    assert about == {"url": repository.url, "commit": repository.head, "day": "2026-06-13"}
    # A page beside recipes describes these.
    keys = [entry.key for entry in sources.entries(sources.checkout_of(repository.url))]
    assert keys == ["other", "small", "wrong"]


def test_mods_that_a_registry_lacks_are_those_of_spark_vllm_docker(
    repository: Repository, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = {
        ".sparkrun/registry.yaml": "registries: [{name: a, recipes: all, mods: own/mods}]\n",
        "all/small.yaml": RECIPE.replace("fix-template]", "fix-template, '@a/mine']"),
        "own/mods/mine/run.sh": "#!/bin/bash\nset -e\ntouch /opt/mine\n",
    }
    theirs = Repository(tmp_path / "registry", registry)
    monkeypatch.setitem(sources.SOURCES, "arena", theirs.url)
    with pytest.raises(PlanError) as error:
        load_recipe(f"arena:small@{theirs.head}")
    assert ":6: mods[0]: found mods/fix-template, a mod that is not at hand" in str(error.value)
    monkeypatch.chdir(site)
    imported = import_recipe("arena", "small")
    names = sorted(path.name.rpartition("-")[0] for path in (site / "files/mods").iterdir())
    assert names == ["fix-template", "mine"]
    assert imported.recipe.source.endswith(
        f"{theirs.url}, all/small.yaml at {theirs.head}. Mods fix-template: eugr at "
        f"{repository.head}."
    )
