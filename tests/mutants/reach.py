"""Which tests run which blocks of the code."""

import hashlib
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkwright.common.local_file import write_file
from tests.lab import cache
from tests.mutants.changes import marked
from tests.mutants.plugin import RESULT
from tests.mutants.trees import MARKS, ROOT, copies, pytest, tracked

_TIERS = ("unit", "component", "security")
_DEFINITION = """
import os as _os_
def _mark_(block):
    if not _os_.path.exists({prefix!r} + str(block)):
        open({prefix!r} + str(block), "w").close()
"""


@dataclass(frozen=True, order=True)
class Test:
    """A test function.

    Attributes:
        blocks: How many it runs: the fewer, the better it knows each.
        seconds: What all of its cases take together.
        name: As pytest knows it.
    """

    blocks: int
    seconds: float
    name: str


def reach(code: Sequence[Path], jobs: int) -> dict[str, list[Test]]:
    """Run all tests once and return, for each block of the code, those that run it.

    Args:
        code: Files, relative to the root.
        jobs: Test modules at a time.

    Returns:
        Tests by PATH:BLOCK, those first that run little else, without those that fail. What a
        test module runs is kept until it, or a file that is no test module, changes.
    """
    keys = _keys()
    file = cache.cache_folder() / RESULT
    known = json.loads(file.read_text()) if file.exists() else {}
    known = {key: known[key] for key in keys if key in known}
    missing = {key: module for key, module in keys.items() if key not in known}
    for number, (key, found) in enumerate(_look(missing, code, jobs), 1):
        known[key] = found
        write_file(file, json.dumps(known))
        if number % 10 == 0:
            print(f"{number} of {len(missing)} test modules", file=sys.stderr)
    blocks: defaultdict[str, list[Test]] = defaultdict(list)
    for found in known.values():
        for name in found["failed"]:
            print(f"left out, as it fails in a copy: {name}", file=sys.stderr)
        for name, test in found["reached"].items():
            for block in test["blocks"]:
                blocks[block].append(Test(len(test["blocks"]), test["seconds"], name))
    return {block: sorted(tests) for block, tests in blocks.items()}


def _keys() -> dict[str, Path]:
    """Return the test modules by hashes of all that decides what they run."""
    digests = {
        path: hashlib.sha256(f"{path} ".encode() + (ROOT / path).read_bytes()).hexdigest()
        for path in tracked()
        if not (ROOT / path).is_relative_to(Path(__file__).parent)
    }
    modules = [path for path in digests if path.match("test_*.py") and path.parts[1] in _TIERS]
    others = "".join(digest for path, digest in digests.items() if path not in modules)
    return {hashlib.sha256((digests[path] + others).encode()).hexdigest(): path for path in modules}


def _look(
    modules: Mapping[str, Path], code: Sequence[Path], jobs: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    edits = {path: _marked(path) for path in code}
    with copies(edits) as copy, ThreadPoolExecutor(jobs) as pool:

        def look(module: Path) -> dict[str, Any]:
            with copy() as tree:
                done = pytest(tree, ["-p", "tests.mutants.plugin", str(module)])
                if not (tree / RESULT).exists():
                    raise RuntimeError(f"{module} cannot run: {done.stdout}{done.stderr}")
                found: dict[str, Any] = json.loads((tree / RESULT).read_text())
                return found

        yield from zip(modules, pool.map(look, modules.values()), strict=True)


def _marked(path: Path) -> str:
    prefix = str(MARKS / str(path).replace("/", "%")) + ":"
    return marked((ROOT / path).read_text(), _DEFINITION.format(prefix=prefix))
