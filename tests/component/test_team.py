"""Two operators of one fleet: a run makes no keys and no lock that another has. By fake hosts."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from sparkwright.door.keys import keys_path
from sparkwright.plan.release.lock import lock_path, read_lock
from tests.component import command_line
from tests.makers.release import COMMIT, DIGEST

REPO = "nvidia/Qwen3.6-35B-A3B-NVFP4"
KEY = "sk-0123456789abcdefghij"
PRINTS = f"echo '{{keys: [{{name: owner, secret: {KEY}}}]}}'"
FLEET = """
sparks: {a: {}, b: {}}
replicas:
  chat: {recipe: qwen3.6-35b-nvidia, sparks: [a]}
  code: {recipe: qwen3.6-35b-nvidia, sparks: [b]}
"""
INVENTORY = """
import json

from pyinfra.connectors.fake import FakeConnector
from pyinfra.connectors.util import CommandOutput, OutputLine
from sparkwright.door.door import IssuedToDoors
from sparkwright.plan.release.ensure import Served

_run = FakeConnector.run_shell_command

def _answer(self, command, **options):
    if not (asked := options.get("_stdin")):
        return _run(self, command, **options)
    says = [self.host.data.get("says")[part] for part, *_ in json.loads(asked[1])]
    return all(says), CommandOutput([OutputLine("stdout", each) for each in says])

FakeConnector.run_shell_command = _answer

def _spark(name, replica):
    served = json.dumps({"known": _served if name in _serving else {}})
    issued = json.dumps({"known": {"keys": name in _keyed, "certificate": False}})
    return "@fake/" + name, {
        "says": {Served.part: served, IssuedToDoors.part: issued}, "spark": name,
        "fake_delay": 0, "fake_delay_jitter": 0,
        "hardware": "gb10", "fleet": _fleet, "replica": replica, "recipe": _recipe, "ranks": [name],
        "rank": 0, "port": 8000, "api_key": None,
    }

sparks = [_spark("a", "chat"), _spark("b", "code")]
"""
# What a run asks for keys and lock, and an operation. No hub is asked.
DEPLOY = """
from pyinfra.operations import server
from sparkwright.door.deploy import run_keys
from sparkwright.plan.release import resolve
from sparkwright.plan.release.lock import CheckpointLock, ImageLock, LockedFile
from sparkwright.run.session import start_session
from sparkwright.run.spark import fleet_of
from sparkwright.run.target import bad_input, target

resolve.resolve_image = lambda *_, **__: ImageLock(digest=DIGEST, config=DIGEST, size=1)
resolve.resolve_checkpoint = lambda repo, revision, *_: CheckpointLock(
    repo=repo, revision=revision, commit="f" * 40, files={"a": LockedFile(size=1)}
)
start_session()
assert target().release
with bad_input():
    (key,) = run_keys(fleet_of(target().fleet))
