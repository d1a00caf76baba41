"""gpu-proof USER OPTION...: show that a container gets the GPU, before any image is downloaded.

Its image is made of what this host has: Python, a shell and their libraries, about 20 MB. All of
the driver comes from the runtime that the options name. Inside, CUDA is initialized, and nvidia-smi
lists the GPUs. Exit status 0; else what was said is on standard error.
"""

import argparse
import io
import pwd
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path

IMAGE = "sparkwright/gpu-proof"
# Seconds; a sound one takes two. A driver that hangs answers never.
PATIENCE = 120
# What tells the runtime and the linker of which distribution the container is.
_NAMES = ("/etc/debian_version", "/etc/ld.so.conf", "/etc/os-release")
_IMPORTS = "import ctypes, encodings.utf_8, os, sys"
_MODULES = f"""{_IMPORTS}
print(os.__file__, sys.executable, sep="\\n")
print(*filter(None, (getattr(each, "__file__", None) for each in sys.modules.values())), sep="\\n")
"""
_INSIDE = f"""{_IMPORTS}
try:
    status = ctypes.CDLL("libcuda.so.1").cuInit(0)
except OSError as error:
    sys.exit(f"CUDA is not in the container: {{error}}")
if status:
    sys.exit(f"cuInit failed: CUDA error {{status}}")
os.execv("/usr/bin/nvidia-smi", ["nvidia-smi", "--list-gpus"])
"""


def main(arguments: list[str]) -> int:
    """Make the image, run it with the options, remove it; return the exit status."""
    parser = argparse.ArgumentParser(
        usage="gpu-proof USER OPTION...",
        description=__doc__,
        epilog="USER: as whom engines run; OPTION: of `docker run`",
        allow_abbrev=False,
    )
    _, (user, *options) = parser.parse_known_args(arguments)
    try:
        known = pwd.getpwnam(user)
    except KeyError:
        print(f"there is no user {user}: run Sparkwright again", file=sys.stderr)
        return 1
    made = _run("docker", "import", "-", IMAGE, content=archive(files()))
    if made.returncode:
        return _failed(made)
    command = ["--rm", "--pull", "never", "--network", "none", "--log-driver", "none", *options]
    command += ["--user", f"{known.pw_uid}:{known.pw_gid}"]
    command += ["--entrypoint", sys.executable, IMAGE, "-I", "-S", "-c", _INSIDE]
    try:
        shown = _run("docker", "run", *command)
    finally:
        _run("docker", "image", "rm", "--force", IMAGE)
    if shown.returncode or b"GPU" not in shown.stdout:
        return _failed(shown)
    print(shown.stdout.decode(errors="replace").strip())
    return 0


def files() -> set[str]:
    """Return the paths of what runs Python, a shell and nvidia-smi; nothing of the driver."""
    modules = _run(sys.executable, "-I", "-S", "-c", _MODULES).stdout.decode().split("\n")
    here = {path for path in modules if path.startswith("/")}
    linked = [path for path in here if path == sys.executable or ".so" in path]
    linked += filter(None, map(shutil.which, ("sh", "nvidia-smi")))
    # What CUDA itself needs of the system; its own file comes from the runtime.
    known = _run("ldconfig", "-p").stdout.decode()
    linked += re.findall(r"^\tlibcuda\.so\.1 .* => (\S+)$", known, re.MULTILINE)
    # What programs are linked with, and their loader. A script is linked with none, as ldd says on
    # standard error.
    said = "".join(_run("ldd", path).stdout.decode() for path in linked)
    libraries = {Path(found) for found in re.findall(r"(/\S+) \(0x", said)}
    driver = ("libcuda", "libnvidia")
    names = {name for name in _NAMES if Path(name).exists()}
    needed = {str(path) for path in libraries if not path.name.startswith(driver)}
    return here | {"/bin/sh"} | names | needed


def archive(paths: Iterable[str]) -> bytes:
    """Return a root file system of these files, links resolved, as a tar archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", dereference=True) as tar:
        for path in sorted(paths):
            tar.add(path, path.lstrip("/"), recursive=False)
    return buffer.getvalue()


def _run(*command: str, content: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            command, input=content, capture_output=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        said = f"{' '.join(command[:2])}: no answer within {PATIENCE} s"
    except OSError as error:
        said = f"{command[0]}: {error}"
    return subprocess.CompletedProcess(command, 1, b"", said.encode())


def _failed(done: subprocess.CompletedProcess[bytes]) -> int:
    said = (done.stderr.strip() or done.stdout.strip()).decode(errors="replace")
    print(said[-2000:] or "nvidia-smi lists no GPU", file=sys.stderr)
    return 1


def command() -> None:
    """Shows it, with the options of the command line."""
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    command()
