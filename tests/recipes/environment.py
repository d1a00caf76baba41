"""Where a release of vLLM can be asked without a GPU: the lab's engine image, and its Python files.

    python -m tests.recipes.environment VERSION SCRIPT [ARGUMENT …]

runs a Python script there. The image has PyTorch for CPUs and all that vLLM imports; the files of
the release stand before the image's own vLLM.
"""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.lab import registry
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
    """Return the root of the lab's engine image, with places for what is bound there."""
    root = registry.unpacked("vllm")
    for place in (_VLLM, _INSIDE, _SCRIPT, _MODELS):
        (root / place).mkdir(parents=True, exist_ok=True)
    return root


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


def _run(command: Sequence[str], text: str = "") -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(f"{command[0]} failed: {done.stdout[-5000:]}{done.stderr[-5000:]}")
    return done.stdout


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m tests.recipes.environment",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("version")
    parser.add_argument("script", type=Path)
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    told = parser.parse_args()
    print(run_script(told.version, told.script, *told.arguments), end="")
