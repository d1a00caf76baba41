"""The lab's hub as an unmodified huggingface_hub sees it, and whose token a Spark has by it."""

import os
import random
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha1, sha256
from pathlib import Path

import pytest
import requests
from huggingface_hub import HfApi, close_session, errors, hf_hub_download, snapshot_download

from tests.clock import patience
from tests.component.servers import serving
from tests.lab import hub
from tests.lab.hub.server import Hub
from tests.programs import host_program

MODEL = "lab/tiny"
SIZE = 512 * 1024


@dataclass(frozen=True)
class Running:
    """A hub that is serving, and what a test needs to talk to it."""

    root: Path
    url: str

    def api(self, token: str | bool = False) -> HfApi:
        return HfApi(endpoint=self.url, token=token)

    def weights(self, wanted: str) -> requests.Response:
        """Ask for a range of the weights."""
        url = f"{self.url}/{MODEL}/resolve/main/model.safetensors"
        return requests.get(url, headers={"Range": wanted}, timeout=patience())


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
    with serving(Hub(root, ("127.0.0.1", 0))) as address:
        yield Running(root, f"http://{address}")


def test_metadata_is_what_the_files_are(running: Running, model: Path) -> None:
    info = running.api().model_info(MODEL, files_metadata=True)
    files = {sibling.rfilename: sibling for sibling in info.siblings or []}
    weights = files["model.safetensors"]
    assert weights.size == SIZE
    assert weights.lfs is not None
    assert weights.lfs.sha256 == sha256((model / "model.safetensors").read_bytes()).hexdigest()
    config = (model / "config.json").read_bytes()
    assert files["config.json"].lfs is None
    git = sha1(b"blob %d\0" % len(config) + config).hexdigest()
    assert files["config.json"].blob_id == git
    assert set(files) == {"model.safetensors", "config.json", "extra/notes with space.txt"}


def test_a_commit_is_listed_with_all_before_it(running: Running, model: Path) -> None:
    api = running.api()
    (model / "config.json").write_text('{"model_type": "2"}\n')
    hub.add_commit(running.root, MODEL, model)
    for number in (1, 2):
        day = datetime(2026, 4, number, 23, 59, 59, tzinfo=UTC)
        os.utime(running.root / MODEL / f"v{number}", times=(day.timestamp(),) * 2)
    listed = api.list_repo_commits(MODEL)
    found = [(commit.title, commit.created_at.day) for commit in listed]
    assert found == [("v2", 2), ("v1", 1)]
    assert listed[0].commit_id == api.model_info(MODEL).sha
    for revision in ("v1", listed[1].commit_id):
        assert api.list_repo_commits(MODEL, revision=revision) == listed[1:]


def test_gated_repository(running: Running, model: Path, tmp_path: Path) -> None:
    (running.root / MODEL / "gated").touch()
    assert running.api().model_info(MODEL).gated == "manual"
    for token in (False, "hf_lab_guest"):
        with pytest.raises(errors.GatedRepoError, match="restricted"):
            hf_hub_download(MODEL, "config.json", endpoint=running.url, token=token)
        with pytest.raises(errors.GatedRepoError):
            running.api(token).auth_check(MODEL)
    local = tmp_path / "local"
    snapshot_download(MODEL, endpoint=running.url, local_dir=local, token="hf_lab_reader")
    paths = [path.relative_to(model) for path in model.rglob("*") if path.is_file()]
    assert all((local / path).read_bytes() == (model / path).read_bytes() for path in paths)


def test_what_is_not_there(running: Running) -> None:
    api = running.api()
    with pytest.raises(errors.RepositoryNotFoundError):
        api.model_info("lab/absent")
    with pytest.raises(errors.RevisionNotFoundError):
        api.model_info(MODEL, revision="refs/pr/1")
    with pytest.raises(errors.RemoteEntryNotFoundError):
        hf_hub_download(MODEL, "absent", endpoint=running.url, token=False)


@pytest.mark.parametrize(
    ("wanted", "start", "end"),
    [("bytes=10-19", 10, 20), ("bytes=500000-", 500000, SIZE), ("bytes=-5", SIZE - 5, SIZE)],
)
def test_ranges(running: Running, model: Path, wanted: str, start: int, end: int) -> None:
    answer = running.weights(wanted)
    assert answer.status_code == 206
    assert answer.headers["Content-Range"] == f"bytes {start}-{end - 1}/{SIZE}"
    assert answer.content == (model / "model.safetensors").read_bytes()[start:end]


@pytest.mark.parametrize("wanted", [f"bytes={SIZE}-", "bytes=9-3", "lines=1-2"])
def test_a_range_that_is_not_there_is_416(running: Running, wanted: str) -> None:
    answer = running.weights(wanted)
    assert answer.status_code == 416
    assert answer.headers["Content-Range"] == f"bytes */{SIZE}"


def check(
    folder: Path, endpoint: str, token: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Ask whose a token is, as a deploy does before it comes into force."""
    (folder / "token").write_text(f"{token}\n")
    own = {"HF_ENDPOINT": endpoint, "HF_TOKEN_PATH": str(folder / "token")}
    own |= {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_UPDATE_CHECK": "1"}
    return subprocess.run(
        host_program("check-token"),
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **own, **variables},
        capture_output=True,
        text=True,
        timeout=patience(),
    )


# The second is what an owner may have set for all programs of the Spark (/etc/environment).
@pytest.mark.parametrize("variables", [{}, {"HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}])
def test_a_token_has_an_owner(running: Running, tmp_path: Path, variables: dict[str, str]) -> None:
    done = check(tmp_path, running.url, "hf_lab_reader", **variables)
    assert (done.returncode, done.stdout) == (0, "lab-reader\n")


def test_one_that_the_hub_refuses_is_told_with_what_helps(running: Running, tmp_path: Path) -> None:
    done = check(tmp_path, running.url, "hf_wrong")
    assert done.returncode == 1
    assert done.stderr.startswith(f"{running.url} refuses the Hugging Face token (401): it is")
    assert f"Make another at {running.url}/settings/tokens" in done.stderr
    assert "hf_wrong" not in done.stderr
