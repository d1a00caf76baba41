"""Group data: what a file gives, and which file decides."""

from pathlib import Path

import pytest

from sparkwright.common.errors import PlanError
from sparkwright.declared.fleet.file import load_fleet
from sparkwright.declared.fleet.fleet import Fleet
from sparkwright.declared.fleet.group_data import gateway_settings, read_file, settings_of_site

FLEET = """\
sparks: {a: {}, b: {local: true}}
replicas:
  chat: {recipe: lab-tiny, sparks: [a]}
  other: {recipe: lab-tiny, sparks: [b]}
gateway: {spark: a}
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "group_data").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fleet(site: Path, name: str = "sparks") -> Fleet:
    path = site / f"{name}.yaml"
    path.write_text(FLEET)
    return load_fleet(path)


def write(site: Path, **files: str) -> None:
    for name, text in files.items():
        (site / f"group_data/{name}.py").write_text(text)


def test_the_more_special_group_decides(site: Path) -> None:
    write(
        site,
        all="swappiness = 1\nmax_body_mib = 1\nmax_connections = 10",
        sparks="swappiness = 2\nmax_body_mib = 2",
        chat="max_body_mib = 3",
        b="swappiness = 4",
        staging="max_connections = 50",
    )
    found = settings_of_site(fleet(site))
    seen = {name: (each.swappiness, each.max_body_mib) for name, each in found.items()}
    assert seen == {"chat": (2, 3), "other": (4, 2)}
    assert found["chat"].max_connections == 10
    # A file of the inventory's own name is for all of its hosts.
    staging = fleet(site, "staging")
    assert settings_of_site(staging)["chat"].max_connections == 50
    assert settings_of_site(staging, {"max_connections": 60})["chat"].max_connections == 60
    write(site, gateway="swappiness = 5", sparks="max_body_mib = 2")
    own = gateway_settings(fleet(site))
    assert (own.swappiness, own.max_body_mib) == (5, 2)


def test_what_a_file_imports_is_no_data(site: Path) -> None:
    write(site, all="import os.path\nfrom pathlib import Path as P\n_sudo = bool(P)\nroot = '/x'\n")
    assert read_file(site / "group_data/all.py") == {"_sudo": True, "root": "/x"}


def test_each_problem_names_its_file(site: Path) -> None:
    write(site, all="swappiness = 'ten'", chat="fabric_mtu = 1.5")
    with pytest.raises(PlanError) as raised:
        settings_of_site(fleet(site))
    assert [each.partition(": found")[0] for each in raised.value.problems] == [
        "group_data/all.py: swappiness",
        "group_data/chat.py: fabric_mtu",
    ]
