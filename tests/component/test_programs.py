"""Programs that a release runs: those of before, each release's own from then on."""

import subprocess
from pathlib import Path

import pytest

from sparkwright.release.release import adoption_script, retirement_script

SHARED = ("boots.py", "container.py", "engine.py", "link.py", "notify.py", "probe.py")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a Spark's folder as it was when all releases ran the programs in ROOT/bin."""
    (tmp_path / "bin").mkdir()
    for name in (*SHARED, "switch.py", "door.py"):
        (tmp_path / "bin" / name).write_text(f"{name} of before")
    for name in ("one-00000000", "two-11111111"):
        (tmp_path / "releases" / name).mkdir(parents=True)
        (tmp_path / "releases" / name / "unit.json").write_text("{}")
    return tmp_path


def _run(script: str, **environment: str) -> None:
    subprocess.run(["sh", "-c", script], check=True, env={"PATH": "/usr/bin:/bin"} | environment)


def _programs(root: Path, release: str) -> dict[str, str]:
    """Return what is in a release's folder of programs; one that runs the engine is a link."""
    folder = root / "releases" / release / "bin"
    return {
        path.name: f"-> {path.readlink()}" if path.is_symlink() else path.read_text()
        for path in folder.iterdir()
    }


def test_each_release_of_before_gets_what_it_ran(root: Path) -> None:
    _run(adoption_script(str(root)))
    before = {"engine": "-> engine.py"} | {name: f"{name} of before" for name in SHARED}
    assert _programs(root, "one-00000000") == _programs(root, "two-11111111") == before


def test_a_release_with_programs_of_its_own_keeps_them(root: Path) -> None:
    """As in the next deploy, and where a previous run was cut short."""
    (root / "releases/one-00000000/bin").mkdir()
    (root / "releases/one-00000000/bin/engine.py").write_text("its own")
    (root / "releases/two-11111111/bin.new").mkdir()
    (root / "releases/two-11111111/bin.new/half.py").touch()
    _run(adoption_script(str(root)))
    (root / "releases/three-22222222/bin").mkdir(parents=True)
    (root / "releases/three-22222222/unit.json").touch()
    (root / "releases/three-22222222/bin/engine").write_text("an archive")
    own = {"engine": "-> engine.py", "engine.py": "its own"}
    for _ in range(2):
        _run(adoption_script(str(root)))
        assert _programs(root, "one-00000000") == own
        assert _programs(root, "two-11111111").keys() == {"engine", *SHARED}
        assert _programs(root, "three-22222222") == {"engine": "an archive"}


def test_a_folder_that_is_no_release_yet_is_left_to_the_run(root: Path) -> None:
    (root / "releases/new-22222222").mkdir()
    _run(adoption_script(str(root)))
    assert list((root / "releases/new-22222222").iterdir()) == []


@pytest.mark.parametrize("there", [(), ("releases",), ("releases", "bin")])
def test_a_spark_without_such_releases_stays_as_it_is(
    tmp_path: Path, there: tuple[str, ...]
) -> None:
    for name in there:
        (tmp_path / name).mkdir()
    _run(adoption_script(str(tmp_path)))
    assert sorted(path.name for path in tmp_path.rglob("*")) == sorted(there)


@pytest.mark.parametrize(
    "unit", ["", "ExecStart=/usr/bin/python3 -B ROOT/bin/door.py ROOT prepare"]
)
def test_what_no_unit_runs_any_more_goes_once_systemd_knows_better(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: str
) -> None:
    units = tmp_path / "units"
    units.mkdir()
    (units / "door.service").write_text(unit.replace("ROOT", str(root)) + "\n")
    monkeypatch.setattr("sparkwright.release.release.SYSTEMD", str(units))
    for name in ("old", "new"):
        (root / f"bin/sparkwright-host-{name}").touch()
    (root / "bin/sparkwright-host").symlink_to("sparkwright-host-new")
    systemctl = tmp_path / "tools/systemctl"
    systemctl.parent.mkdir()
    systemctl.write_text(f"#!/bin/sh\necho $* $(ls {root}/bin) > {tmp_path}/asked\n")
    systemctl.chmod(0o755)
    _run(retirement_script(str(root)), PATH=f"{systemctl.parent}:/usr/bin:/bin")
    asked = (tmp_path / "asked").read_text().split()
    assert asked[0] == "daemon-reload"
    assert {"engine.py", "sparkwright-host-old"} <= set(asked)
    left = {path.name for path in (root / "bin").iterdir()}
    stay = {*SHARED, "switch.py", "door.py"} if unit else set()
    assert left == {"sparkwright-host", "sparkwright-host-new"} | stay


def test_a_disk_without_room_ends_the_run_before_the_unit_expects_a_copy(root: Path) -> None:
    full = root / "tools/cp"
    full.parent.mkdir()
    full.write_text("#!/bin/sh\nexit 1\n")
    full.chmod(0o755)
    with pytest.raises(subprocess.CalledProcessError):
        _run(adoption_script(str(root)), PATH=f"{full.parent}:/usr/bin:/bin")
    assert not (root / "releases/one-00000000/bin").exists()
