"""notify ROOT SPARK ENDS look|test: sends the owner's webhook one message that is due, or a test.

ENDS is when the first certificate of the Spark's doors ends, in seconds since 1970; 0 without any.
"""

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from host.artifacts.weights.record import DAMAGED, read_json_below
from host.common.atomic import replace
from host.common.command_line import words
from host.common.log import log
from host.common.seat import SEATS
from host.state.engines import current, engines, failed_switch, owner, switches
from host.state.readers import UnknownError, free_bytes, whole

# Seconds. A message that has not arrived is sent again after RETRY.
RETRY, HOUR = 600, 3600
# Seconds before a certificate's end: a run renews the site's own, or warns, long before.
ENDING = 14 * 86400
# Bytes, as sparkwright/plan/causes/thresholds.py has them.
DISK_FULL = 2 * 1024**3
# Seconds for each step of a connection; the unit bounds the whole.
PATIENCE = 10
RECORD = "state/notify/notices.json"
# Cause -> what was last sent of it, and when the next message may be.
Record = dict[str, tuple[str, int]]
_UNREADABLE = (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError)


def decide(old: Record, found: Mapping[str, str], now: int) -> tuple[Record, str | None]:
    """Return the record as after a try in vain, and the cause whose message is due, if any.

    What comes back within an hour of its message waits until that hour is over.
    """
    # The clock may have gone back.
    old = {cause: (sent, min(after, now + HOUR)) for cause, (sent, after) in old.items()}
    new = {cause: ("", after) for cause, (_, after) in old.items() if after > now}
    due = None
    for cause, what in found.items():
        sent, after = old.get(cause, ("", 0))
        if due is None and sent != what and after <= now:
            due, after = cause, now + RETRY
        new[cause] = sent, after
    return new, due


def request(address: str, message: str) -> tuple[str, bytes, dict[str, str]]:
    """Return URL, body and headers of a message: ntfy's, or JSON as Slack and others take it."""
    url = address.removeprefix("ntfy+")
    if url != address or "://ntfy" in url:
        return url, message.encode(), {"Content-Type": "text/plain"}
    return url, json.dumps({"text": message}).encode(), {"Content-Type": "application/json"}


def found(root: Path, ends: int, now: int) -> Iterator[tuple[str, str]]:
    """Yield each cause and what is wrong; a file that cannot be read says nothing."""
    for place in map(str, (root, *sorted(root.glob(f"{SEATS}/*")))):
        with suppress(*_UNREADABLE):
            release, switching = current(place) or "", any(map(owner(place), switches()))
            unit = engines().get(release, {})
            if unit.get("active") == "failed" and not switching:
                yield f"engine in {place}", f"the engine of {release} has given up"
            # Its supervisor's words: meeting.py.
            missed = unit.get("status", "").partition(" at ")[0][:99]
            if missed.startswith("missing for "):
                yield f"group of {place}", f"in its group {missed}"
            if failed := failed_switch(place):
                what = f"the switch to {failed['release']} was taken back on {_utc(failed['at'])}"
                yield f"switch in {place}", what
    if 0 < ends < now + ENDING:
        yield "certificate", f"the door's certificate ends on {_utc(ends)}: renew it, and apply"
    with suppress(*_UNREADABLE):
        for path in filter(os.path.isdir, (str(root), "/var/lib/docker")):
            if free_bytes(path) < DISK_FULL:
                yield f"disk of {path}", f"less than 2 GiB are free at {path}"
        for mark in sorted(root.glob(f"*/{DAMAGED}"))[:20]:
            weights = f"weights in {mark.parent.name}"
            yield weights, f"{weights} were found damaged on {_utc(mark.lstat().st_mtime)}"
        down = read_json_below(root, "state/last-down.json", 1 << 16)
        yield "down", f"back since {_utc(down['back'])} after a hard end: {down['cause'][:200]}"


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


def look(root: Path, spark: str, ends: int) -> None:
    """Send what is due, once its try is in the record; a damaged record counts as none."""
    now, old = int(time.time()), Record()
    with suppress(*_UNREADABLE):
        entries = read_json_below(root, RECORD, 1 << 16).items()
        old = {cause: (str(sent), int(after)) for cause, (sent, after) in entries}
    wrong = dict(found(root, ends, now))
    record, cause = decide(old, wrong, now)
    # A file that is there can be written to on a full disk, too.
    if record != old or not (root / RECORD).exists():
        replace(root / RECORD, json.dumps(record), durable=True)
    if cause and send(f"{spark}: {wrong[cause]}. Next: sparkwright doctor --limit {spark}"):
        record[cause] = wrong[cause], now + HOUR
        replace(root / RECORD, json.dumps(record), durable=True)


def send(message: str) -> bool:
    """Send a message as one line, log the webhook's answer, and return whether it has arrived."""
    message, arrived = "".join(each if each.isprintable() else " " for each in message), False
    # They take 0.1 s to import, which a minute without a message does not need.
    from http.client import HTTPException
    from urllib import request as web

    opener = web.OpenerDirector()
    # None of them follows a redirect: a message is for the owner's own server.
    for handler in (web.ProxyHandler, web.UnknownHandler, web.HTTPHandler, web.HTTPSHandler):
        opener.add_handler(handler())
    try:
        address = Path(os.environ["CREDENTIALS_DIRECTORY"], "webhook").read_text("utf-8").strip()
        with opener.open(web.Request(*request(address, message)), timeout=PATIENCE) as answer:
            arrived, said = answer.status // 100 == 2, f"answered {answer.status}"
    except (OSError, HTTPException, ValueError) as error:
        # An error's own text may have the address.
        said = f"did not answer ({getattr(error, 'reason', type(error).__name__)})"
    log(f"the webhook {said}{'' if arrived else ': look at `notify`, and that server'}: {message}")
    return arrived


def command() -> None:
    """Look, or send a test: its exit status is 0 if that arrives."""
    root, spark, ends, task = words(__doc__, "ROOT", "SPARK", "ENDS", "TASK")
    if task == "test":
        sys.exit(not send(f"{spark}: a test. Nothing is wrong."))
    try:
        look(Path(root), spark, whole(ends))
    except (OSError, UnknownError) as error:
        sys.exit(f"nothing is sent: {error}")
