"""Downloads by way of a run and a job on the Spark: ends of either, what is said, and tokens.

What the hub may do to a job: tests/component/fetch.
"""

from collections.abc import Iterator

import pytest

from tests.driver.product import DEPLOY, killed_at, pyinfra
from tests.driver.sparks import unit, wait_active
from tests.lab import hub
from tests.lab.spark import Handle

WEIGHTS = "sparkwright.weights.deploy.apply"
AUTH = "sparkwright.weights.deploy.authenticate"
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
    for step in ("host.deploy.folders", "jobs.deploy.apply", "weights.deploy.authenticate"):
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


def test_why_a_job_failed_is_said(empty: Handle) -> None:
    hub.set_fault("403-gated", path=SHARDS)
    run = pyinfra(WEIGHTS)
    assert run.status == 1
    assert "accept its terms" in run.output


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
        run = pyinfra(WEIGHTS, *ADOPTING).succeeded()
        assert "linked from /home/nvidia/.cache/huggingface" in run.output
        assert fetched() == before
        owners = kept.run(
            "sudo find /opt/qwen36/tiny@* -type f -printf '%u %m\\n' | sort -u"
        ).stdout
        assert "root 444" in owners
        assert pyinfra(WEIGHTS, *ADOPTING).succeeded().changed == frozenset()
        kept.run("rm -rf /home/nvidia/.cache/huggingface")
        assert pyinfra(WEIGHTS).succeeded().changed == frozenset()

    def test_a_disk_that_is_away_is_named_and_not_fetched_behind_ones_back(
        self, kept: Handle
    ) -> None:
        kept.run(
            "sudo sh -c 'mkdir -p /mnt/nas && mount -t tmpfs -o mode=755 tmpfs /mnt/nas && "
            "cp -r /root/kept /mnt/nas/tiny'"
        )
        before = fetched()
        run = pyinfra(WEIGHTS, *ADOPTING).succeeded()
        assert "used where they are, in " in run.output
        assert pyinfra(WEIGHTS, *ADOPTING).succeeded().changed == frozenset()
        assert kept.run("findmnt -rno OPTIONS /opt/qwen36/tiny@*/config.json").stdout[:3] == "ro,"
        # As after a boot: our mounts have gone, and so has the disk.
        kept.run(
            "sudo sh -c 'for f in /opt/qwen36/tiny@*/*; do umount $f 2>/dev/null; done; "
            "mv /mnt/nas/tiny /mnt/nas/away'"
        )
        run = pyinfra(WEIGHTS, *ADOPTING)
        assert run.status == 1
        assert "/mnt/nas/tiny/" in run.output
        assert "is away" in run.output
        kept.run("sudo mv /mnt/nas/away /mnt/nas/tiny")
        pyinfra(WEIGHTS, *ADOPTING).succeeded()
        assert fetched() == before
        # What the group data no longer names is fetched.
        kept.run("sudo umount --lazy /mnt/nas/ && sudo rm -f /opt/qwen36/tiny@*/.sparkwright.json")
        pyinfra(WEIGHTS, "--data", 'model_folders=["/nowhere"]').succeeded()
        assert fetched() > before
        assert kept.run("findmnt -rno TARGET | grep -c /opt/qwen36 || true").stdout.strip() == "0"


@pytest.fixture
def in_place(prepared: Handle) -> Iterator[Handle]:
    """A Spark whose engine uses its weights on another disk."""
    pyinfra(WEIGHTS).succeeded()
    prepared.run(
        "sudo sh -c 'mkdir -p /mnt/nas && mount -t tmpfs -o mode=755 tmpfs /mnt/nas && "
        "cp -r /opt/qwen36/tiny@* /mnt/nas/tiny && rm -rf /mnt/nas/tiny/.sparkwright* "
        "/opt/qwen36/tiny@*'"
    )
    yield prepared
    prepared.reset()


def unmounted(spark: Handle) -> None:
    """Stop the engine, and have its weights as after a boot: mounts have ended."""
    spark.run("sudo systemctl stop 'vllm@*'")
    spark.run("sudo sh -c 'for f in /opt/qwen36/tiny@*/*; do umount $f 2>/dev/null; done; true'")


def test_an_engine_serves_what_is_in_place_and_says_when_it_is_away(in_place: Handle) -> None:
    before = fetched()
    pyinfra(DEPLOY, *ADOPTING).succeeded()
    assert fetched() == before
    engine = unit(in_place)
    seen = (
        "sudo docker exec $(sudo docker ps -q) sha256sum /models/tiny/model.safetensors.index.json"
    )
    original = in_place.run("sha256sum /mnt/nas/tiny/model.safetensors.index.json").stdout.split()
    assert in_place.run(seen).stdout.split()[0] == original[0]
    unmounted(in_place)
    in_place.run(f"sudo systemctl start {engine}")
    wait_active(in_place)
    assert in_place.run(seen).stdout.split()[0] == original[0]
    unmounted(in_place)
    in_place.run("sudo mv /mnt/nas/tiny /mnt/nas/away")
    assert in_place.run(f"sudo timeout 90 systemctl start {engine}", check=False).returncode
    told = in_place.run(f"sudo journalctl --quiet --output=cat --unit={engine}").stdout
    assert "weights in place: /mnt/nas/tiny/" in told
    assert "is away (No such file or directory): have /mnt/nas mounted as it was" in told
    assert "weights-away" in pyinfra("deploys/doctor.py").succeeded().output
    in_place.run(f"sudo mv /mnt/nas/away /mnt/nas/tiny; sudo systemctl reset-failed {engine}")
    in_place.run(f"sudo systemctl start {engine}")
    wait_active(in_place)
    assert fetched() == before


class TestToken:
    def test_an_invalid_token_is_an_error(self, prepared: Handle) -> None:
        run = pyinfra(AUTH, token="hf_nobody_knows_this_one")
        assert run.status == 1
        assert "token" in run.output
        assert "hf_nobody" not in run.output

    def test_without_a_token_there_is_a_warning(self, prepared: Handle) -> None:
        prepared.run("sudo rm -f /opt/qwen36/secrets/hf-token")
        run = pyinfra(AUTH, token=None).succeeded()
        assert "limited in rate" in run.output
