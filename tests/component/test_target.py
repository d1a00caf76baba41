"""The target of a Spark: made once a run, and its release with it."""

from collections import Counter
from pathlib import Path

import pytest

from tests.component import command_line

FLEET = """
sparks: {a: {}, b: {ssh_hostname: b.lan}}
replicas: {chat: {recipe: qwen3.6-35b-nvidia, sparks: [a, b], api_key: none}}
"""
INVENTORY = """
def _spark(name, rank):
    return "@fake/" + name, {
        "fake_delay": 0, "fake_delay_jitter": 0, "spark": name, "hardware": "gb10",
        "fleet": "sparks.yaml", "replica": "chat", "recipe": "try", "ranks": ["a", "b"],
        "rank": rank, "port": 8000, "api_key": "none",
    }

sparks = [_spark("a", 0), _spark("b", 1)]
"""
# All steps as they are, on operations that do nothing: what they ask of the target is real.
DEPLOY = """
import importlib
from pathlib import Path
from pyinfra import host, local
from sparkwright.upkeep.rollout import deploy as rollout
from sparkwright.run import lease
from sparkwright.run import session
from sparkwright.run import target
from sparkwright.run import spark as plan
from tests.makers.release import lock, recipe

LIBRARY = Path(session.__file__).parents[1]

def log(word):
    with Path("log").open("a") as file:
        file.write(f"{host.data.spark} {word}\\n")

def counted(*arguments, **named):
    log("release")
    return made(*arguments, **named)

def nothing(name, **arguments):
    log("operation")

made = plan.make_release
if made.__name__ == "make_release":
    plan.make_release, plan.recipe_of = counted, lambda name: recipe(sparks=[1, 2])
    target.ensure_lock = lambda *_, **__: lock()
    rollout.intend = lambda answers: None
    session.start_session = lease.hold_lease = lambda: None
    for path in (*LIBRARY.rglob("deploy.py"), *LIBRARY.rglob("secrets.py")):
        parts = path.relative_to(LIBRARY).with_suffix("").parts
        step = importlib.import_module(".".join(["sparkwright", *parts]))
        own = ("apply", "prepare", "vacate", "folders", "users", "authenticate", "remove")
        for name, each in list(vars(step).items()):
            if hasattr(each, "_inner") and name not in own:
                setattr(step, name, nothing)

if "NAME" == "prepare":
    importlib.import_module("sparkwright.deploy").prepare("/dev/null")
else:
    local.include(str(LIBRARY.parent / "deploys" / "NAME.py"))
"""


@pytest.mark.parametrize("name", ["spark", "prepare"])
def test_a_run_makes_the_release_of_each_spark_once(tmp_path: Path, name: str) -> None:
    (tmp_path / "sparks.yaml").write_text(FLEET)
    (tmp_path / "inventory.py").write_text(INVENTORY)
    (tmp_path / "deploy.py").write_text(DEPLOY.replace("NAME", name))
    status, said = command_line.run(tmp_path, "--dry")
    assert status == 0, said
    log = Counter((tmp_path / "log").read_text().splitlines())
    assert (log["a release"], log["b release"]) == (1, 1)
    assert min(log["a operation"], log["b operation"]) > 12, log
