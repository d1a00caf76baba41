"""export-image ROOT ID: unpack the image of ROOT/manifests/image-export@ID.json to ROOT/exports/ID.

What Docker saves is a folder of files named by their sha256; the share lends them to the worker,
which so fetches only those that it lacks.
Exit status: 0 the export is there, 1 it is not; ROOT/jobs/image-export@ID.json says why.
"""

import http.client
import json
import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.parse import quote

from host.common.command_line import words
from host.common.progress import JobError, Progress
from host.common.retry import RetryableError, run_job
from host.image.archive import BLOBS, is_built, read
from host.image.docker_socket import FULL, Docker, complaint, is_here, raise_known
from host.weights.checkpoint import Record
from host.weights.hashing_file import File, ResumableFile

# Bytes that are asked of the archive at once. tarfile joins and copies them, in new memory each
# time if they are more: of 8 MiB at a time a gigabyte took 3.7 s of a processor, so it takes 1.4.
PART = 256 * 1024

CAUSES = (
    FULL,
    (("no such image",), "this Spark's Docker has lost it: run again, which pulls it"),
)


class Export:
    """An image on its way from Docker to a folder.

    Args:
        image: what people call it.
        names: by which Docker may know it: one that was loaded, and not pulled, has lost the first.
    """

    def __init__(self, image: str, folder: Path, names: Sequence[str] = ()) -> None:
        self._image = image
        self._names = names
        self._folder = folder
        self._done = self._total = 0
        self._growing: ResumableFile | None = None

    def measure(self) -> tuple[str, int, int]:
        """Return phase, bytes done and bytes in total, about."""
        growing = self._growing
        done = self._done + (growing.position if growing else 0)
        return "exporting", min(done, self._total), self._total

    def is_there(self) -> bool:
        """Tell whether a previous run has made it: the folder takes its name when it is whole.

        An image that was built may have been removed and built again, which makes another.
        """
        if not self._folder.exists() or not is_built(self._image):
            return self._folder.exists()
        files = [file.relative_to(self._folder).as_posix() for file in self._folder.rglob("*")]
        known = json.loads(self._ask("json").read())["Id"]
        return bool(read(self._folder, files, [known]).ids)

    def make(self, progress: Progress) -> None:
        """Have Docker save the image, and unpack that.

        Raises:
            JobError: the image is not here, the disk is full, or Docker saves in another way.
            RetryableError: Docker does not answer, or ends amid.
        """
        growing = self._folder.with_name(f".{self._folder.name}")
        for old in (growing, self._folder):
            shutil.rmtree(old, ignore_errors=True)
        growing.mkdir()
        try:
            self._total = int(json.loads(self._ask("json").read())["Size"])
            progress.message = "Docker puts the layers together"
            with tarfile.open(fileobj=self._ask("get"), mode="r|", bufsize=PART) as archive:
                progress.message = ""
                self._unpack(archive, growing)
            growing.replace(self._folder)
        except (http.client.HTTPException, tarfile.TarError, EOFError) as error:
            raise RetryableError(f"Docker ended in the middle of the image ({error})") from error
        finally:
            shutil.rmtree(growing, ignore_errors=True)

    def _ask(self, what: str) -> http.client.HTTPResponse:
        name = next(filter(is_here, self._names), self._image)
        answer = Docker().ask("GET", f"/images/{quote(name)}/{what}")
        if answer.status != http.client.OK:
            raise_known(self._image, complaint(answer), CAUSES)
        return answer

    def _unpack(self, archive: tarfile.TarFile, folder: Path) -> None:
        record = Record(folder)
        for member in archive:
            if member.isdir():
                continue
            content = archive.extractfile(member) if member.isreg() else None
            parts = PurePosixPath(member.name).parts
            if content is None or ".." in parts or member.name.startswith("/"):
                raise JobError(
                    f"Docker saves {self._image} with {member.name}, which is no plain file: "
                    "its version is too old to copy from; update Docker on this Spark."
                )
            self._keep(member, content, folder, record)

    def _keep(
        self, member: tarfile.TarInfo, content: IO[bytes], folder: Path, record: Record
    ) -> None:
        place = folder / member.name
        place.parent.mkdir(parents=True, exist_ok=True)
        with ResumableFile(place, File(member.name, member.size, digest="0" * 64)) as growing:
            self._growing = growing
            growing.append(lambda part: content.readinto(part[:PART]))  # type: ignore[attr-defined]
        if member.name.startswith(BLOBS) and place.name != growing.digest:
            raise JobError(
                f"Docker's {place.name[:12]} of {self._image} has another hash: its store is "
                f"damaged. Remove the image (docker rmi {self._image}), and run again."
            )
        self._growing = None
        self._done += member.size
        record.add(member.name, place, growing.digest)


def main(root: Path, job: str) -> None:
    """Do the job; every end but success is raised."""
    manifest = json.loads((root / "manifests" / f"image-export@{job}.json").read_text("utf-8"))
    image = manifest["image"]
    export = Export(image, root / "exports" / job, manifest.get("images", ()))
    with Progress(root / "jobs" / f"image-export@{job}.json", export.measure) as progress:
        try:
            if export.is_there():
                return
            export.make(progress)
        except RetryableError as error:
            raise JobError(f"{image}: {error}: run again.") from None
        except OSError as error:
            raise JobError(f"{image}: {error.strerror}: mend that, and run again.") from error


def command() -> None:
    """Unpacks the image of a job."""
    root, job = words(__doc__, "ROOT", "ID")
    run_job(lambda: main(Path(root), job))
