"""Says which options and variables a release of vLLM has. Runs where `inside.judge` does."""

import json
import sys

from inside import gpu
from inside.judge import Judge


def names() -> list[str]:
    """Return the options without their dashes, positive forms only, and the variables."""
    gpu.present(gpu.GPUS["gb10"])
    options = {name[2:] for name in Judge().options if name.startswith("--")}
    from vllm import envs

    negative = {name for name in options if name.startswith("no-")}
    return sorted((options - negative - {"help"}) | {*envs.environment_variables})


def main() -> None:
    """Write them as JSON."""
    answer, sys.stdout = sys.stdout, sys.stderr
    json.dump(names(), answer)


if __name__ == "__main__":
    main()
