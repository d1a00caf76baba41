"""Drift on two virtual Sparks that serve one model: each planted change is found, and no other.

The tests build on one another, in order.
"""

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from deploys.plan.lock import lock_path
from tests.e2e.conftest import DEPLOY, PROJECT, command, env, pyinfra
from tests.e2e.sparks import current
from tests.lab.state import FLEET

DRIFT = "deploys/drift.py"
ROOT = "/opt/qwen36"
NETPLAN = "/etc/netplan/60-sparkwright-fabric.yaml"
TWIN = "enp1s0f0np0"
SMI = "/usr/bin/nvidia-smi"
# Seconds for a look at both: "seconds, not minutes".
PATIENCE = 60


@dataclass(frozen=True)
class Plant:
    """A change by hand.

    Attributes:
        spark: where.
        change: what root's shell does; RELEASE stands for the one that serves, WEIGHTS for its
            checkpoint's folder.
        what, found: of the line that tells it, the second in part.
        undo: for what no run of spark.py mends.
    """

    spark: str
    change: str
    what: str
    found: str
    undo: str = ""


KEYS = (
    "import json, sys; path = '/etc/docker/daemon.json'; found = json.load(open(path)); "
    "found.pop('log-opts'); found.pop('runtimes'); json.dump(found, open(path, 'w'))"
)
PLANTS = [
    Plant("spark1", "echo >> /etc/default/earlyoom", "/etc/default/earlyoom", "sha256:"),
    Plant("spark1", "true", "earlyoom.service", "started before"),
    Plant("spark1", f"chmod 755 {ROOT}/secrets", f"{ROOT}/secrets", "root:root 755"),
    Plant(
        "spark1",
        "rm /etc/systemd/system/weights@.service",
        "/etc/systemd/system/weights@.service",
        "nothing",
    ),
    Plant(
        "spark1",
        f"echo BY_HAND=1 >> {ROOT}/releases/RELEASE/engine.env",
        f"{ROOT}/releases/RELEASE/engine.env",
        "sha256:",
    ),
    Plant(
        "spark1", f"touch {ROOT}/WEIGHTS/config.json", f"{ROOT}/WEIGHTS", "config.json was changed"
    ),
    Plant("spark1", f"ln -sfnT releases/by-hand {ROOT}/current", "current release", "by-hand"),
    Plant("spark1", f"echo >> {ROOT}/door/keys", f"{ROOT}/door/keys", "another"),
    Plant("spark1", "systemctl stop door.service", "door.service", "not active"),
    Plant("spark1", f"chmod 644 {NETPLAN}", NETPLAN, "another text, owner or mode"),
    Plant(
        "spark1",
        f"echo hf_by_hand > {ROOT}/secrets/hf-token",
        f"{ROOT}/secrets/hf-token",
        "another",
    ),
    Plant("spark1", f"rm {ROOT}/hf/.requirements", f"{ROOT}/hf", "none, or another"),
    Plant(
        "spark1",
        "docker run --detach --pull never --name by-hand --label sparkwright.release=by-hand "
        "--entrypoint sleep $(docker ps --format '{{.Image}}' | head -n 1) 900",
        "release that runs",
        "by-hand",
        "docker rm --force by-hand",
    ),
    Plant(
        "spark1",
        f"sed -i.away 's/|208|/|611|/; s/|3.64|/|14.21|/; s/\\$1|0|%/$1|97|%/' {SMI}",
        "GPU clock under load",
        "611 MHz and 14 W while 97 % busy",
        f"mv {SMI}.away {SMI}",
    ),
    Plant(
        "spark1",
        "apt-mark hold docker.io",
        "package docker.io",
        "held back",
        "apt-mark unhold docker.io",
    ),
    Plant(
        "spark2",
        f"sed -i.away 's/^DRIVER=.*/DRIVER=580.95.05/' {SMI}",
        "the two Sparks",
        "580.95.05 on spark2",
        f"mv {SMI}.away {SMI}",
    ),
    Plant(
        "spark2",
        f"sysctl net.ipv4.conf.{TWIN}.arp_ignore=0",
        f"net.ipv4.conf.{TWIN}.arp_ignore",
        "0",
    ),
    Plant("spark2", "systemctl stop fabric-guard", "fabric-guard.service", "not active"),
    Plant("spark2", "systemctl disable fabric-guard", "fabric-guard.service", "not enabled"),
    Plant("spark2", "dpkg --purge earlyoom", "package earlyoom", "not installed"),
    Plant(
        "spark2", f"rm {ROOT}/manifests/WEIGHTS.json", f"{ROOT}/manifests/WEIGHTS.json", "nothing"
    ),
    Plant("spark2", f"rm {ROOT}/link/peer.crt", f"{ROOT}/link/peer.crt", "nothing"),
    Plant("spark2", f'python3 -c "{KEYS}"', "/etc/docker/daemon.json", "none of that name"),
    Plant("spark2", "true", "/etc/docker/daemon.json", "others"),
    Plant("spark2", "rmdir /opt/qwen36/exports", f"{ROOT}/exports", "nothing"),
]


