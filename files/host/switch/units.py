"""The engines' units, as systemd has them; and how it, or another program, is asked."""

import subprocess

from host.common.log import log


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


def running() -> list[str]:
    """Return the releases whose engine runs, or is about to."""
    states = "active,activating,reloading,deactivating"
    units = systemctl("list-units", "--plain", "--no-legend", f"--state={states}", "vllm@*")
    return [release_of(line.split()[0]) for line in units.splitlines() if line.strip()]


def release_of(unit: str) -> str:
    """Return the release of an instance."""
    return unit.removeprefix("vllm@").removesuffix(".service")


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
