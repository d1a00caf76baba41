"""Examples of inventories and recipes in the pages load; the README is short."""

import re
from pathlib import Path

import pytest
import yaml

from sparkwright.declared.fleet.file import load_fleet
from sparkwright.declared.recipe.loader import load_recipe
from tests.unit.docs.pages import PAGES, PROJECT, fences

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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_no_page_shows_a_line_that_needs_a_release(page: Path) -> None:
    # With the first release on PyPI these lines work: pages may then have them, and this test goes.
    lines = [
        line for each in fences(page.read_text(), "", "bash", "sh") for line in each.splitlines()
    ]
    assert [
        line for line in lines if re.match(r"uvx sparkwright|pip install '?sparkwright", line)
    ] == []


def test_the_readme_is_short() -> None:
    assert len((PROJECT / "README.md").read_text().splitlines()) <= 110
