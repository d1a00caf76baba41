"""A running hub as the tests see it."""

from dataclasses import dataclass
from pathlib import Path

import requests
from huggingface_hub import HfApi, snapshot_download

from tests.clock import patience

MODEL = "lab/tiny"
SIZE = 512 * 1024


@dataclass(frozen=True)
class Running:
    """A hub that is serving, and what a test needs to talk to it."""

    root: Path
    url: str

    def api(self, token: str | bool = False) -> HfApi:
        return HfApi(endpoint=self.url, token=token)

    def snapshot(self, folder: Path, token: str | bool = False) -> Path:
        snapshot_download(MODEL, endpoint=self.url, local_dir=folder, token=token)
        return folder

    def weights(self, wanted: str) -> requests.Response:
        """Ask for a range of the weights."""
        url = f"{self.url}/{MODEL}/resolve/main/model.safetensors"
        return requests.get(url, headers={"Range": wanted}, timeout=patience())


def same(folder: Path, model: Path) -> bool:
    paths = [p.relative_to(model) for p in model.rglob("*") if p.is_file()]
    return all((folder / p).read_bytes() == (model / p).read_bytes() for p in paths)
