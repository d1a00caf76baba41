"""Builds of images: what is wrong with one, what its result is called, and a release of it."""

from pathlib import Path

import pytest

from sparkwright.common.errors import PlanError
from sparkwright.common.hardware import GIB
from sparkwright.declared.recipe.build import FOLDERS, build_files, build_name, build_problems
from sparkwright.declared.recipe.values import ImageBuild
from sparkwright.machine.preflight.preflight import findings
from tests.makers.models import changed
from tests.makers.preflight import FIT, NOW, WANTED

DIGEST = f"sha256:{'5' * 64}"
DOCKERFILE = "ARG BASE\nFROM ${BASE}\nARG COMMIT\nARG JOBS=4\nCOPY a.py /\n"


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("sparkwright.declared.recipe.build.FOLDERS", tmp_path)
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "Dockerfile").write_text(DOCKERFILE)
    (folder / "a.py").write_text("print()\n")
    return tmp_path


def build(folder: str = "mine", **arguments: str) -> ImageBuild:
    return ImageBuild(build=folder, base="example.org/vllm:1", args=arguments)


def test_the_name_stands_for_all_inputs(folders: Path) -> None:
    name = build_name(build(COMMIT="a"), DIGEST)
    folder, _, digest = name.partition(":")
    assert folder == "sparkwright/mine"
    assert len(digest) == 12
    assert build_name(build(COMMIT="a"), DIGEST) == name
    # Neither the tag of the base counts, nor what an editor leaves behind.
    (folders / "mine/.Dockerfile.swp").write_bytes(b"b0VIM\xff")
    other = ImageBuild(build="mine", base="example.org/vllm:2", args={"COMMIT": "a"})
    assert build_name(other, DIGEST) == name
    others = [
        build_name(build(COMMIT="b"), DIGEST),
        build_name(build(COMMIT="a"), f"sha256:{'6' * 64}"),
    ]
    (folders / "mine/a.py").write_text("print(1)\n")
    others.append(build_name(build(COMMIT="a"), DIGEST))
    assert len({name, *others}) == 4


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (build("mime", COMMIT="a"), "found no mime/Dockerfile; did you mean 'mine'?"),
        (build(), "image.args: found no COMMIT; expected it"),
        (build(COMMIT="a", JOB="1"), "image.args.JOB: found an unknown name; did you mean 'JOBS'?"),
        (build(COMMIT="a", BASE="x:1"), "image.args.BASE: found an unknown name"),
        (build(COMMIT="a", HF_TOKEN="x"), "image.args.HF_TOKEN: found a secret's name"),
    ],
)
def test_what_cannot_be_built(folders: Path, wrong: ImageBuild, said: str) -> None:
    (problem,) = build_problems(wrong)
    assert said in problem


def test_a_folder_that_is_no_build(folders: Path) -> None:
    (folders / "mine/Dockerfile").write_text("FROM scratch\n")
    (problem,) = build_problems(build())
    assert "found no `ARG BASE`" in problem
    with pytest.raises(PlanError, match="found no other/Dockerfile"):
        build_files(build("other"))


def test_a_file_that_is_no_text_travels_as_it_is(folders: Path) -> None:
    (folders / "mine/kernels.so").write_bytes(b"\x7fELF\xff")
    assert list(build_problems(build(COMMIT="a"))) == []
    files = build_files(build(COMMIT="a"))
    assert files["kernels.so"] == {"base64": "f0VMRv8=", "mode": 0o644}
    assert files["a.py"] == "print()\n"


def test_all_files_of_a_folder_are_copied_by_name() -> None:
    """A file in a folder below would silently be missing on the Spark."""
    assert [path for path in FOLDERS.glob("*/*/**/*") if "__pycache__" not in path.parts] == []


def test_a_build_takes_disk_beside_what_it_is_built_on() -> None:
    survey = changed(FIT, root_free=80 * GIB, docker_free=80 * GIB)
    wanted = changed(WANTED, build=ImageBuild.disk)
    assert not [*findings(survey, WANTED, NOW)]
    (finding,) = findings(survey, wanted, NOW)
    assert "80.0 GiB free" in finding.found
    assert "docker builder prune" in finding.remedy
    assert not [*findings(changed(survey, image="sha256:1"), wanted, NOW)]
