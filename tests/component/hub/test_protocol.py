"""The lab's hub as an unmodified huggingface_hub and `hf` see it."""

import os
from datetime import UTC, datetime
from hashlib import sha1, sha256
from pathlib import Path

import pytest
from huggingface_hub import errors, hf_hub_download

from tests.component.hub.client import MODEL, SIZE, Running, same
from tests.lab import hub
from tests.lab.hub import protocol


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


def test_a_commit_is_listed_with_all_before_it(
    running: Running, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "COMMITS_PER_PAGE", 2)
    api = running.api()
    for number in range(2, 6):
        (model / "config.json").write_text(f'{{"model_type": "{number}"}}\n')
        hub.add_commit(running.root, MODEL, model)
    for number in range(1, 6):
        day = datetime(2026, 4, number, 23, 59, 59, tzinfo=UTC)
        os.utime(running.root / MODEL / f"v{number}", times=(day.timestamp(),) * 2)
    listed = api.list_repo_commits(MODEL)
    assert [commit.title for commit in listed] == ["v5", "v4", "v3", "v2", "v1"]
    assert listed[0].commit_id == api.model_info(MODEL).sha
    assert [commit.created_at.day for commit in listed] == [5, 4, 3, 2, 1]
    for revision in ("v4", listed[1].commit_id):
        assert api.list_repo_commits(MODEL, revision=revision) == listed[1:]
    with pytest.raises(errors.RevisionNotFoundError):
        api.list_repo_commits(MODEL, revision="v9")


def test_gated_repository(running: Running, model: Path, tmp_path: Path) -> None:
    (running.root / MODEL / "gated").touch()
    assert running.api().model_info(MODEL).gated == "manual"
    for token in (False, "hf_lab_guest"):
        with pytest.raises(errors.GatedRepoError, match="restricted"):
            hf_hub_download(MODEL, "config.json", endpoint=running.url, token=token)
        with pytest.raises(errors.GatedRepoError):
            running.api(token).auth_check(MODEL)
    assert same(running.snapshot(tmp_path / "local", "hf_lab_reader"), model)


def test_a_private_repository_is_not_there_for_others(running: Running) -> None:
    (running.root / MODEL / "private").touch()
    for token in (False, "hf_lab_guest"):
        with pytest.raises(errors.RepositoryNotFoundError):
            running.api(token).model_info(MODEL)
    assert running.api("hf_lab_reader").model_info(MODEL).private


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
