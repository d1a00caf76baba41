"""switch ROOT RELEASE [back]: have RELEASE serve in the place of the one that serves now.

The orders are in ROOT/manifests/switch@RELEASE.json. What is new is checked before what serves is
touched. Until the commit, which is the rename of one link, every end of this program, a power cut
included, leaves the former release as the one that boots; all but a power cut have it serve again.

`back` is for the unit, when the program was killed: it takes back what that one had begun.

Exit status: 0 it serves, 1 it does not; ROOT/jobs/switch@RELEASE.json says why, and what now does.
"""

import asyncio
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import probe
from door import Door, DoorError

WANTS = Path("/etc/systemd/system/multi-user.target.wants")
UNIT = "/etc/systemd/system/vllm@.service"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

# Seconds between two looks at a unit or a number, and between two questions in the trial.
LOOK, QUESTION = 0.5, 5.0
# Seconds for one token at a start, and in the trial, when the engine may be full of work: as
# deploys/plan/engine.py gives one.
TOKEN = 60.0
# Seconds for what an engine's start takes beside the engine: Docker, and the peer of a pair.
MARGIN = 120
# Seconds beyond the drain after which a worker no longer waits for its head to stop the former:
# the head's own bounds for in-flight requests, and Docker's for the end of a container.
HEAD = 600
# Bytes without which nothing is begun: an engine that starts writes state, logs and caches, and
# Docker a container; the former one needs as much to come back.
DISK = 10**9

# Fails in seconds where the engine would take minutes to find no GPU.
_PROOF = ["docker", "run", "--rm", "--pull", "never", "--gpus", "all", "--network", "none"]


class Refusal(Exception):
    """Why the new release cannot serve, as a sentence."""


class Told(Refusal):
    """Somebody wants the end of this."""


class Unit:
    """One instance of `vllm@.service`, as systemd has it now."""

    def __init__(self, release: str) -> None:
        names = "ActiveState,Job,InvocationID,StatusText"
        shown = _systemctl("show", f"--property={names}", f"vllm@{release}.service")
        found = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
        self.active = found.get("ActiveState") == "active"
        self.life = found.get("InvocationID", "")
        # Between two of systemd's own tries there is no job.
        self.starting = bool(found.get("Job"))
        self.ended = not self.starting and found.get("ActiveState") in ("inactive", "failed")
        self.why = found.get("StatusText") or f"it is {found.get('ActiveState', 'unknown')}"


