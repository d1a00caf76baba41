"""build-image ROOT ID: have Docker build the image of ROOT/manifests/image-build@ID.json.

Docker keeps every step that is done, and the caches of the one that was interrupted: another run
goes on there. What the build says is in the journal.
Exit status: 0 the image is here, 1 it is not; ROOT/jobs/image-build@ID.json says why.
"""

import base64
import io
import json
import os
import re
import tarfile
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen
from typing import Any

from host.artifacts.image.docker_socket import FULL, Cause, is_here, meaning
from host.common.command_line import words
from host.common.log import log
from host.common.progress import JobError, Progress
from host.common.retry import RetryableError, run_job

# Lines of a failed step that are shown; the journal has all.
LAST_LINES = 15
# Variables of a proxy, with which the steps of a build reach the internet.
PROXY = {"http_proxy", "https_proxy", "no_proxy"}
# What a line of a build may take of the line that a person reads.
WIDTH = 100

# Docker's words -> what they mean, and what helps.
CAUSES: tuple[Cause, ...] = (
    FULL,
    (
        ("is not a docker command", "unknown flag: --builder"),
        "Docker has no buildx: sudo apt-get install docker-buildx-plugin",
    ),
)

# "#12 [builder 3/9] RUN make", and how a step goes on: "#12 4.2 text", "#12 DONE 5.0s".
BEGUN = re.compile(r"#(\d+) \[(?:(\S+) )?(\d+)/(\d+)\] (.*)")
SAID = re.compile(r"#(\d+) (?:[\d.]+ (.*)|(DONE|CACHED|CANCELED|ERROR)\b(?:: (.*))?)")


class Build:
    """The progress of a build, by the lines of `docker buildx build --progress=plain`.

    Attributes:
        failed: the step that failed; "" if none did, or none had begun.
        last: its last lines.
    """

    def __init__(self) -> None:
        self.failed = ""
        self.last: Sequence[str] = []
        self._steps: dict[str, tuple[str, int, str]] = {}
        self._lines: dict[str, deque[str]] = {}
        self._done: dict[str, int] = {}
        self._totals: dict[str, int] = {}

    def measure(self) -> tuple[str, int, int]:
        """Return phase, steps done and steps in total, of all stages that have begun."""
        return "building", sum(self._done.values()), sum(self._totals.values())

    def note(self, line: str) -> str:
        """Take in a line; return the few words that tell a person where the build is."""
        text = ""
        if begun := BEGUN.match(line):
            number, stage, step, total, name = begun.groups()
            self._steps[number] = (stage or "", int(step), " ".join(name.split()))
            self._totals[stage or ""] = int(total)
        elif said := SAID.match(line):
            number, text, end, why = said.groups("")
            lines = self._lines.setdefault(number, deque(maxlen=LAST_LINES))
            lines += filter(None, (text, why))
            stage, step, name = self._steps.get(number, ("", 0, ""))
            if end == "ERROR" and not self.failed:
                self.failed, self.last = name, lines
            elif end in ("DONE", "CACHED") and name:
                self._done[stage] = max(step, self._done.get(stage, step))
        elif not self._lines and not self._steps and not line.startswith("#"):
            # Before the first step only what goes wrong has such a line.
            self.last = [*self.last, line]
        return text[:WIDTH]


def context(files: Mapping[str, Any]) -> bytes:
    """Return a build's files, each a text or its bytes and mode, as the archive for Docker."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, file in sorted(files.items()):
            member = tarfile.TarInfo(name)
            if isinstance(file, str):
                content = file.encode()
            else:
                content, member.mode = base64.b64decode(file["base64"]), file["mode"]
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return archive.getvalue()


def build_command(image: str, base: str, arguments: Mapping[str, str]) -> list[str]:
    """Return the command that builds; its files come by standard input."""
    words = ["docker", "buildx", "build", "--builder", "default", "--progress", "plain"]
    # A record of the build would make an index of the image, with a name of its own.
    words += ["--provenance", "false", "--tag", image, "--build-arg", f"BASE={base}"]
    for name, value in arguments.items():
        words += ["--build-arg", f"{name}={value}"]
    # Of the unit's environment. Docker keeps these three out of the image and out of its cache.
    for name in sorted(PROXY & os.environ.keys()):
        words += ["--build-arg", name]
    return [*words, "-"]


def run(words: list[str], content: bytes) -> Iterator[str]:
    """Run a build; yield its lines."""
    with tempfile.TemporaryFile() as given:
        given.write(content)
        given.seek(0)
        with Popen(words, stdin=given, stdout=PIPE, stderr=STDOUT) as process:
            assert process.stdout
            for line in process.stdout:
                yield line.decode(errors="replace").rstrip()


def complaint(job: str, image: str, build: Build) -> str:
    """Return what is said of a build that has failed."""
    text = "\n".join(f"  {line}" for line in build.last if line)
    known = meaning(text, CAUSES)
    at = f" at `{build.failed[:WIDTH]}`" if build.failed else ""
    return (
        f"The build of {image} failed{at}{': ' + known if known else ''}. Its last lines:\n"
        f"{text}\nAll of them: journalctl -u image-build@{job}. Mend the cause and run again, "
        f"which goes on there; from the Spark itself: sudo systemctl start image-build@{job}"
    )


def main(root: Path, job: str) -> None:
    """Do the job; every end but success is raised."""
    orders: dict[str, Any] = json.loads(
        (root / "manifests" / f"image-build@{job}.json").read_text("utf-8")
    )
    image, build = orders["image"], Build()
    with Progress(root / "jobs" / f"image-build@{job}.json", build.measure) as progress:
        try:
            if is_here(image):
                return
            words = build_command(image, orders["base"], orders["args"])
            for line in run(words, context(orders["files"])):
                log(line)
                progress.message = build.note(line) or progress.message
            progress.message = ""
            if not is_here(image):
                raise JobError(complaint(job, image, build))
        except RetryableError as error:
            raise JobError(f"{image}: {error}, then run again.") from None


def command() -> None:
    """Builds the image of a job."""
    root, job = words(__doc__, "ROOT", "ID")
    run_job(lambda: main(Path(root), job))
