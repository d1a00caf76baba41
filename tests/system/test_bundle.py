"""A site without internet: a bundle is filled, then brings a Spark from the factory to a model.

Nothing but SSH leaves the machine that runs pyinfra, and nothing leaves the Spark: what either
asks of hub, registry or archive, or of any other network, is refused and counted.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import pytest

from sparkwright.plan.release.lock import lock_path
from tests.clock import patience
from tests.component.servers import until
from tests.driver.declared import edited, replica
from tests.driver.pairs import Pair
from tests.driver.product import DEPLOY, PROJECT, TOKEN, env, here, pyinfra
from tests.lab import archive, hub, network
from tests.lab.spark import Handle
from tests.lab.state import FLEET

REPO = "sparkwright/tiny-qwen3.5-moe"
PORTS = f"5000,8090,8091,{archive.PORT}"
# Each attempt to connect: to what stands for the internet, and past the LAN from either machine.
REFUSALS = (
    ("INPUT", "-p", "tcp", "--syn", "-m", "multiport", "--dports", PORTS),
    ("FORWARD", "-s", network.SUBNET, "-p", "tcp", "--syn"),
    ("OUTPUT", "!", "-o", "lo", "!", "-d", network.SUBNET, "-p", "tcp", "--syn"),
)

# Not in the file either: a pair's fabric is set up by netplan, which makes what its files say.
NO_ROUTE = "sudo sed -i /routes:/d /etc/netplan/01-lan.yaml && sudo ip route del default"


def filling(folder: Path) -> list[str]:
    """Return the words that fill a bundle, where there is internet."""
    key = archive.ensure() / archive.KEY
    source = f"deb [signed-by={key}] http://{network.HOST}:{archive.PORT}/ ./"
    return [
        *(sys.executable, "-m", "sparkwright", "-i", FLEET.stem, "bundle", str(folder)),
        *("--apt", source, "--hf-endpoint", f"http://{hub.ADDRESS}", "--hf-token", "http"),
    ]


def bundle(folder: Path) -> subprocess.CompletedProcess[str]:
    """Fill a bundle."""
    return here(*filling(folder), timeout=patience(300))


def fetched(kind: str = "") -> int:
    """Return the bytes of files of a checkpoint, of one kind or of all, that the hub has sent."""
    names = (name for name in hub.stats() if name.startswith(REPO) and name.endswith(kind))
    return sum(hub.stats()[name]["bytes"] for name in names)


@contextmanager
def no_internet() -> Iterator[None]:
    """Refuse all that is not SSH between the two machines; fail if anybody asked for it."""
    rules = [[chain, *match, "-j", "REJECT"] for chain, *match in REFUSALS]
    for rule in rules:
        subprocess.run(["iptables", "-w", "-I", *rule], check=True)
    try:
        yield
        for chain, *_ in rules:
            line = ["iptables", "-w", "-nvxL", chain, "1"]
            listed = subprocess.check_output(line, text=True)
            assert listed.split()[0] == "0", listed
    finally:
        for rule in rules:
            subprocess.run(["iptables", "-w", "-D", *rule], check=True)


@pytest.fixture(scope="module")
def folder(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A filled bundle, the filling of which was killed amid the weights."""
    folder, before = tmp_path_factory.mktemp("bundle"), fetched()
    none = fetched(".safetensors")
    # Another run has begun long before one shard is there.
    hub.set_fault("rate", path=f"{REPO}/*.safetensors", rate=100_000)
    with subprocess.Popen(
        filling(folder), cwd=PROJECT, env=env(TOKEN), start_new_session=True
    ) as cut:
        until(lambda: fetched(".safetensors") > none)
        assert "another run that fills it" in bundle(folder).stderr
        os.killpg(cut.pid, 9)
    hub.clear_faults()
    filled = bundle(folder)
    assert filled.returncode == 0, filled.stderr
    assert f"bundle: {folder}\n  sha256: {index_hash(folder)}\n" in filled.stdout
    (weights,) = folder.glob("weights/*@*")
    size = sum(path.stat().st_size for path in weights.rglob("[!.]*") if path.is_file())
    assert size <= fetched() - before < size * 1.2
    return folder


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[Path]:
    """The inventory takes everything from the bundle, its lock, too."""
    lock_path(FLEET).unlink()
    source = {"bundle": str(folder), "sha256": index_hash(folder)}
    with edited(FLEET, lambda fleet: fleet.update(source=source)):
        yield folder


