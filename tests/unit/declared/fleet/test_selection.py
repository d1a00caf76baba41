"""What a run takes of an inventory, and the keys by which it reaches that."""

import re
from pathlib import Path

import pytest

from sparkwright.common.errors import PlanError
from sparkwright.run.inventory.data import check_logins, choose_replicas, selected
from tests.makers.refused import refused

GROUPS = {
    name: [(spark, {}) for spark in sparks]
    for name, sparks in {"sparks": ("a", "b"), "one": ("a",), "pair": ("a", "b")}.items()
}


@pytest.mark.parametrize(
    ("limit", "exclude", "said"),
    [
        (["on"], [], "--limit: found on, which matches nothing; did you mean 'one'? Expected one "),
        (["a,b"], [], "--limit: found a,b, which matches nothing"),
        ([], ["c"], "--exclude: found c, which matches nothing"),
        ([], ["pair"], "--exclude: found pair; expected a host to be left"),
        (["one"], ["a"], "--exclude: found a; expected a host to be left"),
    ],
)  # fmt: skip
def test_limits(limit: list[str], exclude: list[str], said: str) -> None:
    with pytest.raises(PlanError, match=re.escape(said)):
        selected(GROUPS, limit, exclude)


@pytest.mark.parametrize(
    ("limit", "chosen"),
    [
        (["chat"], ["chat"]),
        (["embed", "chat"], ["chat", "embed"]),
        ([], None),
        (["embed", "a"], None),
    ],
)
def test_a_replica_of_two_on_a_spark_is_meant_alone(
    limit: list[str], chosen: list[str] | None
) -> None:
    both: dict[str, object] = {"replicas": ["chat", "embed"]}
    hosts = [("a", both), ("b", {})]
    groups = {"sparks": hosts, "chat": hosts[:1], "embed": hosts[:1], "other": hosts[1:]}
    choose_replicas(groups, limit)
    assert both.get("chosen") == chosen
    assert hosts[1] == ("b", {})


def test_what_limits_leave() -> None:
    assert [name for name, _ in selected(GROUPS, ["?"], ["one"])] == ["b"]
    assert [name for name, _ in selected(GROUPS, [], [])] == ["a", "b"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "found no file KEY; expected a private key: ssh-keygen -t ed25519"),
        ("ssh-ed25519 AAAA me\n", "found KEY, a public key; expected the private one: "),
        ("hello\n", "found KEY, which is no key; expected a private key of OpenSSH"),
    ],
)  # fmt: skip
def test_a_key(tmp_path: Path, content: str | None, said: str) -> None:
    key, path = tmp_path / "key", tmp_path / "sparks.yaml"
    path.write_text(f"sparks:\n  a: {{ssh_key: {key}}}\n")
    if content:
        key.write_text(content)
    (problem,) = refused(check_logins, path, [("a", {"spark": "a", "ssh_key": str(key)})])
    assert problem.startswith(f"{path}:2: sparks.a.ssh_key: {said.replace('KEY', str(key))}")
