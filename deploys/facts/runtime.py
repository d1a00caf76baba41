"""The container runtime of a Spark."""

from collections.abc import Iterable
from dataclasses import dataclass

from pyinfra.api import FactBase

DAEMON_JSON = "/etc/docker/daemon.json"


@dataclass(frozen=True)
class RuntimeState:
    """Docker and NVIDIA's container toolkit.

    Attributes:
        toolkit: version of `nvidia-ctk`; None without it.
        repository: a package source for the toolkit is already there, ours or the vendor's.
        daemon_json: text of Docker's configuration; "" without one.
    """

    toolkit: str | None
    repository: bool
    daemon_json: str


class ContainerRuntime(FactBase[RuntimeState]):
    """Toolkit, its package source, and Docker's configuration, in one command."""

    def command(self, repository: str) -> str:
        return f"""
echo "toolkit $(nvidia-ctk --version 2>/dev/null | head -n 1)"
cd /etc/apt
echo "repository $(grep -rlF '{repository}' sources.list sources.list.d 2>/dev/null | head -n 1)"
echo daemon.json
test ! -e {DAEMON_JSON} || cat {DAEMON_JSON}"""

    def process(self, output: Iterable[str]) -> RuntimeState:
        toolkit, repository, _, *config = output
        return RuntimeState(
            toolkit=toolkit.removeprefix("toolkit").strip() or None,
            repository=bool(repository.removeprefix("repository").strip()),
            daemon_json="\n".join(config),
        )
