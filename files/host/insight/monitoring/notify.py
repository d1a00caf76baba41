"""notify ROOT SPARK [REPLICA=SEAT=ENDS ...]: tells the owner's webhook what is wrong here.

ENDS is when the certificate of the replica's door ends. With the one word `test`, it sends a test.
"""

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from host.artifacts.weights.record import DAMAGED, read_json_below
from host.common.atomic import replace
from host.common.command_line import words
from host.common.log import log
from host.common.seat import SEATS
from host.insight.monitoring.notices import DAY, MOST, Notice, Said, decide, text
from host.state.engines import current, engines, failed_switch, owner, switches
from host.state.readers import UnknownError, free_bytes

# Bytes, as sparkwright/plan/causes/thresholds.py has them.
DISK_FULL = 2 * 1024**3
# Seconds before a certificate's end. A run renews the site's own 400 days before, and warns of
# others 30 days before, when Let's Encrypt renews: both are late by two weeks now.
ENDING = 14 * DAY
RECORD = "state/notify/notices.json"
_FAILURES = (OSError, ValueError, LookupError, TypeError, AttributeError, UnknownError)


def found(root: str, seats: Iterable[str], now: float) -> Iterator[Notice]:
    """Yield what there is to say of a Spark; what cannot be read is left out."""
    for replica, seat, ends in (each.split("=") for each in seats):
        place = f"{root}/{SEATS}/{seat}" if seat else root
        with suppress(*_FAILURES):
            at_work = any(map(owner(place), switches()))
            if engines().get(current(place) or "", {}).get("active") == "failed" and not at_work:
                yield Notice(f"engine of {replica}", f"the engine of {replica} has given up")
            if failed := failed_switch(place):
                what = f"the switch of {replica} to {failed['release']} was taken back"
                yield Notice(f"switch of {replica}", what, failed["at"])
        if 0 < float(ends) < now + ENDING:
            what = f"the certificate of {replica} ends in 14 days: renew it, and deploy"
            yield Notice(f"certificate of {replica}", what)
    with suppress(*_FAILURES):
        folders = filter(os.path.isdir, (root, "/var/lib/docker"))
        if full := [each for each in folders if free_bytes(each) < DISK_FULL]:
            yield Notice("disk", f"less than 2 GiB are free at {' and '.join(full)}")
        for path in sorted(Path(root).glob(f"*/{DAMAGED}")):
            what = f"weights in {path.parent.name} were damaged on the disk"
            yield Notice(f"weights in {path.parent.name}", what, path.lstat().st_mtime)
        down = read_json_below(root, "state/last-down.json", 1 << 16)
        what = f"back after an end without a shutdown ({down['cause'][:200]})"
        yield Notice("down", what, float(down["back"]))


def tell(root: Path, spark: str, seats: Iterable[str]) -> None:
    """Send what is due; a damaged record is none. What cannot be noted before is not sent."""
    now, old = time.time(), dict[str, Said]()
    with suppress(*_FAILURES):
        entries = read_json_below(root, RECORD, 1 << 16).items()
        old = {cause: Said(*map(float, said)) for cause, said in [*entries][: 2 * MOST]}
    record, due = decide(old, [*found(f"{root}", seats, now)], now)
    if record != old or not (root / RECORD).exists():
        replace(root / RECORD, json.dumps(record), durable=True)
    for each in due:
        arrived, answer = _send(root, spark, text(spark, each, record[each.cause].since))
        log(f"{each.cause}: {answer}")
        if arrived:
            record[each.cause] = record[each.cause]._replace(told=now, tries=-1)
            replace(root / RECORD, json.dumps(record), durable=True)


def _send(root: Path, spark: str, message: str) -> tuple[bool, str]:
    # It takes 0.1 s to import, which a minute without a notice does not need.
    from host.insight.monitoring.webhook import send

    return send(root, spark, message)


def command() -> None:
    """Tell what is due, or send a test."""
    root, spark, *seats = words(__doc__, "ROOT", "SPARK", rest="REPLICA=SEAT=ENDS")
    if seats == ["test"]:
        arrived, answer = _send(Path(root), spark, f"{spark}: a test. Nothing is wrong.")
        print(answer)
        sys.exit(not arrived)
    try:
        tell(Path(root), spark, seats)
    except OSError as error:
        sys.exit(f"{RECORD}: cannot be written ({error.strerror}): nothing is sent")
