"""Changes by hand on a pair: what a look is to find, and a run is to mend."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.driver.pairs import Pair
from tests.driver.sparks import current

ROOT, UNITS = "/opt/qwen36", "/etc/systemd/system"
NETPLAN = "/etc/netplan/60-sparkwright-fabric.yaml"
SMI = "/usr/bin/nvidia-smi"


@dataclass(frozen=True)
class Plant:
    """A change by hand, or with `true` another difference that the ones above it make.

    In what root's shell does, WHAT stands for `what`, RELEASE for the one that serves, WEIGHTS for
    its checkpoint's folder. The head tells, of `told_of`, what it compares of the two.
    """

    spark: str
    change: str
    what: str
    found: str
    undo: str = ""
    told_of: str = ""


KEYS = (
    "import json, sys; path = '/etc/docker/daemon.json'; found = json.load(open(path)); "
    "found.pop('log-opts'); found.pop('runtimes'); json.dump(found, open(path, 'w'))"
)
PLANTS = [
    Plant("spark1", "echo >> WHAT", "/etc/default/earlyoom", "sha256:"),
    Plant("spark1", "true", "earlyoom.service", "started before"),
    Plant("spark1", "echo IPAddressAllow=any >> WHAT", f"{UNITS}/sparkwright.slice", "sha256:"),
    Plant("spark1", "chmod 755 WHAT", f"{ROOT}/secrets", "root:root 755"),
    Plant("spark1", "rm WHAT", f"{UNITS}/weights@.service", "nothing"),
    Plant("spark1", "echo BY_HAND=1 >> WHAT", f"{ROOT}/releases/RELEASE/engine.env", "sha256:"),
    Plant("spark1", "touch WHAT/config.json", f"{ROOT}/WEIGHTS", "config.json was changed"),
    Plant("spark1", f"ln -sfnT releases/by-hand {ROOT}/current", "current release", "by-hand"),
    Plant("spark1", "echo >> WHAT", f"{ROOT}/door/keys", "another"),
    Plant("spark1", "systemctl stop WHAT", "door.service", "not active"),
    Plant("spark1", "chmod 644 WHAT", NETPLAN, "another text, owner or mode"),
    Plant("spark1", "echo hf_by_hand > WHAT", f"{ROOT}/secrets/hf-token", "another"),
    Plant("spark1", "rm WHAT/.requirements", f"{ROOT}/hf", "none, or another"),
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
        "the Sparks of a group",
        "580.95.05 on spark2",
        f"mv {SMI}.away {SMI}",
        told_of="spark1",
    ),
    Plant("spark2", "true", "GPU in a container", "580."),
    Plant("spark2", "sysctl WHAT=0", "net.ipv4.conf.enp1s0f0np0.arp_ignore", "0"),
    Plant("spark2", "systemctl stop fabric-guard", "fabric-guard.service", "not active"),
    Plant("spark2", "systemctl disable fabric-guard", "fabric-guard.service", "not enabled"),
    Plant("spark2", "dpkg --purge earlyoom", "package earlyoom", "not installed"),
    Plant("spark2", "true", "/etc/default/earlyoom", "nothing"),
    Plant("spark2", "rm WHAT", f"{ROOT}/manifests/WEIGHTS.json", "nothing"),
    Plant("spark2", "rm WHAT", f"{ROOT}/link/peer.crt", "nothing"),
    Plant("spark2", f'python3 -c "{KEYS}"', "/etc/docker/daemon.json", "none of that name"),
    Plant("spark2", "true", "/etc/docker/daemon.json", "others"),
    Plant("spark2", "true", "docker.service", "started before"),
    Plant("spark2", "rm -r WHAT", f"{ROOT}/jobs", "nothing"),
]


def names(pair: Pair) -> Callable[[str], str]:
    """Return what puts the names of the release that serves, and of its weights, into a text."""
    release = current(pair.head)
    weights = pair.head.run(f"cd {ROOT}; ls -d tiny@*").stdout.strip()
    return lambda text: text.replace("RELEASE", release).replace("WEIGHTS", weights)


def plant(pair: Pair) -> None:
    named, sparks = names(pair), {spark.name: spark for spark in pair.both}
    for each in PLANTS:
        sparks[each.spark].run("sudo sh -es", stdin=named(each.change.replace("WHAT", each.what)))


def undo(pair: Pair) -> None:
    sparks = {spark.name: spark for spark in pair.both}
    for each in PLANTS:
        if each.undo:
            sparks[each.spark].run("sudo sh -s", stdin=each.undo)
