"""build-image as its unit runs it, with a stand-in for `docker` that says what Docker's said."""

import io
import tarfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from host.artifacts.image.build import Build
from sparkwright.common.progress import JobProgress, ProgressLines
from tests.makers.docker import image_files
from tests.makers.images import Side, side
from tests.programs import script

ID = "555555555555"
IMAGE = f"sparkwright/lab-inject:{ID}"
BASE = f"example.org/vllm@sha256:{'7' * 64}"
# It keeps what it was given, and says what it is told to say.
STAND_IN = """\
#!/bin/sh
cd {root}
printf '%s\\n' "$@" > words
cat > context.tar
cat said
"""


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Side]:
    # A proxy of this machine is none of the unit's.
    for name in ("http_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin", prepend=":")
    (tmp_path / "bin").mkdir()
    script(tmp_path / "bin/docker", STAND_IN.format(root=tmp_path))
    with side(tmp_path) as spark:
        arguments = {"UNITS": "2", "NAME": "two words"}
        files = {"Dockerfile": "ARG BASE\nFROM ${BASE}\n", "a.sh": "true\n"}
        spark.order(f"image-build@{ID}", image=IMAGE, base=BASE, args=arguments, files=files)
        yield spark


def built(spark: Side, said: str) -> tuple[int, JobProgress]:
    """Build where `docker` says this; return the status and the last report."""
    (spark.root / "said").write_text(said)
    status, _ = spark.run("build-image", ID)
    return status, spark.progress(f"image-build@{ID}")


def refused(spark: Side, said: str) -> str:
    status, progress = built(spark, said)
    assert (status, progress.phase) == (1, "failed")
    return progress.message


# What Docker 26.1.5 with buildx 0.13.1 said on a virtual Spark; digests shortened.
BEGUN = """\
#0 building with "default" instance using docker driver
#1 [internal] load remote build context
#1 DONE 0.0s
#4 [stock 1/1] FROM 10.213.0.1:5000/sparkwright/vllm-cpu@sha256:db99
#4 DONE 0.0s
#5 [builder 1/1] RUN --network=none     sh /compile.sh "20"
#5 0.117 unit 1 of 20
"""
DONE = """\
#5 18.34 unit 20 of 20
#5 DONE 20.1s
#6 [stage-2 1/2] COPY --from=builder /kernels/ /usr/local/lib/lab/
#6 DONE 0.1s
#7 [stage-2 2/2] RUN --network=none     python3 /verify.py
#7 0.576 vLLM 0.32.0+cpu with 20 units
#7 DONE 0.8s
#8 exporting to image
#8 exporting layers 0.0s done
#8 DONE 0.0s
"""
FAILED = """\
#5 1.119 /compile.sh: 11: as: not found
#5 ERROR: process "/bin/sh -c sh /compile.sh" did not complete successfully: exit code: 127
------
 > [builder 1/1] RUN --network=none     sh /compile.sh "20":
0.117 unit 1 of 20
1.119 /compile.sh: 11: as: not found
------
Dockerfile:9
--------------------
   8 |     ARG UNITS=3
   9 | >>> RUN --network=none \\
--------------------
ERROR: failed to solve: process "/bin/sh -c sh /compile.sh" did not complete: exit code: 127
"""


def test_builds_from_the_files_of_the_orders(spark: Side) -> None:
    """The stand-in makes no image, so that the job must say that there is none."""
    message = refused(spark, BEGUN)
    assert message.startswith(f"The build of {IMAGE} failed. Its last lines:")
    words = (spark.root / "words").read_text().splitlines()
    assert words[:2] == ["buildx", "build"]
    assert words[-1] == "-"
    given = [words[place + 1] for place, word in enumerate(words) if word == "--build-arg"]
    assert given == [f"BASE={BASE}", "UNITS=2", "NAME=two words"]
    assert words[words.index("--tag") + 1] == IMAGE
    with tarfile.open(fileobj=io.BytesIO((spark.root / "context.tar").read_bytes())) as tar:
        files = {each.name: tar.extractfile(each).read() for each in tar}  # type: ignore[union-attr]
    assert files == {"Dockerfile": b"ARG BASE\nFROM ${BASE}\n", "a.sh": b"true\n"}


def test_its_steps_get_the_proxy_of_the_unit(spark: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy.lan:3128")
    monkeypatch.setenv("no_proxy", "hub.lan")
    built(spark, "")
    words = (spark.root / "words").read_text().split("\n")
    # By their names: Docker keeps these out of the image, and takes the values by itself.
    given = [word for before, word in pairwise(words) if before == "--build-arg"]
    assert [word for word in given if "=" not in word] == ["https_proxy", "no_proxy"]


def test_what_is_here_is_not_built_again(spark: Side) -> None:
    spark.docker.images[IMAGE] = image_files(b"layer")[1]
    status, progress = built(spark, "")
    assert (status, progress.phase) == (0, "done")
    assert not (spark.root / "words").exists()


def test_a_step_that_fails_shows_its_last_lines_and_what_goes_on(spark: Side) -> None:
    assert refused(spark, BEGUN + FAILED) == (
        f'The build of {IMAGE} failed at `RUN --network=none sh /compile.sh "20"`. '
        "Its last lines:\n"
        "  unit 1 of 20\n"
        "  /compile.sh: 11: as: not found\n"
        '  process "/bin/sh -c sh /compile.sh" did not complete successfully: exit code: 127\n'
        f"All of them: journalctl -u image-build@{ID}. Mend the cause and run again, which "
        f"goes on there; from the Spark itself: sudo systemctl start image-build@{ID}"
    )


@pytest.mark.parametrize(
    ("said", "meaning"),
    [
        ("docker: 'buildx' is not a docker command.\n", "apt-get install docker-buildx-plugin"),
        ("#5 ERROR: write /x: no space left on device\n", "the disk is full"),
        ("", "Docker does not answer"),
    ],
)
def test_a_known_cause_has_its_remedy(spark: Side, said: str, meaning: str) -> None:
    if not said:
        spark.docker.socket.unlink()
    assert meaning in refused(spark, said)


def test_how_far_a_build_is() -> None:
    build = Build()
    assert build.measure() == ("building", 0, 0)
    said = [build.note(line) for line in BEGUN.splitlines()]
    assert said[-1] == "unit 1 of 20"
    assert build.measure() == ("building", 1, 2)
    line = ProgressLines(print).line(JobProgress(*build.measure(), said[-1]), 0)
    assert line == "building, 1 of 2 steps done · unit 1 of 20"
    said = [build.note(line) for line in DONE.splitlines()]
    assert list(filter(None, said)) == ["unit 20 of 20", "vLLM 0.32.0+cpu with 20 units"]
    assert build.measure() == ("building", 4, 4)
    assert not build.failed


def test_the_lines_are_those_of_the_step_that_failed() -> None:
    build = Build()
    for line in ("#7 [a 1/2] RUN x", "#8 [b 1/2] RUN y", "#7 0.1 of x", "#8 0.2 of y"):
        build.note(line)
    for line in ("#8 ERROR: exit code: 1", "#7 CANCELED", "#7 ERROR: context canceled"):
        build.note(line)
    assert (build.failed, list(build.last)) == ("RUN y", ["of y", "exit code: 1"])
