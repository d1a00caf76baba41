"""fetch-weights ROOT FOLDER: make ROOT/FOLDER what ROOT/manifests/FOLDER.json says.

Fetches only what is missing or wrong: from the other Spark of a pair, or from the hub at the pinned
commit or the bundle in its place; before that from other folders of this Spark, which that file
names. Resumes what was begun; verifies everything by hash. The folder holds nothing else
afterwards, but for names that start with a dot: other files are moved to
FOLDER/.sparkwright-set-aside.
Exit status: 0 the folder is right, 1 it is not; FOLDER/.sparkwright-progress.json says why.
"""

import json
from pathlib import Path
from typing import Any

from host.artifacts.weights.checkpoint import LocalCheckpoint, Source
from host.artifacts.weights.folder_source import FolderSource
from host.artifacts.weights.hub import Repository
from host.artifacts.weights.link import elsewhere
from host.artifacts.weights.peer_source import PeerSource
from host.artifacts.weights.record import REPORT
from host.common.command_line import words
from host.common.progress import Progress
from host.common.retry import run_job


def source(root: Path, name: str, manifest: dict[str, Any], progress: Progress) -> Source:
    """Return what a manifest names: folders here, and the other Spark, a bundle, or the hub."""
    rest: Source | None = None
    if "source" in manifest:
        rest = PeerSource(manifest["source"], progress)
    elif "bundle" not in manifest:
        rest = Repository(manifest["endpoint"], manifest["repo"], manifest["commit"], progress)
    return FolderSource(elsewhere(root, name, manifest), rest, progress)


def main(root: Path, name: str) -> None:
    """Do the job; every end but success is raised."""
    manifest = json.loads((root / f"manifests/{name}.json").read_text("utf-8"))
    checkpoint = LocalCheckpoint(root / name, manifest["files"])
    with Progress(root / name / REPORT, checkpoint.measure) as progress:
        checkpoint.verify()
        checkpoint.fetch(source(root, name, manifest, progress))


def command() -> None:
    """Fetches the checkpoint of a folder."""
    root, folder = words(__doc__, "ROOT", "FOLDER")
    run_job(lambda: main(Path(root), folder))
