"""Settings: what group data may say, one sentence for each thing that cannot be."""

import runpy
from pathlib import Path
from typing import Any

import pytest

from sparkwright.declared.fleet.file import load_fleet
from sparkwright.declared.fleet.fleet import Fleet
from sparkwright.declared.fleet.group_data import gateway_settings, read_file, settings_of_site
from sparkwright.declared.fleet.settings import Settings, read_settings, settings_of
from tests import group_data
from tests.makers.refused import refused

HERE = "group_data/chat.py"


def problems(**values: Any) -> list[str]:
    return [each.removeprefix(f"{HERE}: ") for each in refused(read_settings, values, HERE)]


def test_the_file_for_owners_is_what_the_model_says() -> None:
    assert group_data.FILE.read_text() == group_data.text()
    said = runpy.run_path(str(group_data.FILE))
    values = {name: value for name, value in said.items() if not name.startswith("_")}
    assert list(values) == list(Settings.model_fields)
    assert read_settings(values, "all") == Settings()


def test_each_setting_says_what_it_expects() -> None:
    """A value of another type brings its own words, not pydantic's."""
    wrong = {name: object() for name in Settings.model_fields}
    said = problems(**wrong)
    assert [each.partition(":")[0] for each in said] == list(wrong)
    for name, each in zip(wrong, said, strict=True):
        assert Settings.model_fields[name].description, name
        assert each.endswith(f"; expected {Settings.model_fields[name].description}")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("disk_headroom_gib", float("nan"), "found nan; expected GiB, such as 20"),
        ("root", "/opt/my models", "found '/opt/my models'; expected a path such as /opt/qwen36"),
        ("root", "/opt/x:/etc", "found '/opt/x:/etc'; expected a path"),
        ("bind", "localhost", "found 'localhost'; expected an address, such as 0.0.0.0"),
        ("hf_endpoint", "huggingface.co", "found 'huggingface.co'; expected a URL, such as"),
        ("proxy", "http://proxy.lan:99999", "found 'http://proxy.lan:99999'; expected the addre"),
        ("proxy", "http://proxy.lan:3128/x", "found 'http://proxy.lan:3128/x'; expected the ad"),
        ("proxy", "http://me:word@proxy.lan:3128", "found 'http://***@proxy.lan:3128'; expected n"),
        ("registry_mirrors", {"ghcr.io": "https://h"}, "found 'https://h'; expected a registry w"),
        ("registry_mirrors", {"a/b": "h.lan"}, "found 'a/b'; expected the name of a registry in"),
        ("hold_system", "no", "found 'no'; expected True or False"),
        ("journal_max_use", "2 GB", "found '2 GB'; expected a size such as \"2G\""),
        ("earlyoom_arguments", 'a"b', "found 'a\"b'; expected text on one line, without double"),
        ("firewall_from", "192.168.1.0/24", "found '192.168.1.0/24'; expected networks, such as"),
        ("fabric_subnets", ("10.0.0.0/24",), "found nothing; expected two IPv4 subnets"),
        ("fabric_subnets", ("10.0.0.0/8", "10.1.0.0/24"), "found ('10.0.0.0/8', '10.1.0.0/24'); e"),
        *(
            (f"{name}[1]", (good, bad), f"found {bad!r}; expected {expected}")
            for name, good, bad, expected in (
                (
                    "firewall_from",
                    "10.0.0.5",
                    "10.0.0.2/24",
                    "a network or an address, such as 192",
                ),
                ("tls_names", "a.lan", "http://llm.lan", "a host name or an address"),
                ("model_folders", "/mnt", "/mnt/../etc", "an absolute path without '..', such as"),
                ("model_folders", "/mnt", "/mnt/a b", "an absolute path without '..', such as /m"),
            )
        ),
        *(
            ("fabric_subnets[0]", (subnet, "192.168.9.0/24"), f"found {subnet!r}; expected {what}")
            for subnet, what in (
                ("10.0.0.1/24", "a subnet such as 192.168.100.0/24 (10.0.0.1/24 has host bits set"),
                ("10.0.0.0/29", "room for host 12, as in a /24"),
                ("127.0.0.0/24", "private addresses, such as 192.168.100.0/24"),
            )
        ),
        ("drain_secods", 100, "found an unknown key; did you mean 'drain_seconds'? "),
    ],
)
def test_what_cannot_be_is_refused(name: str, value: object, expected: str) -> None:
    (problem,) = problems(**{name.partition("[")[0]: value})
    where, _, said = problem.partition(": ")
    assert where.startswith(name)
    assert said.startswith(expected)


def test_what_the_command_line_and_pyinfra_write_as_json_is_the_same() -> None:
    subnets = ["10.0.0.0/24", "10.0.1.0/24"]
    given = {"firewall_from": ["10.0.0.7/32", "fd00::/8"], "fabric_subnets": subnets}
    settings = read_settings(given, "--data")
    assert settings.firewall_from == ("10.0.0.7", "fd00::/8")
    assert settings.fabric_subnets == ("10.0.0.0/24", "10.0.1.0/24")


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"tls_certificate": "a"}, "tls_certificate: found it without tls_key; expected both"),
        ({"tls_key": "a"}, "tls_key: found it without tls_certificate; expected both"),
        ({"no_proxy": ("hub.lan",)}, "no_proxy: found it without proxy; expected both, or neither"),
        (
            {"tls": "own", "tls_certificate": "a", "tls_key": "b"},
            'tls: found "own" beside tls_certificate or tls_key; expected one of the two',
        ),
    ],
)
def test_settings_that_contradict_each_other_name_their_file(
    values: dict[str, object], problem: str
) -> None:
    assert read_settings(values, HERE)
    found = refused(settings_of, values, lambda name: f"{name}'s file")
    assert found == (f"{problem.partition(':')[0]}'s file: {problem}",)


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


def declared(site: Path, name: str = "sparks") -> Fleet:
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
    found = settings_of_site(declared(site))
    seen = {name: (each.swappiness, each.max_body_mib) for name, each in found.items()}
    assert seen == {"chat": (2, 3), "other": (4, 2)}
    assert found["chat"].max_connections == 10
    # A file of the inventory's own name is for all of its hosts.
    staging = declared(site, "staging")
    assert settings_of_site(staging)["chat"].max_connections == 50
    assert settings_of_site(staging, {"max_connections": 60})["chat"].max_connections == 60
    write(site, gateway="swappiness = 5", sparks="max_body_mib = 2")
    own = gateway_settings(declared(site))
    assert (own.swappiness, own.max_body_mib) == (5, 2)


def test_what_a_file_imports_is_no_data(site: Path) -> None:
    write(site, all="import os.path\nfrom pathlib import Path as P\n_sudo = bool(P)\nroot = '/x'\n")
    assert read_file(site / "group_data/all.py") == {"_sudo": True, "root": "/x"}
