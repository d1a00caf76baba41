"""What pages name exists, examples load, and reference pages are as the code makes them."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from sparkwright.declared.fleet.file import load_fleet
from sparkwright.declared.recipe.loader import load_recipe
from tests.docs.reference import PAGES as MADE
from tests.docs.reference import filled
from tests.unit.docs.pages import DOCS, PAGES, PROJECT, anchors, fences, prose

_LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)")
# What a program says of a page.
_NAMED = re.compile(r"\bdocs/[a-z-]+\.md(?:#[\w-]+)?")
_FOLDERS = ("tests/", "sparkwright/", "files/", "group_data/", "inventory/examples/")
# What owners make.
_MADE = ("group_data/sparks.py", "group_data/staging.py")
# A word in the place of a name.
_PLACE = re.compile(r"\b[A-Z]{2,}\b(?!\.md)")

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))


@each_page
def test_every_link_within_the_project_leads_somewhere(page: Path) -> None:
    lost = []
    for path, anchor in _LINK.findall(prose(page.read_text())):
        if not _is_there((page.parent / path).resolve() if path else page, anchor):
            lost.append(f"{path}#{anchor}")
    assert lost == []


@each_page
def test_what_a_page_tells_to_run_exists(page: Path) -> None:
    text = page.read_text()
    missing = [name for name in re.findall(r"python -m ([a-z][\w.]*\w)", text) if not _module(name)]
    missing += [
        name
        for name in re.findall(r"(?:^|`|\$ )(?:… )?make ([a-z][a-z-]+)", text, re.MULTILINE)
        if not re.search(rf"^[^#\t\n=]*\b{name}\b[^=\n]*:(?!=)", MAKEFILE, re.MULTILINE)
    ]
    assert missing == []


MAKEFILE = (PROJECT / "Makefile").read_text()


def _module(name: str) -> bool:
    path = PROJECT / name.replace(".", "/")
    return name in ("pytest", "venv") or path.with_suffix(".py").exists() or path.is_dir()


@each_page
def test_the_files_that_a_page_names_exist(page: Path) -> None:
    # What is made from the code says what the code says.
    text = re.sub(r"<!-- made by .*<!-- end -->", "", page.read_text(), flags=re.DOTALL)
    named = re.findall(r"`((?:[\w.-]+/)+[\w.*-]+)`", text)
    ours = [name for name in named if name.startswith(_FOLDERS) and not _PLACE.search(name)]
    ours += re.findall(r"\bdeploys/[a-z_]+\.py\b", text)
    assert [name for name in ours if name not in _MADE and not [*PROJECT.glob(name)]] == []


def test_every_page_that_a_program_names_exists() -> None:
    files = [
        path
        for folder in ("sparkwright", "files/host", "deploys", "group_data", "inventory")
        for path in (PROJECT / folder).rglob("*")
        if path.suffix in (".py", ".cfg", ".yml", ".yaml", ".j2")
    ]
    named = {name for path in files for name in _NAMED.findall(path.read_text())}
    # AEON-7's repository and sparky-cluster have folders of this name, too.
    foreign = {"docs/openclaw.md", "docs/driver-610.md", "docs/profile-tuning.md"}
    assert "docs/recipes.md" in named
    parts = {name: name.partition("#") for name in named - foreign}
    assert [name for name, it in parts.items() if not _is_there(PROJECT / it[0], it[2])] == []


def _is_there(page: Path, anchor: str) -> bool:
    return page.is_file() and (not anchor or anchor in anchors(page.read_text()))


def test_the_map_links_to_every_page_and_the_readme_to_the_map() -> None:
    top, below = PROJECT / "README.md", DOCS / "README.md"
    linked = {(DOCS / path).resolve() for path, _ in _LINK.findall(below.read_text())}
    assert set(PAGES) - linked == {top, below}
    assert "](docs/README.md)" in top.read_text()


class _Loader(yaml.SafeLoader):
    """Reads mkdocs.yml, whose tags name functions of mkdocs' environment."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, name, node: name)


def _entries(nav: object) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, list | dict):
        for each in nav.values() if isinstance(nav, dict) else nav:
            yield from _entries(each)


def test_the_site_has_every_page() -> None:
    nav = [*_entries(yaml.load((PROJECT / "mkdocs.yml").read_text(), _Loader)["nav"])]
    root = {"index.md", "pages.md", "changelog.md", "contributing.md", "security-policy.md"}
    assert len(nav) == len(set(nav))
    # GitHub's map of the pages is pages.md.
    pages = set(DOCS.rglob("*.md")) - {DOCS / "README.md"}
    assert set(nav) == {str(page.relative_to(DOCS)) for page in pages} | root


def test_the_lock_of_the_site_has_what_is_declared() -> None:
    declared = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    lock = (PROJECT / "requirements-docs.lock").read_text()
    wanted = declared["optional-dependencies"]["docs"]
    assert wanted
    assert [each for each in wanted if f"\n{each} \\\n" not in lock] == []
    assert "://" not in lock


BLOCKS = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in PAGES
    for number, block in enumerate(fences(page.read_text(), "yaml"))
]
# An example that shows replicas alone is about these Sparks.
_SPARKS = (
    "sparks:\n  spark-a: {ssh_hostname: 192.168.1.20}\n  spark-b: {ssh_hostname: 192.168.1.21}\n"
)


@pytest.mark.parametrize("block", BLOCKS)
def test_a_yaml_example_is_valid(block: str, tmp_path: Path) -> None:
    text = re.sub(r"\A(#.*\n)+", "", block)
    path = tmp_path / "example.yaml"
    if text.startswith(("sparks:", "replicas:")):
        text = re.sub(r"\.\./theirs/\S+?\.yaml", "qwen3.6-35b-nvidia", text)
        path.write_text(text if text.startswith("sparks:") else _SPARKS + text)
        assert load_fleet(path).replicas
    elif text.startswith(("description:", "extends:")) and "…" not in text:
        path.write_text(text)
        assert load_recipe(str(path)).served_names
    else:
        assert isinstance(yaml.safe_load(text), dict)


@each_page
def test_no_page_shows_a_line_that_needs_a_release(page: Path) -> None:
    # With the first release on PyPI these lines work: pages may then have them, and this test goes.
    lines = [
        line for each in fences(page.read_text(), "", "bash", "sh") for line in each.splitlines()
    ]
    assert [
        line for line in lines if re.match(r"uvx sparkwright|pip install '?sparkwright", line)
    ] == []


@pytest.mark.parametrize("page", MADE, ids=lambda page: page.name)
def test_a_page_is_as_the_code_makes_it(page: Path) -> None:
    text = page.read_text()
    assert text == filled(text, MADE[page]()), "made by: python -m tests.docs"
