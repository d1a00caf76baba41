"""apply version FILE | run NAME | verify FILE EXPECTED: the steps of a build that applies mods.

version writes the version of the base's vLLM; run runs the run.sh of a mod, as launchers do; verify
fails unless vLLM is still what it was, or the EXPECTED version where the mods are to change it.
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Where sparkrun and spark-vllm-docker put mods, and how they run one.
MODS = Path("/workspace/mods")
COMMAND = 'export WORKSPACE_DIR=$PWD && cd "$0" && chmod +x run.sh && exec ./run.sh'
# Seconds: a mod changes files and installs packages. What is compiled for longer is a build.
LONGEST = 3600
# Seconds in which what run.sh has started may end.
LAST = 5
# Copies of downloads that would only make the image larger.
ENVIRONMENT = {"PIP_NO_CACHE_DIR": "1", "UV_NO_CACHE": "1", "DEBIAN_FRONTEND": "noninteractive"}
ELSEWHERE = ("/proc", "/sys", "/dev", "/tmp", "/run")
# Files that are named; of more, their number.
MOST = 20

# No module of the folder in which a step happens to run.
OUTSIDE = """\
import sys
sys.path[:] = filter(None, sys.path)
"""
ORIGIN = """\
import importlib.util
spec = importlib.util.find_spec("vllm")
print(*(spec and (spec.submodule_search_locations or [spec.origin]) or []), sep="\\n")
"""
COMPILES = """\
import sys
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        compile(file.read(), path, "exec")
"""
VERSION = "from importlib.metadata import version; print(version('vllm'))"


def engine_python():
    """Return the words of the Python that runs vLLM's command."""
    command = shutil.which("vllm")
    if command is None:
        sys.exit("found no command `vllm` in the image, by which an engine starts")
    with Path(command).open("rb") as file:
        first = file.readline(1000).decode(errors="replace")
    words = shlex.split(first[2:]) if first.startswith("#!") else []
    return words if words and "python" in words[-1] else ["python3"]


def said(python, program):
    """Return what a program says; None if it fails."""
    words = [*python, "-c", OUTSIDE + program]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def version(path):
    """Write the version of vLLM to a file."""
    found = said(engine_python(), VERSION)
    if not found:
        sys.exit("found no vLLM in the base image, or none that Python knows by name")
    Path(path).write_text(found + "\n", "utf-8")
    print(f"vLLM {found} in the base image")


def run(name):
    """Run a mod; fail with a sentence if it fails, or leaves a process, or breaks vLLM's syntax."""
    folder = MODS / name
    # As the file system counts.
    with tempfile.NamedTemporaryFile() as stamp:
        begun = Path(stamp.name).stat().st_ctime_ns
    process = subprocess.Popen(
        ["/bin/bash", "-c", COMMAND, str(folder)],
        stdin=subprocess.DEVNULL,
        env={**os.environ, **ENVIRONMENT},
    )
    try:
        status = process.wait(LONGEST)
    except subprocess.TimeoutExpired:
        sys.exit(f"mod {name}: run.sh has not ended within {LONGEST} s")
    if status:
        sys.exit(f"mod {name}: run.sh ended with status {status}")
    if left := lasting():
        sys.exit(
            f"mod {name}: run.sh left {left} running; expected changes of files alone: an "
            "image keeps no process"
        )
    files = written(begun, folder)
    if not files:
        print(f"mod {name} has written no file: it changes nothing in this image")
        return
    more = f" and {len(files) - MOST} more" if len(files) > MOST else ""
    many = f"{len(files)} file{'s' * (len(files) != 1)}"
    print(f"mod {name} has written {many}: {', '.join(files[:MOST])}{more}")
    places = (said(engine_python(), ORIGIN) or "").splitlines()
    own = [each for each in files if each.endswith(".py") and each.startswith(tuple(places))]
    check = [*engine_python(), "-c", COMPILES, *own]
    if places and own and subprocess.run(check, check=False).returncode:
        sys.exit(f"mod {name}: a file of vLLM that it has written is no Python any more")


def lasting():
    """Return the command of a process that run.sh has started and that does not end; "" if none."""
    deadline = time.monotonic() + LAST
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
        left = {each.name for each in Path("/proc").iterdir() if each.name.isdecimal()}
        left.discard(str(os.getpid()))
        if not left or time.monotonic() > deadline:
            return " and ".join(filter(None, map(command_of, left)))
        time.sleep(0.1)


def command_of(number):
    """Return the beginning of a process's command; "" if it has ended."""
    try:
        words = Path("/proc", number, "cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return b" ".join(words).decode(errors="replace").strip()[:80] or f"process {number}"


def written(begun, folder):
    """Return the files outside of a mod's folder that have changed since a time, vLLM's first."""
    # In ns: the time of a change cannot be set, unlike that of the content.
    since = f"@{begun // 10**9}.{begun % 10**9:09}"
    left_out = [word for each in (*ELSEWHERE, folder) for word in ("-path", each, "-prune", "-o")]
    words = ["find", "/", "-xdev", *left_out, "!", "-type", "d", "-newerct", since, "-print0"]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        sys.exit("the image's files cannot be listed: what find says stands above")
    found = [os.fsdecode(path) for path in done.stdout.split(b"\0") if path]
    return sorted(found, key=lambda path: ("/vllm/" not in path, path))


def verify(path, expected):
    """Fail with a sentence unless vLLM can be imported and has the version that it should have."""
    python = engine_python()
    before = Path(path).read_text("utf-8").strip()
    found = (said(python, f"import vllm\n{VERSION}") or "").splitlines()[-1:]
    if not found:
        sys.exit("vLLM cannot be imported any more: what its import says stands above")
    if expected and found[0].partition("+")[0] != expected:
        sys.exit(f"found vLLM {found[0]}; expected {expected}, which the recipe's image names")
    if not expected and found[0] != before:
        sys.exit(
            f"found vLLM {found[0]}; expected {before}, as it was before the mods. If they are to "
            f"change it, say so in the recipe: image: {{…, vllm: {found[0].partition('+')[0]}}}"
        )
    print(f"vLLM {found[0]}, {'as before' if found[0] == before else f'was {before}'}")


if __name__ == "__main__":
    {"version": version, "run": run, "verify": verify}[sys.argv[1]](*sys.argv[2:])
