"""Two operators of one fleet: a run makes no keys and no lock that another has. By fake hosts."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from sparkwright.door.keys import keys_path
from sparkwright.plan.release.lock import lock_path, read_lock
from tests.component import command_line
from tests.component.command_line import Ended
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
) -> Ended:
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
    inventory = "".join(f"{name} = {value!r}\n" for name, value in values.items()) + INVENTORY
    deploy = f"DIGEST = {DIGEST!r}\n{DEPLOY}"
    return command_line.run(folder, *options, inventory=inventory, deploy=deploy)


def made(folder: Path) -> set[str]:
    """Return the files that a run has made for the owner."""
    return {path.name for path in folder.glob("sparks.*")} - {"sparks.yaml"}


def test_a_first_run_makes_both_once_and_says_so(tmp_path: Path) -> None:
    assert "wrote" not in run(tmp_path, "--dry").succeeded()
    assert made(tmp_path) == set()
    said = run(tmp_path, "-y").succeeded()
    assert made(tmp_path) == {"sparks.keys", "sparks.lock.yaml"}
    assert said.count(f"wrote {tmp_path}/sparks.keys (0600): the API keys; back it up\n") == 1
    lock = f"wrote {tmp_path}/sparks.lock.yaml: what the names in recipes stand for"
    assert said.count(lock) == 1
    assert "wrote" not in run(tmp_path, "-y", keyed="ab", serving="ab").succeeded()


@pytest.mark.parametrize("option", ["-y", "--dry"])
def test_a_second_operator_without_the_lock_is_stopped(tmp_path: Path, option: str) -> None:
    """Though only one of the two Sparks serves."""
    said = run(tmp_path, option, serving="b").failed(
        f"{tmp_path}/sparks.lock.yaml: found no such file, while b serves old-1",
        f"--adopt vllm/vllm-openai@{DIGEST} --adopt {REPO}@{COMMIT}\n",
    )
    assert "Change" not in said
    assert made(tmp_path) == set()


def test_a_second_operator_without_the_keys_is_stopped(tmp_path: Path) -> None:
    run(tmp_path, "-y").succeeded()
    keys_path(tmp_path / "sparks.yaml").unlink()
    for option, keyed, whose in (("-y", "b", "b"), ("--dry", "ab", "a and of b")):
        told = f"sparks.keys: found no such file, while the door of {whose} has keys; expected"
        assert "Change" not in run(tmp_path, option, keyed=keyed, serving="ab").failed(told)
        assert made(tmp_path) == {"sparks.lock.yaml"}


def test_a_run_that_does_not_see_all_doors_makes_no_keys(tmp_path: Path) -> None:
    run(tmp_path, "-y", "--limit", "@fake/a", keyed="b").failed(
        "and this run leaves out b, whose door may have keys; expected"
    )
    assert "sparks.keys" not in made(tmp_path)


def test_a_lock_without_what_serves_is_stopped_and_another_recipe_goes_on(tmp_path: Path) -> None:
    run(tmp_path, "-y").succeeded()
    path = lock_path(tmp_path / "sparks.yaml")
    text = path.read_text()
    # A change of recipe: what is new is looked up, and the rest stays.
    ended = run(tmp_path, "-y", keyed="ab", serving="ab", recipe="qwen3.6-35b-nvfp4-dflash")
    assert ended.succeeded().count(f"wrote {path}") == 1
    assert read_lock(path).checkpoints.keys() > {f"{REPO}@main"}
    # One from elsewhere: it never had what serves.
    path.write_text(re.sub(rf"^  {REPO}@main:\n(    .*\n)+", "", text, flags=re.M))
    path.write_text(path.read_text().replace("checkpoints:\n", "checkpoints: {}\n"))
    before = path.read_text()
    run(tmp_path, "-y", keyed="ab", serving="a").failed(
        f"found no entry for {REPO}, while a serves old-1"
    )
    assert path.read_text() == before


def test_a_spark_that_cannot_be_read_is_no_new_one(tmp_path: Path) -> None:
    run(tmp_path, "--dry").succeeded()
    inventory = (tmp_path / "inventory.py").read_text()
    for unread in ("", '{"unknown": "it hangs"}', '{"known": {"pins": 1}}'):
        broken = inventory.replace("Served.part: served", f"Served.part: {unread!r}")
        assert broken != inventory
        command_line.run(tmp_path, "-y", inventory=broken).failed()
        assert made(tmp_path) == set()


@pytest.mark.parametrize("option", ["-y", "--dry"])
def test_a_command_gives_the_keys_once_a_run(tmp_path: Path, option: str) -> None:
    script = f"echo ran >> {tmp_path}/log; echo asks for a passphrase >&2; {PRINTS}"
    more = f"keys_command: {json.dumps(['sh', '-c', script])}\n"
    said = run(tmp_path, option, keyed="ab", more=more).succeeded("asks for a passphrase")
    assert (tmp_path / "log").read_text() == "ran\n"
    assert KEY not in said
    assert "sparks.keys" not in made(tmp_path)
