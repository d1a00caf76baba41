"""A person with two Sparks, a machine with Python and the wheel, and the README's commands.

The tests build on one another, in order.
"""

import os
import pwd
import re
import shutil
import signal
import subprocess
import threading
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests
import yaml

from tests.clock import patience
from tests.docs.runs import taken_back
from tests.driver.declared import BROKEN
from tests.driver.product import PROJECT, TOKEN
from tests.driver.sparks import current
from tests.driver.wheels import tagged_wheel, wheel
from tests.lab.lab import Lab
from tests.lab.shard import RESULTS
from tests.lab.spark import Handle
from tests.lab.state import FLEET, Engine
from tests.makers.models import replaced

SITE = "my-sparks"
TRUSTS = ["tool-parser-plugin"]
UPDATED = "0.99.0"
# What the person has typed and seen, among the results of tests: docs/first-run.md is made of it.
RECORDING = "first-run.txt"


@dataclass(frozen=True)
class Person:
    """Somebody at a desk, with a home, a folder of programs, and Sparks that admit the SSH key."""

    home: Path
    python: Path
    sparks: list[Handle]

    @property
    def site(self) -> Path:
        """The folder that `sparkwright init` writes."""
        return self.home / SITE

    def starts(self, line: str) -> "subprocess.Popen[str]":
        """Start a line in a shell, which prints on one pipe, as it is 80 columns wide at a desk."""
        # OpenSSH takes the home of the user database, whatever HOME says.
        own = Path(pwd.getpwuid(os.getuid()).pw_dir)
        (own / ".ssh").mkdir(mode=0o700, exist_ok=True)
        inside = f'mount --bind "$0/.ssh" {own}/.ssh && exec sh -c "$1"'
        path = f"{self.python}:/usr/local/bin:/usr/bin:/bin"
        environment = {"HOME": str(own), "PATH": path, "HF_TOKEN": TOKEN, "LANG": "C.UTF-8"}
        return subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", inside, self.home, line],
            cwd=self.site if self.site.exists() else self.home,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def types(self, line: str, status: int = 0, record: bool = True) -> str:
        """Run a line; return what it prints."""
        with self.starts(line) as process:
            try:
                said, _ = process.communicate(timeout=patience(900))
            finally:
                process.kill()
        assert process.returncode == status, f"{line}\n{said}"
        assert "Traceback" not in said
        if record:
            with (RESULTS / RECORDING).open("a") as file:
                file.write(f"$ {line}\n{said}\n")
        return said

    def interrupts(self, line: str, at: str) -> str:
        """Press Ctrl-C once a command has printed something; return all that it printed."""
        with self.starts(f"exec {line}") as process:
            assert process.stdout
            said = ""
            for each in process.stdout:
                said += each
                if at in each:
                    break
            os.killpg(process.pid, signal.SIGINT)
            try:
                said += process.communicate(timeout=patience(60))[0]
            finally:
                process.kill()
        assert process.returncode == 130, f"{line}\n{said}"
        assert "Traceback" not in said
        return said

    def edits(self, *trusts: str, **replica: str) -> None:
        """Change what the inventory says of every replica, and trust further words."""
        file = self.site / "inventory/sparks.yaml"
        fleet = yaml.safe_load(file.read_text())
        for each in fleet["replicas"].values():
            each.update(replica, trusts=[*TRUSTS, *trusts])
        # A virtual Spark is none of the machines that recipes are for.
        for spark in fleet["sparks"].values():
            spark["hardware"] = "lab"
        file.write_text(yaml.safe_dump(fleet, sort_keys=False))


