"""A head, or who takes its address, that lends the worker of a pair what is no image."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host.common.progress import JobError
from host.image.archive import INDEX, LARGEST_TEXT, LAYOUT, MANIFEST, Saved, listed, read
from tests.component.docker import image_files
from tests.component.fetch.test_image import Side, side
from tests.component.servers import serving

ID, IMAGE = image_files(b"base" * 1000, b"layer")
OTHER_ID, OTHER = image_files(b"base" * 1000, b"a stranger's")
CONFIG = f"blobs/{ID.replace(':', '/')}"
REFERENCE = f"example.org:5000/lab/vllm@sha256:{'5' * 64}"
LOCKED = [REFERENCE, f"sha256:{'5' * 64}", ID]
Files = dict[str, bytes]
MEDIA = "application/vnd.oci.image.manifest.v1+json"

HEX = st.text("0123456789abcdef", min_size=64, max_size=64)
PATHS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["../bin/engine.py", "/abs", "a/../../dotdot", "../jobs/switch@x.json", ".", ""]
    ),
    st.sampled_from(
        [MANIFEST, INDEX, LAYOUT, "repositories", "manifest.json\n", ".sparkwright.json"]
    ),
    HEX.map(lambda digest: f"blobs/sha256/{digest}"),
    HEX.map(lambda digest: f"blobs/sha256/{digest}/../../../x"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=20,
)
FILES = st.dictionaries(
    PATHS,
    st.one_of(JSON, st.fixed_dictionaries({"size": st.integers(), "sha256": HEX | JSON})),
    max_size=5,
)


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


@given(st.binary() | JSON.map(lambda data: json.dumps(data).encode()))
def test_any_bytes_for_a_listing(text: bytes) -> None:
    with pytest.raises(JobError):
        listed(text)


@given(FILES)
def test_a_listing_leads_nowhere_else(files: dict[str, Any]) -> None:
    try:
        taken = listed(json.dumps({"files": files}).encode())
    except JobError:
        return
    folder = Path("/opt/qwen36/imports")
    for path, file in taken.items():
        assert (folder / path).resolve().is_relative_to(folder)
        assert path in (MANIFEST, INDEX, LAYOUT, "repositories") or path[-64:] == file["sha256"]
        assert set(file) == {"size", "sha256"}
        assert len(file["sha256"]) == 64
        assert int(file["sha256"], 16) >= 0
        assert file["size"] >= 0


@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"files": {' + b'"a":1,' * 10, b"9" * 10_000])
def test_a_listing_that_is_a_bomb(text: bytes) -> None:
    with pytest.raises(JobError):
        listed(text)


def test_a_listing_of_one_file_is_taken() -> None:
    files = {LAYOUT: {"size": 30, "sha256": "1" * 64}}
    assert listed(json.dumps({"files": files}).encode()) == files


def unpacked(folder: Path, files: Files, wanted: Sequence[str] = LOCKED) -> Saved:
    """Have files in a folder, as a copy has them, and read them."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return read(folder, list(files), wanted)


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
def test_what_is_not_one_image(tmp_path: Path, files: Files) -> None:
    with pytest.raises(JobError, match="is not one image as Docker saves it"):
        unpacked(tmp_path, files)


def test_the_right_configuration_vouches_for_no_index(tmp_path: Path) -> None:
    """Docker's newer store takes of an index what fits its platform; its older one reads none."""
    index = document(manifests=[entry(GOOD_MANIFEST[0]), entry(EVIL_MANIFEST[0])])
    files = indexed({**IMAGE, **dict([GOOD_MANIFEST, EVIL_MANIFEST, index])}, entry(index[0]))
    saved = unpacked(tmp_path, files)
    assert (saved.ids, set(saved.texts)) == ((ID,), {MANIFEST})
    saved = unpacked(tmp_path, files, [f"sha256:{index[0][-64:]}"])
    assert (saved.ids, set(saved.texts)) == ((f"sha256:{index[0][-64:]}",), {INDEX, LAYOUT})


def test_the_right_manifest_vouches_for_no_configuration(tmp_path: Path) -> None:
    """Docker's older store reads no index, and the newer one nothing else."""
    files = indexed({**OTHER, **IMAGE, **dict([GOOD_MANIFEST])}, entry(GOOD_MANIFEST[0]))
    files[MANIFEST] = OTHER[MANIFEST]
    good = f"sha256:{GOOD_MANIFEST[0][-64:]}"
    saved = unpacked(tmp_path, files, [ID, good])
    assert (saved.ids, set(saved.texts)) == ((good,), {INDEX, LAYOUT})


