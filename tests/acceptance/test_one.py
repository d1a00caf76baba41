"""One Spark with real vLLM: from the factory to answers, what it lives through, and a switch.

The tests build on one another, in order: vLLM takes its time to start.
"""

import json
import re
import runpy

import pytest
import requests

from sparkwright.common.placed import FIRST_USER
from sparkwright.door.keys import api_keys
from tests.clock import patience
from tests.driver.benchmark import added, check_short, measured, tools
from tests.driver.client import PORT
from tests.driver.declared import BROKEN, changed, seed
from tests.driver.listing import PLACES, places
from tests.driver.load import load
from tests.driver.product import DEPLOY, PROJECT, TOKEN, Run, pyinfra, verification
from tests.driver.sparks import (
    current,
    only,
    restarted_from_a_hang,
    standing,
    unit,
    until,
    wait_active,
)
from tests.driver.ways_out import CONFINED, confinement
from tests.lab.spark import Handle
from tests.lab.state import FLEET

KERNEL = "cd /proc/sys/vm; cat drop_caches swappiness"


@pytest.fixture(scope="module")
def planned(spark: Handle) -> frozenset[str]:
    """What a dry run on the clean Spark says would change."""
    spark.reset()
    return pyinfra(DEPLOY, "--dry").succeeded().plan


@pytest.fixture(scope="module")
def served(spark: Handle, planned: frozenset[str]) -> Run:
    """The run that takes the clean Spark to a served model."""
    return pyinfra(DEPLOY, "-vvv", "--diff", "--debug").succeeded()


def test_dry_run_changes_nothing(spark: Handle, planned: frozenset[str]) -> None:
    assert planned
    assert spark.run("ls /opt").stdout == ""
    assert spark.run(KERNEL).stdout.split() == ["0", "60"]


def test_from_factory_to_served(spark: Handle, planned: frozenset[str], served: Run) -> None:
    assert planned == served.changed
    assert standing(spark) == only(current(spark))


def test_second_run_changes_nothing(spark: Handle, served: Run) -> None:
    before = current(spark)
    assert pyinfra(DEPLOY).succeeded().changed == frozenset()
    assert pyinfra(DEPLOY, "--dry").succeeded().plan == frozenset()
    assert standing(spark) == only(before)


def test_memory_is_set_for_an_engine(spark: Handle, served: Run) -> None:
    """The page cache was dropped before the start; the kernel swaps as the group data says."""
    swappiness = runpy.run_path(str(PROJECT / "group_data/all.py"))["swappiness"]
    assert spark.run(KERNEL).stdout.split() == ["3", str(swappiness)]


def test_verification(served: Run) -> None:
    assert "proved on spark1" in verification()


def test_the_engine_is_confined(spark: Handle, served: Run) -> None:
    """Every process of real vLLM, by what the kernel says; what it compiles is for itself alone."""
    assert confinement(spark) == {CONFINED}
    look = "sudo docker inspect --format '{{.Image}}' $(sudo docker ps --quiet)"
    (image,) = spark.run(look).stdout.split()
    caches = spark.run("sudo sh -c 'cd /opt/qwen36/cache && stat -c \"%a %U %n\" . */*'").stdout
    own = f"{FIRST_USER}/{image.removeprefix('sha256:')}"
    # Other Sparks of this release begin with what it had compiled before a client came.
    lent = f"600 root compiled/{current(spark)}.tar"
    assert caches.splitlines() == ["700 root .", lent, f"700 {FIRST_USER} {own}"]


