"""All that the product imports of others is declared where it is installed from; so is the SBOM."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Sequence
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

PROJECT = Path(__file__).parents[2]
FILES, LIBRARY = PROJECT / "files", PROJECT / "sparkwright"
PYPROJECT = tomllib.loads((PROJECT / "pyproject.toml").read_text())
DECLARED, BUILD = PYPROJECT["project"], PYPROJECT["build-system"]["requires"]
HERE = DECLARED["dependencies"]
# Who verifies has these as well: no other part of the product may need them.
VERIFY = [*HERE, *DECLARED["optional-dependencies"]["verify"]]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _pinned(lines: Iterable[str]) -> dict[str, str]:
    """Return the version of each distribution that these lines pin."""
    pins = (re.match(r"([A-Za-z0-9._-]+)==([^ ;\\]+)", line) for line in lines)
    return {_normal(pin[1]): pin[2] for pin in pins if pin}


def _named(lines: Iterable[str]) -> list[str]:
    """Return the distributions that these requirements name."""
    found = (re.match(r"([A-Za-z0-9._-]+) ?[=<>]", line) for line in lines)
    return [each[1] for each in found if each]


def _imported(paths: list[Path]) -> set[str]:
    """Return the modules of others that these programs name in an import."""
    names = set()
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module)
    own = {"deploys", "host", "sparkwright"}
    return {name.partition(".")[0] for name in names} - own - sys.stdlib_module_names


def _programs(*folders: Path) -> list[Path]:
    return [path for folder in folders for path in folder.rglob("*.py")]


HOST = FILES / "host"
# These have packages of their own: an environment, or an image's.
_OWN = (
    HOST / "insight/benchmark",
    HOST / "door/gateway",
    HOST / "artifacts/weights",
    FILES / "images",
)


@pytest.mark.parametrize(
    ("paths", "declared"),
    [
        (
            [
                *_programs(PROJECT / "deploys"),
                *(path for path in _programs(LIBRARY) if LIBRARY / "verify" not in path.parents),
                *(PROJECT / name for name in ("config.py", "inventory.py")),
            ],
            HERE,
        ),
        ([PROJECT / "hatch_build.py"], BUILD),
        (_programs(LIBRARY / "verify"), VERIFY),
        *(
            (_programs(HOST / name), (HOST / name / "requirements.txt").read_text().split())
            for name in ("artifacts/weights", "door/gateway")
        ),
        (_programs(HOST / "insight/benchmark"), ["vllm==the image's"]),
        ([path for path in _programs(FILES) if not set(path.parents) & set(_OWN)], []),
    ],
    ids=["here", "build", "verify", "jobs", "gateway", "benchmark", "python alone"],
)
def test_every_import_is_declared(paths: list[Path], declared: Sequence[str]) -> None:
    assert paths
    names = packages_distributions()
    wanted = {_normal(each): name for name in _imported(paths) for each in names.get(name, [name])}
    assert wanted.keys() - set(map(_normal, _named(declared))) == set()


def test_the_lock_has_what_is_declared() -> None:
    locked = _pinned((PROJECT / "requirements.lock").read_text().splitlines())
    for each in map(Requirement, VERIFY):
        assert each.specifier.contains(locked[_normal(each.name)]), each


def test_every_list_of_packages_of_the_product_is_in_it() -> None:
    makefile = (PROJECT / "Makefile").read_text().replace("\\\n", "")
    named = re.search(r"^SBOM_OF := (.*)$", makefile, re.MULTILINE)
    assert named
    lists = [*PROJECT.glob("requirements.lock"), *(PROJECT / "files").rglob("requirements*.txt")]
    assert sorted(named[1].split()) == sorted(str(path.relative_to(PROJECT)) for path in lists)
