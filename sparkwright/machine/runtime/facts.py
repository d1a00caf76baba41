"""The container runtime of a Spark, and whether it gives containers the GPU."""

import shlex
from dataclasses import dataclass

from sparkwright.common.facts import HostFact
from sparkwright.common.host_output import sections, sections_script
from sparkwright.common.placed import DAEMON_JSON
from sparkwright.machine.host.containers import INFO, RUNNING, TOOLKIT
from sparkwright.plan.release.container import CONTAINER_OPTIONS


@dataclass(frozen=True)
class RuntimeState:
    """Docker, NVIDIA's container toolkit, and whether a package source for it is already there.

    Attributes:
        toolkit: version of `nvidia-ctk`; None without it.
        runtimes: names of Docker's runtimes; none where it does not run.
        containers: names of the running containers.
        daemon_json: text of Docker's configuration; "" without one.
        proxies: the values that runs have set there so far, as `daemon_json.recorded`.
    """

    toolkit: str | None
    repository: bool
    runtimes: tuple[str, ...]
    containers: tuple[str, ...]
    daemon_json: str
    proxies: tuple[str, ...]


class ContainerRuntime(HostFact[RuntimeState]):
    """Toolkit, its package source, and Docker: configuration, runtimes, containers.

    It fails where Docker runs and does not answer: without its containers, a restart would seem to
    end none.
    """

    def command(self, repository: str, root: str) -> str:
        return f"""
silent() {{
  ! systemctl is-active --quiet docker.service || {{
    echo "Docker runs, but does not answer: journalctl -u docker" >&2; exit 1; }}
}}
info=$({INFO}) || silent
running=$({RUNNING}) || silent
echo "toolkit $({TOOLKIT} | head -n 1)"
cd /etc/apt
echo "repository $(grep -rlF '{repository}' sources.list sources.list.d 2>/dev/null | head -n 1)"
echo "runtimes $(printf '%s\\n' "$info" | sed -n 5p)"
echo "containers $(printf '%s\\n' "$running" | cut -f 2 | tr '\\n' ' ')"
echo proxies
cat {shlex.quote(root)}/state/docker-proxies 2>/dev/null
echo daemon.json
test ! -e {DAEMON_JSON} || cat {DAEMON_JSON}"""

    def parse(self, output: list[str]) -> RuntimeState:
        toolkit, repository, runtimes, containers, _, *rest = output
        end = rest.index("daemon.json")
        return RuntimeState(
            toolkit=toolkit.removeprefix("toolkit").strip() or None,
            repository=bool(repository.removeprefix("repository").strip()),
            runtimes=tuple(runtimes.split()[1:]),
            containers=tuple(containers.split()[1:]),
            daemon_json="\n".join(rest[end + 1 :]),
            proxies=tuple(rest[:end]),
        )


@dataclass(frozen=True)
class Proof:
    """Driver, toolkit, Docker, kernel and options of the container, now and when it got the GPU."""

    now: tuple[str, ...]
    proved: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Tell whether nothing has changed since the proof."""
        return self.now == self.proved


class GpuProof(HostFact[Proof]):
    """The proof that a container gets the GPU, beside the present versions."""

    def command(self, root: str) -> str:
        return sections_script(
            {
                "now": "nvidia-smi --query-gpu=driver_version --format=csv,noheader; "
                f"{TOOLKIT} | head -n 1; {INFO} | head -n 1; uname -r",
                "proved": f"cat {shlex.quote(root)}/state/gpu",
            }
        )

    def parse(self, output: list[str]) -> Proof:
        found = sections(output)
        return Proof((*found["now"], " ".join(CONTAINER_OPTIONS)), tuple(found["proved"]))
