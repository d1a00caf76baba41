"""verify VERSION CUBINS: is this still that vLLM, and has it kernels for GB10?"""

import re
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path


def main(expected: str, least: str) -> None:
    """Fail with a sentence if it is not."""
    # What has another version would not even be imported as this one.
    import vllm

    # The package's own version lacks the CUDA of a release's.
    if version("vllm") != expected or not expected.startswith(vllm.__version__):
        sys.exit(
            f"found vLLM {version('vllm')}, which calls itself {vllm.__version__}; "
            f"expected the base's own {expected}"
        )
    spec = find_spec("vllm._C")
    if spec is None or spec.origin is None:
        sys.exit("found no vllm._C; expected the library that was put there")
    library = Path(spec.origin)
    listing = subprocess.run(
        ["/usr/local/cuda/bin/cuobjdump", "-lelf", str(library)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    # GB10 is sm_121, which runs code for sm_120 too.
    cubins = len(re.findall(r"sm_12[01]", listing))
    if cubins < int(least):
        sys.exit(f"found {cubins} cubins for sm_120 in {library}; expected at least {least}")
    print(f"vLLM {expected} with {cubins} cubins for sm_120")


if __name__ == "__main__":
    main(*sys.argv[1:])
