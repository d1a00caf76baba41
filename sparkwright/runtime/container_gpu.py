"""An engine's container: its GPU, its limits, and with what it was proved that both go together."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from sparkwright.common.host_output import sections, sections_script
from sparkwright.release.container import CONTAINER_OPTIONS


@dataclass(frozen=True)
class Proof:
    """With what the GPU in a container is to be proved, and with what it was.

    Attributes:
        now, proved: driver, toolkit, Docker and kernel, and how the GPU is asked for.
    """

    now: tuple[str, ...]
    proved: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Tell whether nothing has changed since."""
        return self.now == self.proved


def proof_script(root: str) -> str:
    """Return the POSIX shell script that reads what the proof depends on; it only reads.

    Args:
        root: the folder of everything on the Spark.
    """
    parts = {
        "now": "nvidia-smi --query-gpu=driver_version --format=csv,noheader; "
        "nvidia-ctk --version | head -n 1; docker version --format '{{.Server.Version}}'; uname -r",
        "proved": f"cat {shlex.quote(root)}/state/gpu",
    }
    return sections_script(parts)


def parse_proof(output: Iterable[str]) -> Proof:
    """Return what the script's output lines describe.

    Raises:
        ValueError: a section is missing.
    """
    found = sections(output)
    try:
        return Proof((*found["now"], " ".join(CONTAINER_OPTIONS)), tuple(found["proved"]))
    except KeyError as error:
        raise ValueError(f"found no section {error}") from error
