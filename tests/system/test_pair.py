"""Two Sparks from the factory to one served model, on to others, and back to the factory.

The tests build on one another, in order: what the Sparks live through is to leave no trace.
"""

import json
from collections.abc import Callable, Iterator

import pytest

from host.common import probe
from host.engine import peer_link
from sparkwright.plan.release.container import ALONE, PAIR
from tests.driver.client import PORT
from tests.driver.declared import BROKEN, changed, replica, seed
from tests.driver.listing import changes, listing, purge
from tests.driver.load import load
from tests.driver.pairs import Pair, check_rendezvous
from tests.driver.plants import plant, undo
from tests.driver.product import DEPLOY, Run, pyinfra, remote_commands
from tests.driver.sparks import current, engines_status, until
from tests.driver.ways_out import CLOSED, OPEN, PAIR_OPEN, PAIRED, abstract_listener, tried
from tests.lab import hub

# Seconds that a start may lose between two looks: for the peer, for a first token, by the door,
# which checks twice a second, and tries again each second.
LOOKS = 2 * peer_link.RETRY + probe.READY_INTERVAL + 1.5
REMOVE = "deploys/remove.py"
NETPLAN = "/etc/netplan/40-cx7.yaml"
Listings = list[dict[str, set[str]]]


@pytest.fixture(scope="module")
def planned(delivered: Listings) -> frozenset[str]:
    """What a dry run on two Sparks as delivered says would change."""
    return pyinfra(DEPLOY, "--dry").succeeded().plan


@pytest.fixture(scope="module")
def first_run(planned: frozenset[str]) -> Run:
    """The run that has them serve one model."""
    return pyinfra(DEPLOY).succeeded()


@pytest.fixture(scope="module")
def serving(pair: Pair, first_run: Run) -> Pair:
    """The pair, which serves since its first run."""
    pair.wait_serving()
    return pair


@pytest.fixture
def another_netplan(pair: Pair) -> Iterator[str]:
    """A file by another tool, which sets the fabric's interfaces; yields what is said of it."""
    text = "network: {ethernets: {enp1s0f0np0: {dhcp4: false}, enP2p1s0f0np0: {dhcp4: false}}}"
    pair.worker.run(f"sudo install -m 600 /dev/stdin {NETPLAN}", stdin=text)
    yield f"sudo mv {NETPLAN}"
    pair.worker.run(f"sudo rm {NETPLAN}")


@pytest.fixture
def no_cable(pair: Pair) -> Iterator[str]:
    """No cable between the two; yields what is said of that."""
    pair.worker.cable(False)
    yield "has no ConnectX port with a link"
    pair.worker.cable(True)


@pytest.mark.parametrize("fault", ["no_cable", "another_netplan"])
def test_what_is_caught_before_any_change(
    pair: Pair, delivered: Listings, fault: str, request: pytest.FixtureRequest
) -> None:
    said = request.getfixturevalue(fault)
    run = pyinfra(DEPLOY)
    assert run.status
    assert said in run.output
    assert run.changed == frozenset()
    for spark in pair.both:
        assert spark.run("ls /opt/qwen36").stdout == "mine\n"
        assert "60-sparkwright" not in spark.run("ls /etc/netplan").stdout


def test_a_dry_run_said_what_the_first_run_did_and_a_second_changes_nothing(
    planned: frozenset[str], first_run: Run, serving: Pair
) -> None:
    assert planned == first_run.changed
    before = serving.lives()
    assert pyinfra(DEPLOY).succeeded().changed == frozenset()
    assert serving.lives() == before


@pytest.mark.parametrize("words", [(DEPLOY, "-y"), (DEPLOY, "--dry"), ("deploys/drift.py",)])
def test_who_changes_nothing_asks_both_little(serving: Pair, words: tuple[str, ...]) -> None:
    commands = remote_commands(*words)
    # The probes of the cable come once it is known in which port it is.
    assert len(commands) <= 2 * 3, commands


