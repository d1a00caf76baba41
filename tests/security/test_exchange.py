"""A head, or who takes its address, that sends the worker of a pair what is no image."""

import io
import json
import tarfile
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

import pytest

from host.artifacts.image.load import (
    INDEX,
    LARGEST_TEXT,
    LAYOUT,
    MANIFEST,
    MOST_BLOBS,
    ImageLoad,
    Member,
    is_blob,
    vouched,
)
from host.common.progress import JobError
from tests.makers.docker import Docker, image_files, serving_docker
from tests.makers.images import Side, sending, side

ID, IMAGE = image_files(b"base" * 1000, b"layer")
OTHER_ID, OTHER = image_files(b"base" * 1000, b"a stranger's")
CONFIG = f"blobs/{ID.replace(':', '/')}"
REFERENCE = f"example.org:5000/lab/vllm@sha256:{'5' * 64}"
LOCKED = [REFERENCE, f"sha256:{'5' * 64}", ID]
Files = dict[str, bytes]
MEDIA = "application/vnd.oci.image.manifest.v1+json"


def blob(content: bytes) -> tuple[str, bytes]:
    """Return a blob with its path."""
    return f"blobs/sha256/{sha256(content).hexdigest()}", content


def document(**fields: object) -> tuple[str, bytes]:
    """Return a manifest with its path."""
    return blob(json.dumps(fields).encode())


def entry(path: str, **more: object) -> dict[str, object]:
    """Return an index's entry for a manifest."""
    return {"mediaType": MEDIA, "digest": f"sha256:{path[-64:]}", "size": 1, **more}


def indexed(files: Files, *entries: object, **documents: bytes) -> Files:
    """Return an image with an index."""
    index = json.dumps({"manifests": list(entries)}).encode()
    return {**files, **documents, INDEX: index, LAYOUT: b"{}"}


GOOD_MANIFEST = document(config={"digest": ID}, layers=[])
EVIL_MANIFEST = document(config={"digest": OTHER_ID}, layers=[])


def judged(files: Files, wanted: Sequence[str] = LOCKED) -> Files:
    """Read an archive's texts, as a copy does that has all its blobs."""
    texts = {path: content for path, content in files.items() if not is_blob(path)}
    return vouched(texts, files.keys() - texts.keys(), wanted)


def manifest(*images: object) -> Files:
    return {**IMAGE, MANIFEST: json.dumps(list(images)).encode()}


def image(**changes: object) -> dict[str, object]:
    told: dict[str, object] = json.loads(IMAGE[MANIFEST])[0]
    return {**told, **changes}


@pytest.mark.parametrize(
    "files",
    [
        manifest(),
        manifest(image(), image()),
        manifest(image(Config="../../secrets/link.key")),
        manifest(image(Config=f"blobs/sha256/{'1' * 64}")),
        manifest(image(Layers=["/etc/shadow"])),
        manifest(image(Layers=None)),
        {**IMAGE, MANIFEST: b"{}"},
        {**IMAGE, MANIFEST: b"\xff\xfe"},
        {**IMAGE, MANIFEST: b"[" * 100_000},
        indexed(IMAGE),
        indexed(IMAGE, entry(GOOD_MANIFEST[0]), entry(EVIL_MANIFEST[0])),
        indexed(IMAGE, entry(GOOD_MANIFEST[0])),
        indexed(IMAGE, {**entry(GOOD_MANIFEST[0]), "digest": "sha256:../../../link.key"}),
        indexed(IMAGE, {**entry(GOOD_MANIFEST[0]), "digest": 7}),
    ],
)
def test_what_is_not_one_image(files: Files) -> None:
    with pytest.raises(JobError, match="is not one image as Docker saves it"):
        judged(files)


def test_the_right_configuration_vouches_for_no_index() -> None:
    """Docker's newer store takes of an index what fits its platform; its older one reads none."""
    index = document(manifests=[entry(GOOD_MANIFEST[0]), entry(EVIL_MANIFEST[0])])
    files = indexed({**IMAGE, **dict([GOOD_MANIFEST, EVIL_MANIFEST, index])}, entry(index[0]))
    assert judged(files).keys() == {MANIFEST}
    assert judged(files, [f"sha256:{index[0][-64:]}"]).keys() == {INDEX, LAYOUT}


def test_the_right_manifest_vouches_for_no_configuration() -> None:
    """Docker's older store reads no index, and the newer one nothing else."""
    files = indexed({**OTHER, **IMAGE, **dict([GOOD_MANIFEST])}, entry(GOOD_MANIFEST[0]))
    files[MANIFEST] = OTHER[MANIFEST]
    good = f"sha256:{GOOD_MANIFEST[0][-64:]}"
    assert judged(files, [ID, good]).keys() == {INDEX, LAYOUT}