@pytest.fixture(scope="module")
def person(machine: None, engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Person:
    sparks = Lab().ensure(2, engine)
    for spark in sparks:
        spark.reset()
    home = tmp_path_factory.mktemp("home")
    lab = yaml.safe_load(FLEET.read_text())["sparks"]["spark1"]
    (home / ".ssh").mkdir(mode=0o700)
    shutil.copy(lab["ssh_key"], home / ".ssh/id_ed25519")
    environment = tmp_path_factory.mktemp("environment")
    venv.create(environment, with_pip=True)
    locked = re.findall(r"^\S+==\S+", (PROJECT / "requirements.lock").read_text(), re.MULTILINE)
    (home / "versions.txt").write_text("\n".join(locked))
    (RESULTS / RECORDING).unlink(missing_ok=True)
    result = Person(home, environment / "bin", sparks)
    install(result, wheel(tmp_path_factory.mktemp("wheel")))
    return result


def install(person: Person, file: Path) -> None:
    """Install a wheel and what it needs, in place of one of the same version, too."""
    person.types("pip uninstall --quiet --yes sparkwright")
    person.types(
        "pip install --quiet --disable-pip-version-check "
        f"--constraint {person.home}/versions.txt '{file}[verify]'"
    )


def test_init_tries_the_sparks_and_writes_a_site(person: Person) -> None:
    logins = [f"nvidia@{spark.address}" for spark in person.sparks]
    said = person.types(f"sparkwright init {SITE} --no-pair --spark {' --spark '.join(logins)}")
    for login in logins:
        assert f"{login}: ok: NVIDIA GB10" in said
    assert "sparkwright plan" in said
    layout = "inventory.py inventory group_data deploys files/recipes tests pyproject.toml"
    for name in f"{layout} README.md .gitignore .github .pre-commit-config.yaml".split():
        assert (person.site / name).exists()
    assert (person.python.parent / "share/sparkwright/inventory.json").exists()
    assert "?? " not in person.types("git status --short")


def test_a_plan_names_model_download_release_and_port_and_writes_nothing(person: Person) -> None:
    person.edits(recipe="lab-tiny")
    shutil.copy(PROJECT / "group_data/lab.py", person.site / "group_data/sparks.py")
    before = sorted(person.site.rglob("*"))
    said = person.types("sparkwright plan")
    for sentence in (
        "chat-a: lab-tiny as tiny, on port 8000",
        "; nothing serves now",
        "to download: 26.9 MB of weights, ",
        "Nothing was changed. To do it: sparkwright apply",
    ):
        assert sentence in said
    after = sorted(person.site.rglob("*"))
    assert [path for path in after if "__pycache__" not in path.parts] == before


def test_no_changes_no_spark(person: Person) -> None:
    said = person.types("echo n | sparkwright apply", status=1, record=False)
    assert "Do this? [y/N]" in said
    assert "Nothing was changed on any Spark; on this machine stays what the next run uses" in said
    assert "sparks.keys" in said
    for spark in person.sparks:
        assert spark.run("test -e /opt/qwen36", check=False).returncode
    for name in ("lock.yaml", "keys"):
        (person.site / f"inventory/sparks.{name}").unlink()


def test_ctrl_c_before_anything_is_changed(person: Person) -> None:
    assert "No Spark was changed." in person.interrupts("sparkwright apply -y", "--> Connecting")


def test_apply_ends_with_a_question_that_works_as_printed(person: Person) -> None:
    said = person.types("sparkwright apply -y")
    address = person.sparks[0].address
    assert f"chat-a serves tiny at http://{address}:8000/v1" in said
    begin = said.index("curl ")
    printed = said[begin : said.index("\n\n", begin)]
    assert '"choices"' in person.types(f"{printed} --silent --fail")
    again = person.types("sparkwright apply -y")
    assert "Nothing was changed." in again
    assert "sparks.keys" in person.types("git status --short --ignored")
    assert "sparks.lock.yaml" in person.types("git status --short")
    assert "Nothing differs on 2 Sparks." in person.types("sparkwright drift")


def test_a_release_that_cannot_start_takes_itself_back(person: Person) -> None:
    """The README shows it, as it was recorded for docs/first-run.md."""
    own = person.site / "files/recipes/faster.yaml"
    own.write_text(replaced((PROJECT / "files/recipes/lab-tiny.yaml").read_text(), BROKEN))
    before = current(person.sparks[0])
    # Who says so himself: a flag that no vLLM is known to have is refused otherwise.
    person.edits("unknown-flag", recipe="faster")
    said = person.types("sparkwright apply -y --limit chat-a", status=1)
    assert current(person.sparks[0]) == before
    _, starts, *shown = comparable(taken_back())
    # A start that fails at once may come between two looks.
    assert "switch: it starts beside" in starts
    assert [line for line in shown if line not in [*comparable(said), "    …"]] == []
    person.edits(recipe="lab-tiny")
    # It forgets that the unit has failed.
    person.types("sparkwright apply -y --limit chat-a", record=False)
    assert current(person.sparks[0]) == before


def comparable(text: str) -> list[str]:
    """Return lines without what differs from run to run: a release's end, and seconds."""
    return re.sub(r"-[0-9a-f]{8}\b|\(\d+ s\)", "", text).splitlines()


def test_the_last_key_that_opens_everything_stays(person: Person) -> None:
    before = (person.site / "inventory/sparks.keys").read_text()
    said = person.types("sparkwright keys remove owner || [ $? = 1 ]")
    assert "found no other key than that of owner that opens everything" in said
    assert "sparkwright keys rotate owner" in said
    assert (person.site / "inventory/sparks.keys").read_text() == before


def test_verify_proves_both_and_status_and_logs_show_what_serves(person: Person) -> None:
    said = person.types("sparkwright verify")
    for name in ("spark-a", "spark-b"):
        assert f"proved on {name}" in said
    assert "lab-tiny" in person.types("sparkwright status")
    said = person.types("cd group_data && sparkwright logs chat-b -n 20")
    assert "vllm" in said
    assert '"GET /health' not in said


def test_ctrl_c_ends_the_status_and_a_log(person: Person) -> None:
    person.interrupts("sparkwright status --watch --limit chat-a", "Ctrl-C ends it")
    person.interrupts("sparkwright logs chat-a -f", "vllm")


def test_ctrl_c_ends_an_apply_and_not_its_work(person: Person) -> None:
    own = person.site / "files/recipes/other.yaml"
    own.write_text((PROJECT / "files/recipes/lab-tiny.yaml").read_text().replace("d: 0", "d: 8"))
    person.edits(recipe="other")
    said = person.interrupts("sparkwright apply -y --data trial_seconds=60", "on trial")
    assert "Interrupted. Nothing is lost" in said
    switches = "systemctl is-active 'switch@*'"
    assert any(spark.run(switches, check=False).stdout for spark in person.sparks)
    person.types("sparkwright apply -y", record=False)
    assert [current(spark).startswith("other-") for spark in person.sparks] == [True, True]
    person.edits(recipe="lab-tiny")
    person.types("sparkwright apply -y", record=False)


def test_another_recipe_and_back(person: Person) -> None:
    recipe = (PROJECT / "files/recipes/lab-tiny.yaml").read_text()
    own = person.site / "files/recipes/mine.yaml"
    own.write_text(recipe.replace("  seed: 0", "  seed: 7"))
    person.edits(recipe="mine")
    person.types("sparkwright apply -y")
    assert [current(spark).startswith("mine-") for spark in person.sparks] == [True, True]
    plan = person.types("sparkwright plan")
    assert "it is the one that serves now" in plan
    said = person.types("sparkwright rollback -y")
    again = r"(?m)^chat-a serves lab-tiny-\w+ again \(before: mine-\w+\)\.$"
    assert re.search(again, said)
    assert "The inventory asks for mine, which sparkwright apply serves" in said
    said = person.types("sparkwright clean -y")
    # The one that refused its flag goes.
    for name, freed in (("spark-a", r"freed \d+ kB"), ("spark-b", "nothing to free")):
        kept = rf"(?m)^{name}: {freed}; mine-\w+ and other-\w+ stay for a rollback\.$"
        assert re.search(kept, said)
    assert [current(spark).startswith("lab-tiny-") for spark in person.sparks] == [True, True]
    person.edits(recipe="lab-tiny")


def test_stop_and_start(person: Person) -> None:
    said = person.types("sparkwright stop -y --limit chat-b")
    assert "chat-b is stopped. It starts by sparkwright start, the next run, or a boot." in said
    assert not person.sparks[1].run("systemctl is-active 'vllm@*'", check=False).stdout
    said = person.types("sparkwright verify --limit chat-b", status=1, record=False)
    assert "spark-b does not serve: the engine vllm@lab-tiny-" in said
    assert "is inactive (it was stopped). Next: sparkwright start" in said
    assert len(said.splitlines()) < 15
    assert "proved on spark-a" in person.types("sparkwright verify --limit chat-a", record=False)
    both = person.types("sparkwright verify", status=1, record=False)
    assert "1 error" in both
    assert "proved on spark-a" in both
    said = person.types("sparkwright start -y --limit chat-b")
    assert re.search(r"^chat-b serves lab-tiny-\w+ again\.$", said, re.MULTILINE)
    assert "chat-b" in person.types("sparkwright apply -y")


def test_verify_with_a_key_that_no_door_knows(person: Person) -> None:
    person.types("sparkwright keys rotate owner", record=False)
    said = person.types("sparkwright verify", status=1, record=False)
    for name in ("spark-a", "spark-b"):
        assert f"{name} does not serve: its door does not know this site's key" in said
    assert len(said.splitlines()) < 15
    person.types("sparkwright apply -y", record=False)
    person.types("sparkwright verify --limit spark-a", record=False)


@contextmanager
def clients(person: Person) -> Iterator[list[int]]:
    """Have a client ask the first Spark again and again; yield the statuses of the answers."""
    key = person.types("sparkwright keys show").strip()
    url = f"http://{person.sparks[0].address}:8000/v1/completions"
    statuses: list[int] = []
    ended = threading.Event()

    def ask() -> None:
        body = {"model": "tiny", "prompt": "one", "max_tokens": 4}
        header = {"Authorization": f"Bearer {key}"}
        while not ended.wait(0.2):
            answer = requests.post(url, json=body, headers=header, timeout=patience(120))
            statuses.append(answer.status_code)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield statuses
    finally:
        ended.set()
        thread.join()


def test_an_update_loses_no_request(
    person: Person, tmp_path_factory: pytest.TempPathFactory
) -> None:
    earlier = tagged_wheel(tmp_path_factory.mktemp("tag"))
    if earlier:
        install(person, earlier)
        person.types("sparkwright apply -y")
    new = wheel(tmp_path_factory.mktemp("update"), UPDATED)
    with clients(person) as statuses:
        install(person, new)
        assert UPDATED in person.types("sparkwright --version")
        # 2: it names what the new version would change.
        person.types("sparkwright drift || [ $? = 2 ]")
        person.types("sparkwright apply -y")
    assert set(statuses) == {200}


def test_remove_leaves_the_weights_alone(person: Person) -> None:
    said = person.types("sparkwright remove -y")
    assert "spark-a: Sparkwright is removed; /opt/qwen36/" in said
    for spark in person.sparks:
        assert "vllm@" not in spark.run("ls /etc/systemd/system").stdout
        assert spark.run("ls /opt/qwen36").stdout.split()
    said = person.types("sparkwright verify", status=1, record=False)
    assert "spark-a does not serve: nothing is set up on it. Next: sparkwright apply" in said
    assert len(said.splitlines()) < 15
    again = person.types("sparkwright remove", record=False)
    assert "[y/N]" not in again