def test_the_rendezvous_is_closed_on_the_lan_also_where_ufw_allows_all_of_it(serving: Pair) -> None:
    check_rendezvous(serving)


def test_code_in_an_engine_finds_no_way_out_but_to_the_other_rank(serving: Pair) -> None:
    release = current(serving.head)
    fabric = [
        spark.run("ip -4 -o addr show enp1s0f0np0 | awk '{print $4}'").stdout.partition("/")[0]
        for spark in serving.both
    ]
    ways = {**CLOSED, **PAIRED, **OPEN, **PAIR_OPEN}
    for spark, own, peer in zip(serving.both, fabric, reversed(fabric), strict=True):
        gate = spark.run("ip route show default | cut -d' ' -f3").stdout.strip()
        given = {"LAN": spark.address, "GATE": gate, "OTHER": release}
        given |= {"OWN": own, "PEER": peer, "MASTER": fabric[0]}
        with abstract_listener(spark):
            found = tried(spark, release, ways, **given)
        expected = {*OPEN, *PAIR_OPEN} - ({"its API"} if spark is serving.worker else set())
        assert {name for name, is_open in found.items() if is_open} == expected, spark


def test_a_restart_of_the_guard_opens_no_gap(serving: Pair) -> None:
    look = "iptables -w -C INPUT -j SPARKWRIGHT && iptables -w -S SPARKWRIGHT | grep -q mac-source"
    watched = f"""file=$(mktemp)
( while [ -e $file ]; do {{ {look}; }} || echo gap; done ) &
for turn in 1 2 3; do systemctl restart fabric-guard || exit 1; done
rm $file; wait"""
    assert serving.worker.run("sudo sh -", stdin=watched).stdout == ""


def test_half_of_a_pair_is_no_run(serving: Pair) -> None:
    run = pyinfra(DEPLOY, "--limit", "spark2")
    assert run.status
    assert "only spark2 is in this run" in run.output
    assert run.changed == frozenset()


def test_a_switch_of_both_has_the_gap_of_a_restart(
    serving: Pair, record_property: Callable[[str, object], None]
) -> None:
    """A pair never runs two engines: clients wait at the door, as long as for a bare restart.

    Two such restarts differ by more than a tenth on a busy machine: the slower of two counts. What
    supervisors and clients wait between two looks counts as well: an engine may start in a second.
    """

    def restart(pair: Pair) -> None:
        for spark in pair.both:
            spark.run(f"sudo systemctl restart --no-block {pair.unit()}")

    before = serving.recovery(restart)
    with load(serving.head) as seen, changed("other", seed(1)):
        run = pyinfra(DEPLOY).succeeded()
        assert pyinfra(DEPLOY).succeeded().changed == frozenset()
    assert seen.failed == []
    assert current(serving.head).startswith("lab-other-")
    after = serving.recovery(restart)
    waited = seen.longest_wait
    measured = f"the longest wait: {waited:.1f} s; bare restarts: {before:.1f} and {after:.1f} s"
    record_property("measured", measured)
    assert waited <= 1.1 * max(before, after) + LOOKS, run.output


def test_a_release_that_cannot_start_leaves_the_previous_one_to_both(serving: Pair) -> None:
    previous = current(serving.head)
    with changed("broken", BROKEN):
        pyinfra(DEPLOY).fails("does not know a flag")
    assert current(serving.head) == previous
    assert all(serving.lives())
    assert serving.ask()


def test_nothing_is_half_changed_when_one_cannot_be_reached(serving: Pair) -> None:
    release = current(serving.head)
    serving.worker.power_off()
    before = serving.head.run("ls /opt/qwen36/releases").stdout
    with replica(port=8001):
        run = pyinfra(DEPLOY)
    assert run.status
    assert current(serving.head) == release
    assert serving.head.run("ls /opt/qwen36/releases").stdout == before


