"""A change of what a Spark serves: nothing is lost where both engines fit, and a bad one is undone.

The tests build on one another, in order; clients go on asking meanwhile.
"""

import json
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import ThreadingHTTPServer
from pathlib import Path

from sparkwright.plan.release.lock import lock_path
from tests.clock import patience
from tests.component.servers import QuietHandler, serving
from tests.driver.client import ask
from tests.driver.declared import BROKEN, changed, seed
from tests.driver.load import CLIENTS, Load, load
from tests.driver.product import DEPLOY, background, here, killed_at, pyinfra
from tests.driver.sparks import current, eventually, only, standing, until, wait_active
from tests.lab import hub, services
from tests.lab.network import HOST
from tests.lab.spark import Handle
from tests.lab.state import FLEET

REPO = "sparkwright/tiny-qwen3.5-moe"
# No switch of these tests comes to its commit before what is to happen has happened.
LONG_TRIAL = ("--data", "trial_seconds=120")
QUICKLY = ("start_timeout: 300", "start_timeout: 10")


def weights(spark: Handle) -> set[str]:
    """Return the folders of the model, one for each commit."""
    return set(spark.run("ls -d /opt/qwen36/tiny@*").stdout.split())


def newest(spark: Handle, previous: str) -> str:
    """Wait for an engine beside the previous one; return its release."""
    find = "sudo docker ps --format '{{.Names}}' --filter label=sparkwright.release"

    def other() -> str | None:
        names = {name.removeprefix("vllm-") for name in spark.run(find).stdout.split()}
        return next(iter(names - {previous}), None)

    return eventually(other, "another engine")


def phase(spark: Handle, release: str) -> str:
    """Return how far the switch to a release is."""
    report = spark.run(f"cat /opt/qwen36/jobs/switch@{release}.json", check=False).stdout
    return str(json.loads(report)["phase"]) if report else ""


def test_another_commit_of_the_model(spark: Handle, served: str, tmp_path: Path) -> None:
    """What differs is fetched, into a folder of its own: the way back has what it had."""
    lock, source = lock_path(FLEET), services.HUB / REPO
    text = lock.read_text()
    shutil.copytree(source / "v1", tmp_path / "new")
    with (tmp_path / "new/generation_config.json").open("a") as file:
        file.write("\n")
    hub.add_commit(services.HUB, REPO, tmp_path / "new")
    words = ["sparkwright", "-i", FLEET.stem, "lock", "--refresh"]
    words += ["--hf-endpoint", hub.URL, "--hf-token", "http"]
    try:
        here(sys.executable, "-m", *words, check=True)
        before = hub.stats()
        with load(spark) as seen:
            run = pyinfra(DEPLOY).succeeded()
            assert current(spark) != served
            assert pyinfra(DEPLOY).succeeded().changed == frozenset()
            pyinfra("deploys/rollback.py").succeeded()
        fetched = [name for name, sent in hub.stats().items() if sent != before.get(name)]
    finally:
        lock.write_text(text)
    assert seen.failed == [], run.output
    assert fetched == [f"{REPO}/generation_config.json"]
    assert standing(spark) == only(served)
    assert pyinfra(DEPLOY).succeeded().changed == frozenset()
    assert len(weights(spark)) == 2


def test_a_release_that_cannot_start(spark: Handle, served: str, tmp_path: Path) -> None:
    """It is not tried again; the doctor says why, too, while somebody asks for it."""
    with load(spark) as seen, changed("broken", BROKEN):
        run = pyinfra(DEPLOY)
        data = ("--data", f"report={tmp_path / 'report.md'}")
        examined = pyinfra("deploys/doctor.py", *data).succeeded().output
    report = (tmp_path / "report.md").read_text()
    run.fails("Hint: The image's vLLM does not know a flag of the recipe", f"{served} serves")
    assert seen.failed == []
    assert standing(spark) == only(served)
    assert "[unknown-flag]" in examined
    assert "unrecognized arguments: --unknown-flag" in examined
    assert "\n* unknown-flag\n" in report
    assert "unrecognized arguments" not in report
    assert "10.213." not in report
    assert "broken" not in pyinfra("deploys/doctor.py").succeeded().output
    failed = spark.run("ls -t /opt/qwen36/releases | grep broken | head -n 1").stdout.strip()
    spark.run(f"sudo systemctl start vllm@{failed}", check=False)
    shown = spark.run(f"systemctl show -P NRestarts -P SubState vllm@{failed}").stdout.split()
    assert sorted(shown) == ["0", "failed"]


def test_what_was_taken_back_is_told_to_the_webhook(
    spark: Handle, served: str, tmp_path: Path
) -> None:
    """The switch of the test before; nothing that others see has the address."""
    got: list[str] = []

    class Hook(QuietHandler):
        def do_POST(self) -> None:
            got.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.send_response(200)
            self.end_headers()

    with serving(ThreadingHTTPServer((HOST, 0), Hook)) as address:
        secret = tmp_path / "webhook"
        secret.write_text(f"ntfy+http://{address}/s3cret\n")
        secret.chmod(0o600)
        webhook = ("--data", f"notify={secret}")
        pyinfra(DEPLOY, *webhook).succeeded()
        assert pyinfra(DEPLOY, *webhook).succeeded().changed == frozenset()
        pyinfra("deploys/notify.py", *webhook).succeeded()
        told = eventually(lambda: [each for each in got if "was taken back" in each], "a notice")
    # It is in the journal once it was answered.
    until(spark, "sudo journalctl --unit=notify@look | grep -q 'was taken back'")
    shown = spark.run(
        "systemctl show notify.timer notify@look notify@test; systemctl cat notify@look; "
        "sudo journalctl --no-pager --unit=notify@look; stat -c '%a %U' /opt/qwen36/secrets; "
        "sudo stat -c '%a %U' /opt/qwen36/secrets/webhook"
    ).stdout
    assert "s3cret" not in shown
    assert shown.splitlines()[-2:] == ["700 root", "600 root"]
    assert "was taken back" in shown
    assert [each for each in got if "a test" not in each] == told
    assert f"Next: sparkwright doctor --limit {spark.name}" in told[0]
    pyinfra(DEPLOY).succeeded()
    left = spark.run("systemctl is-active notify.timer; sudo ls /opt/qwen36/secrets", check=False)
    assert left.stdout.split()[0] == "inactive"
    assert "webhook" not in left.stdout
    assert pyinfra(DEPLOY).succeeded().changed == frozenset()


