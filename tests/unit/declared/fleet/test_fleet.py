"""The inventory file: what it may say, and what is said about the rest."""

import re
from pathlib import Path

import pytest

from sparkwright.declared.fleet import file
from sparkwright.declared.fleet.file import load_fleet, unsupported
from sparkwright.declared.recipe.loader import load_recipe, recipe_names
from tests.makers.gateway import fleet_of, written
from tests.makers.refused import refused, unplaced

EXAMPLES = Path(__file__).parents[4] / "inventory" / "examples"


@pytest.fixture(autouse=True)
def recipes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have two more recipes."""
    names = ["chatty", "big", *recipe_names()]
    monkeypatch.setattr(file, "recipe_names", lambda: names)


def problems(tmp_path: Path, text: str) -> list[str]:
    path = written(tmp_path, text)
    return unplaced(refused(load_fleet, path), path)


GOOD = """\
sparks:
  a: {ssh_hostname: 192.0.2.1, ssh_user: nvidia}
  b: {ssh_hostname: 192.0.2.2, ssh_port: 2222, ssh_key: ~/.ssh/k}
  c: {local: true, hardware: lab}
  idle: {}
replicas:
  two: {recipe: big, sparks: [b, a], port: 8001, api_key: none}
  one: {recipe: chatty, sparks: [c]}
