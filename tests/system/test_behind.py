"""A site whose only way out is a proxy, and whose images lie in a private mirror.

Hub, registries, apt's sources and the internet refuse what a Spark sends them itself; Squid takes
it there, and its log says what for. The tests build on one another, in order.
"""

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sparkwright.plan.release.lock import lock_path
from tests.driver.declared import replica
from tests.driver.listing import changes, listing, purge
from tests.driver.product import DEPLOY, Run, background, command, env, here, pyinfra
from tests.lab import archive, registry, state
from tests.lab.network import HOST, LAN
from tests.lab.registry import PASSWORD, USER
from tests.lab.services import answers
from tests.lab.spark import Handle
from tests.lab.state import FLEET, RUN, Engine, Process

PORT, PRIVATE = 3128, f"{HOST}:5001"
# Where packages, images and weights are, without the proxy.
SOURCES = ("5000", "5001", "8090", "8091", str(archive.PORT))
PROXY = ("--data", f"proxy=http://{HOST}:{PORT}")
MIRRORS = {f"{HOST}:5000": PRIVATE}
MIRROR = ("--data", f"registry_mirrors={json.dumps(MIRRORS)}")
SQUID = f"""\
http_port {HOST}:{PORT}
http_access allow all
cache deny all
access_log stdio:{{logs}}/access.log logformat=common
cache_log {{logs}}/cache.log
pid_filename none
pinger_enable off
shutdown_lifetime 0 seconds
"""
IMAGE = "sparkwright.artifacts.image.deploy.apply"
ENGINE = "sudo docker ps --no-trunc --quiet --filter label=sparkwright.release"


def basic(password: str) -> str:
    return base64.b64encode(f"{USER}:{password}".encode()).decode()


@dataclass(frozen=True)
class Site:
    """The Spark behind the proxy, and the logins of the machine that runs pyinfra.

    Attributes:
        right, wrong, missing: folders of Docker's configuration.
        registry: the private one.
        delivered: what the Spark was.
    """

    spark: Handle
    right: Path
    wrong: Path
    missing: Path
    registry: Process
    delivered: dict[str, set[str]]

    def run(self, login: Path, *words: str) -> Run:
        """Run pyinfra with one of the logins, behind the proxy, with the mirror."""
        return pyinfra(*words, *PROXY, *MIRROR, DOCKER_CONFIG=str(login))


def iptables(*words: str) -> str:
    return subprocess.check_output(["iptables", "-w", *words], text=True)


