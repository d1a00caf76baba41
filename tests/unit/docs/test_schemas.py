"""The schemas for editors: they take each file that is shipped, and refuse what readers refuse."""

import json
import re
import tomllib
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest
from fastjsonschema import JsonSchemaValueException

from sparkwright.cli.new_site import inventory_text, site_files
from sparkwright.common import yaml
from sparkwright.declared.fleet.fleet import Spark
from sparkwright.declared.recipe.loader import RECIPES
from sparkwright.plan.release.lock import read_lock, write_lock
from tests.docs.schemas import FOLDER, SCHEMAS, text
from tests.makers.door import KEY, keys_text
from tests.makers.recipe import good
from tests.makers.release import lock
from tests.unit.docs.pages import PROJECT

EXAMPLES = sorted((PROJECT / "inventory/examples").glob("*.yaml"))


@cache
def _schema(name: str) -> Callable[[object], object]:
    made: Callable[[object], object] = fastjsonschema.compile(
        json.loads((FOLDER / f"{name}.json").read_text())
    )
    return made


def _read(content: str) -> Any:
    """Return what an editor sees, to which every key is text."""
    return json.loads(json.dumps(yaml.parse(content, "a file")))


def _said(name: str, data: object) -> str:
    try:
        _schema(name)(data)
    except JsonSchemaValueException as error:
        return str(error)
    return ""


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.stem)
def test_a_schema_is_as_the_models_make_it(path: Path) -> None:
    assert path.read_text() == text(SCHEMAS[path]()), "made by: python -m tests.docs"


def test_an_editor_shows_the_words_of_the_reference_pages() -> None:
    for name, page in (("inventory", "inventory.md"), ("recipe", "recipe-keys.md")):
        content = (FOLDER / f"{name}.json").read_text()
        rows = re.findall(
            r"^\| `\w+` \| (.+) \| .*\|$", (FOLDER.parent / page).read_text(), re.MULTILINE
        )
        assert len(rows) > 12
        said = {json.dumps(row.replace("\\|", "|"), ensure_ascii=False)[1:-1] for row in rows}
        assert [each for each in said if each not in content and each != "see above"] == []


@pytest.mark.parametrize(
    ("folder", "written", "name"),
    [
        ("inventory", inventory_text([Spark(local=True)], "a", 1), "inventory"),
        ("files/recipes", site_files("x", "")["files/recipes/README.md"], "recipe"),
    ],
)
def test_a_first_line_leads_to_where_the_package_installs_it(
    folder: str, written: str, name: str
) -> None:
    (place,) = re.findall(r"^ *# yaml-language-server: \$schema=(\S+)$", written, re.MULTILINE)
    wheel = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    shared = wheel["targets"]["wheel"]["shared-data"][str(FOLDER.relative_to(PROJECT))]
    installed = (Path("/site/.venv") / shared / f"{name}.json").resolve()
    assert (Path("/site") / folder / place).resolve() == installed
    assert (FOLDER / installed.name).exists()


SHIPPED = [
    *(pytest.param("inventory", path, id=path.name) for path in EXAMPLES),
    *(pytest.param("recipe", path, id=path.name) for path in sorted(RECIPES.glob("*.yaml"))),
]


@pytest.mark.parametrize(("name", "path"), SHIPPED)
def test_a_file_that_is_shipped_is_taken(name: str, path: Path) -> None:
    assert _said(name, _read(path.read_text())) == ""


def test_a_file_that_a_command_writes_is_taken(tmp_path: Path) -> None:
    sparks = [Spark(local=True), Spark(ssh_hostname="fe80::1%eth0", ssh_user="me", ssh_port=2222)]
    written = inventory_text(sparks, "qwen3.6-35b-nvidia", 2)
    assert _said("inventory", _read(written)) == ""
    write_lock(tmp_path / "sparks.lock.yaml", lock())
    assert read_lock(tmp_path / "sparks.lock.yaml") == lock()
    assert _said("lock", _read((tmp_path / "sparks.lock.yaml").read_text())) == ""
    keys = keys_text(f"owner {KEY}", f"ann {KEY}1 places: [chat, gateway], until: 2099-12-31")
    assert _said("keys", _read(keys)) == ""
    variant = "extends: a\ndescription: b\nsource: c\nproven: d\nargs: {max-model-len: null}\n"
    assert _said("recipe", _read(f"{variant}by_sparks: {{2: {{env: {{A: b}}}}}}\n")) == ""


REPLICA = "sparks: {{a: {{}}}}\nreplicas:\n  {}\n"


