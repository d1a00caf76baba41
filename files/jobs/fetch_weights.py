"""fetch-weights ROOT FOLDER: make ROOT/FOLDER what ROOT/manifests/FOLDER.json says.

Fetches only what is missing or wrong, from the hub at the pinned commit or from the other Spark of
a pair; resumes what was begun; verifies everything by hash. The folder holds nothing else
afterwards, but for names that start with a dot: other files are moved to
FOLDER/.sparkwright-set-aside.
Exit status: 0 the folder is right, 1 it is not; ROOT/jobs/weights@FOLDER.json says why.
"""

import json
import logging
import sys
from pathlib import Path
from typing import Any

from checkpoint import Checkpoint, Source
from fabric import Share
from hub import Repository
from progress import Progress
from tries import conclude


class Relay(logging.Handler):
    """Shows what the library waits for: it obeys Retry-After by itself, for minutes if need be."""

    def __init__(self, progress: Progress) -> None:
        super().__init__(logging.WARNING)
        self._progress = progress

    def emit(self, record: logging.LogRecord) -> None:
        """Take the sentences without a URL."""
        if record.getMessage().startswith(("Rate limited", "Retrying in")):
            self._progress.message = record.getMessage()


def source(manifest: dict[str, Any], progress: Progress) -> Source:
    """Return what a manifest names: the other Spark of a pair, or a repository on the hub."""
    if "source" in manifest:
        return Share(manifest["source"], progress)
    return Repository(manifest["endpoint"], manifest["repo"], manifest["commit"], progress)


def main(root: Path, name: str) -> None:
    """Do the job; every end but success is raised."""
    manifest = json.loads((root / "manifests" / f"{name}.json").read_text())
    (root / name).mkdir(exist_ok=True)
    checkpoint = Checkpoint(root / name, manifest["files"])
    with Progress(root / "jobs" / f"weights@{name}.json", checkpoint.measure) as progress:
        logging.getLogger("huggingface_hub").addHandler(Relay(progress))
        checkpoint.verify()
        checkpoint.fetch(source(manifest, progress))


if __name__ == "__main__":
    conclude(lambda: main(Path(sys.argv[1]), sys.argv[2]))