def test_a_spark_that_went_down_hard_twice_boots_without_its_engine(serving: Pair) -> None:
    """The first time was in the test before."""
    unit = serving.unit()
    serving.worker.power_on()
    until(serving.worker, "sudo docker ps -q | grep -q .")
    serving.worker.power_off()
    serving.worker.power_on()
    until(serving.worker, f"systemctl is-failed {unit}")
    assert "went down hard twice" in engines_status(serving.worker)
    # What listens on the fabric came after its guard.
    entered = "systemctl show -P ActiveEnterTimestampMonotonic"
    guard, socket = (
        int(serving.worker.run(f"{entered} {name}").stdout)
        for name in ("fabric-guard.service", "fabric-metrics.socket")
    )
    assert 0 < guard < socket
    serving.worker.run(f"sudo systemctl start --no-block {unit}")
    serving.wait_serving()


def test_a_pair_that_shrinks_and_grows_again_swapped(serving: Pair) -> None:
    """Nothing is fetched again."""
    fetched = json.dumps(hub.stats())
    with replica(sparks=["spark1"]):
        pyinfra(DEPLOY).succeeded()
        assert serving.ask()
        assert serving.worker.run("sudo docker ps -q").stdout == ""
        assert pyinfra(DEPLOY).succeeded().changed == frozenset()
    with replica(sparks=["spark2", "spark1"]):
        pyinfra(DEPLOY).succeeded()
        assert Pair(serving.worker, serving.head).ask()
        assert pyinfra(DEPLOY).succeeded().changed == frozenset()
    pyinfra(DEPLOY).succeeded()
    assert serving.ask()
    assert json.dumps(hub.stats()) == fetched


def test_changes_by_hand_are_mended(serving: Pair) -> None:
    """So that the removal meets them as well."""
    plant(serving)
    undo(serving)
    pyinfra(DEPLOY).succeeded()
    serving.wait_serving()
    assert pyinfra(DEPLOY).succeeded().changed == frozenset()


@pytest.fixture(scope="module")
def announced(serving: Pair) -> Run:
    """What a dry run says would be removed."""
    assert f"{PORT}/tcp" in serving.head.run("sudo ufw show added").stdout
    return pyinfra(REMOVE, "--dry").succeeded()


def test_a_dry_run_shows_what_goes_and_what_stays(serving: Pair, announced: Run) -> None:
    assert announced.plan
    guards = [f", /etc/systemd/system/{name}" for name in (ALONE, PAIR)]
    announced.says("goes: units: ", *guards)
    announced.says("stays: weights: /opt/qwen36/tiny@", "stays: /opt/qwen36/mine")
    assert serving.ask()


def test_a_slip_removes_no_weights(serving: Pair) -> None:
    expected = "verify, or remove with pyinfra inventory/lab.py deploys/remove.py"
    run = pyinfra(REMOVE, "--data", "weights=all")
    run.refused(f"--data weights: found 'all'; expected {expected}")


def test_weights_stay_and_the_rest_goes(serving: Pair, delivered: Listings, announced: Run) -> None:
    run = pyinfra(REMOVE).succeeded()
    assert run.changed == announced.plan
    serving.each(lambda spark: purge(run, spark))
    for spark in serving.both:
        known = "systemctl list-units --all --plain --no-legend 'sparkwright*'"
        assert spark.run(known).stdout == ""
    for before, after in zip(delivered, serving.each(listing), strict=True):
        left = changes(before, after)
        weights = left.pop("files")
        assert left == {}
        assert all(" opt/qwen36/" in line for line in weights), weights
        assert any(line.endswith(".safetensors") for line in weights)


def test_a_second_removal_changes_nothing_and_weights_go_when_asked(
    serving: Pair, delivered: Listings
) -> None:
    assert pyinfra(REMOVE).succeeded().changed == frozenset()
    pyinfra(REMOVE, "--data", "weights=remove").succeeded()
    for before, after in zip(delivered, serving.each(listing), strict=True):
        assert changes(before, after) == {}
