"""The gateway: where it may be, what it serves, what its files say, and how it is deployed."""

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from pyinfra.api import HiddenValue

from host.door.gateway.body import parsed
from sparkwright.common.errors import PlanError
from sparkwright.common.files import Directory, ManagedFile
from sparkwright.declared.fleet.file import unsupported
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.door.gateway.deploy import UNITS, gateway
from sparkwright.door.gateway.gateway import (
    barred,
    configuration,
    doors,
    reachable,
    served,
    upstreams,
)
from sparkwright.door.key import Key
from sparkwright.run.inventory.groups import load
from tests.makers.door import NO_DOOR, plan
from tests.makers.gateway import KEYS, SPARKS, fleet_of, setting, upstream, written
from tests.makers.refused import refused, unplaced
from tests.unit.driven import Driven, fake_host, file_of, placed


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{spark: spark-z}", ".spark: found spark-z; did you mean 'spark-c'?"),
        ("{port: 4000}", ': found {"port": 4000}; expected the name of a Spark, such as {spark: '),
        ("{spark: spark-a, local: true}", ': found {"spark": "spark-a", "local": true}; expecte'),
        ("{spark: spark-a, port: 8000}", ".port: found 8000, the port of replica chat-a;"),
        ("{spark: spark-a, port: 29503}", ".port: found 29503; expected another than 29500 to"),
        ("{spark: spark-a, port: 80}", ".port: found 80; expected a TCP port from 1024 to 65535"),
        ("{ssh_hostname: 192.0.2.2}", ": found the address of spark-b; expected {spark: spark-b}"),
        ("{local: true}", ": found the address of spark-c; expected {spark: spark-c}"),
        ("{ssh_hostname: x, local: true}", ': found {"ssh_hostname": "x", "local": true}; expec'),
        ("{spark: spark-a, hardware: gb10}", ".hardware: found an unknown key"),
    ],
)
def test_a_gateway_that_cannot_be(tmp_path, line, expected):
    found = refused(fleet_of, tmp_path, f"{SPARKS}gateway: {line}\n")
    (problem,) = unplaced(found, tmp_path / "sparks.yaml")
    assert problem.startswith(f"gateway{expected}")


NAMED = SPARKS.replace("spark-b", "gateway")
WITH_PORT = SPARKS.replace("192.0.2.2", "192.0.2.2, ssh_port: 2222")


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        # It leaves a Spark its SSH, has replicas, and no Spark has the name of its host.
        (WITH_PORT, "spark: spark-b, port: 2222", r"gateway\.port: found 2222; .* by which"),
        ("sparks: {a: {}}\n", "spark: a", "gateway: found no replicas; expected at least one"),
        (NAMED, "ssh_hostname: 192.0.2.9", r"sparks\.gateway: found a name that the gateway"),
    ],
)
def test_a_fleet_that_a_gateway_cannot_serve(
    tmp_path: Path, text: str, line: str, told: str
) -> None:
    with pytest.raises(PlanError, match=told):
        fleet_of(tmp_path, f"{text}gateway: {{{line}}}\n")
    assert fleet_of(tmp_path, f"{NAMED}gateway: {{spark: gateway}}\n").gateway


def test_one_name_stands_for_one_model(tmp_path: Path) -> None:
    text = SPARKS.replace("qwen3.6-35b-nvidia-mtp", "qwen3.6-35b-fp8")
    recipes = {name: load_recipe(name) for name in ("qwen3.6-35b-nvidia", "qwen3.6-35b-fp8")}
    assert unsupported(fleet_of(tmp_path, text), recipes) == []
    (problem,) = unsupported(fleet_of(tmp_path, f"{text}gateway: {{spark: spark-a}}\n"), recipes)
    assert problem.startswith(f"{tmp_path}/sparks.yaml: replicas.chat-b.recipe: found qwen3.6-35b-")
    assert "serves Qwen/Qwen3.6-35B-A3B-FP8 as qwen3.6-35b; expected nvidia/Qwen3.6-" in problem
    with pytest.raises(PlanError, match="in replica chat-a, or another served name"):
        load(tmp_path / "sparks.yaml")


