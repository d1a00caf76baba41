"""pull-image as the unit runs it, against a stand-in for Docker's socket."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from host.artifacts.image.pull import Pull
from sparkwright.common.progress import JobProgress
from tests.makers.images import Side, side

IMAGE = f"example.org/vllm@sha256:{'5' * 64}"
JOB = "image@555"

# As Docker 26 with the overlay2 store says it; ids and sizes shortened.
PULL: list[dict[str, Any]] = [
    {"status": "Pulling from vllm", "id": IMAGE.partition("@")[2]},
    {"status": "Pulling fs layer", "progressDetail": {}, "id": "aaa"},
    {"status": "Already exists", "progressDetail": {}, "id": "bbb"},
    {"status": "Downloading", "progressDetail": {"current": 400, "total": 1000}, "id": "aaa"},
    {"status": "Verifying Checksum", "progressDetail": {}, "id": "aaa"},
    {"status": "Download complete", "progressDetail": {}, "id": "aaa"},
    {"status": "Extracting", "progressDetail": {"current": 700, "total": 1000}, "id": "aaa"},
    {"status": "Pull complete", "progressDetail": {}, "id": "aaa"},
    {"status": f"Digest: {IMAGE.partition('@')[2]}"},
    {"status": f"Status: Downloaded newer image for {IMAGE}"},
]


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[Side]:
    with side(tmp_path) as spark:
        spark.order(JOB, image=IMAGE, registry="example.org", size=1200)
        yield spark


def pulled(spark: Side) -> tuple[int, str]:
    return spark.run("pull-image", "555", tries=2)


def refused(spark: Side) -> str:
    assert pulled(spark)[0] == 1
    assert spark.progress(JOB).phase == "failed"
    return spark.progress(JOB).message


@pytest.fixture
def logged_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A login, as systemd gives it to the unit: LoadCredential."""
    login = json.dumps({"username": "reader", "password": "s3cret-of-reader"})
    credential(tmp_path, login, monkeypatch)
    return login


def credential(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "credentials").mkdir()
    (folder / "credentials/login").write_text(f"{text}\n")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(folder / "credentials"))


def test_pulls_by_digest(spark: Side) -> None:
    spark.docker.pulls = [(200, PULL)]
    assert pulled(spark)[0] == 0
    assert spark.progress(JOB) == JobProgress("done", 1000, 1000, "")
    assert spark.docker.asked == [
        f"/images/create?fromImage=example.org/vllm&tag=sha256:{'5' * 64}",
        f"/images/{IMAGE.replace('@', '%40').replace(':', '%3A')}/json",
    ]


@pytest.mark.parametrize(
    ("status", "said", "meaning"),
    [
        (404, "manifest for x not found: manifest unknown", "the registry has no such image"),
        (404, "pull access denied for x", "example.org wants a login, and this job got none"),
        (500, "Head https://x: unauthorized", "machine that runs Sparkwright, `docker login ex"),
        (500, "no matching manifest for linux/arm64/v8", "not made for this machine's processor"),
        (500, "Get https://x: server gave HTTP response to HTTPS client", "speaks no TLS"),
    ],
)
def test_says_plainly_what_a_person_must_mend(
    spark: Side, status: int, said: str, meaning: str
) -> None:
    spark.docker.pulls = [(status, [{"message": said}])]
    message = refused(spark)
    assert meaning in message
    assert message.startswith(IMAGE)
    assert message.endswith(f"Docker says: {said}")


@pytest.mark.parametrize("empty", [False, True])
def test_without_a_login_docker_gets_none(
    spark: Side, empty: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if empty:
        # SetCredential, where there is no file.
        credential(tmp_path, "", monkeypatch)
    spark.docker.pulls = [(200, PULL)]
    assert pulled(spark)[0] == 0
    assert spark.docker.logins == [None]


def test_docker_gets_the_login_with_each_try_and_nobody_else(spark: Side, logged_in: str) -> None:
    spark.docker.pulls = [(500, [{"message": "no such host"}]), (200, PULL)]
    status, said = pulled(spark)
    assert status == 0
    given = [base64.urlsafe_b64decode(each or "").decode() for each in spark.docker.logins]
    assert given == [logged_in] * 2
    assert "s3cret" not in said + (spark.root / f"jobs/{JOB}.json").read_text()


FULL = "write /var/lib/docker/tmp/x: no space left on device"


@pytest.mark.parametrize(
    "told",
    # Docker 28 deprecates `error`; those before tell both, or of old `error` alone.
    [
        {"errorDetail": {"message": FULL}},
        {"error": FULL},
    ],
)
def test_a_full_disk_shows_in_the_middle(spark: Side, told: dict[str, object]) -> None:
    spark.docker.pulls = [(200, [*PULL[:6], told])]
    assert "the disk is full: free some space" in refused(spark)


def test_gives_up_after_some_tries(spark: Side) -> None:
    spark.docker.pulls = [(500, [{"message": "connection refused"}])] * 3
    said = f"{IMAGE}: Docker says: connection refused, again and again: try later."
    assert refused(spark) == said
    assert spark.docker.pulls == []
    spark.docker.socket.unlink()
    assert "Docker does not answer" in refused(spark)


def test_phases() -> None:
    pull = Pull(1200)
    seen = []
    for event in PULL:
        pull.note(event)
        seen.append(pull.measure())
    assert seen[3] == ("downloading", 400, 1200)
    assert seen[4] == ("extracting", 0, 1000)
    assert seen[6] == ("extracting", 700, 1000)
    assert seen[-1] == ("extracting", 1000, 1000)