def test_a_release_that_answers_nothing(spark: Handle, served: str) -> None:
    """Its core stands still as soon as it is there, and no token ever comes."""
    previous = spark.run("pgrep VLLM::EngineCor").stdout.strip()
    # Where that is too late for the start, the trial is long enough to find it.
    stop = f"""
        while :; do
            for process in $(pgrep VLLM::EngineCor); do
                [ $process = {previous} ] || {{ kill -STOP $process; exit; }}
            done
            sleep 0.01
        done
    """
    with load(spark) as seen, changed("mute", seed(2), QUICKLY), ThreadPoolExecutor() as pool:
        stopped = pool.submit(spark.run, "sudo sh -s", stdin=stop)
        run = pyinfra(DEPLOY, *LONG_TRIAL)
        stopped.result()
    run.fails(f"{served} serves")
    assert seen.failed == []
    assert standing(spark) == only(served)


def test_a_release_that_dies_on_trial(spark: Handle, served: str) -> None:
    """Its clients lose what it had in its hands; new requests go to the previous one at once."""
    moments: list[float] = []

    def kill(seen: Load) -> None:
        name = newest(spark, served)
        eventually(lambda: phase(spark, name) == "trial", "its trial")
        before = len(seen.answers)
        eventually(lambda: len(seen.answers) > before + 2 * CLIENTS, "answers of its own")
        running = "sudo docker ps --quiet --filter name=vllm-"
        container = spark.run(f"{running}{name}").stdout.strip()
        core = f"docker top {container} -eo pid,comm | awk '/EngineCor/ {{print $1}}'"
        moments.append(time.monotonic())
        spark.run("sudo sh -s", stdin=f"kill -9 $({core})")
        eventually(lambda: container not in spark.run(running).stdout, "the end of its container")
        moments.append(time.monotonic())

    with load(spark, pause=0) as seen, changed("frail", seed(3)), ThreadPoolExecutor() as pool:
        done = pool.submit(kill, seen)
        run = pyinfra(DEPLOY, *LONG_TRIAL)
        done.result()
    run.fails(f"{served} serves")
    # Its server outlives the core by a moment. None before, and none once its container is gone.
    killed, gone = moments
    assert all(answer.ended > killed and answer.began < gone for answer in seen.failed)
    assert standing(spark) == only(served)


def test_a_run_that_is_killed_in_mid_switch(spark: Handle, served: str) -> None:
    """The switch goes on without it; the next run finds it done, or joins it."""
    with load(spark) as seen, changed("other", seed(1)):
        killed_at("engine: ", DEPLOY)
        pyinfra(DEPLOY).succeeded()
        assert current(spark).startswith("lab-other-")
    assert seen.failed == []
    pyinfra("deploys/rollback.py").succeeded()
    assert standing(spark) == only(served)


def test_a_power_cut_in_mid_switch(spark: Handle, served: str) -> None:
    """The previous release boots, as if nothing had been; the run says how it is finished."""
    with changed("other", seed(1)), background(DEPLOY, *LONG_TRIAL) as run:
        newest(spark, served)
        spark.power_off()
        spark.power_on()
        said, _ = run.communicate(timeout=patience())
    assert run.returncode == 1, said
    assert "spark1: lost at: Engine | Serve the release: " in said
    assert "When spark1 can be reached again, continue with: " in said
    assert "Traceback" not in said
    spark.wait_ready()
    wait_active(spark)
    assert standing(spark) == only(served)
    with changed("other", seed(1)):
        pyinfra(DEPLOY).succeeded()
        assert current(spark).startswith("lab-other-")
    pyinfra(DEPLOY).succeeded()


def test_clean_keeps_what_may_be_needed(spark: Handle, served: str) -> None:
    pyinfra(DEPLOY).succeeded()
    kept = current(spark)
    before = spark.run("ls /opt/qwen36/releases").stdout.split()
    dry = pyinfra("deploys/clean.py", "--dry").succeeded()
    assert any(name in dry.output for name in before if name != kept)
    assert spark.run("ls /opt/qwen36/releases").stdout.split() == before
    pyinfra("deploys/clean.py").succeeded()
    # What has never served is nothing to go back to.
    other, *tiny = spark.run("ls /opt/qwen36/releases").stdout.split()
    assert other.startswith("lab-other-")
    assert kept in tiny
    assert len(tiny) == len(weights(spark)) == 2
    assert pyinfra("deploys/clean.py").succeeded().changed == frozenset()
    pyinfra("deploys/clean.py", "--data", "keep_releases=0").succeeded()
    assert spark.run("ls /opt/qwen36/releases").stdout.split() == [kept]
    assert len(weights(spark)) == 1
    assert ask(spark).ok