@pytest.mark.parametrize("wanted", [[OTHER_ID], [REFERENCE], []])
def test_what_nothing_vouches_for(wanted: Sequence[str]) -> None:
    assert judged(IMAGE, wanted) == {}


def test_names_are_left_out() -> None:
    named = entry(GOOD_MANIFEST[0], annotations={"io.containerd.image.name": "docker.io/own:1"})
    files = {**manifest(image(RepoTags=["own:1"])), **dict([GOOD_MANIFEST])}
    files = indexed({**files, "repositories": b'{"own": {"1": ""}}'}, named)
    texts = judged(files, [ID, f"sha256:{GOOD_MANIFEST[0][-64:]}"])
    assert b"own" not in b"".join(texts.values())
    assert texts.keys() == {MANIFEST, INDEX, LAYOUT}
    assert json.loads(texts[MANIFEST]) == json.loads(IMAGE[MANIFEST])


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Side]:
    with side(tmp_path / "worker") as worker:
        yield worker


def archived(files: Files) -> bytes:
    """Return files as Docker saves them."""
    return Docker(Path(), {"x": files}).saved("x")


def below(folder: Path) -> set[str]:
    return {file.relative_to(folder).as_posix() for file in folder.rglob("*")}


def copied(worker: Side, archive: bytes) -> str:
    """Copy an image; return what a user is told."""
    before = below(worker.root.parent)
    with sending(archive) as head:
        worker.order("image-copy", images=LOCKED, ids=LOCKED, source=head.address, size=1)
        worker.run("copy-image", tries=2)
    new = {"worker/manifests/image-copy.json", "worker/jobs/image-copy.json"}
    assert below(worker.root.parent) - before == new
    return worker.progress("image-copy").message


@pytest.mark.parametrize(
    "path", ["../bin/engine.py", "/tmp/abs", "a/../../dotdot", f"{CONFIG}/../../../x", "x"]
)
def test_a_path_that_is_none_of_an_image(worker: Side, path: str) -> None:
    assert f"a file '{path}'" in copied(worker, archived({path: b"written", **IMAGE}))
    assert worker.docker.images == {}


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE])
def test_what_is_no_plain_file(worker: Side, kind: bytes) -> None:
    link = tarfile.TarInfo(CONFIG)
    link.type, link.linkname = kind, "/opt/qwen36/secrets/link.key"
    assert "is no plain file" in copied(worker, link.tobuf() + archived(IMAGE))
    assert worker.docker.images == {}


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_that_would_fill_the_memory(worker: Side, kind: bytes) -> None:
    long = tarfile.TarInfo("x")
    long.type, long.size = kind, 1 << 40
    assert "a header of 1099511627776 bytes" in copied(worker, long.tobuf(tarfile.GNU_FORMAT))


def test_a_text_that_would(worker: Side) -> None:
    files = {MANIFEST: bytes(LARGEST_TEXT + 1), **dict([blob(b"x")])}
    assert "a file 'manifest.json' of 4194305 bytes" in copied(worker, archived(files))


def test_too_many_blobs(worker: Side) -> None:
    files = dict(blob(b"%d" % number) for number in range(MOST_BLOBS + 1))
    assert "is not one image as Docker saves it" in copied(worker, archived(files))
    assert worker.docker.images == {}


def test_more_than_the_disk_has_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving_docker(tmp_path / "docker.sock") as docker:
        monkeypatch.setattr("host.artifacts.image.docker_socket.SOCKET", docker.socket)
        path, content = blob(bytes(1 << 20))
        endless = (Member("x", path, 1 << 60, io.BytesIO(content)) for _ in range(9))
        with pytest.raises(JobError, match=r"more than 0\.00 GB, which are free on the disk"):
            ImageLoad(REFERENCE, LOCKED, 0, most=1000).give(endless)
    assert docker.images == {}


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({**IMAGE, CONFIG: IMAGE[CONFIG][:-1] + b"?"}, "its content is not what its name says"),
        (OTHER, "has another image than the lock"),
    ],
)
def test_another_image_is_not_given_to_docker(worker: Side, files: Files, said: str) -> None:
    assert said in copied(worker, archived(files))
    assert worker.docker.images == {}


def test_an_archive_gives_no_names(worker: Side) -> None:
    files = {**manifest(image(RepoTags=["own:1"])), "repositories": b'{"own": {"1": ""}}'}
    copied(worker, archived(files))
    assert worker.docker.images == {ID: IMAGE}
    assert worker.docker.names == [f"{ID}/tag?repo=example.org:5000/lab/vllm&tag={'5' * 12}"]
