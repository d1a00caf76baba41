"""A group: the links between its Sparks, the same bits on all, and data that takes the link.

On a GPU equal tokens prove nothing and unequal ones disprove nothing: kernels round, so the first
near tie goes another way. What a wrong sum over two Sparks spoils is how likely an engine finds the
tokens of a text, while rounding leaves these log probabilities near one another.
"""

import json
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from testinfra.host import Host

from sparkwright.declared.fleet.fabric_plan import FabricPlan
from sparkwright.plan.release.release import Release
from sparkwright.run.spark import SparkTarget
from sparkwright.verify.plugin import Api, Proved
from sparkwright.verify.test_engine import chat
from sparkwright.verify.tools import ASKED

TEXT = ASKED["known_text"]
# Natural logarithm, mean of a token. Chance is -12 with Qwen's 248,320 tokens; text that a model
# has never seen, in a language that it knows, has -2 to -3.
KNOWN = -4.0
# Correlation, which does not hang on how sharp a model's guesses are. With two H200, vLLM 0.26.0
# and a random Qwen3.5-MoE, all of which is small numbers: 0.993 to 1.000 between one GPU and two,
# or between compiled and eager; 0.31 to 0.62 where the ranks' results were not added up.
ALIKE = 0.95


def twins(host: Host, fabric: FabricPlan) -> list[dict[str, Any]]:
    """Return the interfaces that carry the Spark's fabric addresses, as `ip` shows them."""
    links = json.loads(host.check_output("ip -j -4 addr"))
    by_address = {entry["local"]: link for link in links for entry in link["addr_info"]}
    return [by_address[address] for address in fabric.addresses]


def carried(host: Host, interface: str) -> int:
    """Return the bytes that came and went by an interface: by RDMA where it has that."""
    network = f"/sys/class/net/{interface}"
    words = host.run(f"cat {network}/device/infiniband/*/ports/1/counters/port_[rx]*_data")
    if words.rc == 0:
        return 4 * sum(map(int, words.stdout.split()))
    return sum(map(int, host.check_output(f"cat {network}/statistics/[rt]x_bytes").split()))


def test_link(host: Host, fabric: FabricPlan, proved: Proved) -> None:
    by_address = dict(zip(fabric.addresses, twins(host, fabric), strict=True))
    for between in fabric.links:
        for twin, peer in between.reached:
            address = between.addresses[twin]
            link = by_address[address]
            assert link["mtu"] == fabric.mtu
            route = json.loads(host.check_output(f"ip -j route get {peer} from {address}"))[0]
            assert route["dev"] == link["ifname"]
            # 28 bytes are the headers of IP and ICMP.
            size = f"-s {fabric.mtu - 28}"
            host.check_output(f"ping -q -M do {size} -c 3 -i 0.2 -I {address} {peer}")
    proved(f"packets of {fabric.mtu} bytes reach {' and '.join(fabric.peers)} on both twins")


def test_rdma(host: Host, fabric: FabricPlan, release: Release, proved: Proved) -> None:
    """NCCL says in its log what it uses; without RDMA devices there is nothing to prove."""
    devices = host.file("/sys/class/infiniband")
    if not (devices.exists and devices.listdir()):
        pytest.skip("no RDMA devices on this Spark: NCCL and Gloo use TCP")
    started = host.service(f"vllm@{release.id}").systemd_properties["InvocationID"]
    log = f"journalctl --quiet --output=cat _SYSTEMD_INVOCATION_ID={started}"
    lines = host.check_output(f"{log} | grep -m 1 'NET/IB' || true")
    assert lines, "NCCL did not choose RDMA: its log has no line with NET/IB"
    proved(f"NCCL: {lines}")


def test_the_link_is_guarded(host: Host, fabric: FabricPlan, proved: Proved) -> None:
    guard = host.service("fabric-guard")
    assert guard.is_running
    assert guard.is_enabled
    proved("ports of the engines' own traffic are closed on the LAN")


def test_same_release_and_bits(
    host: Host, peer: Host, target: SparkTarget, release: Release, proved: Proved
) -> None:
    def found(spark: Host) -> list[object]:
        record = spark.file(f"{target.root}/releases/{release.id}/release.json")
        folders = [f"{target.root}/{each}/.sparkwright.json" for each in release.folders.values()]
        weights = [json.loads(spark.file(each).content_string)["files"] for each in folders]
        hashes = [{name: file["hash"] for name, file in files.items()} for files in weights]
        image = spark.docker(f"vllm-{release.id}").inspect()["Image"]
        return [record.content_string, hashes, image]

    assert found(host) == found(peer)
    proved(f"{release.id}: the same files, weights and image on all Sparks")


