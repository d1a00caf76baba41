"""What the tests give: an inventory's doors, the rules, a worker that tells."""

import json
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from host.insight.monitoring import metrics
from sparkwright.declared.fleet.file import load_fleet
from sparkwright.declared.fleet.fleet import Fleet
from sparkwright.declared.fleet.settings import Settings
from sparkwright.insight.monitoring.targets import ScrapeTarget, targets
from tests.clock import patience

FILES = Path(__file__).parents[3] / "files" / "host" / "insight" / "monitoring"
RULES = (FILES / "alerts.yml").read_text()
DASHBOARD: dict[str, Any] = json.loads((FILES / "dashboard.json").read_text())
GRAPHS = [panel for panel in DASHBOARD["panels"] if panel["type"] == "timeseries"]
QUERIES = [target["expr"] for panel in GRAPHS for target in panel["targets"]]
tools = pytest.mark.skipif(not shutil.which("promtool"), reason="needs Debian's package prometheus")


def fleet(folder: Path, text: str) -> Fleet:
    file = folder / "sparks.yaml"
    file.write_text(text)
    return load_fleet(file)


TWO = """
sparks:
  spark-a: {ssh_hostname: 192.168.1.20}
  spark-b: {ssh_hostname: "fd00::2"}
  spark-c: {local: true}
replicas:
  chat: {recipe: qwen3.6-35b-nvfp4-plain, sparks: [spark-a]}
  open: {recipe: qwen3.6-35b-nvfp4-plain, sparks: [spark-b], port: 8001, api_key: none}
  here: {recipe: qwen3.6-35b-nvfp4-plain, sparks: [spark-c]}
"""


def doors(folder: Path, text: str = TWO, **settings: Any) -> list[ScrapeTarget]:
    known = fleet(folder, text)
    return targets(known, dict.fromkeys(known.replicas, Settings(**settings)))


@contextmanager
def worker(says: bytes) -> Iterator[None]:
    """Be the worker: what its socket unit does for each who connects."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            client, _ = server.accept()
            with client:
                client.sendall(says)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        metrics.PORT = server.getsockname()[1]
        try:
            yield
        finally:
            thread.join(timeout=patience())


def write_metrics(root: Path) -> Path:
    """Run the program as the head's timer does, and return the file that it wrote."""
    file = root / "metrics" / "spark.prom"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["metrics", str(root), str(file)])
        metrics.command()
    return file
