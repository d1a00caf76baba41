"""The command line: what each verb stands for, and whose Ctrl-C is taken."""

import signal
from pathlib import Path

import pytest
from click.testing import CliRunner

from sparkwright.cli import logs as logs_module
from sparkwright.cli import run, start
from sparkwright.cli.logs import chosen_spark, ssh_words
from sparkwright.cli.main import cli
from sparkwright.common.errors import PlanError
from sparkwright.declared.fleet.fleet import Fleet, Replica, Spark
from sparkwright.upkeep.rollout.runs import Runs
from tests.makers.shell import program, shell

PROJECT = Path(__file__).parents[3]
Started = list[tuple[str, list[str]]]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """What verbs have started in place of this process."""
    result: Started = []

    def replace(program: str, words: list[str]) -> None:
        result.append((program, [*words]))

    monkeypatch.chdir(PROJECT)
    monkeypatch.delenv("SPARKWRIGHT_INVENTORY", raising=False)
    monkeypatch.setattr(run, "replace_process", replace)
    return result


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("plan", "deploys/spark.py --dry"),
        ("apply", "deploys/spark.py"),
        ("apply -y --limit a --exclude b -vv", "deploys/spark.py -y --limit a --exclude b -vv"),
        ("status --watch", "deploys/status.py --data watch=5"),
        ("status --watch 9 --json", "deploys/status.py --data watch=9 --data json=-"),
        ("doctor --report -", "deploys/doctor.py -y --data report=-"),
        ("notify test --limit a", "deploys/notify.py -y --limit a"),
        ("benchmark --workloads short", "deploys/benchmark.py --data workloads=short"),
        ("clean --keep-releases 0", "deploys/clean.py --data keep_releases=0"),
        ("upgrade --limit chat", "deploys/upgrade.py --limit chat"),
        ("remove --weights", "deploys/remove.py --data weights=remove"),
    ],
)
def test_a_verb_is_a_deploy(started: Started, line: str, words: str) -> None:
    result = CliRunner().invoke(cli, line.split())
    assert result.exit_code == 0, result.output
    assert started == [("pyinfra", ["inventory.py", *words.split()])]
    assert (PROJECT / words.split()[0]).is_file()


def test_a_rollout_is_many_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[object] = []

    def roll_out(runs: Runs, *options: object, **flags: bool) -> int:
        given.extend([runs.chosen, runs.settings, *options, flags])
        return 1

    monkeypatch.chdir(PROJECT)
    monkeypatch.setattr("sparkwright.upkeep.rollout.rollout.roll_out", roll_out)
    line = "rollout --soak 0.5 --force a,b -y --limit a --exclude b --data trial_seconds=3"
    assert CliRunner().invoke(cli, line.split()).exit_code == 1
    words = ["--limit", "a", "--exclude", "b"], ["--data", "trial_seconds=3"]
    assert given == [*words, 0.5, None, ["a", "b"], {"dry": False, "yes": True}]


