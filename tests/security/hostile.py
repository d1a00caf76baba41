"""Hostile Sparks: what they say, how they are reached, and the places of an answer for it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.component.sshd import Machine

# Words that a hostile Spark would choose.
ESCAPES = "\x1b]0;owned\x07\x1b[2J\x1b]52;c;cm0gLXJm\x07\r\x9b31m\u202egnp.exe\u2066"

# On "endless" a command never ends; on the others it says something that is no UTF-8.
SPEAKERS = """
import json
from pyinfra import host
from pyinfra.api import operation
from pyinfra.api import FactBase
from sparkwright.run import upstream as bounded

bounded.MOST = 65_536

class Speech(FactBase):
    def command(self, script):
        return script

    def process(self, output):
        return output

@operation()
def hear():
    script = "yes" if host.data.spark == "endless" else r"printf 'a\\377b\\nlast\\n'"
    said = host.get_fact(Speech, script=script)
    host.log(f"{host.data.spark} said {json.dumps(said)}")
    yield from ()

hear(name="Hear")
"""


def by_ssh(folder: Path, sparks: Mapping[str, Machine], **more: object) -> str:
    """Return the inventory of Sparks by SSH, whose host keys are in a file that is empty so far."""
    (known := folder / "known_hosts").touch()
    more |= {"ssh_known_hosts_file": str(known), "ssh_allow_agent": False}
    hosts = [(name, each.reached(spark=name, **more)) for name, each in sparks.items()]
    return f"hosts = {hosts!r}\nfrom sparkwright.run.upstream import carry as _carry\n_carry()\n"


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the ways to all values inside of one."""
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*path, key)
            yield from places(each, (*path, key))


def put(value: Any, path: tuple[Any, ...], new: Any) -> None:
    """Put something in such a place; where another change has made that none, raise."""
    *way, last = path
    for step in way:
        value = value[step]
    value[last] = new