@pytest.mark.parametrize("wanted", [[OTHER_ID], [REFERENCE], []])
def test_what_nothing_vouches_for(tmp_path: Path, wanted: Sequence[str]) -> None:
    saved = unpacked(tmp_path, IMAGE, wanted)
    assert (saved.ids, saved.texts) == ((), {})


def test_names_are_left_out(tmp_path: Path) -> None:
    named = entry(GOOD_MANIFEST[0], annotations={"io.containerd.image.name": "docker.io/own:1"})
    files = {**manifest(image(RepoTags=["own:1"])), **dict([GOOD_MANIFEST])}
    files = indexed({**files, "repositories": b'{"own": {"1": ""}}'}, named)
    saved = unpacked(tmp_path, files, [ID, f"sha256:{GOOD_MANIFEST[0][-64:]}"])
    assert b"own" not in b"".join(saved.texts.values())
    assert set(saved.texts) == {MANIFEST, INDEX, LAYOUT}
    assert json.loads(saved.texts[MANIFEST]) == json.loads(IMAGE[MANIFEST])


@contextmanager
def lent(files: Files, listing: Callable[[dict[str, Any]], object]) -> Iterator[str]:
    """Lend files as a head does, with a listing of the test's own making; yield its URL."""

    class Head(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path).removeprefix("/images/555").lstrip("/")
            honest = {
                name: {"size": len(content), "sha256": sha256(content).hexdigest()}
                for name, content in files.items()
            }
            body = files[path] if path else json.dumps({"files": listing(honest)}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Head)) as address:
        yield f"http://{address}/images/555"


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Side]:
    with side(tmp_path / "worker") as worker:
        yield worker


def below(folder: Path) -> set[str]:
    return {file.relative_to(folder).as_posix() for file in folder.rglob("*")}


def copied(worker: Side, source: str) -> str:
    """Copy an image; return what a user is told."""
    worker.order("image-copy", images=LOCKED, source=source)
    before = below(worker.root.parent)
    worker.run("copy-image", tries=2)
    added = below(worker.root.parent) - before - {"worker/jobs/image-copy.json"}
    assert all(path.startswith("worker/imports/") for path in added)
    return worker.progress("image-copy").message


@pytest.mark.parametrize(
    "path", ["../bin/engine.py", "/tmp/abs", "a/../../dotdot", "../jobs/switch@x.json", "x"]
)
def test_a_path_that_leads_out(worker: Side, path: str) -> None:
    files = {**IMAGE, path: b"written"}
    with lent(files, lambda honest: honest) as source:
        assert f"a file '{path}'" in copied(worker, source)
    assert worker.docker.images == {}
    assert below(worker.root / "imports") == set()


@pytest.mark.parametrize(
    "listing",
    [
        lambda honest: [*honest],
        lambda honest: {},
        lambda honest: honest | {MANIFEST: {"size": LARGEST_TEXT + 1, "sha256": "1" * 64}},
        lambda honest: honest | {CONFIG: {"size": 1, "sha256": "1" * 64}},
        lambda honest: honest | {CONFIG: {"size": -1, "sha256": ID[-64:]}},
        lambda honest: honest | {CONFIG: {"size": True, "sha256": ID[-64:]}},
        lambda honest: {
            f"blobs/sha256/{n:064x}": {"size": 0, "sha256": f"{n:064x}"} for n in range(1001)
        },
        lambda honest: "x" * 2_000_000,
    ],
)
def test_a_listing_of_no_image(worker: Side, listing: Callable[[dict[str, Any]], object]) -> None:
    with lent(IMAGE, listing) as source:
        assert "is not one image as Docker saves it" in copied(worker, source)
    assert worker.docker.images == {}


def test_another_image_is_not_given_to_docker(worker: Side) -> None:
    with lent(OTHER, lambda honest: honest) as source:
        assert "has another image than the lock" in copied(worker, source)
    assert worker.docker.images == {}


def test_an_archive_gives_no_names(worker: Side) -> None:
    files = {**manifest(image(RepoTags=["own:1"])), "repositories": b'{"own": {"1": ""}}'}
    with lent(files, lambda honest: honest) as source:
        copied(worker, source)
    assert worker.docker.images == {ID: IMAGE}
    assert worker.docker.names == [f"{ID}/tag?repo=example.org:5000/lab/vllm&tag={'5' * 12}"]
