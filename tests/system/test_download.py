"""Downloads by way of a run and a job on the Spark: ends of either, what is said, and tokens.

What the hub may do to a job: tests/component/fetch.
"""

import pytest

from tests.driver.product import killed_at, pyinfra
from tests.lab import hub
from tests.lab.spark import Handle

WEIGHTS = "sparkwright.artifacts.weights.deploy.apply"
AUTH = "sparkwright.artifacts.weights.deploy.authenticate"
REPO = "sparkwright/tiny-qwen3.5-moe"
SHARDS = f"{REPO}/*.safetensors"


def fetched() -> int:
    """Return the bytes of weights that the hub has sent so far."""
    return sum(seen["bytes"] for name, seen in hub.stats().items() if name.startswith(REPO))


def size(spark: Handle) -> int:
    """Return the bytes of the checkpoint on the Spark."""
    return int(spark.run("du -sb --exclude='.*' /opt/qwen36/tiny@* | cut -f1").stdout)


@pytest.fixture(scope="module")
def prepared(spark: Handle) -> Handle:
    """A Spark that is ready to download."""
    spark.reset()
    for step in (
        "machine.host.deploy.folders",
        "artifacts.jobs.deploy.apply",
        "artifacts.weights.deploy.authenticate",
    ):
        pyinfra(f"sparkwright.{step}").succeeded()
    return spark


@pytest.fixture
def empty(prepared: Handle) -> Handle:
    """The same without any weights."""
    prepared.run("sudo rm -rf /opt/qwen36/tiny@*")
    return prepared


# Where a process is: is there a Docker that answers, and what is in two folders?
LOOK = """import os, socket
try:
    socket.socket(socket.AF_UNIX).connect("/run/docker.sock")
    print("docker")
except OSError as error:
    print(error.strerror)
print(os.listdir("/opt/qwen36/secrets"))"""


def confined(spark: Handle) -> None:
    """Check that what fetches weights now is nobody, and that even root would be alone there."""
    process = spark.run("systemctl show -P MainPID 'weights@tiny@*'").stdout.strip()
    user = spark.run(f"stat -c %u /proc/{process}").stdout
    assert int(user) >= 61184, "not a user that systemd makes"
    assert spark.run("stat -c %u /opt/qwen36/tiny@*").stdout == user
    inside = spark.run(f"sudo nsenter --target {process} --mount python3 -", stdin=LOOK).stdout
    assert inside.split("\n")[:2] == ["Connection refused", "[]"]
    outside = spark.run("sudo python3 -", stdin=LOOK).stdout
    assert outside.split("\n")[:2] == ["docker", "['hf-token']"]


def test_a_killed_run_is_continued(empty: Handle) -> None:
    before = fetched()
    hub.set_fault("rate", path=SHARDS, rate=500_000)
    killed_at(": downloading", WEIGHTS)
    state = empty.run("systemctl is-active 'weights@tiny@*'", check=False).stdout.strip()
    assert state in ("activating", "active")
    confined(empty)
    hub.clear_faults()
    pyinfra(WEIGHTS).succeeded()
    assert fetched() - before < size(empty) * 1.05
    owners = empty.run("sudo find /opt/qwen36/tiny@* -printf '%u\\n' | sort -u").stdout
    assert owners == "root\n"
    assert pyinfra(WEIGHTS).succeeded().changed == frozenset()


def test_a_job_cut_by_a_power_cut_is_continued(empty: Handle) -> None:
    before = fetched()
    hub.set_fault("rate", path=SHARDS, rate=500_000)
    killed_at(": downloading", WEIGHTS)
    empty.power_off()
    hub.clear_faults()
    empty.power_on()
    empty.wait_ready()
    pyinfra(WEIGHTS).succeeded()
    assert fetched() - before < size(empty) * 1.2
    assert pyinfra(WEIGHTS).succeeded().changed == frozenset()


def test_verify_hashes_everything(prepared: Handle) -> None:
    pyinfra(WEIGHTS).succeeded()
    # Same size and time: only a hash tells.
    prepared.run(
        "sudo sh -c 'cd /opt/qwen36/tiny@*; f=$(ls *.safetensors | head -n 1); t=$(stat -c %y $f); "
        'printf X | dd of=$f bs=1 seek=100000 conv=notrunc status=none; touch -d "$t" $f\''
    )
    assert pyinfra(WEIGHTS).succeeded().changed == frozenset()
    assert pyinfra(WEIGHTS, "--data", "weights=verify").succeeded().changed


FOLDERS = '["/home/nvidia/.cache/huggingface", "/mnt/nas"]'
ADOPTING = ("--data", f"model_folders={FOLDERS}")


class TestAdopted:
    """What is on the Spark already, of a user's cache or on another disk."""

    @pytest.fixture
    def kept(self, prepared: Handle) -> Handle:
        """A Spark without a checkpoint of ours, and the fetched one aside, as a person's files."""
        pyinfra(WEIGHTS).succeeded()
        prepared.run(
            "sudo sh -c 'cd /opt/qwen36; rm -rf /root/kept && mkdir /root/kept && "
            "cp -r tiny@*/. /root/kept && rm -f /root/kept/.sparkwright* && rm -rf tiny@* "
            "manifests/tiny@*'"
        )
        # The job's unit names the folders.
        pyinfra("sparkwright.artifacts.jobs.deploy.apply", *ADOPTING).succeeded()
        return prepared

    def test_of_a_cache_no_byte_is_fetched(self, kept: Handle) -> None:
        cache = "/home/nvidia/.cache/huggingface/hub/models--sparkwright--tiny-qwen3.5-moe"
        kept.run(
            f"sudo rm -rf {cache} && sudo sh -c 'mkdir -p {cache}/snapshots/main {cache}/blobs && "
            "cd /root/kept && find . -type f | while read -r f; do "
            'h=$(sha256sum "$f" | cut -c-64); '
            'g=$({ printf "blob %d\\0" "$(stat -c %s "$f")"; cat "$f"; } | sha1sum | cut -c-40); '
            f'cp "$f" {cache}/blobs/$h; cp "$f" {cache}/blobs/$g; done; '
            "chmod 700 /home/nvidia/.cache; chown -R nvidia: /home/nvidia/.cache'"
        )
        before = fetched()
        pyinfra(WEIGHTS, *ADOPTING).succeeded().says(f"copied from {cache}/blobs")
        assert fetched() == before
        owners = "sudo find {} -type f -printf '%u\\n' | sort -u"
        assert kept.run(owners.format("/opt/qwen36/tiny@*")).stdout == "root\n"
        assert kept.run(owners.format("/home/nvidia/.cache")).stdout == "nvidia\n"
        assert pyinfra(WEIGHTS, *ADOPTING).succeeded().changed == frozenset()
        kept.run("rm -rf /home/nvidia/.cache/huggingface")
        assert pyinfra(WEIGHTS, *ADOPTING).succeeded().changed == frozenset()
        inside = kept.run("systemctl cat weights@x.service").stdout
        assert "BindReadOnlyPaths= -/home/nvidia/.cache/huggingface -/mnt/nas" in inside


class TestToken:
    def test_an_invalid_token_is_an_error(self, prepared: Handle) -> None:
        run = pyinfra(AUTH, token="hf_nobody_knows_this_one").fails("token")
        assert "hf_nobody" not in run.output

    def test_without_a_token_there_is_a_warning(self, prepared: Handle) -> None:
        prepared.run("sudo rm -f /opt/qwen36/secrets/hf-token")
        pyinfra(AUTH, token=None).succeeded().says("limited in rate")
