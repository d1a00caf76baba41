"""An inventory for a gateway, what the gateway knows of replicas, and its keys in tests."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sparkwright.declared.fleet.file import load_fleet
from sparkwright.declared.fleet.fleet import Fleet
from sparkwright.declared.fleet.settings import Settings
from sparkwright.door.gateway.gateway import Upstream

FILES = Path(__file__).parents[2] / "files" / "host" / "door" / "gateway"
KEYS = ["sk-door-and-client-0123", "sk-another-client-4567"]
SPARKS = """\
sparks:
  spark-a: {ssh_hostname: 192.0.2.1, ssh_user: nvidia}
  spark-b: {ssh_hostname: 192.0.2.2}
  spark-c: {local: true}
replicas:
  chat-a: {recipe: qwen3.6-35b-nvidia, sparks: [spark-a]}
  chat-b: {recipe: qwen3.6-35b-nvidia-mtp, sparks: [spark-b], port: 8001, api_key: none}
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "sparks.yaml"
    path.write_text(text)
    return path


def fleet_of(tmp_path: Path, text: str) -> Fleet:
    return load_fleet(written(tmp_path, text))


def setting(**values: Any) -> Mapping[str, Settings]:
    return defaultdict(lambda: Settings(**values))


def upstream(replica: str, *names: str, **values: Any) -> Upstream:
    settings = {"checkpoint": "Qwen/Qwen3.6-35B-A3B", "context": 262144, "keyed": True}
    return Upstream(replica, names, **(settings | values))