def test_the_gateways_host_is_alone_in_its_run_and_in_no_other(tmp_path: Path) -> None:
    on_a_spark = written(tmp_path, f"{SPARKS}gateway: {{spark: spark-a}}\n")
    data = {"spark": "spark-a", "fleet": str(on_a_spark)}
    data |= {"ssh_hostname": "192.0.2.1", "ssh_user": "nvidia"}
    host = [("spark-a", data)]
    assert load(on_a_spark, gateway=True) == {"gateway": host, "sparks": host}

    apart = written(tmp_path, f"{SPARKS}gateway: {{ssh_hostname: 192.0.2.9}}\n")
    data = {"spark": None, "fleet": str(apart), "ssh_hostname": "192.0.2.9"}
    assert load(apart, gateway=True) == {"gateway": [("gateway", data)]}
    assert set(load(apart)) == {"sparks", "chat-a", "chat-b", "spark-c"}

    with pytest.raises(PlanError, match="found no gateway; expected where it is to run"):
        load(written(tmp_path, SPARKS), gateway=True)


def test_doors_as_the_gateways_host_reaches_them(tmp_path: Path) -> None:
    own = fleet_of(tmp_path, f"{SPARKS}gateway: {{ssh_hostname: 192.0.2.9}}\n")
    beside = fleet_of(tmp_path, f"{SPARKS}gateway: {{spark: spark-a}}\n")
    far = {"chat-a": "http://192.0.2.1:8000", "chat-b": "http://192.0.2.2:8001"}
    assert doors(own, setting()) == far
    assert doors(beside, setting()) == far | {"chat-a": "http://127.0.0.1:8000"}
    # A certificate is made out to a name, which loopback does not have.
    secured = {name: url.replace("http", "https") for name, url in far.items()}
    assert doors(beside, setting(tls_certificate="c.pem", tls_key="c.pem")) == secured
    # The site's own has it.
    by_own = secured | {"chat-a": "https://127.0.0.1:8000"}
    assert doors(beside, setting(tls="own")) == by_own
    six = doors(own, setting(bind="fd00::1"))
    assert six["chat-a"] == "http://[fd00::1]:8000"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"bind": "127.0.0.1"}, "found bind 127.0.0.1, where only spark-b itself reaches the door"),
        ({}, "found spark-b with local: true, whose address the gateway cannot know"),
    ],
)
def test_a_door_that_the_gateway_cannot_reach(
    tmp_path: Path, values: Mapping[str, str], expected: str
) -> None:
    text = SPARKS.replace("spark-c: {local: true}", "spark-c: {}")
    if not values:
        text = text.replace("spark-b: {ssh_hostname: 192.0.2.2}", "spark-b: {local: true}")
    fleet = fleet_of(tmp_path, f"{text}gateway: {{spark: spark-a}}\n")
    assert [expected in problem for problem in refused(doors, fleet, setting(**values))] == [True]


def test_profiles_and_presets_stand_beside_the_served_names() -> None:
    found = served([upstream("a", "qwen36", "qwen36-fast", "qwen36-deep")])
    names = {each.name: each for each in found}
    assert " ".join(names) == (
        "qwen36 qwen36-thinking-general qwen36-thinking-coding qwen36-instruct-general "
        "qwen36-instruct-reasoning qwen36-fast qwen36-deep"
    )
    deep = {"temperature": 0.7, "top_p": 0.95, "top_k": 64, "repetition_penalty": 1.05}
    assert names["qwen36-deep"].sampling == deep
    coding, reasoning = names["qwen36-thinking-coding"], names["qwen36-instruct-reasoning"]
    assert reasoning.sampling["chat_template_kwargs"] == {"enable_thinking": False}
    assert (coding.thinks, coding.both_modes) == (True, False)
    assert (names["qwen36-fast"].thinks, names["qwen36-fast"].both_modes) == (True, True)
    # A model without both modes has its own names only.
    (only,) = served([upstream("a", "coder", checkpoint="Qwen/Qwen3-Coder-Next")])
    assert (only.name, only.thinks) == ("coder", False)


