"""The engines' units: as systemd has them, and which release boots, is current, and has served."""

import os
import subprocess
import time
from pathlib import Path

from host.common.atomic import sync_folder
from host.common.log import log
from host.common.seat import own
from host.engine.places import on_demand

WANTS = Path("/etc/systemd/system/multi-user.target.wants")
UNIT = "/etc/systemd/system/vllm@.service"


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


def enabled(root: Path) -> list[str]:
    """Return the releases of a seat whose engine boots; where none does, the last that served."""
    if on_demand(root):
        return own(root, _history(root)[-1:])
    return own(root, sorted(release_of(path.name) for path in WANTS.glob("vllm@*.service")))


def commit(root: Path, new: str, previous: str | None) -> None:
    """Make the new release the one that boots."""
    link, old = (_link(release) for release in (new, previous))
    if on_demand(root):
        for path in WANTS.glob("vllm@*.service"):
            if own(root, [release_of(path.name)]):
                path.unlink()
    elif not link.is_symlink():
        WANTS.mkdir(exist_ok=True)
        if not old.is_symlink():
            old = WANTS / f".{link.name}"
            old.unlink(missing_ok=True)
            old.symlink_to(UNIT)
        # One step: at no moment do both boot, or none.
        old.rename(link)
        sync_folder(WANTS)
    try:
        point(root, new)
        _write_history(root, new, previous)
    except OSError as error:
        # It serves, and boots: the next run puts the rest right.
        log(f"the switch is made, but not all of it is noted: {error}")


def undo(new: str, previous: str) -> None:
    """Make the previous release the one that boots, where the new one is already."""
    if (link := _link(new)).is_symlink():
        link.rename(_link(previous))


def disable(release: str) -> None:
    """Have a release no longer boot."""
    _link(release).unlink()


def point(root: Path, release: str) -> None:
    """Make a release the current one."""
    new = root / "current.new"
    new.unlink(missing_ok=True)
    new.symlink_to(f"releases/{release}")
    new.replace(root / "current")


def _write_history(root: Path, release: str, previous: str | None) -> None:
    """Note who serves from now on; and who did, where that is not noted."""
    path = root / "state" / "history"
    last = next(iter(_history(root)[-1:]), None)
    new = [previous] if previous and previous != last else []
    new += [release] if new or last != release else []
    with path.open("a", encoding="utf-8") as file:
        file.writelines(f"{int(time.time())} {each}\n" for each in new)
        file.flush()
        os.fsync(file.fileno())


def _history(root: Path) -> list[str]:
    path = root / "state" / "history"
    lines = path.read_text("utf-8", "replace").splitlines() if path.exists() else []
    # A loss of power may have left half of one.
    return [words[1] for words in map(str.split, lines) if len(words) == 2]


def _link(release: str | None) -> Path:
    return WANTS / f"vllm@{release}.service"