class Switch:
    """One switch.

    Args:
        root: the folder of everything on the Spark.
        release: the one that is to serve.
    """

    def __init__(self, root: Path, release: str) -> None:
        self._root = root
        self._new = release
        self._began = time.monotonic()
        self._closed: float | None = None
        self._lost = ""
        self._told = threading.Event()
        self._heed = True
        self._record = root / "state" / "switch.json"
        self._file = root / "jobs" / f"switch@{release}.json"
        self._door: Door | None = None
        self._report: dict[str, Any] = {
            "phase": "checking",
            "done": 0,
            "total": 0,
            "message": "",
            "former": None,
            "beside": False,
            "restored": None,
            "began": int(time.time()),
            "seconds": 0.0,
            "gap": 0.0,
        }

    def run(self) -> int:
        """Make the switch; return the exit status."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._told.set())
        self._say("checking")
        try:
            with _Turn(self._root, self._wait_for_turn):
                self._switch()
        except (Refusal, OSError) as error:
            return self._failed(str(error))
        self._say("done")
        return 0

    def back(self) -> int:
        """Take back what a program that was killed had begun; return the exit status."""
        with _Turn(self._root, lambda: time.sleep(LOOK)):
            record = _load(self._record)
            if record is None or record["release"] != self._new:
                return 0
            self._report |= _load(self._file) or {}
            self._take_orders()
            self._heed = False
            if self._new in _enabled():
                # It was killed after the commit, or there was nothing to go back to.
                self._finish()
                return 0
            self._return(record["former"], bool(record["ran"]))
            self._record.unlink(missing_ok=True)
        return self._failed("the program of the switch was killed")

    # What there is to do.

    def _switch(self) -> None:
        self._take_orders()
        _systemctl("daemon-reload")
        former, ran = self._former()
        self._note(former=former, restored=former is not None and Unit(former).active)
        unit = self._check()
        self._worker, self._pair = bool(unit["rank"]), bool(unit["fabric"])
        beside = self._beside(unit, former, ran)
        # From here on something may have to be taken back.
        _write(self._record, {"release": self._new, "former": former, "ran": ran, "boot": _boot()})
        self._note(beside=beside)
        try:
            for release in _running():
                if release not in (self._new, former):
                    _systemctl("stop", f"vllm@{release}.service")
            if former is None:
                # It is what this Spark is about, even while it does not serve.
                self._point()
            if former and ran and not beside:
                self._stop_former(former)
            self._start(unit)
            if self._door:
                self._door.offer(self._new, unit["port"])
                self._door.prefer(self._new)
            self._open()
            if former:
                self._try(unit)
            self._commit(former)
        except Exception as error:
            self._heed = False
            self._return(former, ran)
            self._record.unlink(missing_ok=True)
            known = isinstance(error, (Refusal, DoorError, OSError))
            raise Refusal(str(error) if known else f"unexpected {error!r}") from error
        self._heed = False
        if former and beside:
            self._wait_idle(former, self._orders["drain"])
        self._finish()

    def _take_orders(self) -> None:
        found = _load(self._root / "manifests" / f"switch@{self._new}.json")
        if found is None:
            raise Refusal(f"there are no orders for {self._new}: run pyinfra again")
        self._orders = found
        self._door = Door(self._root) if found["door"] else None

    def _check(self) -> dict[str, Any]:
        """Return what unit.json and release.json say; refuse what could not start."""
        folder = self._root / "releases" / self._new
        try:
            unit: dict[str, Any] = json.loads((folder / "unit.json").read_text())
            release = json.loads((folder / "release.json").read_text())
            unit["port"] = release["port"]
            checkpoints = release["checkpoints"].values()
        except (OSError, ValueError, KeyError) as error:
            raise Refusal(f"releases/{self._new} is not whole ({error!r})") from None
        for path in (self._root, Path("/var/lib/docker")):
            if path.exists() and (free := shutil.disk_usage(path).free) < DISK:
                raise Refusal(
                    f"{free / 1e9:.1f} GB are free at {path}; expected {DISK / 1e9:.0f}: "
                    "free some space, and run again"
                )
        for checkpoint in checkpoints:
            self._check_weights(checkpoint["folder"], checkpoint["commit"])
        # What stands before the engine's own line finds the image, or says that there is none.
        before = (folder / "run").read_text().partition("\nexec ")[0]
        found = _run("sh", "-c", f'{before}\nprintf "%s\\n" "$image"')
        if found.returncode:
            raise Refusal(found.stderr.strip())
        if Unit(self._new).ended:
            proof = _run(*_PROOF, "--entrypoint", "nvidia-smi", found.stdout.strip(), "--list-gpus")
            if proof.returncode:
                raise Refusal(f"a container sees no GPU: {proof.stderr.strip()[-500:]}")
        return unit

    def _check_weights(self, folder: str, commit: str) -> None:
        manifest = _load(self._root / "manifests" / f"{folder}.json")
        if not (self._root / folder / ".sparkwright.json").exists() or manifest is None:
            raise Refusal(f"the weights are gone: {self._root}/{folder}")
        # What a worker copied has no commit of its own: its head's is checked there.
        if manifest.get("commit", commit) != commit:
            raise Refusal(
                f"{self._root}/{folder} holds commit {manifest['commit'][:12]} now; the release "
                f"was made for {commit[:12]}"
            )

    def _former(self) -> tuple[str | None, bool]:
        """Return the release that boots now, where it is another one, and whether it runs.

        Where none boots, what somebody has started by hand counts.
        """
        running, boots = _running(), _enabled()
        if self._new in boots:
            return None, False
        # More than one is not our doing: the one that runs, or is current, is meant.
        current = (self._root / "current").resolve().name
        boots.sort(key=lambda release: (release not in running, release != current))
        former = next(iter([*boots, *(each for each in running if each != self._new)]), None)
        if former is None:
            return None, False
        # A switch that was killed may have stopped it.
        last = _load(self._record) or {}
        stopped = (last.get("former"), last.get("boot")) == (former, _boot()) and last["ran"]
        return former, former in running or bool(stopped)

    def _beside(self, unit: dict[str, Any], former: str | None, ran: bool) -> bool:
        """Whether both can run at once: ports and fabric of a pair are one pair's at a time."""
        if not (self._orders["beside"] and former and ran) or self._pair:
            return False
        theirs = _load(self._root / "releases" / former / "unit.json") or {}
        port = (_load(self._root / "releases" / former / "release.json") or {}).get("port")
        return not theirs.get("fabric", True) and port != unit["port"]

    def _stop_former(self, former: str) -> None:
        """Stop it when what is in flight is answered, or has had its time."""
        seconds = self._orders["drain"]
        if self._door:
            self._close()
            self._door.hold()
            self._wait_idle(former, seconds)
        elif self._pair and self._has_head(former):
            # The head lets clients finish; its end is the end of this one's life.
            self._say("waiting", message="for the head to stop its engine")
            life, deadline = Unit(former).life, time.monotonic() + seconds + HEAD
            while (now := Unit(former)).active and now.life == life:
                if time.monotonic() > deadline:
                    raise Refusal(f"the head has not stopped {former}")
                self._pause()
        self._close()
        self._say("stopping")
        self._note(restored=False)
        _systemctl("stop", f"vllm@{former}.service")

    def _has_head(self, former: str) -> bool:
        unit = _load(self._root / "releases" / former / "unit.json") or {}
        return bool(unit.get("fabric")) and unit.get("rank") == 1 and Unit(former).active

    def _start(self, unit: dict[str, Any]) -> None:
        """Return when the new release has given an answer."""
        seconds = unit["start_timeout"] + MARGIN
        deadline = time.monotonic() + seconds
        self._say("starting", total=seconds)
        name = f"vllm@{self._new}.service"
        _forgive(name)
        if not Unit(self._new).active:
            _systemctl("start", "--no-block", name)
        while not (now := Unit(self._new)).active:
            if not now.starting:
                raise Refusal(f"{name} did not start: {now.why}")
            if time.monotonic() > deadline:
                raise Refusal(f"{name} did not serve within {seconds} s: {now.why}")
            self._pause()
        self._life = now.life
        if not self._worker:
            self._answer(unit, deadline)

    def _answer(self, unit: dict[str, Any], deadline: float) -> None:
        """Have a token; refuse an engine that gives none by then, or ends."""
        engine = probe.Engine(unit["url"], unit["model"])
        while True:
            problem = _token(engine)
            if problem is None:
                return
            self._check_life()
            if time.monotonic() > deadline:
                raise Refusal(f"{self._new} serves no completion: {problem}")
            self._pause()

    def _try(self, unit: dict[str, Any]) -> None:
        """Watch the new release at work for a while."""
        seconds = self._orders["trial"]
        begun = asked = time.monotonic()
        while (passed := time.monotonic() - begun) < seconds:
            self._say("trial", done=int(passed), total=seconds)
            self._check_life()
            if not self._worker and time.monotonic() - asked >= QUESTION:
                self._answer(unit, time.monotonic() + TOKEN)
                asked = time.monotonic()
            self._pause()
        self._check_life()

    def _check_life(self) -> None:
        now = Unit(self._new)
        if not now.active or now.life != self._life:
            raise Refusal(f"vllm@{self._new}.service ended after it had begun to serve: {now.why}")

    def _commit(self, former: str | None) -> None:
        """Make the new release the one that boots."""
        link, old = (WANTS / f"vllm@{release}.service" for release in (self._new, former))
        if not link.is_symlink():
            WANTS.mkdir(exist_ok=True)
            if not old.is_symlink():
                old = WANTS / f".{link.name}"
                old.unlink(missing_ok=True)
                old.symlink_to(UNIT)
            # One step: at no moment do both boot, or none.
            old.rename(link)
            _sync(WANTS)
        try:
            self._point()
            self._write_history(former)
        except OSError as error:
            # It serves, and boots: the next run puts the rest right.
            _log(f"the switch is made, but not all of it is noted: {error}")

    def _point(self) -> None:
        new = self._root / "current.new"
        new.unlink(missing_ok=True)
        new.symlink_to(f"releases/{self._new}")
        new.replace(self._root / "current")

    def _write_history(self, former: str | None) -> None:
        """Note who serves from now on; and who did, where that is not noted."""
        path = self._root / "state" / "history"
        lines = path.read_text().split() if path.exists() else []
        last = lines[-1] if lines else None
        new = [former] if former and former != last else []
        new += [self._new] if new or last != self._new else []
        with path.open("a") as file:
            file.writelines(f"{int(time.time())} {release}\n" for release in new)
            file.flush()
            os.fsync(file.fileno())

    def _finish(self) -> None:
        """Leave the new release as the only one that boots, runs, and is behind the door."""
        for release in _enabled():
            if release != self._new:
                (WANTS / f"vllm@{release}.service").unlink()
        _systemctl("daemon-reload")
        for release in _running():
            if release != self._new:
                self._say("stopping")
                _systemctl("stop", f"vllm@{release}.service")
        if self._door:
            with suppress(DoorError, OSError):
                for engine in self._door.engines():
                    if engine.release != self._new:
                        self._door.forget(engine.release)
        self._record.unlink(missing_ok=True)

    def _wait_idle(self, release: str, seconds: float) -> None:
        """Return when nothing is in flight at a release, and after so many seconds at the latest.

        Somebody who wants the end of this need not wait for that.
        """
        deadline = time.monotonic() + seconds
        while (busy := self._busy(release)) and time.monotonic() < deadline:
            self._say("draining", message=f"{busy} requests in flight")
            if self._told.is_set() and not self._heed:
                return
            self._pause()

    def _busy(self, release: str) -> int:
        try:
            return self._door.busy(release) if self._door else 0
        except (DoorError, OSError) as error:
            _log(f"the door does not tell what is in flight: {error!r}")
            return 0

    def _return(self, former: str | None, ran: bool) -> None:
        """Have the former release serve again; leave the new one off."""
        self._say("returning")
        if former and (link := WANTS / f"vllm@{self._new}.service").is_symlink():
            link.rename(WANTS / f"vllm@{former}.service")
        _systemctl("stop", "--no-block", f"vllm@{self._new}.service")
        if former and ran and Unit(former).active:
            # It never stopped: clients go back to it at once.
            self._welcome(former)
            self._open()
            self._note(restored=True)
        _systemctl("stop", f"vllm@{self._new}.service")
        if former and ran and not Unit(former).active:
            self._note(restored=self._restart(former))
        if self._door:
            with suppress(DoorError, OSError):
                self._door.forget(self._new)

    def _restart(self, former: str) -> bool:
        """Start the former release; tell whether it serves again within its own budget."""
        name = f"vllm@{former}.service"
        unit = _load(self._root / "releases" / former / "unit.json") or {}
        seconds = unit.get("start_timeout", 3600) + MARGIN
        deadline = time.monotonic() + seconds
        self._close()
        # Until it is up, clients hear that it starts.
        self._welcome(former)
        _forgive(name)
        _systemctl("start", "--no-block", name)
        while not (now := Unit(former)).active:
            # systemd tries it some times by itself.
            if now.ended or time.monotonic() > deadline:
                self._lost = f"{former} does not serve again either: {now.why}"
                return False
            time.sleep(LOOK)
        self._open()
        return True

    def _welcome(self, former: str) -> None:
        if not self._door:
            return
        try:
            port = (_load(self._root / "releases" / former / "release.json") or {})["port"]
            self._door.offer(former, port)
            self._door.prefer(former)
        except (DoorError, OSError, KeyError) as error:
            _log(f"the door does not take {former}: {error!r}")

    # What there is to say.

    def _failed(self, reason: str) -> int:
        self._say("failed", message=". ".join(filter(None, (reason, self._lost))))
        _log(self._report["message"])
        return 1

    def _close(self) -> None:
        if self._closed is None:
            self._closed = time.monotonic()

    def _open(self) -> None:
        if self._closed is not None:
            self._report["gap"] += round(time.monotonic() - self._closed, 1)
            self._closed = None

    def _note(self, **values: object) -> None:
        self._report |= values
        self._write_report()

    def _say(self, phase: str, done: int = 0, total: int = 0, message: str = "") -> None:
        if phase != self._report["phase"]:
            _log(phase)
        new = {"phase": phase, "done": done, "total": total, "message": message}
        if new.items() <= self._report.items() and self._file.exists():
            return
        self._report |= new
        self._write_report()

    def _write_report(self) -> None:
        self._report["seconds"] = round(time.monotonic() - self._began, 1)
        text = json.dumps(self._report) + "\n"
        new = self._file.with_suffix(".new")
        try:
            new.write_text(text)
            new.replace(self._file)
        except OSError:
            # On a full disk there is room in the old file only, and the message tells of it.
            with suppress(OSError):
                new.unlink(missing_ok=True)
                with self._file.open("r+") as file:
                    file.write(text)
                    file.truncate()

    def _wait_for_turn(self) -> None:
        self._say("waiting", message="for the end of another switch")
        self._pause()

    def _pause(self) -> None:
        """Wait a moment; it ends with a word from outside, as long as that is heeded."""
        if not self._heed:
            time.sleep(LOOK)
        elif self._told.wait(LOOK):
            raise Told("the switch was stopped")


