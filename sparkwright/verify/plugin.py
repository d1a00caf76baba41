"""Verification of real or virtual Sparks, on the inventory that pyinfra uses.

pytest --pyargs sparkwright.verify [--inventory FILE] [--limit NAME] [--reboot]
"""

import json
import signal
import sys
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from testinfra.host import Host

import sparkwright
from sparkwright.common import yaml
from sparkwright.common.errors import PlanError, refuse
from sparkwright.common.last_resort import INTERRUPTED, end_soon, explain
from sparkwright.common.local_file import write_file
from sparkwright.common.placed import SOCKET
from sparkwright.common.terminal import plain, plain_lines
from sparkwright.declared.fleet.fabric_plan import FabricPlan
from sparkwright.declared.recipe.loader import is_ours
from sparkwright.insight.benchmark.measured import RESULTS
from sparkwright.insight.doctor.checkup import Checkup
from sparkwright.plan.release.lock import Lock, checkpoint_key, lock_path, read_lock
from sparkwright.plan.release.release import Release
from sparkwright.run.spark import SparkTarget
from sparkwright.verify import sparks
from sparkwright.verify.record import machine_of, speeds_of
from sparkwright.verify.sparks import CHOSEN, SPARKS, Client

Api = Callable[..., str]
Proved = Callable[[str], None]
# Characters of what a failure says.
_LENGTH = 300
# Those that cannot be verified, and of which a test has said so.
_told: set[str] = set()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, in a group of their own."""
    group = parser.getgroup("sparkwright")
    group.addoption(
        "--inventory", default="inventory.py", help="the inventory, as for pyinfra (inventory.py)"
    )
    group.addoption(
        "--limit", action="append", default=[], help="only this Spark or replica; repeatable"
    )
    group.addoption(
        "--reboot", action="store_true", help="also reboot each Spark, and see it serve again"
    )
    group.addoption("--record", type=Path, help="write there what was proved, for others to read")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Read the inventory and connect first: what is wrong ends the run, in a sentence each."""
    config = session.config
    try:
        sparks.load(config.getoption("--inventory"), config.getoption("--limit"))
    except PlanError as error:
        raise pytest.UsageError(str(error)) from None
    if config.option.collectonly or hasattr(config, "workerinput"):
        return
    # What is open is closed at the end, which pytest comes to by an exception.
    signal.signal(signal.SIGINT, _interrupted)
    problems = sparks.all_unready()
    if len(problems) == len(CHOSEN):
        print("\n".join(problems), file=sys.stderr)
        # pytest prints this twice.
        pytest.exit("no Spark can be verified", returncode=1)


def _interrupted(number: int, frame: FrameType | None) -> None:
    end_soon()
    pytest.exit("interrupted", returncode=INTERRUPTED)


def pytest_internalerror(excinfo: pytest.ExceptionInfo[BaseException]) -> bool:
    """Print what went wrong in a line or three, in the place of pytest's own traceback."""
    explain(excinfo.value)
    return True


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the record that was asked for, and close the connections."""
    path = session.config.getoption("--record")
    if path and not hasattr(session.config, "workerinput"):
        reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
        try:
            refuse([f"{path}: not written, as not all holds"] if session.exitstatus else [])
            proofs = [each for each in reporter.getreports("passed") if each.user_properties]
            made = [record for name in CHOSEN if (record := _record(name, proofs))]
            refuse([] if made else [f"{path}: found no recipe of Sparkwright's own that serves"])
            write_file(path, yaml.dump({"records": made}))
            reporter.write_line(f"\n{path} is written: look through it before you send it")
        except (PlanError, ValueError, AssertionError) as error:
            reporter.write_line(f"\n{plain_lines(str(error))}", red=True)
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
    sparks.disconnect()


def _record(name: str, passed: Sequence[pytest.TestReport]) -> dict[str, Any] | None:
    """Return what a replica has proved, by its head; None where others do not know its recipe."""
    own = SPARKS[name]
    lock = read_lock(lock_path(own.fleet))
    release = own.release_by(lock)
    if not (release and own.replica and own.is_head and is_ours(own.recipe_name or "")):
        return None
    ranks = [*own.ranks] if own.is_group else [name]
    proofs = [each for each in passed if {spark for spark, _ in each.user_properties} & {*ranks}]
    asks = [(SPARKS[each].spark, Checkup.ask(root=SPARKS[each].place)) for each in ranks]
    model = release.recipe.checkpoints["model"]
    return {
        "recipe": release.recipe.name,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "sparkwright": sparkwright.__version__,
        "hardware": own.hardware_class,
        "machines": [machine_of(sparks.part_of(sparks.connection(x), ask)) for x, ask in asks],
        "model": f"{model.repo}@{lock.checkpoints[checkpoint_key(model)].commit}",
        "image": release.image,
        "proved": sum(len(each.user_properties) for each in proofs),
        "rebooted": any("test_serves_again_after_reboot" in each.nodeid for each in proofs),
        "figures": speeds_of(RESULTS, own.replica, release.id),
    }


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test on every Spark of the inventory that it concerns, as its fixtures tell."""
    if "spark" in metafunc.fixturenames:
        fixtures = metafunc.fixturenames
        names = [name for name in CHOSEN if sparks.concerns(fixtures, SPARKS[name])]
        none = pytest.param("none", marks=pytest.mark.skip("concerns no Spark of this inventory"))
        metafunc.parametrize("spark", names or [none], scope="session")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail the first test of a Spark that does not serve, and skip its others; skip who rests."""
    spark = getattr(getattr(item, "callspec", None), "params", {}).get("spark")
    if spark in SPARKS and (problem := sparks.unready(spark)):
        if spark in _told:
            _, silent = sparks.reached(SPARKS[spark].spark)
            pytest.skip(f"{spark} does not {'answer' if silent else 'serve'}")
        _told.add(spark)
        pytest.fail(problem, pytrace=False)
    if spark in sparks.RESTING:
        pytest.skip(f"{spark} runs no engine now: it is not its turn, and a request starts it")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say in a line what has failed: the sources of the tests, and values, are for `-vv`."""
    report = yield
    options = item.config.option
    if report.failed and call.excinfo and options.tbstyle == "auto" and options.verbose < 2:
        error = call.excinfo.value
        first, *more = str(error).splitlines() or [""]
        line = plain(f"{type(error).__name__}: {first}{' …' if more else ''}", _LENGTH)
        # What an owner wrote wrong, or has yet to deploy, we say in sentences.
        ours = isinstance(error, (pytest.fail.Exception, PlanError))
        report.longrepr = str(error) if ours else line
    return report