@pytest.fixture(scope="module")
def site(spark: Handle, engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A Spark without the toolkit, as its owner put it behind a proxy."""
    folder = tmp_path_factory.mktemp("behind")
    spark.reset("no-toolkit")
    # What only its owner can say: that this registry has no TLS.
    spark.run(
        f"sudo sed -i 's|{HOST}:5000|{HOST}:5000\", \"{PRIVATE}|' /etc/docker/daemon.json && "
        "sudo systemctl restart docker && sudo ip route del default"
    )
    lock_path(FLEET).unlink(missing_ok=True)
    for name, password in (("right", PASSWORD), ("wrong", "not-the-password")):
        (folder / name).mkdir()
        auths = {"auths": {PRIVATE: {"auth": basic(password)}}}
        (folder / name / "config.json").write_text(json.dumps(auths))
    logs = RUN / "squid"
    logs.mkdir()
    # As which Squid runs once it has begun.
    shutil.chown(logs, "proxy")
    (folder / "squid.conf").write_text(SQUID.format(logs=logs))
    storage = registry.ensure_image(engine)
    serve = registry.serve_command(storage, PRIVATE, auth=registry.by_password(folder))
    servers = [
        state.start("private-registry", serve),
        state.start("proxy", ["squid", "-N", "-f", str(folder / "squid.conf")]),
    ]
    iptables("-N", "BEHIND")
    for rule in (
        f"-p tcp -d {HOST} --dport {PORT} -j RETURN",
        "-m conntrack --ctstate ESTABLISHED,RELATED -j RETURN",
        f"-p tcp -m multiport --dports {','.join((*SOURCES, '80', '443'))} -j REJECT",
        "-j DROP",
    ):
        iptables("-A", "BEHIND", *rule.split())
    for chain in ("INPUT", "FORWARD"):
        iptables("-I", chain, "-i", LAN, "-s", spark.address, "-j", "BEHIND")
    try:
        for port in (PORT, 5001):
            state.wait_for(lambda port=port: answers(HOST, port), 30, f"port {port}")
        rule = "INPUT -i lo -j ACCEPT"
        spark.run(f"sudo sh -c 'ip6tables -w -A {rule} && ip6tables -w -D {rule}'")
        logins = folder / "right", folder / "wrong", folder
        yield Site(spark, *logins, servers[0], listing(spark))
    finally:
        for chain in ("INPUT", "FORWARD"):
            iptables("-D", chain, "-i", LAN, "-s", spark.address, "-j", "BEHIND")
        iptables("-F", "BEHIND")
        iptables("-X", "BEHIND")
        for server in servers:
            server.end()
        shutil.rmtree(logs)
        lock_path(FLEET).unlink(missing_ok=True)


def refused() -> int:
    """Return how many packets the Spark has sent by the proxy, to where it fetches things."""
    lines = iptables("-L", "BEHIND", "-v", "-n", "-x").splitlines()
    (line,) = [line for line in lines if "REJECT" in line]
    return int(line.split()[0])


def test_nothing_is_reached_but_by_the_proxy(site: Site) -> None:
    ask = f"curl --silent --max-time 5 --output /dev/null http://{HOST}:8090/"
    assert site.spark.run(ask, check=False).returncode == 7
    assert refused()
    site.spark.run(f"{ask} --proxy http://{HOST}:{PORT}")
    iptables("-Z", "BEHIND")


@pytest.mark.parametrize(
    ("login", "expected"),
    [
        ("missing", "found no access; expected an image that anyone may pull, or a login for "),
        ("wrong", f"found no access by the login of {USER} ("),
    ],
)
def test_a_name_that_may_not_be_looked_up_changes_nothing(
    site: Site, login: str, expected: str
) -> None:
    run = site.run(getattr(site, login), DEPLOY)
    run.refused(expected, f"docker login {PRIVATE}, on this machine")
    assert not lock_path(FLEET).exists()
    assert site.spark.run("ls /opt/qwen36", check=False).returncode


def test_a_spark_is_refused_and_says_what_helps(site: Site) -> None:
    (name, mirror), *_ = MIRRORS.items()
    options = ["--hf-endpoint", f"http://{HOST}:8090", "--hf-token", "http"]
    options += ["--registry-mirror", f"{name}={mirror}"]
    line = [sys.executable, "-m", "sparkwright", "-i", FLEET.stem, "lock", *options]
    here(*line, env=env(DOCKER_CONFIG=str(site.right)), check=True)
    lock = lock_path(FLEET).read_text()
    assert f"{name}/" in lock
    assert mirror not in lock
    run = site.run(site.wrong, DEPLOY)
    run.fails(f"{PRIVATE} gives no access to the login of {USER}: on the machine that")
    # Its pull fails while the unit still starts.
    slow = "/run/systemd/system/image@.service.d/slow.conf"
    text = "[Service]\nExecStartPost=/bin/sleep 5\n"
    site.spark.run(f"sudo install -D -m 644 /dev/stdin {slow}", stdin=text)
    run = site.run(site.missing, IMAGE)
    run.fails(f"{PRIVATE} wants a login, and this job got none")
    run.says(f"`docker login {PRIVATE}`, and run again")
    site.spark.run(f"sudo rm {slow}")


def test_a_pull_goes_on_without_a_connection_and_shows_its_login_to_nobody(site: Site) -> None:
    spark, job = site.spark, "image@*"
    state_of = f"systemctl show -P ActiveState '{job}'"
    # It answers nobody until it has been looked at.
    os.kill(site.registry.pid, signal.SIGSTOP)
    try:
        with background(IMAGE, "-vvv", *PROXY, *MIRROR, DOCKER_CONFIG=str(site.right)) as run:
            state.wait_for(
                lambda: spark.run(state_of).stdout.strip() == "active", 60, "the job to run"
            )
            run.kill()
            assert run.stdout
            said = run.stdout.read()
        assert "systemctl start image@" in said
        assert PASSWORD not in said
        # Where it is now: in what systemd has made for the job, and root alone can read.
        assert traces(spark) == []
        kept = "sudo sh -c 'stat -c \"%a %U\" /run/credentials/image@*/login && ls /run'"
        mode, *names = spark.run(kept).stdout.splitlines()
        assert mode in ("400 root", "440 root")
        assert not any("sparkwright-login" in name for name in names)
        assert spark.run(state_of).stdout.strip() == "active"
    finally:
        os.kill(site.registry.pid, signal.SIGCONT)
    # systemd forgets a unit that has ended well.
    state.wait_for(lambda: not spark.run(state_of).stdout.strip(), 60, "the job to end")
    assert spark.run("sudo ls /run/credentials | grep image@", check=False).stdout == ""
    assert "5001/sparkwright/vllm-cpu" in spark.run("sudo docker image ls").stdout


def test_it_serves(site: Site) -> None:
    site.run(site.missing, DEPLOY).succeeded()
    assert site.spark.run(ENGINE).stdout.strip()
    release = site.spark.run("cat /opt/qwen36/current/release.json").stdout
    assert f'"image": "{HOST}:5000/' in release
    assert site.run(site.missing, DEPLOY).succeeded().changed == frozenset()


def test_everything_has_come_by_the_proxy(site: Site) -> None:
    log = (RUN / "squid/access.log").read_text()
    for place in (
        f"GET http://{HOST}:8090/api/whoami-v2",
        f"GET http://{HOST}:8090/sparkwright/tiny",
        f"GET http://{PRIVATE}/v2/sparkwright/vllm-cpu/blobs/",
        # The key and the packages of the toolkit, the distribution's packages, pip's.
        f"GET http://{HOST}:8091/gpgkey",
        f"GET http://{HOST}:8091/deb/",
        f"GET http://{HOST}:{archive.PORT}/",
        "CONNECT pypi.org:443",
        "CONNECT files.pythonhosted.org:443",
    ):
        assert place in log, place
    assert f"http://{HOST}:5000/" not in log
    assert refused() == 0
    inside = site.spark.run(f"sudo docker inspect --format '{{{{.Config.Env}}}}' $({ENGINE})")
    assert "proxy" not in inside.stdout.lower()


# The test's own commands are in the journal, by sudo: the words must not be in a command line.
SEARCH = """import glob, subprocess, sys
words = [word.encode() for word in sys.stdin.read().split()]
def has(place, content):
    if any(word in content for word in words):
        print(place)
def said(*command):
    has(command, subprocess.run(command, capture_output=True).stdout)
for part in ("cmdline", "environ"):
    for place in glob.glob(f"/proc/[0-9]*/{part}"):
        try:
            has(place, open(place, "rb").read())
        except OSError:
            pass
said("journalctl", "--no-pager", "--output", "export")
said("systemctl", "show", "*")
said("systemctl", "show", "--all", "image@*")
said("sh", "-c", "docker inspect $(docker ps --all --quiet) $(docker image ls --quiet)")
said("sh", "-c", "docker info; docker system info --format json")
folders = "/etc /opt /run /var /root /home /tmp /usr/local".split()
find = ["find", *folders, "-xdev", "-type", "f", "-size", "-20M", "-print0"]
for place in subprocess.run(find, capture_output=True).stdout.split(b"\\0"):
    try:
        has(place.decode(), open(place, "rb").read() if place else b"")
    except OSError:
        pass
"""


def traces(spark: Handle) -> list[str]:
    """Return where a Spark has the password, in itself or as a header or Docker's API has it."""
    words = [PASSWORD, basic(PASSWORD), base64.b64encode(PASSWORD.encode()).decode()[:24]]
    spark.run("sudo tee /root/search.py >/dev/null", stdin=SEARCH)
    search = "sudo python3 /root/search.py; sudo rm /root/search.py"
    return spark.run(search, stdin=" ".join(words), timeout=300).stdout.splitlines()


def test_the_login_is_nowhere_on_the_spark(site: Site) -> None:
    site.spark.run("sudo tee /root/planted >/dev/null", stdin=f"x {PASSWORD} y")
    assert traces(site.spark) == ["/root/planted"]
    site.spark.run("sudo rm /root/planted")
    assert site.spark.run("ls /run | grep sparkwright-login", check=False).stdout == ""


def test_drift_knows_what_is_laid_down(site: Site, tmp_path: Path) -> None:
    def drift(*words: str) -> str:
        file = tmp_path / "drift.json"
        look = [*command("inventory/lab.py"), "deploys/drift.py", *words]
        here(*look, "--data", f"json={file}")
        return file.read_text()

    assert json.loads(drift(*PROXY, *MIRROR))["differences"] == []
    other = drift(*MIRROR)
    assert "/etc/docker/daemon.json" in other
    assert "/etc/systemd/system/weights@.service" in other


def test_without_the_setting_the_proxy_goes_and_the_engine_stays(site: Site) -> None:
    before = site.spark.run(ENGINE).stdout
    daemon = site.spark.run("cat /etc/docker/daemon.json").stdout
    assert f'"http-proxy": "http://{HOST}:{PORT}"' in daemon
    run = pyinfra(DEPLOY, *MIRROR).succeeded()
    run.says("Docker is not restarted, which would end vllm-")
    left = site.spark.run("cat /etc/docker/daemon.json /etc/systemd/system/*@.service").stdout
    assert "proxy" not in left.replace("--data", "").lower()
    assert site.spark.run(ENGINE).stdout == before
    assert pyinfra(DEPLOY, *MIRROR).succeeded().changed == frozenset()


def test_a_build_begins_with_an_image_from_the_mirror(site: Site) -> None:
    with replica(recipe="lab-built"):
        site.run(site.missing, IMAGE).succeeded()
        built = site.spark.run("sudo docker image ls --quiet sparkwright/lab-inject").stdout
        assert len(built.split()) == 1
    assert refused() == 0


def test_the_removal_leaves_it_as_delivered(site: Site) -> None:
    pyinfra("sparkwright.machine.runtime.deploy.apply", *PROXY).succeeded()
    assert "http-proxy" in site.spark.run("cat /etc/docker/daemon.json").stdout
    run = pyinfra("deploys/remove.py", "--data", "weights=remove", *PROXY).succeeded()
    purge(run, site.spark)
    assert changes(site.delivered, listing(site.spark)) == {}
