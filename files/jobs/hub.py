"""One repository on the hub at one commit: its files, fetched whatever happens on the way."""

import errno
from pathlib import Path

from content import File
from httpx2 import TransportError
from huggingface_hub import constants, get_token, hf_hub_url
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.file_download import http_get
from huggingface_hub.utils import build_hf_headers
from progress import Progress, Stop
from tries import Transient, persist

# The longest Retry-After that is obeyed between two tries, in seconds.
LONGEST_DELAY = 600
# Bytes that a broken connection loses at most; the library's own figure is 10 MB.
constants.DOWNLOAD_CHUNK_SIZE = 256 * 1024


class Repository:
    """A repository at a commit.

    `hf_hub_download` is not used: it begins a file again when its process was killed, gives up at
    a reset connection, and takes a file for right that was damaged after it had been fetched.
    """

    phase = "downloading"
    # One connection to the hub seldom fills a line, and shards are few.
    connections = 4

    def __init__(self, endpoint: str, name: str, commit: str, progress: Progress) -> None:
        self.endpoint = endpoint
        self.name = name
        self.commit = commit
        self._progress = progress

    def fetch(self, file: File, partial: Path) -> None:
        """Append to a partial file what it lacks: try again as long as it grows, then a few times.

        Raises:
            Stop: no further try can help, or enough of them have failed.
        """

        def attempt() -> None:
            if _size(partial) > file.size:
                partial.unlink()
            try:
                self._request(file, partial)
            except (TransportError, HfHubHTTPError, OSError) as error:
                reason = self._explain(error, file.path, partial)
                raise Transient(reason, _retry_after(error)) from error

        persist(attempt, lambda: _size(partial), self._progress, file.path)

    def _request(self, file: File, partial: Path) -> None:
        with partial.open("ab") as content:
            http_get(
                hf_hub_url(self.name, file.path, revision=self.commit, endpoint=self.endpoint),
                content,
                resume_size=content.tell(),
                # A compressed answer cannot be resumed in the middle.
                headers={**build_hf_headers(), "Accept-Encoding": "identity"},
                expected_size=file.size,
                # What it would try again at once, without a word, is tried again here.
                _nb_retries=0,
            )

    def _explain(self, error: Exception, path: str, partial: Path) -> str:
        """Return why another try may help; raise Stop where it cannot."""
        if isinstance(error, HfHubHTTPError):
            status = error.response.status_code
            if status == 416:
                partial.unlink(missing_ok=True)
            elif status not in (408, 429) and status < 500:
                raise Stop(self._refusal(error, path)) from error
            return f"{self.endpoint} answers with status {status}"
        if isinstance(error, OSError) and error.errno:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            remedy = "free some space" if full else "mend that"
            raise Stop(f"{error.strerror} ({partial}): {remedy}, and run again.") from error
        # http_get's word for an answer that is shorter or longer than it should be has no errno.
        reason = "it ended early" if isinstance(error, OSError) else type(error).__name__
        return f"no whole answer from {self.endpoint} ({reason})"

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
                f"({status}, {self.commit}): refresh the lock (python -m deploys.lock --refresh), "
                "and run again."
            )
        said = error.response.headers.get("X-Error-Message", "it gives no reason")
        return f"{self.endpoint} refuses {path} of {self.name} ({status}): {said}."


def _size(partial: Path) -> int:
    return partial.stat().st_size if partial.exists() else 0


def _retry_after(error: Exception) -> int:
    if not isinstance(error, HfHubHTTPError):
        return 0
    value = error.response.headers.get("Retry-After", "")
    return min(int(value), LONGEST_DELAY) if value.isdigit() else 0
