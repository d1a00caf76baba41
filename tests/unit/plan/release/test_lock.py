"""The lock: what it holds, how it is kept, and who fills it."""

from pathlib import Path

import pytest
import yaml

from sparkwright.common.errors import PlanError
from sparkwright.plan.release.lock import (
    ImageLock,
    Lock,
    diff,
    lock_path,
    places,
    read_lock,
    write_lock,
)
from sparkwright.plan.release.model_config import shape_of
from tests.makers.release import COMMIT, DIGEST, MODEL_CONFIG, checkpoint

SHAPE = shape_of(MODEL_CONFIG)
assert SHAPE


def lock(commit: str = COMMIT) -> Lock:
    image = ImageLock(digest=DIGEST, config=DIGEST, size=7)
    return Lock(images={"i:1": image}, checkpoints={"o/n@main": checkpoint(commit)})


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = lock_path(tmp_path / "x.yaml")
    assert path == tmp_path / "x.lock.yaml"
    assert read_lock(path) == Lock()
    path.touch()
    assert read_lock(path) == Lock()
    write_lock(path, lock())
    assert read_lock(path) == lock()
    assert "date" not in path.read_text()
    assert "shape" not in path.read_text()
    assert read_lock(path).checkpoints["o/n@main"].size == 6
    assert path.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [path]
    known = checkpoint().model_copy(update={"date": "2026-04-19", "shape": SHAPE})
    write_lock(path, Lock(checkpoints={"o/n@main": known}))
    assert read_lock(path).checkpoints["o/n@main"] == known


def test_the_same_lock_is_the_same_bytes(tmp_path: Path) -> None:
    image = lock().images["i:1"]
    for names in ("ab", "ba"):
        write_lock(tmp_path / names, Lock(images=dict.fromkeys(names, image)))
    assert (tmp_path / "ab").read_bytes() == (tmp_path / "ba").read_bytes()


CUT = yaml.safe_dump(lock().model_dump(exclude_none=True))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (CUT.replace("    repo: o/n\n", ""), "repo: found nothing; expected a repository, OWNER/"),
        (CUT[: CUT.index("    size: 7")], "images.i:1.size: found nothing; expected bytes"),
        (CUT + "version: 2\n", "version: found an unknown key; expected one of checkpoints"),
        (CUT.replace("size: 7", "size: 7\n    new: 1"), "If a newer Sparkwright has written it"),
        (CUT.replace("sha256:ddd", "sha1:ddd"), "expected sha256: and 64 hexadecimal digits"),
        ("images: [\n", "x.lock.yaml:2: found"),
        ("text\n", 'found "text"; expected a mapping'),
        (b"\xff\xfe", "cannot be read as UTF-8 text ("),
        (b"\0\0", "x.lock.yaml:1: found"),
    ],
)
def test_what_is_no_lock_says_how_to_get_it_back(
    tmp_path: Path, content: str | bytes, told: str
) -> None:
    path = tmp_path / "x.lock.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(PlanError) as raised:
        read_lock(path)
    assert told in str(raised.value)
    assert "required" not in str(raised.value)
    assert raised.value.problems[-1].startswith(
        f"Runs write {path}; it is not meant to be edited. Get it back: git checkout -- {path}; or "
        "delete it and run again, which may choose newer versions"
    )


def test_a_file_that_cannot_be_read_or_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="found a folder; expected the lock"):
        read_lock(tmp_path)
    (tmp_path / "x").write_text(f"# ours\n<<<<<<< HEAD\n{CUT}=======\n{CUT}>>>>>>> main\n")
    with pytest.raises(PlanError, match=r"x:2: found a conflict mark of git; expected"):
        read_lock(tmp_path / "x")
    (tmp_path / "file").touch()
    with pytest.raises(PlanError, match=r"cannot be written \(.* is no folder\)"):
        write_lock(tmp_path / "file" / "x.lock.yaml", lock())


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        *(
            ("files", {path: {"size": 1}}, "expected a relative path without '..'")
            for path in ("/etc/passwd", "../x", "a/../../x", "", "a\nb")
        ),
        *(("commit", it, "40 hexadecimal digits") for it in ("main", "C" * 40, "c" * 39, "")),
        *(("date", day, "expected a date in quotes") for day in ("19 April", "2026-04-31", "")),
        ("shape", SHAPE.model_dump() | {"hidden": "many"}, 'found "many"; expected numbers'),
    ],
)
def test_what_no_checkpoint_has_is_refused(
    tmp_path: Path, key: str, value: object, told: str
) -> None:
    data = lock().model_dump(exclude_none=True)
    data["checkpoints"]["o/n@main"][key] = value
    target = tmp_path / "x.lock.yaml"
    target.write_text(yaml.safe_dump(data))
    with pytest.raises(PlanError) as raised:
        read_lock(target)
    assert f"checkpoints.o/n@main.{key}" in raised.value.problems[0]
    assert told in raised.value.problems[0]


def test_diff_says_what_came_went_and_changed() -> None:
    image = ImageLock(digest=DIGEST, config=DIGEST, size=1234)
    new = Lock(images={"i:2": image}, checkpoints=lock().checkpoints)
    assert diff(lock(), lock()) == []
    assert diff(lock(), new) == [
        f"- image i:1: {DIGEST}, 7 bytes",
        f"+ image i:2: {DIGEST}, 1,234 bytes",
    ]
    assert diff(lock(), lock("e" * 40)) == [
        f"~ checkpoint o/n@main: {COMMIT}, 2 files, 6 bytes -> {'e' * 40}, 2 files, 6 bytes"
    ]
    # What a refresh has found out.
    known = checkpoint().model_copy(update={"date": "2026-04-19", "shape": SHAPE})
    (line,) = diff(lock(), Lock(images=lock().images, checkpoints={"o/n@main": known}))
    before, after = (f"{COMMIT}{day}, 2 files, 6 bytes" for day in ("", " of 2026-04-19"))
    assert line == f"~ checkpoint o/n@main: {before} -> {after}"


def test_the_places_where_a_spark_may_have_a_checkpoint() -> None:
    assert places("o/n", "mine@0123", ["/hub", "/nas"]) == [
        *("/hub/models--o--n/blobs", "/hub/hub/models--o--n/blobs", "/hub/o/n", "/hub/n"),
        "/hub/mine",
        *("/nas/models--o--n/blobs", "/nas/hub/models--o--n/blobs", "/nas/o/n", "/nas/n"),
        "/nas/mine",
    ]
    assert places("o/n", "mine", ()) == []
