"""Recipes that others publish, fetched by git, and imported into a site."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkwright.cli.new_site import inventory_text, parse_spark, site_files, write_site
from sparkwright.common.errors import PlanError
from sparkwright.declared.recipe.imports import import_recipe
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.declared.recipe.published import sources
from tests.clock import patience
from tests.commands import sparkwright
from tests.component.repository import FILES, RECIPE, Repository


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """What `eugr` stands for."""
    # Of an owner's addresses, none is a file's.
    monkeypatch.setattr(sources, "PROTOCOLS", ("https", "ssh", "file"))
    made = Repository(tmp_path / "theirs")
    monkeypatch.setitem(sources.SOURCES, "eugr", made.url)
    return made


Run = Callable[..., tuple[int, str]]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    inventory = inventory_text([parse_spark("a@192.0.2.1")], "qwen3.6-35b-nvidia", 1)
    write_site(folder, site_files("x", inventory))
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def run(site: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run sparkwright in the site; return its exit status and what it says."""

    def sparkwright_says(*words: str) -> tuple[int, str]:
        status = sparkwright(*words)
        said = capsys.readouterr()
        return status, said.out + said.err

    return sparkwright_says


def test_a_source_is_listed_and_imported(repository: Repository, site: Path, run: Run) -> None:
    status, said = run("recipes", "import", str(repository.folder))
    assert status == 0, said
    assert "taken    small (1 Spark, vLLM 0.33.0)\n" in said
    assert "refused  wrong: recipes/wrong.yaml:10: args.uds: found it set" in said
    assert "for others: 1 another engine" in said
    status, said = run("recipes", "import", str(repository.folder), "small")
    assert status == 0, said
    (mod,) = (site / "files/mods").iterdir()
    assert f"its replica needs: trusts: [mod:{mod.name}@" in said
    assert (mod / "run.sh").read_text() == FILES["mods/fix-template/run.sh"]
    text = (site / "files/recipes/small.yaml").read_text()
    place = f"{repository.folder}, recipes/small.yaml, in a checkout of {repository.head}."
    assert f"source: {place}" in text
    assert "judged_by: 0.33.0" in text
    # It is one of the site's own now.
    status, said = run("recipes", "command", "small")
    assert status == 0, said
    assert "--chat-template fixed.jinja" in said
    status, said = run("recipes", "import", str(repository.folder), "small")
    assert (status, "is there already" in said) == (0, True), said


def test_a_file_that_is_no_yaml_is_named(tmp_path: Path, run: Run) -> None:
    folder = tmp_path / "recipes"
    folder.mkdir()
    (folder / "broken.yaml").write_text("command: [x\nb: 1\n")
    (folder / "other.yaml").write_text("services: {web: {image: x}}\n")
    (folder / "README.md").write_text("vllm serve owner/model --port 8000\n")
    _, said = run("recipes", "import", str(folder))
    assert "refused  broken: broken.yaml:1: found a [ without its ]" in said
    assert "other" not in said.replace("for others", "")


def test_what_is_judged_before_a_file_is_written(
    repository: Repository, site: Path, run: Run
) -> None:
    text = RECIPE.replace("mods: [mods/fix-template]\n", "")
    text = text.replace("owner/Model-1B", "nvidia/Qwen3.6-35B-A3B-NVFP4")
    text = text.replace("example.org/vllm:nightly-20260704", "vllm-node\ncontainer: vllm-node")
    told = "--speculative-config.method mtp --async-scheduling"
    told += " --enable-prefix-caching"
    mtp = text.replace("--chat-template fixed.jinja", told)
    repository.commit(
        {
            "recipes/mtp.yaml": mtp.replace("name: Small", "env: {VLLM_NOBODYS: '1'}"),
            "recipes/unknown.yaml": text.replace("--chat-template", "--nobodys").replace(
                "container: vllm-node\n", "container: vllm/vllm-openai:v0.33.0\n"
            ),
        }
    )
    before = sorted(site.rglob("*"))
    status, said = run("recipes", "import", str(repository.folder), "unknown")
    assert status == 1
    assert "recipes/unknown.yaml:10: args.nobodys: found it, but vLLM 0.33.0 lacks it" in said
    assert sorted(site.rglob("*")) == before
    status, said = run("recipes", "import", str(repository.folder), "mtp")
    assert status == 0, said
    known = [line.removeprefix("  know: ") for line in said.splitlines() if "  know: " in line]
    assert [each.split(" ")[1] for each in known] == ["container:", "env.VLLM_NOBODYS:"]
    assert "recipes/mtp.yaml:6: container: found twice" in known[0]
    assert "judged by vLLM 0.33.0: the names of options" in said


