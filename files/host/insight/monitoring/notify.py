"""notify ROOT SPARK [REPLICA=SEAT=ENDS ...]: tells the owner's webhook what is wrong here.

ENDS is when the certificate of the replica's door ends. With the one word `test`, it sends a test.
"""

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, build_opener, install_opener, urlopen

from host.artifacts.weights.checkpoint import DAMAGED
from host.artifacts.weights.record import read_json_below
from host.common.atomic import replace
from host.common.command_line import words
from host.common.log import log
from host.common.seat import SEATS
from host.insight.monitoring.notices import DAY, MOST, Notice, Said, decide, request, text
from host.state.checkup import failed_switch
from host.state.engines import current, engines, owner, switches
from host.state.readers import UnknownError, free_bytes

# Bytes, as sparkwright/plan/causes/thresholds.py has them.
DISK_FULL = 2 * 1024**3
# Seconds before a certificate's end. A run renews the site's own 400 days before, and warns of
# others 30 days before, when Let's Encrypt renews: both are late by two weeks now.
ENDING = 14 * DAY
# Seconds for each step of a connection; the unit bounds the whole.
PATIENCE = 10
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
        arrived, answer = send(root, spark, text(spark, each, record[each.cause].since))
        log(f"{each.cause}: {answer}")
        if arrived:
            record[each.cause] = record[each.cause]._replace(told=now, tries=-1)
            replace(root / RECORD, json.dumps(record), durable=True)


class _Stay(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """Follow none: a message is for the owner's own server."""


def send(root: Path, spark: str, message: str) -> tuple[bool, str]:
    """Send a message; tell whether it has arrived, and what was answered, without the address."""
    try:
        folder = os.environ.get("CREDENTIALS_DIRECTORY") or root / "secrets"
        asked = request(Path(folder, "webhook").read_text("ascii").strip(), spark, message)
        install_opener(build_opener(_Stay))
        with urlopen(asked, timeout=PATIENCE) as answer:
            return True, f"the webhook answered {answer.status}"
    except FileNotFoundError:
        line = 'notify = "https://ntfy.lan/sparks"'
        return False, f"no webhook is set here: add {line} to group_data/sparks.py, and apply"
    except HTTPError as error:
        remedies = {3: "it leads elsewhere: use that address", 4: "copy its address anew"}
        remedy = remedies.get(error.code // 100, "look at that server")
        return False, f"the webhook answered {error.code}: {remedy}"
    except (OSError, HTTPException, ValueError) as error:
        why = getattr(error, "reason", None) or getattr(error, "strerror", None)
        return False, f"no answer of the webhook ({str(why or 'no HTTP, or too late')[:200]})"


def command() -> None:
    """Tell what is due, or send a test."""
    root, spark, *seats = words(__doc__, "ROOT", "SPARK", rest="REPLICA=SEAT=ENDS")
    if seats == ["test"]:
        arrived, answer = send(Path(root), spark, f"{spark}: a test. Nothing is wrong.")
        print(answer)
        sys.exit(not arrived)
    try:
        tell(Path(root), spark, seats)
    except OSError as error:
        sys.exit(f"{RECORD}: cannot be written ({error.strerror}): nothing is sent")