def test_every_endpoint_of_the_engine_through_the_door(spark: Handle, served: Run) -> None:
    """Those that its own description lists: /v1 wants the key, and all else is not there."""
    (key,) = api_keys(FLEET)
    socket = f"/opt/qwen36/sockets/engines/{current(spark)}/api.sock"
    listing = f"sudo curl -sS --unix-socket {socket} http://localhost/openapi.json"
    seen: dict[tuple[str, str], list[int]] = {
        (method.upper(), re.sub(r"{.*?}", "x", path)): []
        for path, methods in json.loads(spark.run(listing).stdout)["paths"].items()
        for method in methods
    }
    with requests.Session() as session:
        for (method, path), statuses in seen.items():
            for given in (None, "sk-wrong-and-long-enough-for-one", key):
                head = {"Authorization": f"Bearer {given}"} if given else {}
                url = f"http://{spark.address}:{PORT}{path}"
                body: dict[str, str] | None = {} if method == "POST" else None
                answer = session.request(method, url, headers=head, json=body, timeout=patience(60))
                statuses.append(answer.status_code)
    closed = {path for (_, path), statuses in seen.items() if statuses == [404] * 3}
    opened = {
        path
        for (_, path), statuses in seen.items()
        if statuses[:2] == [401, 401] and statuses[2] not in (401, 403)
    }
    free = {path for (_, path), statuses in seen.items() if statuses == [200] * 3}
    assert closed | opened | free == {path for _, path in seen}, seen
    assert free == {"/health"}
    assert {"/v1/models", "/v1/chat/completions", "/v1/completions"} <= opened
    assert all(path.startswith("/v1/") or path == "/metrics" for path in opened)
    assert {"/invocations", "/tokenize", "/version"} <= closed


def test_no_secret_anywhere(spark: Handle, served: Run) -> None:
    """The door knows no more of a key than its hash; the token is there for downloads."""
    (key,) = api_keys(FLEET)
    assert key not in served.output
    assert TOKEN not in served.output
    assert places(spark, key) == {}
    assert places(spark, TOKEN) == {"files": ["/opt/qwen36/secrets/hf-token"]}
    # The search finds what there is.
    assert set(places(spark, current(spark))) == set(PLACES)


def test_figures_of_a_benchmark(spark: Handle, served: Run) -> None:
    """Real `vllm bench serve` measures; the engine's container stays as it is."""
    before = added(spark)
    found = check_short(measured("short,concurrent-4"))
    assert added(spark) == before
    assert tools(spark) == 0
    # Nothing is compiled for the processor.
    start = found["start-warm"]
    assert 0 < start["weights_seconds"] < start["ready_seconds"]
    assert 0 < start["init_seconds"] < start["ready_seconds"]


def test_killed_engine_comes_back(spark: Handle, served: Run) -> None:
    name = unit(spark)
    spark.run("sudo pkill -9 VLLM::EngineCor")
    until(spark, f"test $(systemctl show -P NRestarts {name}) = 1")
    wait_active(spark)


def test_an_engine_that_hangs_is_restarted(spark: Handle, served: Run) -> None:
    """Only a token that does not come tells."""
    name = restarted_from_a_hang(spark)
    assert "no token" in spark.run(f"sudo journalctl -u {name} | grep 'engine ended'").stdout
    wait_active(spark)


def test_an_unknown_flag_is_refused(spark: Handle, served: Run) -> None:
    release = current(spark)
    with load(spark) as seen, changed("broken", BROKEN):
        pyinfra(DEPLOY).fails("does not know a flag", f"{release} serves")
    assert seen.failed == []
    assert standing(spark) == only(release)


def test_a_switch_and_the_way_back_lose_no_request(spark: Handle, served: Run) -> None:
    previous = current(spark)
    with load(spark) as seen:
        with changed("other", seed(1)):
            run = pyinfra(DEPLOY).succeeded()
            assert current(spark).startswith("lab-other-")
            assert standing(spark) == only(current(spark))
            assert pyinfra(DEPLOY).succeeded().changed == frozenset()
        back = pyinfra("deploys/rollback.py").succeeded()
    assert seen.failed == [], f"{run.output}\n{back.output}"
    assert standing(spark) == only(previous)
    assert pyinfra(DEPLOY).succeeded().changed == frozenset()
