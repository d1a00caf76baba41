"""systemctl, as far as a switch asks: engines are small HTTP servers that behave as files say.

STATE/units/RELEASE.json is a unit that was started; STATE/RELEASE.how says how its engine behaves:
well (without the file), fails, never (is ready), dies (a second after it was ready), silent (gives
no token), broken (gives an error for one).
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

STATE = Path(os.environ["STATE"])
ROOT = Path(os.environ["ROOT"])
ENGINE = Path(os.environ["ENGINE"])
# Seconds until an engine is ready, and until one that dies does that.
READY, DEATH = 0.2, 0.8


def how(release):
    path = STATE / f"{release}.how"
    return path.read_text() if path.exists() else "well"


def file(release):
    return STATE / "units" / f"{release}.json"


def unit(release):
    """Return ActiveState, whether it has a job, InvocationID and StatusText."""
    if not file(release).exists():
        return "inactive", False, "", ""
    begun = json.loads(file(release).read_text())
    age, kind = time.time() - begun["at"], how(release)
    if kind == "never" or age < READY:
        return "activating", True, begun["life"], "starting the engine"
    if kind == "fails":
        return "failed", False, begun["life"], "engine ended: its exit status was 1"
    if kind == "dies" and age > DEATH:
        return "activating", False, begun["life"], "engine ended: its exit status was 0"
    return "active", False, begun["life"], "serving"


def start(release):
    if unit(release)[0] in ("active", "activating"):
        return
    settings = json.loads((ROOT / "releases" / release / "unit.json").read_text())
    port = settings["url"].rpartition(":")[2]
    state = STATE / f"engine-{release}"
    state.mkdir(exist_ok=True)
    for kind, name in (("silent", "hang"), ("broken", "broken")):
        (state / name).unlink(missing_ok=True)
        if how(release) == kind:
            (state / name).touch()
    server = None
    if how(release) not in ("fails", "never") and not settings["rank"]:
        server = subprocess.Popen(
            [sys.executable, ENGINE, port, state],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ).pid
    told = {"at": time.time(), "life": uuid.uuid4().hex, "server": server}
    file(release).write_text(json.dumps(told))


def stop(release):
    if file(release).exists():
        if server := json.loads(file(release).read_text())["server"]:
            os.kill(server, signal.SIGKILL)
        file(release).unlink()


def main(verb, *words):
    names = [word for word in words if not word.startswith("-")]
    releases = [name.removeprefix("vllm@").removesuffix(".service") for name in names]
    with (STATE / "log").open("a") as log:
        log.write(" ".join([verb, *names]) + "\n")
    if verb == "show":
        active, job, life, said = unit(releases[0])
        print(f"ActiveState={active}\nJob={'7' if job else ''}")
        print(f"InvocationID={life}\nStatusText={said}")
    elif verb == "start":
        start(releases[0])
    elif verb == "stop":
        stop(releases[0])
    elif verb == "list-units":
        for path in sorted((STATE / "units").glob("*.json")):
            if unit(path.stem)[0] in ("active", "activating"):
                print(f"vllm@{path.stem}.service loaded")
    elif verb not in ("daemon-reload", "reset-failed"):
        sys.exit(f"unexpected: {verb}")


with (STATE / "lock").open("w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    main(*sys.argv[1:])