def index_hash(folder: Path) -> str:
    return sha256((folder / "bundle.json").read_bytes()).hexdigest()


def twice(spark: Handle) -> str:
    """Return what of weights and image is still in the Spark's folder of the bundle."""
    folders = "/opt/qwen36/bundle/images /opt/qwen36/bundle/weights"
    return spark.run(f"sudo find {folders} -type f ! -name '.*' 2>/dev/null", check=False).stdout


def test_filling_it_again_fetches_nothing(folder: Path) -> None:
    with no_internet():
        again = bundle(folder)
    assert again.returncode == 0, again.stderr


def test_a_pair_without_a_route_serves(pair: Pair, site: Path) -> None:
    pair.each(lambda spark: spark.reset())
    pair.each(lambda spark: spark.run(NO_ROUTE))
    with no_internet():
        planned = pyinfra(DEPLOY, "--dry").succeeded()
        assert "Weights | Checkpoints" in planned.plan
        pyinfra(DEPLOY).succeeded()
        pair.wait_serving()
        assert pair.ask()
        assert pyinfra(DEPLOY).succeeded().changed == frozenset()
        assert pyinfra("deploys/drift.py").status == 0
    for spark in pair.both:
        assert "default" not in spark.run("ip route").stdout
        assert twice(spark) == ""


def test_a_changed_file_is_refused_before_any_change(pair: Pair, site: Path) -> None:
    (file,) = site.glob("weights/*/config.json")
    content = file.read_bytes()
    file.write_bytes(content.replace(b"{", b"[", 1))
    try:
        run = pyinfra(DEPLOY)
    finally:
        file.write_bytes(content)
    run.refused(f"{file}: found another content than bundle.json says")


def test_an_exchanged_package_is_refused_before_any_change(pair: Pair, site: Path) -> None:
    """Whoever had the disk for a minute has made package, lists and index agree."""
    package, index = next(site.glob("packages/*/0/*.deb")), site / "bundle.json"
    before = package.read_bytes(), index.read_text()
    content = before[0] + b"?"
    told = json.loads(before[1])
    entry = {"size": len(content), "sha256": sha256(content).hexdigest()}
    told["files"][package.relative_to(site).as_posix()] = entry
    try:
        package.write_bytes(content)
        index.write_text(json.dumps(told))
        run = pyinfra(DEPLOY)
    finally:
        package.write_bytes(before[0])
        index.write_text(before[1])
    run.refused("source.sha256: found")


def test_one_that_an_owner_has_carried(pair: Pair, site: Path) -> None:
    """A Spark with a route asks nobody; containerd's store knows the image by its manifest.

    Of what was carried one byte has changed: that file alone is sent.
    """
    spark = pair.head
    spark.reset("containerd-store")
    spark.run("sudo mkdir -p /opt/qwen36/bundle")
    archive = ["tar", "--create", f"--directory={site}", "."]
    with subprocess.Popen(archive, stdout=subprocess.PIPE) as sent:
        extract = "sudo tar --extract --no-same-owner --directory=/opt/qwen36/bundle"
        subprocess.run(spark.ssh_command(extract), stdin=sent.stdout, check=True)
    spark.run(
        "sudo sh -c 'cd /opt/qwen36/bundle/weights/*/; file=$(ls *.safetensors | head -n 1); "
        "printf X | dd of=$file bs=1 seek=100000 conv=notrunc status=none'"
    )
    with no_internet(), replica(sparks=["spark1"]):
        run = pyinfra(DEPLOY).succeeded()
        assert pair.ask()
        assert pyinfra(DEPLOY).succeeded().changed == frozenset()
    assert "default" in spark.run("ip route").stdout
    assert run.output.count("of the bundle sent") == 1
    assert "1 file(s) of the bundle sent" in run.output
    assert twice(spark) == ""
