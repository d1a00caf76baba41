"""One repository on the hub at one commit: its files, fetched whatever happens on the way.

A hub, or a mirror in its place, may lie: it costs no more bytes than the lock allows, and each
failed try is counted until one has brought something.
"""

import re
import time
from collections.abc import Callable

from httpcore2 import NetworkError, TimeoutException
from httpx2 import HTTPError, InvalidURL, Response
from huggingface_hub import constants, get_session, get_token, hf_hub_url
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import build_hf_headers, hf_raise_for_status

from host.artifacts.weights.hashing_file import ResumableFile
from host.common.progress import JobError, Progress
from host.common.retry import ENOUGH, RetryableError, retry

# The longest Retry-After that is obeyed between two tries, in seconds.
LONGEST_DELAY = 600
# Seconds in which a connection brings ENOUGH bytes, or counts as broken: 4 kB/s.
WINDOW = 60
# Bytes that are read of a connection at once: four records of TLS.
CHUNK = 64 * 1024
# A file up to so many bytes leaves its connection to the next one.
SMALL = 1024 * 1024
# Characters of a hub's own words that are passed on.
WORDS = 300
# What of a refusal tells its reason. Its body is not read: it may have no end.
_REASONS = ("X-Error-Code", "X-Error-Message", "Retry-After", "RateLimit")


class Repository:
    """A repository at a commit.

    `hf_hub_download` is not used: it begins a file again when its process was killed, gives up at
    a reset connection, takes a file for right that was damaged after it had been fetched, keeps
    whatever a server sends, and resumes without end where a server breaks off again and again.
    """

    phase = "downloading"
    # One connection to the hub seldom fills a line, and shards are few.
    connections = 4

    def __init__(self, endpoint: str, name: str, commit: str, progress: Progress) -> None:
        self.endpoint = endpoint
        self.name = name
        self.commit = commit
        self._progress = progress

    def fetch(self, growing: ResumableFile) -> None:
        """Append what a file lacks, or raise a JobError."""
        path = growing.file.path
        retry(lambda: self._attempt(growing), lambda: growing.position, self._progress, path)

    def _attempt(self, growing: ResumableFile) -> None:
        try:
            self._request(growing)
        except HfHubHTTPError as error:
            status = error.response.status_code
            if status == 416:
                growing.restart()
            elif status not in (408, 429) and status < 500:
                raise JobError(self._refusal(error, growing.file.path)) from error
            reason = f"{self.endpoint} answers with status {status}"
            raise RetryableError(reason, _retry_after(error.response)) from error
        except EOFError:
            raise self._broken("it ended early") from None
        except (HTTPError, InvalidURL, NetworkError, TimeoutException, OSError) as error:
            raise self._broken(type(error).__name__) from error

    def _request(self, growing: ResumableFile) -> None:
        file = growing.file
        url = hf_hub_url(self.name, file.path, revision=self.commit, endpoint=self.endpoint)
        begun = growing.position
        # A compressed answer could not be resumed in the middle.
        headers = {**build_hf_headers(), "Accept-Encoding": "identity"}
        if begun:
            headers["Range"] = f"bytes={begun}-"
        with get_session().stream(
            "GET", url, headers=headers, timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT
        ) as answer:
            if answer.is_error:
                known = {name: text for name in _REASONS if (text := answer.headers.get(name))}
                hf_raise_for_status(
                    Response(answer.status_code, headers=known, request=answer.request)
                )
            begun = begun if answer.status_code == 206 else 0
            self._check_promise(answer, begun, file.size)
            if not begun:
                growing.restart()
            growing.append(self._reader(answer, file.size - begun))

    def _reader(self, answer: Response, missing: int) -> Callable[[memoryview], int]:
        """Return what fills a buffer with the next bytes of an answer."""
        since, brought = time.monotonic(), 0
        chunks, timeout = answer.iter_raw(), constants.HF_HUB_DOWNLOAD_TIMEOUT
        rest = memoryview(next(chunks, b""))
        # The parser has given all that it had read. Past it a byte costs half as much: it takes
        # apart every 16 KiB of TLS, one thread at a time. What follows the head of a plain answer
        # is its content and nothing else.
        plain = "Content-Length" in answer.headers and "Transfer-Encoding" not in answer.headers
        large = missing > SMALL and plain and answer.extensions.get("http_version") == b"HTTP/1.1"
        stream = answer.extensions["network_stream"] if large else None

        def read(part: memoryview) -> int:
            nonlocal rest, since, brought
            if not rest:
                # The end of `chunks` would close the connection: so it is kept here in any case.
                rest = memoryview(stream.read(CHUNK, timeout) if stream else next(chunks, b""))
            count = min(len(part), len(rest))
            part[:count], rest = rest[:count], rest[count:]
            brought += count
            if time.monotonic() - since > WINDOW:
                if brought < ENOUGH:
                    raise self._broken(f"less than {ENOUGH:,} bytes in {WINDOW} s")
                since, brought = time.monotonic(), 0
            return count

        return read

    def _check_promise(self, answer: Response, begun: int, size: int) -> None:
        """Raise RetryableError where an answer's head does not fit the bytes that are missing."""
        length = answer.headers.get("Content-Length", "")
        if length and length != str(size - begun):
            raise self._broken(f"it promises {length[:20]} bytes instead of {size - begun:,}")
        if answer.headers.get("Content-Encoding", "identity") != "identity":
            raise self._broken("it is compressed")
        part = answer.headers.get("Content-Range", "")
        if answer.status_code == 206 and not part.startswith(f"bytes {begun}-"):
            raise self._broken("it is another part of the file")

    def _broken(self, reason: str) -> RetryableError:
        return RetryableError(f"no whole answer from {self.endpoint} ({reason})")

    def _refusal(self, error: HfHubHTTPError, path: str) -> str:
        status, token = error.response.status_code, get_token()
        if isinstance(error, GatedRepoError):
            account = "the account of your token" if token else "an account, give its token"
            return (
                f"{self.name} is gated ({status}): accept its terms at "
                f"{self.endpoint}/{self.name} with {account}, and run again."
            )
        if isinstance(error, RepositoryNotFoundError):
            who = "this token" if token else "no token"
            return (
                f"{self.endpoint} shows {self.name} to nobody with {who} ({status}): "
                "check its name, or run again with a token that may read it (HF_TOKEN)."
            )
        if status == 401:
            return (
                f"{self.endpoint} refuses the {'token' if token else 'request'} (401): make a new "
                f"token at {self.endpoint}/settings/tokens, and run again with it (HF_TOKEN)."
            )
        if status == 404:
            lost = isinstance(error, RevisionNotFoundError)
            return (
                f"{self.name} has no {'such commit' if lost else f'file {path}'} any more "
                f"({status}, {self.commit}): refresh the lock (sparkwright lock --refresh), "
                "and run again."
            )
        said = error.response.headers.get("X-Error-Message", "it gives no reason")[:WORDS]
        return f"{self.endpoint} refuses {path} of {self.name} ({status}): {said}."


def _retry_after(answer: Response) -> int:
    headers = answer.headers
    told = re.match(r"(\d{1,9})$", headers.get("Retry-After", ""), re.ASCII) or re.search(
        r";\s*t=(\d{1,9})", headers.get("RateLimit", ""), re.ASCII
    )
    return min(int(told[1]), LONGEST_DELAY) if told else 0
