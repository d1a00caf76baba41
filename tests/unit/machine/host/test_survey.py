"""What the survey of a Spark reads, and its script."""

import os
from pathlib import Path

import pytest

from sparkwright.machine.host.survey import Listener, parse_survey, survey_script
from tests.makers.preflight import SPARK
from tests.makers.shell import program, shell


def test_an_empty_answer_is_no_survey():
    with pytest.raises(ValueError, match="incomplete"):
        parse_survey([])
    with pytest.raises(ValueError, match="found no line 'handover'"):
        parse_survey(SPARK.replace("handover 0\n", "").splitlines())


def test_the_listeners_are_read():
    survey = parse_survey(
        [*SPARK.splitlines(), "foreign 8000 812 python3", "ours 18001 99 VLLM::APIServer"]
    )
    assert survey.listeners == (
        Listener(False, 8000, 812, "python3"),
        Listener(True, 18001, 99, "VLLM::APIServer"),
    )


def test_values_are_quoted():
    script = survey_script(root="/opt/a b", ports=[8000], images=["x@y;z"], folders=["$(id)"])
    assert "'/opt/a b/$(id)'" in script
    assert "'x@y;z'" in script


def test_what_serves_is_of_the_seat(tmp_path: Path):
    for place, release in (("", "a-1"), ("seats/code", "b-2")):
        (tmp_path / place / "releases" / release).mkdir(parents=True)
        (tmp_path / place / "current").symlink_to(f"releases/{release}")
    for place, release in (("", "a-1"), (str(tmp_path / "seats/code"), "b-2")):
        script = survey_script(root=str(tmp_path), ports=[], images=[], folders=[], place=place)
        output = shell(script)
        assert parse_survey(output.stdout.splitlines()).serves == release


def test_a_file_in_two_folders_counts_once(tmp_path: Path):
    root, elsewhere = tmp_path / "root", tmp_path / "hub"
    (root / "model@1").mkdir(parents=True)
    elsewhere.mkdir()
    (elsewhere / "blob").write_bytes(b"x" * 1000)
    (elsewhere / "other").write_bytes(b"x" * 234)
    (root / "model@1/blob").hardlink_to(elsewhere / "blob")
    folders = ["model@1", str(elsewhere), "/nowhere"]
    script = survey_script(root=str(root), ports=[], images=[], folders=folders)
    output = shell(script)
    assert parse_survey(output.stdout.splitlines()).weights == 1234


DOCKER = """\
case $* in
  info*) [ -n "$VERSION" ] && printf '%s\\n' "$VERSION" "$DRIVER" "$FOLDER" "$STATUS" "runc " ;;
  *inspect*) for name; do [ "$name" = sha256:known ] && echo sha256:id; done ;;
esac
"""
STORE = {"DRIVER": "overlay2", "FOLDER": "/", "STATUS": "extfs|true|"}


@pytest.mark.parametrize(
    ("version", "docker", "driver"), [("28.5.1", "28.5.1", "overlay2"), ("", "failed", None)]
)
def test_the_script_runs(tmp_path: Path, version: str, docker: str, driver: str | None):
    program(tmp_path / "docker", DOCKER)
    script = survey_script(
        root="/nowhere", ports=[], images=["r@sha256:other", "sha256:known"], folders=[]
    )
    output = shell(script, tmp_path, VERSION=version, **STORE)
    survey = parse_survey(output.stdout.splitlines())
    assert (survey.docker, survey.docker_driver) == (docker, driver)
    assert survey.image == "sha256:id"
    assert survey.kernel.release == os.uname().release
    machine = Path("/etc/machine-id").read_text() if Path("/etc/machine-id").exists() else ""
    assert survey.machine.startswith(machine.strip())
    assert survey.machine.endswith(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    assert 0 < survey.available <= survey.memory
    assert survey.serves is None
    assert survey.kernel.command_line == Path("/proc/cmdline").read_text().strip()


@pytest.mark.parametrize(
    ("status", "driver", "folder"),
    [
        ("extfs|true|", "overlay2", "DOCKER"),
        ("io.containerd.snapshotter.v1|", "overlayfs", "/var/lib/containerd"),
    ],
)
def test_the_disk_is_that_on_which_images_lie(
    tmp_path: Path, status: str, driver: str, folder: str
):
    """What df is asked for tells: the machine of the test may have one file system for all."""
    docker = str(tmp_path / "docker-root")
    program(tmp_path / "docker", DOCKER)
    program(tmp_path / "df", 'shift 2; echo Filesystem; printf "%s 1\\n" "$@"')
    script = survey_script(root="/nowhere", ports=[], images=[], folders=[])
    told = {"VERSION": "29.6.2", "DRIVER": driver, "FOLDER": docker, "STATUS": status}
    output = shell(script, tmp_path, **told)
    survey = parse_survey(output.stdout.splitlines())
    wanted = Path(folder.replace("DOCKER", docker))
    while not wanted.exists():
        wanted = wanted.parent
    assert (survey.docker_driver, survey.docker_device) == (driver, str(wanted))
