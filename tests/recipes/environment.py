"""Where a release of vLLM can be asked without a GPU: the lab's engine image, and its Python files.

    python -m tests.recipes.environment VERSION SCRIPT [ARGUMENT …]

runs a Python script there. The image has PyTorch for CPUs and all that vLLM imports; the files of
the release stand before the image's own vLLM.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.lab import cache, registry
from tests.lab.state import LabError
from tests.recipes import releases

INSIDE = Path(__file__).with_name("inside")

# Folders of the root that others are bound to; models are where a unit has them.
_VLLM, _INSIDE, _SCRIPT, _MODELS = "vllm", "judge/inside", "judge/script", "models"
_VARIABLES = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/tmp",
    "PYTHONPATH": "/vllm:/judge",
    "HF_HUB_OFFLINE": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_TARGET_DEVICE": "cpu",
    "TORCHDYNAMO_DISABLE": "1",
}
# Nothing is left behind, and nothing outside is seen: the root is read-only, /tmp and /models in
# memory, and there is no network. Only the folder of vLLM is written to: Python's bytecode.
_ENTER = """\
mount --bind "$0" "$0"
mount -o remount,bind,ro "$0"
cd "$0"
mount -t tmpfs tmpfs tmp
mount -t tmpfs tmpfs models
while [ "$1" != -- ]; do mount --bind "$1" "$2"; shift 2; done
shift
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
exec chroot . "$@"
"""


def engine_root() -> Path:
    """Return the root of the lab's engine image, unpacked first if need be (8 s, 1.3 GB)."""
    storage = registry.ensure_image()
    places = [_VLLM, _INSIDE, _SCRIPT, _MODELS]

    def unpack(folder: Path) -> None:
        for layer in _layers(storage / "docker/registry/v2", registry.IMAGE):
            _run(["tar", "--extract", "--zstd", f"--directory={folder}", f"--file={layer}"])
        for place in places:
            (folder / place).mkdir(parents=True)

    return cache.entry("judge", [str(storage), *places], unpack)


def run_script(
    version: str | None,
    script: Path,
    *arguments: str,
    text: str = "",
    models: Path | None = None,
) -> str:
    """Run a Python script where `import vllm` is a release of vLLM, and return what it prints.

    Args:
        version: the release; None: the image's own vLLM, a build for CPUs.
        script: the file; what lies beside it can be imported, and so can the package `inside`.
        arguments: what follows the script.
        text: its standard input.
        models: a folder that is /models inside.

    Raises:
        LabError: there is no such release, or the script failed; the text holds the end of what it
            said.
    """
    binds = [INSIDE, _INSIDE, script.resolve().parent, _SCRIPT]
    binds += [releases.files(version), _VLLM] if version else []
    binds += [models, _MODELS] if models else []
    command = ["unshare", "--mount", "--propagation=slave", "--net", "--pid", "--fork"]
    command += ["--kill-child", "sh", "-ec", _ENTER, str(engine_root()), *map(str, binds), "--"]
    command += ["env", "-i", *(f"{name}={value}" for name, value in _VARIABLES.items())]
    return _run([*command, "python3", f"/{_SCRIPT}/{script.name}", *arguments], text)


def _layers(storage: Path, image: str) -> list[Path]:
    """Return the files of an image's layers in a registry's storage, the lowest first."""

    def blob(digest: str) -> Path:
        value = digest.removeprefix("sha256:")
        return storage / "blobs/sha256" / value[:2] / value / "data"

    name, _, tag = image.partition(":")
    link = storage / "repositories" / name / "_manifests/tags" / tag / "current/link"
    manifest = json.loads(blob(link.read_text()).read_text())
    return [blob(layer["digest"]) for layer in manifest["layers"]]


def _run(command: Sequence[str], text: str = "") -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(f"{command[0]} failed: {done.stdout[-5000:]}{done.stderr[-5000:]}")
    return done.stdout


if __name__ == "__main__":
    print(run_script(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:]), end="")
