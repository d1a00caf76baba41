"""Jobs that try again where that may help, and how they end."""

import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn

from host.common.log import log
from host.common.progress import JobError, Progress

# Seconds before each further try of a server that others use too: three minutes in all.
DELAYS = (1, 2, 4, 8, 15, 30, 60, 60)
# Bytes that make a try count as one that brought something: a server that gives one byte a
# connection, or takes back what it gave, is tried as often as one that gives nothing.
ENOUGH = 256 * 1024


class RetryableError(Exception):
    """A failed try that another may mend, after `wait` seconds: a sentence without full stop."""

    def __init__(self, reason: str, wait: int = 0) -> None:
        super().__init__(reason)
        self.wait = wait


def retry(
    attempt: Callable[[], None],
    brought: Callable[[], int],
    progress: Progress,
    what: str,
    remedy: str = "try later",
    delays: Sequence[float] = (),
) -> None:
    """Try until it works; give up after some tries in a row that brought next to nothing.

    Args:
        brought: Returns the bytes that have come so far, and were kept.
        what: What the journal calls it.
        remedy: Ends the sentence when all tries have failed.
        delays: Seconds before each further try, until the tries have brought ENOUGH new bytes.

    Raises:
        JobError: enough tries have failed, or one of them raised it.
    """
    delays = delays or DELAYS
    tries, most = 0, brought()
    while True:
        try:
            attempt()
            return
        except RetryableError as error:
            if brought() >= most + ENOUGH:
                tries, most = 0, brought()
            if tries == len(delays):
                raise JobError(f"{error}, again and again: {remedy}.") from error
            delay = max(delays[tries], error.wait)
            tries += 1
            progress.message = f"{error}; next try in {delay} s"
            log(f"{what}: {progress.message}")
            time.sleep(delay)
            progress.message = ""


def run_job(job: Callable[[], None]) -> NoReturn:
    """Do a job and end, without waiting for files that a failure has left under way elsewhere."""
    status = 1
    try:
        job()
        status = 0
    except JobError as error:
        log(str(error))
    except Exception:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(status)
