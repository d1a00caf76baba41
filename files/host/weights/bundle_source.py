"""A folder of a bundle on this Spark: the source of files that could not be linked from there."""

from pathlib import Path

from host.common.progress import JobError
from host.weights.hashing_file import File, ResumableFile, unwritable


class BundleSource:
    """A checkpoint's folder in a bundle that was sent here, or that an owner has brought.

    Args:
        folder: such as /opt/qwen36/bundle/weights/OWNER--NAME@COMMIT.
    """

    phase = "copying"
    # One disk.
    connections = 1

    def __init__(self, folder: Path) -> None:
        self.name = self.endpoint = str(folder)
        self._folder = folder

    def fetch(self, file: File, partial: Path) -> str:
        """Append to a partial file what it lacks; return the hash of the whole.

        Raises:
            JobError: the folder does not have it.
        """
        found = self._folder / file.path
        try:
            content = found.open("rb", buffering=0)
        except OSError as error:
            raise JobError(
                f"{found}: {error.strerror}: the bundle is to bring it; run again, with the bundle "
                "in its place."
            ) from None
        try:
            with content, ResumableFile(partial, file) as growing:
                # A damaged copy is of no use for another.
                growing.restart()
                growing.append(lambda part: content.readinto(part) or 0)
                return growing.digest
        except EOFError:
            raise JobError(
                f"{found}: it ends before its {file.size} bytes: bring the bundle's file again."
            ) from None
        except OSError as error:
            raise unwritable(error, partial) from error