server.shell(name="Change", commands=["true"])
"""


def run(
    folder: Path,
    *options: str,
    keyed: Sequence[str] = (),
    serving: Sequence[str] = (),
    recipe: str = "qwen3.6-35b-nvidia",
    more: str = "",
) -> tuple[int, str]:
    """Run pyinfra on two Sparks, of which some have keys at their door, or serve a release."""
    fleet = folder / "sparks.yaml"
    fleet.write_text(FLEET.replace("qwen3.6-35b-nvidia", recipe) + more)
    pins = [f"vllm/vllm-openai@{DIGEST}", f"{REPO}@{COMMIT}"]
    values = {
        "_keyed": [*keyed],
        "_serving": [*serving],
        "_served": {"release": "old-1", "vllm": "0.28.0", "pins": pins},
        "_fleet": str(fleet),
        "_recipe": recipe,
    }
    head = "".join(f"{name} = {value!r}\n" for name, value in values.items())
    (folder / "inventory.py").write_text(head + INVENTORY)
    (folder / "deploy.py").write_text(f"DIGEST = {DIGEST!r}\n{DEPLOY}")
    status, said = command_line.run(folder, *options)
    assert "Traceback" not in said, said
    return status, said


def made(folder: Path) -> set[str]:
    """Return the files that a run has made for the owner."""
    return {path.name for path in folder.glob("sparks.*")} - {"sparks.yaml"}


def test_a_first_run_makes_both_once_and_says_so(tmp_path: Path) -> None:
    status, said = run(tmp_path, "--dry")
    assert (status, "wrote" in said, made(tmp_path)) == (0, False, set()), said
    status, said = run(tmp_path, "-y")
    assert status == 0, said
    assert made(tmp_path) == {"sparks.keys", "sparks.lock.yaml"}
    assert said.count(f"wrote {tmp_path}/sparks.keys (0600): the API keys; back it up\n") == 1
    lock = f"wrote {tmp_path}/sparks.lock.yaml: what the names in recipes stand for"
    assert said.count(lock) == 1
    status, said = run(tmp_path, "-y", keyed="ab", serving="ab")
    assert status == 0, said
    assert "wrote" not in said


@pytest.mark.parametrize("options", [["-y"], ["--dry"]])
def test_a_second_operator_without_the_lock_is_stopped(tmp_path: Path, options: list[str]) -> None:
    """Though only one of the two Sparks serves."""
    status, said = run(tmp_path, *options, serving="b")
    assert status == 1, said
    assert f"{tmp_path}/sparks.lock.yaml: found no such file, while b serves old-1" in said
    assert f"--adopt vllm/vllm-openai@{DIGEST} --adopt {REPO}@{COMMIT}\n" in said
    assert "Change" not in said
    assert made(tmp_path) == set()


@pytest.mark.parametrize("options", [["-y"], ["--dry"]])
@pytest.mark.parametrize("keyed", ["a", "b", "ab"])
def test_a_second_operator_without_the_keys_is_stopped(
    tmp_path: Path, keyed: str, options: list[str]
) -> None:
    assert run(tmp_path, "-y")[0] == 0
    keys_path(tmp_path / "sparks.yaml").unlink()
    status, said = run(tmp_path, *options, keyed=keyed, serving="ab")
    assert status == 1, said
    whose = " and of ".join(keyed)
    assert f"sparks.keys: found no such file, while the door of {whose} has keys; expected" in said
    assert "Change" not in said
    assert made(tmp_path) == {"sparks.lock.yaml"}


def test_a_run_that_does_not_see_all_doors_makes_no_keys(tmp_path: Path) -> None:
    status, said = run(tmp_path, "-y", "--limit", "@fake/a", keyed="b")
    assert status == 1, said
    assert "and this run leaves out b, whose door may have keys; expected" in said
    assert "sparks.keys" not in made(tmp_path)


def test_a_lock_without_what_serves_is_stopped_and_another_recipe_goes_on(tmp_path: Path) -> None:
    assert run(tmp_path, "-y")[0] == 0
    path = lock_path(tmp_path / "sparks.yaml")
    text = path.read_text()
    # A change of recipe: what is new is looked up, and the rest stays.
    status, said = run(tmp_path, "-y", keyed="ab", serving="ab", recipe="qwen3.6-35b-nvfp4-dflash")
    assert status == 0, said
    assert said.count(f"wrote {path}") == 1
    assert read_lock(path).checkpoints.keys() > {f"{REPO}@main"}
    # One from elsewhere: it never had what serves.
    path.write_text(re.sub(rf"^  {REPO}@main:\n(    .*\n)+", "", text, flags=re.M))
    path.write_text(path.read_text().replace("checkpoints:\n", "checkpoints: {}\n"))
    before = path.read_text()
    status, said = run(tmp_path, "-y", keyed="ab", serving="a")
    assert status == 1, said
    assert f"found no entry for {REPO}, while a serves old-1" in said
    assert path.read_text() == before


@pytest.mark.parametrize("unread", ["", '{"unknown": "it hangs"}', '{"known": {"pins": 1}}'])
def test_a_spark_that_cannot_be_read_is_no_new_one(tmp_path: Path, unread: str) -> None:
    status, said = run(tmp_path, "-y")
    inventory = (tmp_path / "inventory.py").read_text()
    for path in (keys_path(tmp_path / "sparks.yaml"), lock_path(tmp_path / "sparks.yaml")):
        path.unlink()
    broken = inventory.replace("Served.part: served", f"Served.part: {unread!r}")
    assert broken != inventory
    (tmp_path / "inventory.py").write_text(broken)
    status, said = command_line.run(tmp_path, "-y")
    assert status == 1, said
    assert "Traceback" not in said
    assert made(tmp_path) == set()


@pytest.mark.parametrize("options", [["-y"], ["--dry"]])
def test_a_command_gives_the_keys_once_a_run(tmp_path: Path, options: list[str]) -> None:
    script = f"echo ran >> {tmp_path}/log; echo asks for a passphrase >&2; {PRINTS}"
    more = f"keys_command: {json.dumps(['sh', '-c', script])}\n"
    status, said = run(tmp_path, *options, keyed="ab", more=more)
    assert status == 0, said
    assert (tmp_path / "log").read_text() == "ran\n"
    assert "asks for a passphrase" in said
    assert KEY not in said
    assert "sparks.keys" not in made(tmp_path)