class _Turn:
    """One switch at a time; `wait` is called until it is this one's turn."""

    def __init__(self, root: Path, wait: Callable[[], None]) -> None:
        self._path = root / "state" / "switch.lock"
        self._wait = wait

    def __enter__(self) -> None:
        self._file = self._path.open("w")
        while True:
            try:
                return fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._wait()

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _token(engine: probe.Engine) -> str | None:
    """Have one token; return what came instead."""

    async def ask() -> None:
        async with asyncio.timeout(TOKEN):
            await engine.token()

    try:
        asyncio.run(ask())
    except (probe.NoTokenError, OSError, ValueError) as error:
        return str(error) or f"no answer within {TOKEN:g} s"
    return None


def _running() -> list[str]:
    """Return the releases whose engine runs, or is about to."""
    states = "active,activating,reloading,deactivating"
    units = _systemctl("list-units", "--plain", "--no-legend", f"--state={states}", "vllm@*")
    return [_release(line.split()[0]) for line in units.splitlines() if line.strip()]


def _enabled() -> list[str]:
    """Return the releases whose engine boots."""
    return sorted(_release(path.name) for path in WANTS.glob("vllm@*.service"))


def _release(unit: str) -> str:
    return unit.removeprefix("vllm@").removesuffix(".service")


def _systemctl(*arguments: str) -> str:
    return _run("systemctl", *arguments).stdout


def _forgive(unit: str) -> None:
    """Have systemd count starts anew; it complains of a unit that it has never started."""
    subprocess.run(["systemctl", "reset-failed", unit], stderr=subprocess.DEVNULL)


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a command; what it says besides goes to the journal."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        _log(f"{' '.join(command[:4])}: exit status {done.returncode}: {done.stderr.strip()}")
    return done


def _load(path: Path) -> dict[str, Any] | None:
    """Return what is in a file; None where there is none, or it is damaged."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _write(path: Path, content: object) -> None:
    """Write a file beyond a loss of power."""
    new = path.with_name(f"{path.name}.new")
    with new.open("w") as file:
        file.write(json.dumps(content) + "\n")
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    _sync(path.parent)


def _sync(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _boot() -> str:
    return BOOT_ID.read_text().strip()


def _log(text: str) -> None:
    print(text, flush=True)


def run() -> NoReturn:
    """The command."""
    switch = Switch(Path(sys.argv[1]), sys.argv[2])
    sys.exit(switch.back() if sys.argv[3:] == ["back"] else switch.run())


if __name__ == "__main__":
    run()
