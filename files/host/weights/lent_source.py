"""The share of another replica, and the hub for whatever it does not give."""

import http.client
from pathlib import Path

from host.common.log import log
from host.common.progress import JobError, Progress
from host.weights.folder_source import BundleSource
from host.weights.hashing_file import File
from host.weights.hub import Repository
from host.weights.peer_source import NotHereError, PeerSource


class Lender(PeerSource):
    """A folder that another replica lends: there is the hub, so it is not waited for."""

    # A host that is off does not refuse: it is silent. With the delays these are 18 s, once.
    reach = 5
    delays = (1, 2)
    remedy = "look at lan-share.socket on that Spark"
    final = (http.client.FORBIDDEN, http.client.NOT_FOUND)


class LentSource:
    """A checkpoint from its lender, file by file; what it does not give comes from the hub.

    A lender that cannot be reached, or refuses, is not asked again by this job. One that lacks a
    file, or has given it damaged, is not asked again for this file.

    Args:
        url: of the lender's folder, such as http://192.168.1.20:29504/weights/qwen36-nvfp4@1a2b.
    """

    phase = "copying"
    # As with the hub: the lender has other replicas to serve.
    connections = 4

    def __init__(self, url: str, hub: Repository | BundleSource, progress: Progress) -> None:
        self.name = hub.name
        self._lender = Lender(url, progress)
        self._hub = hub
        self._progress = progress
        self._asked: set[str] = set()
        self._given_up = False
        self._from_hub = 0
        self._reason = ""

    def fetch(self, file: File, partial: Path) -> str:
        """Append to a partial file what it lacks; return the hash of the whole.

        Raises:
            JobError: the hub does not give it either.
        """
        digest = self._borrow(file, partial)
        if digest is None:
            self._from_hub += 1
            self._tell()
            digest = self._hub.fetch(file, partial)
        # A further try has cleared the message.
        self._tell()
        return digest

    def _borrow(self, file: File, partial: Path) -> str | None:
        """Return the hash of what the lender has given; None if it has not."""
        if self._given_up:
            return None
        self._tell()
        try:
            if file.path in self._asked:
                raise NotHereError(f"{file.path} arrived damaged.")
            self._asked.add(file.path)
            return self._lender.fetch(file, partial)
        except JobError as error:
            self._reason = str(error)
            if not isinstance(error, NotHereError):
                self._given_up = True
            log(f"{file.path} comes from {self._hub.endpoint}: {error}")
            return None

    def _tell(self) -> None:
        """Have the job's report say where the files come from."""
        told = f"from {self._lender.netloc}"
        if self._reason:
            count, hub = self._from_hub, self._hub.endpoint
            told = f"{count} of its files from {hub}, not {self._lender.netloc}: {self._reason}"
        self._progress.message = told
