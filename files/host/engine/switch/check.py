"""The requirements of a release, checked before what serves is touched."""

import json
import shutil
from pathlib import Path
from typing import Any

from host.engine.switch.units import Unit, run

# Bytes without which nothing is begun: an engine that starts writes state, logs and caches, and
# Docker a container; the previous one needs as much to come back.
DISK = 10**9
DOCKER, CONTAINERD = Path("/var/lib/docker"), Path("/var/lib/containerd")

# Fails in seconds where the engine would take minutes to find no GPU.
_PROOF = ["docker", "run", "--rm", "--pull", "never", "--network", "none"]
_SMI = ("--entrypoint", "nvidia-smi")
_AS_ROOT = ("--user", "0:0", "--env", "PYTHONUSERBASE=/root/.local", "--entrypoint", "sh")
# Prints what vLLM is loaded from and others may not read.
_CLOSED = """\
vllm=$(command -v vllm) && python=$(sed -n '1s/^#! *//p' "$vllm") && exec $python -c '
import os, sys
for path in (sys.argv[1], sys.executable, *filter(os.path.exists, sys.path)):
    for each in (path, os.path.realpath(path)):
        while each != os.path.dirname(each):
            if not os.stat(each).st_mode & (1 if os.path.isdir(each) else 4):
                print(path, "in", each)
                sys.exit()
            each = os.path.dirname(each)
' "$vllm\""""


class Refusal(Exception):
    """The reason why the new release cannot serve, as a sentence."""


def check(root: Path, release: str) -> dict[str, Any]:
    """Return what unit.json and release.json say; refuse what could not start.

    Raises:
        Refusal: the disk is full, or weights, image, GPU or a file of the release are not there, or
            the engine's user may not read the image.
    """
    folder = root / "releases" / release
    try:
        unit: dict[str, Any] = json.loads((folder / "unit.json").read_text("utf-8"))
        content = json.loads((folder / "release.json").read_text("utf-8"))
        checkpoints = [each["folder"] for each in content["checkpoints"].values()]
        (folder / "bin/engine").stat()
    except (OSError, ValueError, KeyError) as error:
        raise Refusal(f"releases/{release} is not whole ({error!r})") from None
    for path in (root, DOCKER, CONTAINERD):
        if path.exists() and (free := shutil.disk_usage(path).free) < DISK:
            raise Refusal(
                f"{free / 1e9:.1f} GB are free at {path}; expected {DISK / 1e9:.0f}: "
                "free some space, and run again"
            )
    # A second seat has no weights of its own.
    weights = (root / "releases").resolve().parent
    for name in checkpoints:
        if not (weights / name / ".sparkwright.json").exists():
            raise Refusal(f"the weights are gone: {weights}/{name}")
    # What stands before the first folder is made finds user and image, or says that there is none.
    before = (folder / "run").read_text("utf-8").partition("\nmkdir ")[0]
    found = run("sh", "-c", f'{before}\nprintf "%s\\n" "$user" "$image"')
    if found.returncode:
        raise Refusal(found.stderr.strip())
    if Unit(release).ended:
        user, image = found.stdout.split()
        proof = run(*_PROOF, *unit["gpu"], "--user", user, *_SMI, image, "--list-gpus")
        if proof.returncode:
            raise Refusal(f"a container sees no GPU: {proof.stderr.strip()[-500:]}")
        if closed := run(*_PROOF, *unit["gpu"], *_AS_ROOT, image, "-c", _CLOSED).stdout.strip():
            raise Refusal(
                f"in its image only root may read {closed[:500]}; expected everybody, as its "
                "engine runs as a user of its own: give the recipe a mod with "
                "`chmod -R a+rX` of that folder in its run.sh"
            )
    return unit
