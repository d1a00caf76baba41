"""Labs for tests: as many Sparks as a module wants, kept for the next one that wants the same."""

import os
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

from tests.driver.events import plain_start
from tests.driver.listing import listing
from tests.driver.pairs import Group, Pair
from tests.driver.product import DEPLOY, LAN, pyinfra
from tests.driver.sparks import current, forget
from tests.lab import hub
from tests.lab.lab import Lab
from tests.lab.setup import missing_packages
from tests.lab.shard import RESULTS
from tests.lab.spark import Handle
from tests.lab.state import SHARD, Engine, LabError


@pytest.fixture(scope="session")
def machine() -> Iterator[None]:
    """A machine that a lab can be started on; no lab is left there."""
    if os.geteuid():
        pytest.skip("the lab needs root")
    if missing := missing_packages():
        pytest.skip(f"the lab needs packages: apt-get install {' '.join(missing)}")
    yield
    Lab().down()


@pytest.fixture(scope="module")
def spark(machine: None, engine: Engine) -> Handle:
    return Lab().ensure(1, engine)[0]


@pytest.fixture(scope="module")
def served(spark: Handle) -> str:
    pyinfra(DEPLOY).succeeded()
    forget(spark)
    return current(spark)


@pytest.fixture(scope="module")
def pair(machine: None, engine: Engine) -> Pair:
    return Pair(*Lab().ensure(2, engine, together="pairs"))


@pytest.fixture(scope="module")
def three(machine: None, engine: Engine) -> list[Handle]:
    return Lab().ensure(3, engine)


@pytest.fixture(scope="module")
def serving(pair: Pair) -> Pair:
    """The pair, which serves, whatever it has been through; no restart is counted."""
    pair.forget()
    pyinfra(DEPLOY).succeeded()
    pair.wait_serving()
    pair.forget()
    return pair


@pytest.fixture(scope="module")
def delivered(pair: Pair) -> list[dict[str, set[str]]]:
    """The pair as delivered, and as its owner set it up; what each Spark is then."""
    return deliver(pair)


def deliver(group: Group) -> list[dict[str, set[str]]]:
    """Make Sparks what they are when their owner has set them up; return what each is then.

    A ufw that is on takes all of the LAN: what else is closed there, others close.
    """

    def one(spark: Handle) -> dict[str, set[str]]:
        spark.reset()
        spark.run(
            f"sudo ufw allow from {LAN} && sudo ufw --force enable && "
            "sudo mkdir -p /opt/qwen36/mine && echo notes | sudo tee /opt/qwen36/mine/notes"
        )
        # ufw sets more when the system boots than when it is turned on.
        spark.reboot()
        return listing(spark)

    return group.each(one)


@pytest.fixture(scope="module")
def start(serving: Group) -> float:
    """Seconds of a plain start of all engines, up to an answer."""
    return plain_start(serving)


@pytest.fixture(scope="module")
def boot(serving: Group) -> Callable[[], float]:
    """Return what measures the seconds of a reboot, once."""

    @cache
    def measure() -> float:
        begun = time.monotonic()
        serving.worker.reboot()
        seconds = time.monotonic() - begun
        serving.wait_serving()
        return seconds

    return measure


@pytest.fixture(autouse=True)
def no_faults(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if {"spark", "pair", "three", "group"} & set(request.fixturenames):
        hub.clear_faults()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep the journals of the Sparks on which a test has failed, and name them in its report."""
    report = yield
    if report.failed:
        with suppress(LabError):
            for file in _journals(item):
                report.sections.append(("journal", str(file)))
    return report


def _journals(item: pytest.Item) -> Iterator[Path]:
    RESULTS.mkdir(exist_ok=True)
    for spark in Lab().sparks():
        journal = spark.journal()
        if journal:
            test = "".join(letter if letter.isalnum() else "-" for letter in item.name)[:80]
            file = RESULTS / f"{SHARD or 'lab'}-{item.path.stem}-{test}-{spark.name}.journal"
            file.write_text(journal)
            yield file


@pytest.fixture(scope="module")
def with_standbys() -> Iterator[None]:
    """Have what a module deploys wait beside its engines, as it does by default."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARKWRIGHT_LAB_STANDBY", "auto")
        yield
