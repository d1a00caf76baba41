"""needs: has this image what vLLM's source needs, of which the metadata is on Python's path?"""

import sys
from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement


def lacking() -> list[str]:
    """Return what vLLM needs, and this image has not, or not so."""
    found = []
    for text in requires("vllm") or []:
        needed = Requirement(text)
        if needed.marker and not needed.marker.evaluate({"extra": ""}):
            continue
        try:
            have = version(needed.name)
        except PackageNotFoundError:
            have = "none"
        if have == "none" or not needed.specifier.contains(have, prereleases=True):
            found.append(f"{needed} (found {have})")
    return found


if missing := lacking():
    sys.exit(
        f"vLLM {version('vllm')} needs what the base has not: {', '.join(missing)}. "
        "Take a base of nearer to it"
    )