@dataclass(frozen=True)
class Look:
    """What a run of drift said, and how long it took."""

    status: int
    lines: list[str]
    told: dict
    seconds: float


def drift(tmp_path) -> Look:
    """Look at both Sparks, without -y and with nobody to answer."""
    file = tmp_path / "drift.json"
    began = time.monotonic()
    run = subprocess.run(
        [*command("inventory/lab.py"), DRIFT, "--data", f"json={file}"],
        cwd=PROJECT,
        env=env(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    print(run.stdout, run.stderr)  # shown where a test fails
    seconds = time.monotonic() - began
    return Look(run.returncode, run.stdout.splitlines(), json.loads(file.read_text()), seconds)


@pytest.fixture(scope="module")
def served(pair):
    """Two Sparks that serve one model, whatever they were through."""
    pyinfra(DEPLOY).succeeded()
    return pair


@pytest.fixture(scope="module")
def named(served) -> Callable[[str], str]:
    """What puts names into a text: of the release that serves, and of its checkpoint's folder."""
    release = current(served.head)
    weights = served.head.run(f"cd {ROOT}; ls -d tiny@*").stdout.strip()
    return lambda text: text.replace("RELEASE", release).replace("WEIGHTS", weights)


@pytest.fixture(scope="module")
def found(served, named, tmp_path_factory):
    """What a look finds when all was planted."""
    sparks = {spark.name: spark for spark in served.both}
    for plant in PLANTS:
        sparks[plant.spark].run("sudo sh -s", stdin=named(plant.change))
    return drift(tmp_path_factory.mktemp("drift"))


def test_nothing_differs_after_a_deploy(served, tmp_path, record_property):
    watched = f"{ROOT} /etc/systemd /etc/docker /etc/netplan /etc/default /etc/sysctl.d"
    # An engine writes into its cache, and a timer into metrics.
    spared = f"\\( -path {ROOT}/cache -o -path {ROOT}/metrics \\) -prune"
    ours = f"{spared} -o -newer /tmp/before -type f -print"
    lock = lock_path(FLEET).stat().st_mtime_ns
    for spark in served.both:
        spark.run("touch /tmp/before; sleep 0.1")
    lives = served.lives()
    look = drift(tmp_path)
    assert (look.status, look.lines) == (0, [])
    assert (look.told["differences"], look.told["not_read"]) == ([], [])
    assert look.told["sparks"] == ["spark1", "spark2"]
    record_property("measured", f"drift of a pair: {look.seconds:.0f} s")
    assert look.seconds < PATIENCE
    for spark in served.both:
        assert spark.run(f"sudo find {watched} {ours}").stdout == ""
    assert served.lives() == lives
    assert lock_path(FLEET).stat().st_mtime_ns == lock


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: f"{plant.spark} {plant.what}")
def test_each_planted_change_is_found(found, named, plant):
    what = named(plant.what)
    # It is the head that compares the two.
    spark = "spark1" if plant.what == "the two Sparks" else plant.spark
    told = [
        each["found"]
        for each in found.told["differences"]
        if (each["spark"], each["what"]) == (spark, what)
    ]
    assert any(plant.found in each for each in told), found.told["differences"]


def test_the_lines_and_the_status(found):
    assert found.status == 2
    assert len(found.lines) == len(found.told["differences"])
    assert all(": expected " in line and ", found " in line for line in found.lines)
    assert found.seconds < PATIENCE
    # Of secrets there is no word.
    assert "hf_by_hand" not in "".join(found.lines)


def test_a_run_mends_it(served, found, tmp_path):
    sparks = {spark.name: spark for spark in served.both}
    for plant in PLANTS:
        if plant.undo:
            sparks[plant.spark].run("sudo sh -s", stdin=plant.undo)
    pyinfra(DEPLOY).succeeded()
    served.wait_serving()
    look = drift(tmp_path)
    assert (look.status, look.lines) == (0, [])