def test_a_name_that_a_recipe_serves_is_no_profile() -> None:
    other = upstream("b", "x-thinking-general", checkpoint="other/Model")
    names = {each.name: each for each in served([upstream("a", "x"), other])}
    assert names["x-thinking-general"].upstreams == (other,)
    assert names["x-thinking-general"].sampling == {}


def test_the_shortest_context_counts() -> None:
    replicas = [upstream("a", "x"), upstream("b", "x", context=32768)]
    assert served(replicas)[0].context == 32768
    assert served([*replicas, upstream("c", "x", context=None)])[0].context is None


def test_a_door_without_keys_is_shown_none(tmp_path: Path) -> None:
    fleet = fleet_of(tmp_path, f"{SPARKS}gateway: {{spark: spark-a}}\n")
    recipes = {name: load_recipe(name) for name in fleet.recipes}
    found = json.loads(configuration(upstreams(fleet, recipes), doors(fleet, setting()), "PEM"))
    assert found["doors"] == {
        "chat-a": {"url": "http://127.0.0.1:8000", "keyed": True, "on_demand": False},
        "chat-b": {"url": "http://192.0.2.2:8001", "keyed": False, "on_demand": False},
    }
    assert {(*each["replicas"],) for each in found["models"].values()} == {("chat-a", "chat-b")}


@pytest.mark.parametrize(
    ("places", "out"),
    [
        ([[]], []),
        ([["gateway"]], []),
        ([["chat-a", "gateway"]], ["coder", "vision"]),
        ([["coder", "gateway"]], ["vision"]),
        ([["coder", "gateway"], ["vision", "metrics"]], []),
        ([["coder", "gateway"], []], []),
    ],
)
def test_a_key_starts_what_its_places_name(places: list[list[str]], out: list[str]) -> None:
    """Several keys may have one name, by which the gateway knows them."""
    replicas = [upstream("chat-a", "x")]
    replicas += [upstream(name, name, on_demand=True) for name in ("vision", "coder")]
    keys = [Key(name="ann", secret=f"{KEYS[0]}{n}", places=own) for n, own in enumerate(places)]
    assert barred(replicas, keys) == ({"ann": out} if out else {})


def test_text_is_one_value_whatever_it_says() -> None:
    text = 'a, "quoted" \\\\ [{, ' * 100_000
    name, fields = parsed(json.dumps({"model": "tiny", "prompt": text, "stop": None}).encode())
    assert (name, fields) == ("tiny", {"model": "tiny", "prompt": text})


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        (["192.0.2.7", "127.0.0.1", "192.0.2.7"], ["127.0.0.1", "192.0.2.7"]),
        (["[2001:db8::1]", "[fe80::1%eth0]"], ["2001:db8::1", "fe80::1"]),
        (["spark-a.lan", "203.0.113.9"], ["localhost", "10.0.0.0/8", "203.0.113.9"]),
    ],
)
def test_the_gateway_reaches_doors_and_no_public_address_else(
    hosts: list[str], expected: list[str]
) -> None:
    found = reachable(f"http://{host}:8000" for host in hosts)
    assert [each for each in found if each in expected] == expected
    assert len(found) == len(expected) or "localhost" in found


def test_replicas_that_do_not_chat_have_no_sampling_and_no_profiles(tmp_path: Path) -> None:
    text = """\
sparks: {spark-a: {}, spark-b: {}, spark-c: {}}
replicas:
  chat: {recipe: qwen3.8-27b-nvidia, sparks: [spark-a]}
  texts: {recipe: qwen3-embedding-0.6b, sparks: [spark-b]}
  ranks: {recipe: qwen3-reranker-0.6b, sparks: [spark-c]}
gateway: {spark: spark-a}
"""
    fleet = fleet_of(tmp_path, text)
    found = upstreams(fleet, {name: load_recipe(name) for name in fleet.recipes})
    aliases = served(found)
    # Qwen's advice for the modes of Qwen3.8 is not known here.
    assert [(each.name, each.answers, each.both_modes) for each in aliases] == [
        ("qwen3.8-27b", "chat", True),
        ("qwen3-embedding-0.6b", "embeddings", False),
        ("qwen3-reranker-0.6b", "scores", False),
    ]


