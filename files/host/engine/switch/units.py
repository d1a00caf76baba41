"""The engines' units, as systemd has them; and how it, or another program, is asked."""

import subprocess
from pathlib import Path

from host.common.log import log
from host.common.seat import own


class Unit:
    """One instance of `vllm@.service`, as systemd has it now."""

    def __init__(self, release: str) -> None:
        names = "ActiveState,Job,InvocationID,StatusText"
        shown = systemctl("show", f"--property={names}", f"vllm@{release}.service")
        found = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
        self.active = found.get("ActiveState") == "active"
        self.invocation = found.get("InvocationID", "")
        # Between two of systemd's own tries there is no job.
        self.starting = bool(found.get("Job"))
        self.ended = not self.starting and found.get("ActiveState") in ("inactive", "failed")
        self.why = found.get("StatusText") or f"it is {found.get('ActiveState', 'unknown')}"


def running(root: Path) -> list[str]:
    """Return the releases of a seat whose engine runs, or is about to."""
    states = "active,activating,reloading,deactivating"
    return own(root, [release_of(unit) for unit in _listed(states, "vllm@*")])


def reset_failures(root: Path) -> None:
    """Have systemd forget what failed of a seat: it is over, and the journal keeps it."""
    for unit in _listed("failed", "vllm@*", "switch@*"):
        if own(root, [release_of(unit)]):
            reset_failed(unit)


def _listed(states: str, *patterns: str) -> list[str]:
    units = systemctl("list-units", "--plain", "--no-legend", f"--state={states}", *patterns)
    return [line.split()[0] for line in units.splitlines() if line.strip()]


def release_of(unit: str) -> str:
    """Return the release of an instance, of its engine or of the switch to it."""
    return unit.partition("@")[2].removesuffix(".service")


def systemctl(*arguments: str) -> str:
    """Return what systemctl prints."""
    return run("systemctl", *arguments).stdout


def reset_failed(unit: str) -> None:
    """Have systemd count starts anew. Its complaint about a unit that never started is dropped."""
    subprocess.run(["systemctl", "reset-failed", unit], stderr=subprocess.DEVNULL)


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a command; a failure goes to the journal."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        log(f"{' '.join(command[:4])}: exit status {done.returncode}: {done.stderr.strip()}")
    return done
