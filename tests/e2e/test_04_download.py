"""Downloads: every fault of the hub, a killed run, tokens."""

import pytest

from tests.e2e.conftest import killed_at, pyinfra
from tests.lab import hub
from tests.lab.spark import Handle

WEIGHTS = "deploys.steps.weights.apply"
AUTH = "deploys.steps.hf_auth.apply"
REPO = "sparkwright/tiny-qwen3.5-moe"
SHARDS = f"{REPO}/*.safetensors"


def fetched() -> int:
    """Return the bytes of weights that the hub has sent so far."""
    return sum(seen["bytes"] for name, seen in hub.stats().items() if name.startswith(REPO))


def size(spark: Handle) -> int:
    """Return the bytes of the checkpoint on the Spark."""
    return int(spark.run("du -sb --exclude='.*' /opt/qwen36/tiny@* | cut -f1").stdout)


@pytest.fixture(scope="module")
def prepared(spark):
    """A Spark that is ready to download."""
    spark.reset()
    for step in ("layout", "hf_tools", "hf_auth"):
        pyinfra(f"deploys.steps.{step}.apply").succeeded()
    return spark


@pytest.fixture
def empty(prepared):
    """The same without any weights."""
    prepared.run("sudo rm -rf /opt/qwen36/tiny@*")
    return prepared


@pytest.mark.parametrize(
    "fault",
    [
        {"name": "429", "times": 2, "seconds": 1},
        {"name": "500", "times": 2},
        {"name": "reset", "times": 1, "path": SHARDS},
        {"name": "truncate", "times": 1, "path": SHARDS},
        {"name": "flip", "times": 1, "path": SHARDS},
        {"name": "416", "times": 1, "path": SHARDS},
    ],
    ids=lambda fault: fault["name"],
)
def test_a_passing_fault_is_outlived(empty, fault):
    hub.set_fault(**fault)
    assert pyinfra(WEIGHTS).succeeded().changed
    hub.clear_faults()
    assert pyinfra(WEIGHTS).succeeded().changed == frozenset()


@pytest.mark.parametrize(
    ("fault", "said"),
    [("401", "token"), ("403-gated", "accept its terms"), ("404", "has no file")],
)
def test_a_lasting_fault_is_said(empty, fault, said):
    hub.set_fault(fault, path=f"{REPO}/*")
    run = pyinfra(WEIGHTS)
    assert run.status == 1
    assert said in run.output
    hub.clear_faults()
    pyinfra(WEIGHTS).succeeded()


def test_a_killed_run_is_continued(empty):
    before = fetched()
    hub.set_fault("rate", path=SHARDS, rate=500_000)
    killed_at(": downloading", WEIGHTS)
    assert empty.run("systemctl is-active 'weights@tiny@*'", check=False).stdout.strip() in (
        "activating",
        "active",
    )
    hub.clear_faults()
    pyinfra(WEIGHTS).succeeded()
    assert fetched() - before < size(empty) * 1.05
    assert pyinfra(WEIGHTS).succeeded().changed == frozenset()


def test_a_job_cut_by_a_power_cut_is_continued(empty):
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


def test_verify_hashes_everything(empty):
    pyinfra(WEIGHTS).succeeded()
    # Same size and time: only a hash tells.
    empty.run(
        "sudo sh -c 'cd /opt/qwen36/tiny@*; f=$(ls *.safetensors | head -n 1); t=$(stat -c %y $f); "
        'printf X | dd of=$f bs=1 seek=100000 conv=notrunc status=none; touch -d "$t" $f\''
    )
    assert pyinfra(WEIGHTS).succeeded().changed == frozenset()
    assert pyinfra(WEIGHTS, "--data", "weights=verify").succeeded().changed


class TestToken:
    def test_an_invalid_token_is_an_error(self, prepared):
        run = pyinfra(AUTH, token="hf_nobody_knows_this_one")
        assert run.status == 1
        assert "token" in run.output
        assert "hf_nobody" not in run.output

    def test_without_a_token_there_is_a_warning(self, prepared):
        prepared.run("sudo rm -f /opt/qwen36/secrets/hf-token")
        run = pyinfra(AUTH, token=None).succeeded()
        assert "limited in rate" in run.output