def _inventories() -> Iterable[str]:
    yield from (
        "{}",
        "sparks: {}",
        "sparks: {a: {}}\nreplica: {}\n",
        *(
            f"sparks: {{a: {{{key}}}}}"
            for key in (
                *("ssh_hostnam: x", "ssh_port: 65536", "ssh_port: '22'", "hardware: gb1"),
                *("local: yes", "ssh_user: me@x", "ssh_hostname: n@1.2.3.4", "ssh_password: x"),
                *("ssh_hostname: 'ssh://x'", "ssh_hostname: '[::1]'", "ssh_hostname: 1.2.3.4/24"),
                *("ssh_hostname: -oProxyCommand=x", "ssh_strict_host_key_checking: no"),
            )
        ),
        "sparks: {Spark A: {}}",
        *(
            REPLICA.format(line)
            for line in (
                "x: {recipe: chatty, sparks: []}",
                "x: {recipe: chatty, sparks: [a, b, c, d, e]}",
                "x: {recipe: chatty}",
                "x: {recipe: chatty, sparks: [a], api_key: x}",
                "x: {recipe: chatty, sparks: [a], prot: 1}",
                "x;id: {recipe: chatty, sparks: [a]}",
            )
        ),
        "sparks: {a: {}}\ngateway: {spark: a, port: 80}\n",
        "sparks: {a: {}}\nsource: {bundle: b, sha256: 12}\n",
        "sparks: {a: {}}\nkeys_command: pass show x\n",
    )


@pytest.mark.parametrize("content", [*_inventories()])
def test_an_inventory_that_cannot_be_is_refused(content: str) -> None:
    assert _said("inventory", _read(content))


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "x"},
        {"descripton": "x"},
        {"hardware": ["gb11"]},
        {"sparks": [5]},
        {"vllm": 0.33},
        *({"image": image} for image in ("example.org/vllm", "example.org/vllm:1 --privileged")),
        *({"image": image} for image in ({"build": "a"}, {"build": "../a", "base": "a/b:1"})),
        {"image": {"base": "a/b:1", "mods": []}},
        {"checkpoints": {"model": {"repo": "a/b/c", "folder": "f"}}},
        {"checkpoints": {"model": {"repo": "a/b", "folder": "../etc"}}},
        {"checkpoints": {"model": {"repo": "a/b", "folder": "f", "files": []}}},
        {"served_names": []},
        {"start_timeout": 0},
        *({"env": env} for env in ({"A": 1}, {"A": "x\nB=y"}, {"A=B": "x"})),
        *({"args": args} for args in ({"port": 1}, {"--dtype": "auto"}, {"max_model_len": 9})),
        *({"args": args} for args in ({"dtype": "--port"}, {"dtype": []}, {"dtype": [{}]})),
        {"by_sparks": {"1": {"arg": {}}}},
        {"expected": {"short": {"tok_s": "x"}}},
        {"expected": {"short": {"tok_s": -1}}},
        {"judged_by": "main"},
        {"answers": "songs"},
        {"extends": 3},
        {"source": None},
    ],
    ids=str,
)
def test_a_recipe_that_cannot_be_is_refused(changes: dict[str, object]) -> None:
    assert _said("recipe", good()) == ""
    assert _said("recipe", good() | changes)


@pytest.mark.parametrize("key", ["image", "source"])
def test_only_a_variant_takes_keys_over(key: str) -> None:
    cut = {name: each for name, each in good().items() if name != key}
    assert key in _said("recipe", cut)
    assert bool(_said("recipe", cut | {"extends": "a"})) == (key == "source")


@pytest.mark.parametrize(
    "keys",
    [
        f"owner {KEY}\n",
        f"keys: [{KEY}]\n",
        keys_text("a sk-1234567890123456"),
        keys_text(f"{KEY}+ {KEY}"),
        keys_text(f"a {KEY}é"),
        keys_text(f"a {KEY} place: [chat]"),
        *(keys_text(f"a {KEY} until: '{day}'") for day in ("31.12.2027", "2027/12/31", "2027-1-5")),
    ],
)
def test_keys_that_cannot_be_are_refused(keys: str) -> None:
    assert _said("keys", _read(keys))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("files", {path: {"size": 1}}) for path in ("/etc/passwd", "../x", "a/../../x", "")),
        *(("commit", it) for it in ("main", "C" * 40, "c" * 39)),
        *(("date", day) for day in ("19 April", "")),
        ("files", {}),
        ("shape", {"hidden": "many"}),
        ("new", 1),
    ],
)
def test_a_lock_that_cannot_be_is_refused(key: str, value: object) -> None:
    data = lock().model_dump(exclude_none=True)
    assert _said("lock", data) == ""
    data["checkpoints"]["owner/model@main"][key] = value
    assert _said("lock", data)
