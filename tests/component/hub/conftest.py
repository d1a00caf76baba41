"""A hub on loopback with one small repository, and the client's program against it."""

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import close_session

from tests.component.hub.client import MODEL, SIZE, Running
from tests.lab import hub
from tests.lab.hub.server import Hub


@pytest.fixture(autouse=True)
def only_loopback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hf-cache"))
    # With telemetry the library asks the public hub which programs to name in its User-Agent.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY", True)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    (folder / "extra").mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(random.Random(1).randbytes(SIZE))
    (folder / "config.json").write_text('{"model_type": "tiny"}\n')
    (folder / "extra/notes with space.txt").write_text("notes\n")
    return folder


@pytest.fixture
def running(tmp_path: Path, model: Path) -> Iterator[Running]:
    root = tmp_path / "hub"
    hub.add_commit(root, MODEL, model)
    # One that a test has resolved names by has bounds in seconds, which may have passed.
    close_session()
    with Hub(root, ("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield Running(root, f"http://127.0.0.1:{server.server_port}")
        finally:
            server.shutdown()
            thread.join()
