"""Drift on two virtual Sparks that serve one model: each planted change is found, and no other.

The tests build on one another, in order.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sparkwright.plan.release.lock import lock_path
from tests.driver.pairs import Pair
from tests.driver.plants import PLANTS, ROOT, Plant, names, plant, undo
from tests.driver.product import DEPLOY, command, here, pyinfra
from tests.lab.state import FLEET

DRIFT = "deploys/drift.py"


@dataclass(frozen=True)
class Look:
    """What a run of drift said, and how long it took."""

    status: int
    lines: list[str]
    told: dict[str, Any]
    seconds: float


def drift(tmp_path: Path) -> Look:
    """Look at both Sparks, without -y and with nobody to answer."""
    file = tmp_path / "drift.json"
    began = time.monotonic()
    run = here(*command("inventory/lab.py"), DRIFT, "--data", f"json={file}")
    print(run.stdout, run.stderr)  # shown where a test fails
    seconds = time.monotonic() - began
    return Look(run.returncode, run.stdout.splitlines(), json.loads(file.read_text()), seconds)


class Seconds(NamedTuple):
    """How long the quickest of three took: the machine may have other work."""

    look: float
    dry_run: float


def dry_run() -> float:
    """Return the seconds of a dry run that finds nothing to do."""
    began = time.monotonic()
    assert pyinfra(DEPLOY, "--dry").succeeded().plan == frozenset()
    return time.monotonic() - began


@pytest.fixture(scope="module")
def seconds(serving: Pair, tmp_path_factory: pytest.TempPathFactory) -> Seconds:
    """A look and a dry run where nothing differs, timed in turn."""
    folder = tmp_path_factory.mktemp("times")
    times = [(drift(folder).seconds, dry_run()) for _ in range(3)]
    return Seconds(*(min(each) for each in zip(*times, strict=True)))


@pytest.fixture(scope="module")
def named(serving: Pair) -> Callable[[str], str]:
    """What puts names into a text of the plants."""
    return names(serving)


@pytest.fixture(scope="module")
def found(
    serving: Pair,
    seconds: Seconds,
    named: Callable[[str], str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Look:
    """What a look finds when all was planted; their names were read before."""
    plant(serving)
    return drift(tmp_path_factory.mktemp("drift"))


def test_nothing_differs_after_a_deploy(serving: Pair, tmp_path: Path) -> None:
    watched = f"{ROOT} /etc/systemd /etc/docker /etc/netplan /etc/default /etc/sysctl.d"
    # An engine writes into its cache, a timer into metrics, and the recorder each 20 s.
    paths = " -o ".join(f"-path {ROOT}/{n}" for n in ("cache", "metrics", "state/flight-recorder"))
    spared = f"\\( {paths} \\) -prune"
    ours = f"{spared} -o -newer /tmp/before -type f -print"
    lock = lock_path(FLEET).stat().st_mtime_ns
    for spark in serving.both:
        spark.run("touch /tmp/before; sleep 0.1")
    lives = serving.lives()
    look = drift(tmp_path)
    assert (look.status, look.lines) == (0, [])
    assert (look.told["differences"], look.told["not_read"]) == ([], [])
    assert look.told["sparks"] == ["spark1", "spark2"]
    for spark in serving.both:
        assert spark.run(f"sudo find {watched} {ours}").stdout == ""
    assert serving.lives() == lives
    assert lock_path(FLEET).stat().st_mtime_ns == lock


def test_a_look_takes_less_than_two_dry_runs(
    seconds: Seconds, record_property: Callable[[str, object], None]
) -> None:
    record_property("measured", f"{seconds.look:.1f} s; a dry run: {seconds.dry_run:.1f} s")
    assert seconds.look < 2 * seconds.dry_run


def place(difference: dict[str, str]) -> tuple[str, str]:
    """Return where a difference is."""
    return difference["spark"], difference["what"]


@pytest.mark.parametrize("each", PLANTS, ids=lambda each: f"{each.spark} {each.what}")
def test_each_planted_change_is_found(
    found: Look, named: Callable[[str], str], each: Plant
) -> None:
    where = each.told_of or each.spark, named(each.what)
    told = [line["found"] for line in found.told["differences"] if place(line) == where]
    assert any(each.found in line for line in told), found.told["differences"]


def test_nothing_else_is_found(found: Look, named: Callable[[str], str]) -> None:
    planted = {(each.told_of or each.spark, named(each.what)) for each in PLANTS}
    assert {place(each) for each in found.told["differences"]} == planted
    assert found.status == 2
    assert len(found.lines) == len(found.told["differences"])
    assert all(": expected " in line and ", found " in line for line in found.lines)
    # Of secrets there is no word.
    assert "hf_by_hand" not in "".join(found.lines)


def test_a_look_that_finds_much_waits_for_nothing(
    found: Look, seconds: Seconds, record_property: Callable[[str, object], None]
) -> None:
    """A door that is closed, or a container without its GPU, costs no time out."""
    record_property("measured", f"{found.seconds:.1f} s; a dry run: {seconds.dry_run:.1f} s")
    assert found.seconds < 4 * seconds.dry_run


def test_a_run_mends_it(serving: Pair, found: Look, tmp_path: Path) -> None:
    undo(serving)
    # Docker's log options want a restart, which ends containers: that takes somebody's word.
    pyinfra(DEPLOY, "--data", "docker=restart").succeeded()
    serving.wait_serving()
    look = drift(tmp_path)
    assert (look.status, look.lines) == (0, [])
