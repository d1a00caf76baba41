"""The files of a new site."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from sparkwright.cli.new_site import inventory_text, parse_spark, site_files, write_site
from sparkwright.common.errors import PlanError
from sparkwright.declared.fleet.file import load_fleet
from sparkwright.declared.fleet.fleet import Spark


def spark(address: str, user: str | None = None, **more: Any) -> Spark:
    own = {"ssh_user": user} if user else {}
    return Spark(ssh_hostname=address, **own, **more)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("192.168.1.20", spark("192.168.1.20")),
        (" nvidia@spark-a.local ", spark("spark-a.local", "nvidia")),
        ("nvidia@10.0.0.5:2222", spark("10.0.0.5", "nvidia", ssh_port=2222)),
        ("fe80::1%eth0", spark("fe80::1%eth0")),
        ("u@[2001:db8::7]:22", spark("2001:db8::7", "u", ssh_port=22)),
        ("[::1]", spark("::1")),
        ("local", Spark(local=True)),
    ],
)
def test_an_address(text: str, expected: Spark) -> None:
    assert parse_spark(text) == expected


@pytest.mark.parametrize(
    "text", ["", " ", "@host", "ssh://host", "a b", "host:port", "-oProxyCommand=x", "a\nb", "a;b"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(PlanError, match="expected the address of a Spark"):
        parse_spark(text)


@pytest.mark.parametrize(
    ("sparks", "pair", "replicas"),
    [
        ([spark("10.0.0.5", "me")], False, {"chat": ["spark-a"]}),
        ([Spark(local=True)], False, {"chat": ["spark-a"]}),
        (
            [spark("10.0.0.5", "me"), spark("::1", "me", ssh_port=2222, ssh_key="~/a key")],
            True,
            {"chat": ["spark-a", "spark-b"]},
        ),
        (
            [spark("a", "me"), spark("b", "me"), spark("c", "me")],
            False,
            {"chat-a": ["spark-a"], "chat-b": ["spark-b"], "chat-c": ["spark-c"]},
        ),
    ],
)
def test_an_inventory_is_read_as_it_was_meant(
    tmp_path: Path, sparks: list[Spark], pair: bool, replicas: dict[str, list[str]]
) -> None:
    file = tmp_path / "sparks.yaml"
    file.write_text(inventory_text(sparks, "qwen3.6-35b-nvidia", pair))
    fleet = load_fleet(file)
    assert {name: each.sparks for name, each in fleet.replicas.items()} == replicas
    assert [*fleet.sparks.values()] == sparks


def test_names_of_many(tmp_path: Path) -> None:
    file = tmp_path / "sparks.yaml"
    file.write_text(inventory_text([spark(f"host-{n}") for n in range(64)], "lab-tiny", False))
    fleet = load_fleet(file)
    assert [len(fleet.sparks), len(fleet.replicas)] == [64, 64]


def test_the_layout_of_a_site() -> None:
    files = site_files("my-sparks", "sparks: {}\n")
    for name in (
        *("inventory.py", "config.py", "pyproject.toml", "README.md", ".gitignore"),
        *("inventory/sparks.yaml", "group_data/all.py", "group_data/sparks.py"),
        *("deploys/spark.py", "deploys/status.py"),
        *("tests/verify/conftest.py", "files/recipes/README.md"),
    ):
        assert name in files
    assert "inventory/*.keys" in files[".gitignore"]
    assert "lock" not in files[".gitignore"]
    for name, text in files.items():
        if name.endswith(".py"):
            compile(text, name, "exec")
        assert "{{" not in text


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(PlanError, match=r"found README\.md; expected a new or empty folder"):
        write_site(tmp_path, site_files("x", yaml.safe_dump({})))
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]


@pytest.mark.parametrize("is_new", [True, False])
def test_a_full_disk_leaves_nothing(
    tmp_path: Path, is_new: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, written = tmp_path / "mine", []
    if not is_new:
        folder.mkdir()
        (folder / "README.md").touch()

    def write(path: Path, text: str, encoding: str) -> None:
        path.touch()
        written.append(path)
        if len(written) == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(Path, "write_text", write)
    with pytest.raises(PlanError, match=f"{folder}: cannot be written .No space left on device"):
        write_site(folder, {"a/b/c": "", "a/d": "", "e/f": ""})
    assert [*tmp_path.rglob("*")] == ([] if is_new else [folder, folder / "README.md"])
