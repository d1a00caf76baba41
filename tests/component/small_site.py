"""A site of one or two Sparks by SSH, on this machine, whose deploy waits where it is told to."""

import os
import shutil
import sys
import tomllib
from pathlib import Path

from tests.component.sshd import Machine

PROJECT = Path(__file__).parents[2]
# Python imports it before anything else. The import of one module says that it is reached, and
# waits.
SITECUSTOMIZE = """
import os, sys, time
class Wait:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ.get("WAIT_AT"):
            open(os.environ["REACHED"], "w").close()
            time.sleep(900)
sys.meta_path.insert(0, Wait())
"""
DEPLOY = """
from pathlib import Path
from pyinfra import host
from pyinfra.api import FactBase, StringCommand, operation
from sparkwright.common.local_file import write_file
from sparkwright.common.operations import failing
from sparkwright.run.session import start_session

class Slow(FactBase):
    def command(self, word):
        return f'test {word} != {WHERE} || {{ touch "$MACHINE/asked"; sleep 900; }}'

@operation()
def work():
    if WHERE == "refused":
        yield failing("no room for the weights")
    elif WHERE != "done":
        yield StringCommand('touch "$MACHINE/changed"')
        yield StringCommand(Slow().command("operation"))

start_session(lease=True)
host.get_fact(Slow, word="fact")
if WHERE == "file":
    write_file(Path("inventory/sparks.lock.yaml"), "")
work(name="Work")
work(name="Never")
"""


class Site:
    """A folder as `sparkwright init` writes one, whose deploy waits where it is told to."""

    def __init__(self, folder: Path, running: dict[str, Machine], sparks: int) -> None:
        self.folder = folder
        self.machines = dict([*running.items()][:sparks])
        for machine in self.machines.values():
            machine.reset()
        for name in ("config.py", "inventory.py", "deploys/status.py", "tests/verify"):
            target = folder / name
            target.parent.mkdir(exist_ok=True)
            copy = shutil.copytree if (PROJECT / name).is_dir() else shutil.copy
            copy(PROJECT / name, target)
        (folder / "inventory").mkdir()
        (folder / "python").mkdir()
        (folder / "python/sitecustomize.py").write_text(SITECUSTOMIZE)
        (folder / "known_hosts").touch()
        declared = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
        (information := folder / "python/sparkwright-0.dist-info").mkdir()
        (information / "METADATA").write_text("Name: sparkwright\nVersion: 0\n")
        groups = declared["entry-points"].items()
        lines = [
            f"[{group}]\n{name} = {place}" for group, own in groups for name, place in own.items()
        ]
        (information / "entry_points.txt").write_text("\n".join(lines))
        self.write()

    def write(self, where: str = "nowhere", more: str = "", port: int = 0) -> None:
        """Write what the site serves, and where its deploy waits."""
        keys = {
            "ssh_hostname": "127.0.0.1",
            "ssh_user": "ann",
            "ssh_key": next(iter(self.machines.values())).folder.parent / "user-key",
            "ssh_known_hosts_file": self.folder / "known_hosts",
            "hardware": "lab",
        }
        ports = {name: machine.port for name, machine in self.machines.items()}
        if port:
            ports[min(ports)] = port
        text = "".join(f"{key}: {value}, " for key, value in keys.items())
        sparks = "".join(f"  {name}: {{{text}ssh_port: {ports[name]}}}\n" for name in ports)
        own = "recipe: lab-tiny, trusts: [tool-parser-plugin]"
        replicas = "".join(f"  on-{name}: {{{own}, sparks: [{name}]}}\n" for name in self.machines)
        inventory = f"sparks:\n{sparks}replicas:\n{replicas}{more}"
        (self.folder / "inventory/sparks.yaml").write_text(inventory)
        (self.folder / "deploys/spark.py").write_text(f"WHERE = {where!r}\n{DEPLOY}")

    def reached(self) -> bool:
        """Whether what was started is where it waits."""
        asked = [machine.folder / "asked" for machine in self.machines.values()]
        own = [self.folder / "asked", self.folder / "reached"]
        return all(map(Path.exists, asked)) or any(map(Path.exists, own))

    def environment(self, at: str = "") -> dict[str, str]:
        """The variables of a command, which waits where it imports a module."""
        return {
            **os.environ,
            "PYTHONPATH": f"{self.folder / 'python'}:{PROJECT}",
            "PATH": f"{self.folder}:{os.environ['PATH']}",
            "WAIT_AT": at,
            "REACHED": str(self.folder / "reached"),
        }


def sparkwright(line: str) -> list[str]:
    return [sys.executable, "-m", "sparkwright", *line.split()]


def pyinfra(line: str) -> list[str]:
    return [str(Path(sys.executable).with_name("pyinfra")), "inventory.py", *line.split()]
