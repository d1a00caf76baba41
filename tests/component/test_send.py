"""Files of a bundle on their way to a Spark: what is there, what is cut off, what is damaged."""

from collections.abc import Callable
from pathlib import Path

import pytest
from paramiko import Channel
from pyinfra.api import Host, operation

from sparkwright.machine.host.operations import bundle as operations
from sparkwright.machine.host.operations.bundle import send
from sparkwright.plan.release.bundle import Bundle, read_bundle
from tests.component.servers import until
from tests.component.sshd import Machine, machines
from tests.makers.bundle import write_index
from tests.unit.driven import Driven, this_machine

CONTENT = bytes(range(256)) * 20_000
BIG, SMALL = "weights/a b/model.bin", "wheels/it's.whl"


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    folder = tmp_path / "bundle"
    for path, content in {BIG: CONTENT, SMALL: b"small", "wheels/empty.whl": b""}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return read_bundle(folder, write_index(folder), folder)


@pytest.fixture
def spark(tmp_path: Path) -> Driven:
    return this_machine(root=str(tmp_path / "root"), spark="spark-a")


@pytest.fixture
def carried(tmp_path: Path) -> Path:
    return tmp_path / "root/bundle"


def bring(spark: Driven, bundle: Bundle, *needed: Callable[[Host], list[str]]) -> bool:
    """Send all files, or those that are needed; return whether that succeeded."""

    @operation()
    def sending():  # type: ignore[no-untyped-def]
        yield send(bundle, list(bundle.index.files), *needed)

    return spark.run(sending, name="Sending").did_succeed()


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_they_arrive_and_are_not_sent_again(spark: Driven, bundle: Bundle, carried: Path) -> None:
    assert bring(spark, bundle)
    expected = {path: (bundle.folder / path).read_bytes() for path in bundle.index.files}
    assert contents(carried) == expected
    before = (carried / BIG).stat()
    assert bring(spark, bundle)
    after = (carried / BIG).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_what_nobody_needs_is_not_sent_but_what_is_there_must_be_right(
    spark: Driven, bundle: Bundle, carried: Path
) -> None:
    (carried / BIG).parent.mkdir(parents=True)
    (carried / BIG).write_bytes(CONTENT[:-1] + b"?")
    assert bring(spark, bundle, lambda _: [SMALL])
    assert contents(carried) == {BIG: CONTENT, SMALL: b"small"}


def test_what_arrives_damaged_is_found(
    spark: Driven, bundle: Bundle, carried: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage = "printf X | dd of=wheels/it\\'s.whl conv=notrunc status=none"
    take = operations._TAKE.replace("exec tar", "tar")
    monkeypatch.setattr(operations, "_TAKE", f"{take} && {damage}")
    assert not bring(spark, bundle)
    assert not (carried / SMALL).exists()


def test_a_disk_that_is_too_small(
    spark: Driven,
    bundle: Bundle,
    carried: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(operations, "_RESERVE", 1 << 60)
    assert not bring(spark, bundle)
    assert "free some space (sparkwright clean)" in caplog.text
    assert not carried.exists()


def by_ssh(machine: Machine, tmp_path: Path) -> Driven:
    known = {"ssh_known_hosts_file": str(tmp_path / "known_hosts")}
    known["ssh_strict_host_key_checking"] = "accept-new"
    own = {"root": str(tmp_path / "root"), "spark": "spark-a"}
    return Driven("spark-a", machine.reached(**known, **own))


def test_a_spark_that_dies_meanwhile_is_sent_the_rest(
    bundle: Bundle,
    carried: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with machines(tmp_path, "spark-a") as found:
        machine = found["spark-a"]
        written: list[int] = []
        write = Channel.sendall

        def counted(channel: Channel, content: bytes) -> None:
            write(channel, content)
            written.append(len(content))
            if sum(written) > len(CONTENT) // 2 and machine.process:
                until(lambda: (carried / BIG).exists() and (carried / BIG).stat().st_size > 0)
                machine.power_off()

        monkeypatch.setattr(operations, "_CHUNK", 600_000)
        monkeypatch.setattr(Channel, "sendall", counted)
        assert not bring(by_ssh(machine, tmp_path), bundle)
        assert "What has come whole of the bundle is kept there: run again" in caplog.text
        assert (carried / BIG).stat().st_size < len(CONTENT)
        monkeypatch.setattr(Channel, "sendall", write)
        machine.power_on()
        assert bring(by_ssh(machine, tmp_path), bundle)
        assert contents(carried)[BIG] == CONTENT