def test_a_recipe_with_another_content_stays(repository: Repository, site: Path, run: Run) -> None:
    words = ("recipes", "import", str(repository.folder), "small")
    assert run(*words)[0] == 0
    old = (site / "files/recipes/small.yaml").read_text()
    repository.commit({"recipes/small.yaml": RECIPE.replace("A small", "Another")})
    status, said = run(*words)
    assert (status, "--replace writes over it" in said) == (1, True)
    assert (site / "files/recipes/small.yaml").read_text() == old
    assert run(*words, "--replace")[0] == 0
    assert "Another model" in (site / "files/recipes/small.yaml").read_text()


def test_a_commit_is_fetched(repository: Repository, site: Path) -> None:
    first = repository.head
    repository.commit({"recipes/small.yaml": RECIPE.replace("fixed", "other")})
    repository.git("tag", "--annotate", "--message=x", "v1", first)
    for source in (f"eugr@{first}", f"{repository.url}@v1"):
        import_recipe(source, "small", replace=True)
        recipe = load_recipe("small")
        assert recipe.args["chat-template"] == "fixed.jinja"
        source = f"{repository.url}, recipes/small.yaml at {first}."
        assert (recipe.source, recipe.judged_by) == (source, "0.33.0")
    import_recipe("eugr@main", "small", replace=True)
    assert load_recipe("small").args["chat-template"] == "other.jinja"


def found(source: str, name: str) -> str:
    with sources.checkout_of(source) as checkout:
        return sources.find(checkout, name).key


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("nowhere", "found nowhere; expected one of arena, eugr, vllm; or a folder"),
        ("{url}@nothing", "found no such commit in the repository; expected a branch, a tag"),
        ("{url}@7a4f0ac", "expected a branch, a tag, or all 40 digits of a commit"),
        ("https://127.0.0.1:9/x", "cannot be reached; expected a network that leads there"),
        ("https://me:secret@127.0.0.1:9/x", "found a login in the address; expected git's"),
    ],
)
def test_what_cannot_be_fetched(repository: Repository, source: str, told: str) -> None:
    with pytest.raises(PlanError) as error:
        found(source.format(url=repository.url), "small")
    assert told in str(error.value)
    assert "secret" not in str(error.value)


def test_a_server_that_never_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # By then git has connected.
    monkeypatch.setattr(sources, "_TIMEOUT", bound := round(patience(3)))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/x"
        with pytest.raises(PlanError, match=rf"git: not done after {bound} s; expected an answer"):
            sources.fetch(url, "HEAD", tmp_path)
        # Nothing of it is left: the connection ends.
        silent.settimeout(patience(10))
        accepted, _ = silent.accept()
        with accepted:
            accepted.settimeout(patience(10))
            while accepted.recv(4096):
                pass


def test_without_git(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(PlanError, match="git: found no such program"):
        sources.fetch(repository.url, "a" * 40, tmp_path)


def test_names_that_mean_more_than_one(repository: Repository) -> None:
    repository.commit({"recipes/4x/small.yaml": RECIPE, "x/deep/one.yaml": RECIPE})
    assert found(repository.url, "small") == "small"
    assert found(repository.url, "4x/small") == "4x/small"
    assert found(repository.url, "one") == "x/deep/one"
    repository.commit({"y/one.yaml": RECIPE})
    with pytest.raises(PlanError, match="found one 2 times; expected one of x/deep/one, y/one"):
        found(repository.url, "one")
    with pytest.raises(PlanError, match="found no recipe smal; did you mean 'small'"):
        found(repository.url, "smal")


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
    with monkeypatch.context() as patched:
        patched.setitem(sources.SOURCES, "eugr", "https://127.0.0.1:9/x")
        with pytest.raises(PlanError, match=r":6: mods\[0\]: found mods/fix-template, a mod that"):
            import_recipe("arena", "small")
    import_recipe("arena", "small")
    names = sorted(path.name.rpartition("-")[0] for path in (site / "files/mods").iterdir())
    assert names == ["fix-template", "mine"]
    assert load_recipe("small").source.endswith(
        f"{theirs.url}, all/small.yaml at {theirs.head}. Mods fix-template: eugr at "
        f"{repository.head}."
    )
