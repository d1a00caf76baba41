"""A running hub as the tests see it, and a client so plain that it shows what came back."""

import http.client
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess
from urllib.parse import urlsplit

from huggingface_hub import HfApi, hf_hub_download, snapshot_download

from tests.clock import patience
from tests.lab import hub
from tests.lab.hub.server import CHUNK

MODEL = "lab/tiny"
WEIGHTS = f"{MODEL}/model.safetensors"
SIZE = 512 * 1024

Program = Callable[..., CompletedProcess[str]]


@dataclass(frozen=True)
class Answer:
    """What came back: `body` as far as it came where the connection was reset."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes
    reset: bool


def get(url: str, path: str, **headers: str) -> Answer:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=patience())
    body, reset = b"", False
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        try:
            while chunk := answer.read1(CHUNK):
                body += chunk
        except ConnectionResetError:
            reset = True
        return Answer(answer.status, answer.headers, body, reset)
    finally:
        connection.close()


@dataclass(frozen=True)
class Running:
    """A hub that is serving, and what a test needs to talk to it."""

    root: Path
    url: str

    def api(self, token: str | bool = False) -> HfApi:
        return HfApi(endpoint=self.url, token=token)

    @property
    def fault(self) -> Callable[..., None]:
        return partial(hub.set_fault, hub=self.url)

    def sent(self) -> dict[str, int]:
        return hub.stats(self.url).get(WEIGHTS, {"requests": 0, "bytes": 0})

    def snapshot(
        self, folder: Path, *, revision: str | None = None, token: str | bool = False
    ) -> Path:
        snapshot_download(
            MODEL, endpoint=self.url, local_dir=folder, revision=revision, token=token
        )
        return folder

    def weights(self, folder: Path) -> bytes:
        path = hf_hub_download(
            MODEL, "model.safetensors", endpoint=self.url, local_dir=folder, token=False
        )
        return Path(path).read_bytes()

    def content(self, path: str, **headers: str) -> Answer:
        return get(self.url, f"/{MODEL}/resolve/main/{path}", **headers)


def same(folder: Path, model: Path) -> bool:
    paths = [p.relative_to(model) for p in model.rglob("*") if p.is_file()]
    return all((folder / p).read_bytes() == (model / p).read_bytes() for p in paths)
