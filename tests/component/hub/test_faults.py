"""The lab's hub with each fault: what an unmodified client makes of it."""

import random
from pathlib import Path
from types import SimpleNamespace

import pytest
from httpx2 import ReadError
from huggingface_hub import errors
from huggingface_hub.constants import DOWNLOAD_CHUNK_SIZE

from tests.component.hub.client import MODEL, SIZE, WEIGHTS, Running, get, same
from tests.component.servers import until
from tests.lab import hub
from tests.lab.hub import server


@pytest.mark.parametrize(
    ("name", "error", "status"),
    [
        ("401", errors.HfHubHTTPError, 401),
        ("403-gated", errors.GatedRepoError, 403),
        ("404", errors.RemoteEntryNotFoundError, 404),
        ("416", errors.HfHubHTTPError, 416),
    ],
)
def test_refused_file(
    running: Running,
    model: Path,
    tmp_path: Path,
    name: str,
    error: type[errors.HfHubHTTPError],
    status: int,
) -> None:
    running.fault(name, path="*.safetensors")
    with pytest.raises(error) as refusal:
        running.weights(tmp_path / "local")
    assert refusal.value.response.status_code == status
    assert running.api().model_info(MODEL)
    hub.clear_faults(running.url)
    assert running.weights(tmp_path / "local") == (model / "model.safetensors").read_bytes()


def test_internal_error(running: Running) -> None:
    running.fault("500", path="api/models/*", times=1)
    with pytest.raises(errors.HfHubHTTPError, match="Internal Error"):
        running.api().model_info(MODEL)
    assert running.api().model_info(MODEL)


def test_rate_limit_says_when_to_come_back(running: Running, tmp_path: Path) -> None:
    running.fault("429", path=WEIGHTS, seconds=7, times=1)
    answer = running.content("model.safetensors")
    assert (answer.status, answer.headers["Retry-After"]) == (429, "7")
    # Two: the client asks once, and only then starts to wait and ask again.
    running.fault("429", path=WEIGHTS, seconds=0, times=2)
    assert len(running.weights(tmp_path / "local")) == SIZE


def test_reset_is_a_reset_and_the_rest_can_be_had(running: Running, model: Path) -> None:
    running.fault("reset", path=WEIGHTS, times=1, after=SIZE // 4)
    first = running.content("model.safetensors")
    assert first.reset
    assert 0 < len(first.body) <= SIZE // 4
    rest = running.content("model.safetensors", Range=f"bytes={len(first.body)}-")
    assert first.body + rest.body == (model / "model.safetensors").read_bytes()
    until(lambda: running.sent() == {"requests": 2, "bytes": SIZE // 4 + len(rest.body)})


def test_the_client_takes_a_reset_for_a_failure(
    running: Running, model: Path, tmp_path: Path
) -> None:
    running.fault("reset", path=WEIGHTS, times=1)
    with pytest.raises(ReadError):
        running.snapshot(tmp_path / "local")
    assert same(running.snapshot(tmp_path / "local"), model)


def test_the_client_resumes_a_truncated_download(
    running: Running, model: Path, tmp_path: Path
) -> None:
    size = DOWNLOAD_CHUNK_SIZE + 2 * SIZE
    large = tmp_path / "large"
    large.mkdir()
    (large / "model.safetensors").write_bytes(random.Random(2).randbytes(size))
    hub.add_commit(running.root, MODEL, large)
    running.fault("truncate", path=WEIGHTS, times=1, after=DOWNLOAD_CHUNK_SIZE + SIZE)
    assert same(running.snapshot(tmp_path / "local"), large)
    # The client keeps whole chunks only: it asks again for what came after the first one.
    until(lambda: running.sent() == {"requests": 2, "bytes": size + SIZE})


def test_rate_cap(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the clock of the hub itself, which here stands still but for the hub's own pauses."""
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    monkeypatch.setattr(server, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=sleep))
    running.fault("rate", path=WEIGHTS, rate=2 * SIZE)
    assert len(running.content("model.safetensors").body) == SIZE
    assert clock == [pytest.approx(0.5)]


def test_times_and_clear(running: Running) -> None:
    running.fault("404", path=f"{MODEL}/*", times=2)
    running.fault("500", path="api/whoami-v2")
    assert [running.content("config.json").status for _ in range(3)] == [404, 404, 200]
    assert get(running.url, "/api/whoami-v2").status == 500
    hub.clear_faults(running.url)
    assert get(running.url, "/api/whoami-v2").status == 401


@pytest.mark.parametrize(
    "options", [{"name": "418"}, {"name": "rate", "rate": 0}, {"name": "reset", "times": 0}]
)
def test_a_fault_that_makes_no_sense_is_refused(
    running: Running, options: dict[str, str | int]
) -> None:
    with pytest.raises(ValueError, match="expected"):
        running.fault(**options)