def test_data_takes_the_link(
    host: Host, api: Api, fabric: FabricPlan, release: Release, proved: Proved
) -> None:
    """A completion makes the ranks talk: the fabric's counters must show it, the LAN's must not."""
    # Of a pipeline the head sends nearly all: only tokens come back.
    lan = json.loads(host.check_output("ip -j route show default"))[0]["dev"]
    names = [link["ifname"] for link in twins(host, fabric)]
    before = {name: carried(host, name) for name in (*names, lan)}
    api("/v1/chat/completions", chat(release, max_tokens=16, ignore_eos=True))
    grown = {name: carried(host, name) - bytes for name, bytes in before.items()}
    link = sum(grown[name] for name in names)
    assert link > 100_000
    assert link > 2 * grown[lan]
    proved(f"16 tokens: {link:,} bytes went by the link, {grown[lan]:,} by the LAN")


@pytest.mark.usefixtures("fabric")
def test_a_known_text_is_known(
    api: Api, target: SparkTarget, release: Release, proved: Proved
) -> None:
    """A sum over the ranks that goes wrong leaves nothing of what a model has learned."""
    if target.hardware_class == "lab":
        pytest.skip("the lab's model is random: it knows no text")
    found = text_of(api, release)
    assert not problem(found)
    mean = statistics.fmean(found)
    proved(f"a known text: {mean:.2f} a token (natural logarithm; chance is -12)")


@pytest.mark.usefixtures("fabric")
def test_as_one_spark(
    api: Api, lone_api: Api, target: SparkTarget, release: Release, proved: Proved
) -> None:
    """On CPUs the same tokens come; on GPUs rounding decides between near ties."""
    if target.hardware_class == "lab":
        tokens, others = (greedy_tokens(ask, release) for ask in (api, lone_api))
        assert tokens == others
        proved(f"the same {len(tokens)} greedy tokens as one Spark gives")
        return
    own, other = (text_of(ask, release) for ask in (api, lone_api))
    assert not problem(own, other)
    apart = statistics.fmean(abs(a - b) for a, b in zip(own, other, strict=True))
    proved(f"log probabilities of a prompt as one Spark gives: {apart:.3f} apart in the mean")


def greedy_tokens(ask: Api, release: Release) -> list[str]:
    """Return the tokens of a short answer."""
    answer = json.loads(ask("/v1/chat/completions", chat(release, logprobs=True)))
    return [each["token"] for each in answer["choices"][0]["logprobs"]["content"]]


def text_of(ask: Api, release: Release) -> list[float]:
    """Return the log probabilities of the known text."""
    body = {"model": release.recipe.served_names[0], "prompt": TEXT, "max_tokens": 1}
    judged = {**body, "temperature": 0, "prompt_logprobs": 0}
    return of_prompt(json.loads(ask("/v1/completions", judged)))


def of_prompt(answer: Mapping[str, Any]) -> list[float]:
    """Return the log probability of each token of the prompt; the first has none."""
    _, *positions = answer["choices"][0]["prompt_logprobs"]
    # With 0 alternatives asked for, a position has the prompt's own token alone.
    return [entry["logprob"] for position in positions for entry in position.values()]


def problem(own: Sequence[float], other: Sequence[float] | None = None) -> str | None:
    """Say what is wrong with the log probabilities of a text; None where nothing is.

    Args:
        own: Those of the group, for `TEXT` by a trained model.
        other: Those of one Spark with the same model: then only that both agree counts.
    """
    # Each is compared so that NaN is a problem.
    if other is None:
        mean = statistics.fmean(own)
        if mean >= KNOWN:
            return None
        return f"a well-known text has {mean:.1f} a token, expected {KNOWN:g} or more"
    try:
        alike = statistics.correlation(own, other)
    except statistics.StatisticsError:  # all the same
        alike = 0.0
    if alike >= ALIKE:
        return None
    return f"correlates with one Spark's by {alike:.2f}, expected {ALIKE:g} or more"
