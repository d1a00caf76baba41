"""What is fetched, kept, resumed and put aside; a hub that misbehaves; a bundle in its place."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from host.artifacts.weights.record import DAMAGED
from sparkwright.artifacts.weights.weights import manifest_text
from sparkwright.plan.release.bundle import checkpoint_folder
from tests.clock import patience
from tests.component.servers import serving, until
from tests.lab import hub
from tests.lab.hub.server import Hub
from tests.makers.fetching import NAME, REPO, SIZE, WEIGHTS, Spark
from tests.programs import ended, host_program


def test_fetches_all_then_nothing_then_what_is_wrong(spark: Spark) -> None:
    file = spark.folder / "model.safetensors"
    assert set(spark.wrong()) == set(spark.locked.files)
    spark.succeed()
    before = spark.sent
    assert [each["requests"] for each in before.values()] == [1, 1, 1], "an empty one needs none"
    spark.succeed()
    assert spark.sent == before
    assert spark.progress().done == spark.progress().total == spark.locked.size
    for spoil, said in (
        (file.unlink, "is missing"),
        (lambda: os.truncate(file, 1000), "has 1000 bytes instead of"),
        (lambda: flip(file), "was changed since it was verified"),
        (lambda: shutil.copy2(file, file.with_suffix(".x")), "is not part of the checkpoint"),
    ):
        before = spark.sent
        spoil()
        assert [said in trouble for trouble in spark.wrong().values()] == [True]
        spark.succeed()
        fetched = {path for path in spark.sent if spark.sent[path] != before[path]}
        assert fetched == (set() if "not part" in said else {WEIGHTS})


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def test_a_flipped_byte_under_an_old_date_is_found_by_verify(spark: Spark) -> None:
    spark.succeed()
    file = spark.folder / "model.safetensors"
    stat = file.stat()
    with file.open("r+b") as content:
        content.seek(5)
        content.write(b"?")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert spark.wrong() == {}
    (spark.folder / ".sparkwright.json").unlink()
    assert not (spark.folder / DAMAGED).exists()
    spark.succeed()
    assert spark.sent[WEIGHTS]["requests"] == 2
    assert (spark.folder / DAMAGED).read_text() == "model.safetensors\n"
    assert spark.wrong() == {}


def test_takes_over_what_somebody_fetched(spark: Spark) -> None:
    theirs = spark.root / "model"
    shutil.copytree(spark.source, theirs)
    (theirs / "old.safetensors").write_text("a stranger's")
    (theirs / "config.json").unlink()
    (theirs / "config.json").symlink_to("/etc/hostname")
    other = spark.original("sub/a name.txt")[::-1]
    (theirs / "sub/a name.txt").write_bytes(other)
    assert "3 of 4 files are linked" in spark.succeed()
    assert set(spark.sent) == {f"{REPO}/config.json", f"{REPO}/sub/a name.txt"}
    assert (spark.folder / "model.safetensors").samefile(theirs / "model.safetensors")
    assert not (spark.folder / "old.safetensors").exists()
    assert (theirs / "sub/a name.txt").read_bytes() == other


def test_resumes_after_kill_without_fetching_again(spark: Spark) -> None:
    had = spark.fetch_part()
    # Another hub: the first one counts on until it notices.
    with serving(Hub(spark.hub_root, ("127.0.0.1", 0))) as address:
        spark.url = f"http://{address}"
        spark.order()
        spark.succeed()
        until(lambda: spark.sent[WEIGHTS]["bytes"] == SIZE - had)


@pytest.mark.parametrize(
    ("fault", "options"),
    [
        ("429", {"times": 1, "seconds": 0}),
        ("reset", {"times": 2}),
        ("truncate", {"times": 2}),
        ("flip", {"times": 2}),
    ],
)
def test_gets_over_what_passes(spark: Spark, fault: str, options: dict[str, Any]) -> None:
    if fault == "reset":
        # It discards what the client has not read yet: at full speed that is all of it.
        spark.fault("rate", path=WEIGHTS, rate=int(SIZE / patience(1)))
    spark.fault(fault, path=WEIGHTS, **options)
    spark.succeed()
    if fault in ("reset", "truncate"):
        assert spark.sent[WEIGHTS]["bytes"] < 2 * SIZE, "it began again"


def test_a_wait_that_the_hub_asks_for_is_shown(spark: Spark) -> None:
    """Minutes in which nothing comes would look like a run that hangs."""
    spark.fault("429", times=1, seconds=300)
    file = spark.folder / ".sparkwright-progress.json"
    process = spark.begin()
    until(lambda: file.exists() and "next try in 300 s" in spark.progress().message)
    process.kill()
    process.communicate()


def test_a_partial_file_that_the_hub_will_not_go_on_with(spark: Spark) -> None:
    spark.fetch_part()
    hub.clear_faults(spark.url)
    spark.fault("416", path=WEIGHTS, times=1)
    spark.succeed()


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("401", "refuses the request (401): make a new token at"),
        ("404", f"{REPO} has no file model.safetensors any more (404"),
        ("500", "answers with status 500, again and again"),
        ("truncate", "again and again"),
    ],
)
def test_says_plainly_what_does_not_pass(spark: Spark, fault: str, said: str) -> None:
    spark.fault(fault, path=WEIGHTS, **({"after": 0} if fault == "truncate" else {}))
    assert said in spark.refuse()
    if fault == "truncate":
        # What came of it is not in the way.
        hub.clear_faults(spark.url)
        spark.succeed()


def test_a_gated_repository_needs_a_token_that_may(spark: Spark) -> None:
    token = spark.root / "secrets/hf-token"
    token.write_text("hf_revoked\n")
    assert "refuses the token (401)" in spark.refuse()
    token.unlink()
    (spark.hub_root / REPO / "gated").touch()
    assert "is gated (401)" in spark.refuse()
    token.write_text("hf_lab_guest\n")
    assert f"{REPO} is gated (403): accept its terms at" in (said := spark.refuse())
    assert "with the account of your token" in said
    token.write_text("hf_lab_reader\n")
    spark.succeed()


def test_a_size_that_was_changed_in_the_lock(spark: Spark) -> None:
    right = spark.manifest.read_text()
    size = json.loads(right)["files"]["model.safetensors"]["size"]
    for wrong in (size + 1, size - 1):
        spark.promise(wrong)
        assert f"it promises {size} bytes instead of {wrong:,}" in spark.refuse()
    spark.manifest.write_text(right)
    spark.succeed()
    spark.promise(size - 1)
    said = spark.refuse()
    assert f"model.safetensors has {size} bytes and the hash of the lock, which says " in said
    assert f"says {size - 1} bytes: get the lock back" in said


@pytest.fixture
def bundled(spark: Spark) -> Spark:
    """A Spark that is to take its weights from a bundle, which has them all."""
    text = manifest_text(spark.locked)
    (spark.root / f"manifests/{NAME}.json").write_text(text)
    for path in spark.locked.files:
        place = carried(spark) / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(spark.original(path))
    return spark


def carried(spark: Spark) -> Path:
    return spark.root / "bundle" / checkpoint_folder(spark.locked)


@pytest.mark.parametrize(("mode", "links"), [(0o644, 2), (0o666, 1)], ids=["linked", "copied"])
def test_it_is_linked_unless_its_owner_can_still_write_it(
    bundled: Spark, mode: int, links: int
) -> None:
    for path in bundled.locked.files:
        (carried(bundled) / path).chmod(mode)
    bundled.succeed()
    assert bundled.sent == {}
    assert (bundled.folder / "model.safetensors").stat().st_nlink == links


def test_a_changed_byte_is_refused(bundled: Spark) -> None:
    place = carried(bundled) / "model.safetensors"
    content = bytearray(place.read_bytes())
    content[12345] ^= 1
    place.write_bytes(content)
    assert "model.safetensors of" in (said := bundled.refuse())
    assert str(carried(bundled)) in said
    assert not (bundled.folder / "model.safetensors").exists()


def test_what_is_missing_or_a_link_is_named(bundled: Spark, tmp_path: Path) -> None:
    place = carried(bundled) / "model.safetensors"
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    where = f"model.safetensors of {carried(bundled)} cannot be used"
    assert f"{where} (Too many levels of symbolic links)" in bundled.refuse()
    place.unlink()
    said = bundled.refuse()
    assert f"{where} (No such file" in said
    assert "run again, with the bundle" in said


def check(spark: Spark, token: str) -> "subprocess.CompletedProcess[str]":
    """Ask whose a token is, as a deploy does before it comes into force."""
    (file := spark.root / "secrets/hf-token").write_text(f"{token}\n")
    own = {"HF_ENDPOINT": spark.url, "HF_TOKEN_PATH": str(file), "HOME": str(spark.root)}
    own |= {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_UPDATE_CHECK": "1"}
    # What an owner may have set for all programs of the Spark (/etc/environment).
    own |= {"HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}
    return ended(host_program("check-token"), env={"PATH": os.environ["PATH"], **own})


def test_a_token_has_an_owner(spark: Spark) -> None:
    done = check(spark, "hf_lab_reader")
    assert (done.returncode, done.stdout) == (0, "lab-reader\n")


def test_one_that_the_hub_refuses_is_told_with_what_helps(spark: Spark) -> None:
    done = check(spark, "hf_wrong")
    assert done.returncode == 1
    assert done.stderr.startswith(f"{spark.url} refuses the Hugging Face token (401): it is")
    assert f"Make another at {spark.url}/settings/tokens" in done.stderr
    assert "hf_wrong" not in done.stderr
