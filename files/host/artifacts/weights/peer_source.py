"""The share of the other Spark of a pair: files fetched over the fabric, hashed on the way."""

import http.client
from pathlib import Path
from urllib.parse import quote, urlsplit

from host.artifacts.weights.hashing_file import File, ResumableFile, resume
from host.common.progress import JobError, Progress
from host.common.retry import RetryableError

# Seconds without a byte after which a connection counts as dead.
PATIENCE = 20
# Seconds before each further try: a Spark that lost its power is back in less than these.
DELAYS = (1, 2, *[5] * 35)
REMEDY = (
    "look at fabric-share.socket on that Spark, and at the cable; then run again, "
    "which goes on where this ended"
)


class PeerSource:
    """A folder that the other Spark lends, by its URL."""

    phase = "copying"
    # While one writes, others receive and hash: so the disk always has something to do.
    connections = 8

    def __init__(self, url: str, progress: Progress) -> None:
        self.name = url
        self._address = urlsplit(url)
        self._netloc = self._address.netloc
        self._progress = progress

    def fetch(self, file: File, partial: Path) -> str:
        """Append to a partial file what it lacks; return the hash of the whole."""
        return resume(
            file,
            partial,
            lambda growing: self._attempt(file, growing),
            self._progress,
            REMEDY,
            DELAYS,
        )

    def _attempt(self, file: File, growing: ResumableFile) -> None:
        connection = http.client.HTTPConnection(self._netloc, timeout=PATIENCE)
        what = "answer"
        try:
            address = f"{self._address.path}/{quote(file.path)}?hash={file.digest}"
            connection.request("GET", address, headers={"Range": f"bytes={growing.position}-"})
            answer = connection.getresponse()
            if answer.status == http.client.FORBIDDEN:
                raise JobError(f"{self._netloc} refuses this Spark: {_text(answer)}.")
            if answer.status != http.client.PARTIAL_CONTENT:
                raise RetryableError(f"{self._netloc} says: {_text(answer)}")
            what = "whole answer"
            growing.append(answer.readinto)
        except (OSError, EOFError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or str(error) or "it ended early"
            raise RetryableError(f"no {what} from {self._netloc} ({reason})") from error
        finally:
            connection.close()


def _text(answer: http.client.HTTPResponse) -> str:
    return answer.read(1000).decode(errors="replace")
