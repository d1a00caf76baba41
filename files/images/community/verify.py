"""verify COMMIT: is this vLLM of that commit, and made for GB10?"""

import re
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec


def main(commit: str) -> None:
    """Fail with a sentence if it is not."""
    installed = version("vllm")
    if not installed.endswith(f"+g{commit[:9]}"):
        sys.exit(f"found vLLM {installed}; expected one of {commit[:9]}")
    spec = find_spec("vllm._C")
    if spec is None or spec.origin is None:
        sys.exit("found no vllm._C")
    listing = subprocess.run(
        ["/usr/local/cuda/bin/cuobjdump", "-lelf", spec.origin],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    if not re.search(r"sm_12[01]", listing):
        sys.exit("found no cubin for sm_120 or sm_121; expected kernels for GB10")
    print(f"vLLM {installed}")


if __name__ == "__main__":
    main(*sys.argv[1:])