@pytest.fixture(scope="session")
def target(spark: str) -> SparkTarget:
    """The declared state of the Spark."""
    return SPARKS[spark]


@pytest.fixture(scope="session")
def host(target: SparkTarget) -> Host:
    """The Spark itself, as root."""
    return sparks.connection(target.spark)


@pytest.fixture(scope="session")
def peer(fabric: FabricPlan) -> Host:
    """Another Spark of a group."""
    return sparks.connection(fabric.peers[0])


@pytest.fixture(scope="session")
def lock(target: SparkTarget) -> Lock:
    """What the names in recipes stood for when the fleet was deployed."""
    return read_lock(lock_path(target.fleet))


@pytest.fixture(scope="session")
def release(target: SparkTarget, lock: Lock) -> Release:
    """What the Spark should serve."""
    served = target.release_by(lock)
    assert served
    return served


@pytest.fixture(scope="session")
def fabric(target: SparkTarget) -> FabricPlan:
    """The Spark's part of its group's own network."""
    plan = target.fabric
    assert plan
    return plan


@pytest.fixture(scope="session")
def api(target: SparkTarget, release: Release) -> Api:
    """Send a request to the engine from its head itself; return the answer's text."""
    return _api(sparks.connection(target.ranks[0]), release)


@pytest.fixture(scope="session")
def chats(release: Release) -> None:
    """The replica chats; else, skip."""
    if release.recipe.answers != "chat":
        pytest.skip(f"recipe {release.recipe.name} answers {release.recipe.answers}")


@pytest.fixture(scope="session")
def lone_api(target: SparkTarget, lock: Lock) -> Api:
    """The same for a replica of one Spark with the same recipe; without one, skip."""
    name = target.recipe_name
    for other in SPARKS.values():
        if other.recipe_name == name and len(other.ranks) == 1:
            alone = other.release_by(lock)
            assert alone
            return _api(sparks.connection(other.spark), alone)
    pytest.skip(f"no replica of one Spark serves {name}: nothing to compare with")


def _api(head: Host, release: Release) -> Api:
    folder = release.place.sockets(release.id)
    # The path of the socket may be too long for an address.
    get = f"cd %s && curl --silent --show-error --fail-with-body --unix-socket {SOCKET} --max-time"
    post = "--header 'Content-Type: application/json' --data %s"

    def ask(path: str, body: dict[str, object] | None = None, timeout: float = 120) -> str:
        data, words = ("", []) if body is None else (post, [json.dumps(body)])
        line = f"{get} {timeout} {data} http://localhost{path}"
        answer: str = head.check_output(line, folder, *words)
        return answer

    return ask


@pytest.fixture(scope="session")
def address(target: SparkTarget) -> str:
    """Where clients reach the Spark."""
    sparks.connection(target.spark)  # fails with its reason where the Spark does not answer
    address, why = sparks.address_of(target)
    if why:
        pytest.skip(why)
    return address


@pytest.fixture(scope="session")
def client(target: SparkTarget, address: str) -> Client:
    """Send a request through the door, from here; with the fleet's key unless another is given."""
    return sparks.client_of(target, address)


@pytest.fixture
def proved(request: pytest.FixtureRequest, spark: str) -> Proved:
    """Note a sentence for the summary: what this test has just proved."""
    return lambda sentence: request.node.user_properties.append((spark, sentence))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say for each Spark what was proved."""
    sentences = defaultdict(list)
    for report in terminalreporter.getreports("passed"):
        for spark, sentence in report.user_properties:
            sentences[spark].append(sentence)
    for spark, lines in sentences.items():
        terminalreporter.section(f"proved on {spark}")
        for line in lines:
            terminalreporter.line(f"  {line}")