ARGUMENTS: dict[str, Any] = {
    "root": "/r",
    "entries": [Directory("/r/gateway"), ManagedFile("/r/gateway/config.json", "x\n")],
    "requirements": "aiohttp==1\n",
    "secrets": {
        "/r/secrets/gateway.key": HiddenValue("sk-s3cret\n"),
        "/r/gateway/door/keys": HiddenValue("0A1B\n"),
    },
    "door": plan(4000, place="gateway"),
    "says": "The gateway answers at http://192.0.2.1:4000/v1.",
}
STATUS = "in service: chat-a"


def on(
    files: dict[str, dict[str, Any]] | None = None,
    units: str = "",
    requirements: str | None = None,
    **found: Any,
) -> Driven:
    """Return a host with these files, with units in this state, and else with nothing."""
    there = placed(files, dict.fromkeys(UNITS, units))
    there["units"]["gateway.service"]["status"] = STATUS
    part = {**NO_DOOR, "installed": "2.8.5-1" if units else None, **found}
    environment = {"requirements": requirements}
    state = {"door": part, "artifacts.environment": environment, "placed": there}
    return fake_host(state=state, root="/r")


def steps(spark: Driven, *words: str) -> list[str]:
    """The commands of a run that have one of these words of pip's or systemctl's, by it."""
    return [
        word
        for script in spark.scripts()
        for word in words
        if f"{word} --quiet" in script or f"systemctl {word} gateway" in script
    ]


def test_a_first_run_ends_with_a_started_gateway() -> None:
    spark = on()
    assert spark.predicts_change(gateway, **ARGUMENTS)
    spark.run(gateway, **ARGUMENTS)
    scripts = spark.scripts()
    assert steps(spark, "pip install", "enable", "start") == ["pip install", "enable", "start"]
    assert not any("s3cret" in script for script in scripts)
    secrets = [stdin for _, stdin in spark.commands if stdin]
    assert secrets == ["sk-s3cret\n", "0A1B\n"]
    # Its door's files are read by haproxy before anything stops.
    (start,) = (script for script in scripts if "systemctl start" in script)
    assert start.index("haproxy -c") < start.index("systemctl stop gateway-door.service")


def current(changed: int = 0) -> dict[str, dict[str, Any]]:
    """Return the files of ARGUMENTS as they are after a run."""
    secrets = {path: file_of(each.unmask(), "600") for path, each in ARGUMENTS["secrets"].items()}
    folder = {"kind": "directory", "user": "root", "group": "root", "mode": "755"}
    files = {"/r/gateway": folder, "/r/gateway/config.json": file_of("x\n"), **secrets}
    return {path: {**state, "changed": changed} for path, state in files.items()}


@pytest.mark.parametrize(
    ("units", "changed", "done"),
    [
        ("loaded active enabled 1000", 1000, []),
        ("loaded active enabled 1000", 1001, ["start"]),
        ("loaded enabled", 0, ["start"]),
        ("loaded active 1000", 0, ["enable"]),
    ],
)
def test_a_gateway_is_started_again_if_it_is_older_than_its_files(
    units: str, changed: int, done: list[str]
) -> None:
    digest = sha256(ARGUMENTS["requirements"].encode()).hexdigest()
    spark = on(current(changed), units, digest)
    assert spark.predicts_change(gateway, **ARGUMENTS) == bool(done)
    spark.run(gateway, **ARGUMENTS)
    assert steps(spark, "enable", "start") == done


def test_without_tls_no_certificate_and_key_stay() -> None:
    path = "/r/gateway/door/certificate.pem"
    spark = on({path: file_of("a key", "600")})
    secrets = {**ARGUMENTS["secrets"], path: None}
    spark.run(gateway, **{**ARGUMENTS, "secrets": secrets})
    scripts = spark.scripts()
    (start,) = (index for index, each in enumerate(scripts) if "systemctl start" in each)
    assert scripts.index(f"rm -f {path} {path}.new") < start
