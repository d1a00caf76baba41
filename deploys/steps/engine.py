"""The engine: its release on the host, its supervisor and unit, and a real answer from it."""

from pathlib import Path

from pyinfra import host
from pyinfra.api import deploy

from deploys.operations.engine import idle, serving
from deploys.operations.files import managed_files
from deploys.plan.files import Directory, ManagedFile
from deploys.steps.context import peer, release

_FILES = Path(__file__).parents[2] / "files" / "engine"


@deploy("Engine")
def apply() -> None:
    """Lay the release down, then serve it; on an idle Spark, serve nothing."""
    root = host.data.root
    served = release()
    if served is None:
        idle(name="Serve nothing", root=root)
        return
    folder = f"{root}/releases/{served.id}"
    managed_files(
        name="Release and unit",
        entries=[
            Directory(folder),
            *(
                ManagedFile(f"{folder}/{name}", text, mode="755" if name == "run" else "644")
                for name, text in served.files.items()
            ),
            *(
                ManagedFile(f"{root}/bin/{path.name}", path.read_text())
                for path in sorted(_FILES.glob("*.py"))
            ),
            ManagedFile(
                "/etc/systemd/system/vllm@.service",
                (_FILES / "vllm@.service").read_text().replace("ROOT", root),
            ),
        ],
    )
    serving(name="Serve the release", release=served, peer=peer())
