"""systemctl, as far as a switch asks: units that behave as files say.

It is called in the process of whoever asks: a switch looks hundreds of times. A Spark's folder of
state holds units/RELEASE.json, a unit that was started, and RELEASE.how, how its engine behaves:
well (without the file), fails, never (is ready), died. One that is masked has RELEASE.masked. What
boots, it knows as of its last daemon-reload: known-boots.
"""

import fcntl
import json
import time
import uuid
from pathlib import Path

# Seconds until an engine is ready.
READY = 0.1


def call(state: Path, verb: str, *words: str) -> str:
    """Do what systemctl does; return what it prints."""
    names = [word for word in words if not word.startswith("-")]
    releases = [name.removeprefix("vllm@").removesuffix(".service") for name in names]
    with (state / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with (state / "log").open("a") as log:
            log.write(" ".join([verb, *(w for w in words if w == "--no-block"), *names]) + "\n")
        if verb == "show":
            active, job, life, said = _unit(state, releases[0])
            shown = f"ActiveState={active}\nJob={'7' if job else ''}\n"
            return f"{shown}InvocationID={life}\nStatusText={said}\n"
        if verb == "list-units":
            started = sorted(path.stem for path in (state / "units").glob("*.json"))
            wanted = words[-1 - len(names)].partition("=")[2].split(",")
            live = [each for each in started if _unit(state, each)[0] in wanted]
            if "failed" in wanted:
                live += [path.stem for path in state.glob("*.failed") if path.stem not in live]
            return "".join(f"vllm@{release}.service loaded\n" for release in live)
        if verb == "start":
            if not (state / f"{releases[0]}.masked").exists():
                _start(state, releases[0])
        elif verb == "unmask":
            (state / f"{releases[0]}.masked").unlink(missing_ok=True)
        elif verb == "stop":
            # What ends by itself meanwhile counts as failed.
            if _how(state, releases[0]) == "died":
                (state / f"{releases[0]}.failed").touch()
            _file(state, releases[0]).unlink(missing_ok=True)
        elif verb == "reset-failed":
            for file in state.glob(f"{releases[0]}.failed"):
                file.unlink()
        else:
            assert verb == "daemon-reload", verb
            boots = sorted(path.name for path in (state / "wants").iterdir())
            (state / "known-boots").write_text(json.dumps(boots))
    return ""


def _how(state: Path, release: str) -> str:
    path = state / f"{release}.how"
    return path.read_text() if path.exists() else "well"


def _file(state: Path, release: str) -> Path:
    return state / "units" / f"{release}.json"


def _unit(state: Path, release: str) -> tuple[str, bool, str, str]:
    """Return ActiveState, whether it has a job, InvocationID and StatusText."""
    file, kind = _file(state, release), _how(state, release)
    if not file.exists():
        return "inactive", False, "", ""
    begun = json.loads(file.read_text())
    life = begun["life"]
    if kind == "never" or time.time() - begun["at"] < READY:
        return "activating", True, life, "starting the engine"
    if kind == "fails":
        return "failed", False, life, "engine ended: its exit status was 1"
    if kind == "died":
        return "activating", False, life, "engine ended: its exit status was 0"
    return "active", False, life, "serving"


def _start(state: Path, release: str) -> None:
    if _unit(state, release)[0] not in ("active", "activating"):
        told = {"at": time.time(), "life": uuid.uuid4().hex}
        # A test may kill this, and systemd would not be half way.
        new = _file(state, release).with_suffix(".new")
        new.write_text(json.dumps(told))
        new.replace(_file(state, release))
