"""What hostile Sparks say, and how they are reached."""

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
# Sparks by SSH: PORTS are names and ports, user-key a path.
BY_SSH = """
def _spark(name, port):
    return name, {
        "ssh_hostname": "127.0.0.1", "ssh_port": port, "ssh_user": "ann", "ssh_key": "user-key",
        "ssh_known_hosts_file": "known_hosts", "ssh_allow_agent": False, "spark": name,
    }

hosts = [_spark(*each) for each in PORTS]
from sparkwright.run.upstream import carry as _carry
_carry()
"""