@pytest.mark.parametrize("line", ["keys list", "lock", "monitoring", "openclaw"])
def test_programs_take_the_chosen_inventory(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deploys").mkdir()
    (tmp_path / "inventory.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPARKWRIGHT_INVENTORY", "sparks")
    result = CliRunner().invoke(cli, ["-i", "staging", *line.split()])
    assert result.exit_code == 1
    assert "inventory/staging.yaml: found no such file" in str(result.exception)


def test_below_a_site_and_outside_of_one(
    started: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(PROJECT / "docs")
    assert CliRunner().invoke(cli, ["status"]).exit_code == 0
    assert Path.cwd() == PROJECT
    monkeypatch.chdir(PROJECT / "docs")
    assert CliRunner().invoke(cli, ["doctor", "--report", "a.md"]).exit_code == 0
    assert started[-1][1][-1] == f"report={PROJECT}/docs/a.md"
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["status"])
    assert result.exit_code == 1
    assert "sparkwright init my-sparks" in result.output


FLEET = Fleet(
    Path("inventory/sparks.yaml"),
    {
        "spark-a": Spark(ssh_hostname="10.0.0.5", ssh_user="me", ssh_port=2222, ssh_key="/k"),
        "spark-b": Spark(),
        "spark-c": Spark(local=True),
    },
    {
        "chat": Replica(recipe="r", sparks=["spark-a", "spark-b"]),
        "code": Replica(recipe="r", sparks=["spark-c"]),
    },
)


@pytest.mark.parametrize(("asks", "status"), [(True, 1), (False, 0)])
def test_logs_where_sudo_asks(tmp_path: Path, asks: bool, status: int) -> None:
    program(tmp_path / "sudo", f"exec {'false' if asks else 'true'}")
    script = logs_module.unasked("spark-a", FLEET.sparks["spark-a"])
    done = shell(script, tmp_path, check=False)
    assert done.returncode == status
    assert ("spark-a: found sudo that asks for a password; expected none" in done.stderr) == asks
    assert ("with the line me ALL=(ALL) NOPASSWD: ALL\n" in done.stderr) == asks


def test_logs_of_a_replica_are_its_heads() -> None:
    names = {"chat": "spark-a", "code": "spark-c", "spark-b": "spark-b"}
    assert {name: chosen_spark(FLEET, name) for name in names} == names
    with pytest.raises(PlanError, match="did you mean 'chat'"):
        chosen_spark(FLEET, "chta")
    with pytest.raises(PlanError, match="found no name; expected one of chat, code, spark-a"):
        chosen_spark(FLEET, None)
    alone = Fleet(FLEET.source, FLEET.sparks, {"chat": FLEET.replicas["chat"]})
    assert chosen_spark(alone, None) == "spark-a"


def test_ssh_reaches_a_spark_as_pyinfra_does() -> None:
    words = ssh_words("spark-a", FLEET.sparks["spark-a"])
    new_key = ["-o", "StrictHostKeyChecking=accept-new", "--"]
    assert words == ["ssh", "-p", "2222", "-l", "me", "-i", "/k", *new_key, "10.0.0.5"]
    assert ssh_words("spark-b", FLEET.sparks["spark-b"]) == ["ssh", *new_key, "spark-b"]
    assert ssh_words("spark-c", FLEET.sparks["spark-c"]) == ["sh", "-c"]


JOURNALCTL = """\
# Prints the newest first, as --reverse does; what is followed comes later.
case $* in
  *--follow*) echo later; echo 'INFO: 1.2.3.4:5 - "GET /health HTTP/1.1" 200 OK' ;;
  *) tac "$LOG" ;;
esac
"""


@pytest.mark.parametrize(
    ("lines", "options", "shown"),
    [
        (3, {}, ["start 9", "failed", "asked"]),
        (100, {}, [f"start {number}" for number in range(10)] + ["failed", "asked"]),
        (1, {"follow": True}, ["asked", "later"]),
        (3, {"everything": True}, ["probe", "probe", "probe"]),
    ],
)
def test_the_log_is_the_engines(
    tmp_path: Path, lines: int, options: dict[str, bool], shown: list[str]
) -> None:
    line = '(APIServer pid=1) INFO:     127.0.0.1:41234 - "{} HTTP/1.1" {}'
    probes = [line.format(f"GET /{path}", "200 OK") for path in ("health", "metrics", "v1/models")]
    asked = line.format("POST /v1/chat/completions", "200 OK")
    failed = line.format("GET /health", "503 Service Unavailable")
    log = [*(f"start {number}" for number in range(10)), *probes * 30, failed, asked, *probes]
    (tmp_path / "log").write_text("\n".join(log) + "\n")
    program(tmp_path / "journalctl", JOURNALCTL)
    settings = {"follow": False, "everything": False} | options
    script = logs_module.journal_script(lines, **settings)
    done = shell(script, tmp_path, check=False, LOG=str(tmp_path / "log"))
    names = {failed: "failed", asked: "asked", **dict.fromkeys(probes, "probe")}
    assert [names.get(each, each) for each in done.stdout.splitlines()] == shown


@pytest.mark.parametrize(
    ("program", "ours"),
    [("/site/.venv/bin/pyinfra", True), ("/usr/bin/celery", False), ("", False)],
)
def test_other_programs_of_gevent_keep_their_handler(
    program: str, ours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", [program])
    before = signal.getsignal(signal.SIGINT)
    try:
        start.leave_pyinfra_on_interrupt(None)
        assert (signal.getsignal(signal.SIGINT) is start._leave) == ours
    finally:
        signal.signal(signal.SIGINT, before)