"""


def test_every_spark_knows_its_replicas_and_its_connection(tmp_path: Path) -> None:
    fleet = fleet_of(tmp_path, GOOD)
    names = ("b", "a", "c", "idle")
    assert [fleet.replicas_of(name) for name in names] == [["two"], ["two"], ["one"], []]
    assert fleet.recipes == ["big", "chatty"]
    # A connection holds only what was set.
    own = {"ssh_hostname": "192.0.2.1", "ssh_user": "nvidia"}
    assert fleet.sparks["a"].connection == own
    assert fleet.sparks["idle"].connection == {}
    assert fleet_of(tmp_path, "sparks: {a: {}}\n").replicas_of("a") == []
    two = fleet_of(
        tmp_path,
        "sparks: {a: {}, b: {}}\nreplicas:\n"
        "  chat: {recipe: big, sparks: [a]}\n"
        "  alone: {recipe: big, sparks: [b], port: 19500}\n"
        "  embed: {recipe: chatty, sparks: [a], port: 8001}\n",
    )
    assert (two.replicas_of("a"), two.replicas_of("b")) == (["chat", "embed"], ["alone"])
    # Any number may share a Spark, as long as the memory holds them.
    third = "  score: {recipe: lab-tiny, sparks: [a], port: 8002}\n"
    assert len(fleet_of(tmp_path, two.source.read_text() + third).replicas_of("a")) == 3
    # So may a pair, where they take turns.
    pair = "  pair: {recipe: lab-built, sparks: [a, b], port: 8009, on_demand: true}\n"
    both = two.source.read_text().replace("replicas:\n", f"replicas:\n{pair}")
    assert fleet_of(tmp_path, both).replicas_of("b") == ["pair", "alone"]
    # This machine needs no port for SSH.
    here = "sparks: {a: {local: true}}\nreplicas: {x: {recipe: big, sparks: [a], port: 22}}\n"
    assert fleet_of(tmp_path, here).replicas_of("a")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "sparks: found nothing; expected at least one Spark"),
        ("sparks: {a: {}}\nreplica: {}\n", "did you mean 'replicas'?"),
        ("sparks: {a: {ssh_hostnam: x}}\n", "did you mean 'ssh_hostname'?"),
        ("sparks: {a: {ssh_port: 65536}}\n", "sparks.a.ssh_port: found 65536; expected a TCP port"),
        ("sparks: {a: {hardware: gb1}}\n", "a.hardware: found gb1; did you mean 'gb10'? Expected"),
        ("sparks: {a: {local: true, ssh_user: x}}\n", "expected either local: true, or keys tha"),
        ("sparks: {a: {}, sparks: {}}\n", "sparks.sparks: found the name of the group of all;"),
        ("sparks: {a: {ssh_hostname: 'fe80::1%eth0;x'}}\n", "expected an address or host name"),
        ("sparks: {a: {}, b: {ssh_hostname: a}}\n", "sparks.b: found the address of a;"),
        ("sparks: {Spark A: {}}\n", "sparks.Spark A: found"),
        ("sparks: {7: {}}\n", "sparks.7: found 7; expected a name of a-z"),
        ("sparks:\n  a: {}\n  a: {}\n", "a: found twice; expected once"),
        ("sparks: {a: {ssh_port: '22'}}\n", "from 1 to 65535 (as a number: without quotes)"),
        ("sparks: {a: {local: yes}}\n", 'sparks.a.local: found "yes"; expected true for the mach'),
        ("sparks: {a: {ssh_user: me@x}}\n", "expected the name of a user alone"),
        ("sparks: {a: {ssh_hostname: n@1.2.3.4}}\n", "the address alone; the user is ssh_user:"),
        ("sparks: {a: {ssh_hostname: '1.2.3.4:2'}}\n", "address alone; the port is ssh_port: 2"),
        ("sparks: {a: {ssh_hostname: 'ssh://x'}}\n", "expected the address alone, without a schem"),
        ("sparks: {a: {ssh_hostname: '[::1]'}}\n", "expected the address without brackets"),
        ("sparks: {a: {ssh_hostname: 10.0.0.256}}\n", "expected an address of four numbers"),
        ("sparks: {a: {ssh_hostname: 10.0.0.1/24}}\n", "expected one address, without /"),
        ("sparks: {a: {ssh_hostname: -oProxyCommand=x}}\n", "expected an address or host name"),
        ("sparks: {a: {ssh_password: x}}\n", "found a password; expected a login by key: ssh-cop"),
    ],
)
def test_a_spark_that_cannot_be(tmp_path: Path, text: str, expected: str) -> None:
    (problem,) = problems(tmp_path, text)
    assert expected in problem


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        ("x: {recipe: chaty, sparks: [a]}", "x.recipe: found chaty; did you mean 'chatty'? Expect"),
        ("x: {recipe: chatty, sparks: []}", "x.sparks: found []; expected a list of 1, 2, 3, 4 or"),
        (
            "x: {recipe: chatty, sparks: [a, b, c, d, e]}",
            "expected 1 or 2 or 3 or 4 or 8 Sparks for one model: its heads and experts do not",
        ),
        (
            "x: {recipe: big, sparks: [a, b, c]}\n  y: {recipe: chatty, sparks: [c]}",
            "replicas.y.sparks: found c, which replica x uses; expected a Spark that no other",
        ),
        ("x: {recipe: chatty.yaml, sparks: [a]}", "is no file; expected the name alone: chatty"),
        ("x: {recipe: '', sparks: [a]}", 'recipe: found "";'),
        ("x: {recipe: chatty}", "replicas.x.sparks: found nothing; expected a list of 1, 2, 3"),
        ("x: {recipe: chatty, sparks: [a, a]}", "x.sparks: found a 2 times; expected each Spark o"),
        ("x: {recipe: chatty, sparks: [aa]}", "x.sparks: found aa; did you mean 'a'? Expected"),
        ("x: {recipe: chatty, sparks: [a], port: 29501}", "which a group itself uses, and 9100"),
        ("x: {recipe: chatty, sparks: [a], port: 9100}", "x.port: found 9100; expected another"),
        ("x: {recipe: chatty, sparks: [a], port: 22}", "than 22, by which pyinfra reaches the Spa"),
        ("x: {recipe: chatty, sparks: [a], api_key: x}", 'x.api_key: found "x"; expected `none` ('),
        ("x: {recipe: chatty, sparks: [a], prot: 1}", "did you mean 'port'?"),
        ("a: {recipe: chatty, sparks: [a]}", "replicas.a: found a name that a Spark or group has"),
        ("x;id: {recipe: chatty, sparks: [a]}", "expected a name of a-z"),
        (
            "x: {recipe: chatty, sparks: [a]}\n  y: {recipe: big, sparks: [b, a]}",
            "replicas.y.sparks: found a, which replica x uses; expected a Spark that no other "
            "replica uses, as y is a group, or on_demand: true at y, so that they take turns",
        ),
        (
            "x: {recipe: chatty, sparks: [a]}\n  y: {recipe: big, sparks: [a, b], on_demand: true}",
            "replicas.y: found it after replica x on a; expected a group first",
        ),
        (
            "y: {recipe: big, sparks: [a, b], on_demand: true}\n"
            "  x: {recipe: chatty, sparks: [c, b], on_demand: true}",
            'x.sparks: found b, which replica y uses; expected ["a", "b"], as groups that share',
        ),
        *(
            (
                f"x: {{recipe: chatty, sparks: [a], {key}: {value}}}",
                f"replicas.x.{key}: found {value} without on_demand; expected on_demand: true, or",
            )
            for key, value in {"pinned": "true", "idle_minutes": 5, "turn_seconds": 60}.items()
        ),
        (
            "x: {recipe: chatty, sparks: [a], on_demand: true, pinned: true, idle_minutes: 5}",
            "replicas.x.idle_minutes: found 5 beside pinned; expected one of the two: a pinned",
        ),
        (
            "x: {recipe: chatty, sparks: [a], on_demand: true, idle_minutes: 0}",
            "x.idle_minutes: found 0; expected minutes without a request, from 1 to 10080",
        ),
        (
            "x: {recipe: chatty, sparks: [a]}\n  y: {recipe: big, sparks: [a]}",
            "replicas.y.port: found 8000, the port of replica x on a; expected another, such as "
            "port: 8001",
        ),
        (
            "x: {recipe: chatty, sparks: [a]}\n  y: {recipe: chatty, sparks: [a], port: 8001}",
            "replicas.y.recipe: found chatty, which a serves as replica x; expected another recipe",
        ),
        (
            "x: {recipe: chatty, sparks: [a]}\n  y: {recipe: big, sparks: [a], port: 8001}\n"
            "  z: {recipe: lab-tiny, sparks: [a], port: 8001}",
            "replicas.z.port: found 8001, the port of replica y on a; expected another, such as "
            "port: 8002",
        ),
        (
            "x: {recipe: chatty, sparks: [a, b], on_demand: true}\n"
            "  y: {recipe: big, sparks: [a, b], port: 8001, on_demand: true, pinned: true}",
            "replicas.y.pinned: found true; expected false, as the groups x and y take turns at "
            "one fabric",
        ),
        (
            "x: {recipe: chatty, sparks: [a], port: 65535}\n"
            "  y: {recipe: big, sparks: [a], port: 65535}",
            "replicas.y.port: found 65535, the port of replica x on a; expected another, such as "
            "port: 8000",
        ),
    ],
)
def test_a_replica_that_cannot_be(tmp_path: Path, replicas: str, expected: str) -> None:
    (problem,) = problems(
        tmp_path, f"sparks: {{a: {{}}, b: {{}}, c: {{}}}}\nreplicas:\n  {replicas}\n"
    )
    assert expected in problem


def test_a_pair_needs_a_fabric(tmp_path: Path) -> None:
    card = "sparks: {a: {hardware: rtx-5090}, b: {}}\n"
    found = problems(tmp_path, card + "replicas: {x: {recipe: big, sparks: [b, a]}}\n")
    assert found == [
        "replicas.x.sparks: found a, of hardware class rtx-5090, in a group; "
        "expected gb10 or gb10-64gb or lab, which a cable can join"
    ]
    alone = card + "replicas: {x: {recipe: big, sparks: [a]}}\n"
    assert fleet_of(tmp_path, alone).replicas_of("a")


def test_what_a_recipe_does_not_support(tmp_path: Path) -> None:
    text = (
        "sparks: {a: {}, b: {hardware: lab}, c: {}}\n"
        "replicas:\n"
        "  x: {recipe: qwen3.6-35b-nvfp4-dflash, sparks: [a, b], trusts: [trust-remote-code]}\n"
        "  y: {recipe: lab-tiny, sparks: [c], trusts: [tool-parser-plugin]}\n"
    )
    fleet = fleet_of(tmp_path, text)
    recipes = {name: load_recipe(name) for name in fleet.recipes}
    big = recipes["qwen3.6-35b-nvfp4-dflash"]
    recipes[big.name] = big.model_copy(update={"sparks": [1]})
    found = unsupported(fleet, recipes)
    assert [problem.removeprefix(f"{fleet.source}: ") for problem in found] == [
        "replicas.x.sparks: found 2 Spark(s); "
        "expected 1, which is what recipe qwen3.6-35b-nvfp4-dflash supports",
        "replicas.x.sparks: found b, of hardware class lab; "
        "expected gb10, which is what recipe qwen3.6-35b-nvfp4-dflash supports",
        "replicas.y.sparks: found c, of hardware class gb10; "
        "expected lab, which is what recipe lab-tiny supports",
    ]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_the_examples_are_good(path: Path) -> None:
    fleet = load_fleet(path)
    assert unsupported(fleet, {name: load_recipe(name) for name in fleet.recipes}) == []


def test_the_examples_serve_what_the_readme_recommends_first() -> None:
    table = (EXAMPLES.parents[1] / "README.md").read_text().partition("\n## Recipes\n")[2]
    small, large, *_ = re.findall(r"`([^`]+)` for ", table)
    served = {path.stem: load_fleet(path).recipes for path in EXAMPLES.glob("*.yaml")}
    assert served == {
        "one": [small],
        "two": [small],
        "pair": [large],
        "fleet": sorted([small, large]),
    }
