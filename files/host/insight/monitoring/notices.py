"""Notices of a Spark: which of them are due, and what each says. State decides, not events."""

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

# Seconds. What was away for less than AWAY is still the same.
AWAY, HOUR, DAY = 300.0, 3600.0, 86400.0
# Causes of a Spark: each of its two replicas has three, and each folder of weights one. Of tries,
# 1, 2, 4 … 60 minutes after another, 29 take a day.
MOST, TRIES = 32, 29


class Notice(NamedTuple):
    """What there is to say of a cause; `since` is 0 where nothing records when it began."""

    cause: str
    what: str
    since: float = 0.0


class Said(NamedTuple):
    """What was said of a cause, in seconds; tries in vain, or -1 once a message has arrived."""

    since: float
    seen: float = 0.0
    told: float = 0.0
    tried: float = 0.0
    tries: float = 0.0


def decide(
    record: Mapping[str, Said], found: Sequence[Notice], now: float
) -> tuple[dict[str, Said], list[Notice]]:
    """Return the notices to send, and the record in which each of them has been tried in vain.

    Of a cause, one message arrives in an hour: what comes back sooner is told then, if it is still
    so. What happened more than a day ago is no news.
    """
    # The clock may have gone back.
    old = {key: Said(each[0], *(min(now, at) for at in each[1:])) for key, each in record.items()}
    new = {cause: said for cause, said in old.items() if now - said.seen < HOUR}
    due = []
    for each in [each for each in found if not each.since or now - each.since < DAY][:MOST]:
        said = old.get(each.cause, Said(0))
        if each.since != said.since if each.since else now - said.seen >= AWAY:
            said = Said(each.since or now, told=said.told)
        said = said._replace(seen=now)
        wait = min(60 * 2 ** (said.tries - 1), HOUR) if 0 <= said.tries < TRIES else float("inf")
        if now >= max(said.tried + wait, said.told + HOUR):
            due.append(each)
            said = said._replace(tried=now, tries=said.tries + 1)
        new[each.cause] = said
    return new, due


def text(spark: str, notice: Notice, since: float) -> str:
    """Return the message of a notice: one line, without a word of an engine's log."""
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(max(0.0, min(since, 1 << 34))))
    line = f"{spark}: {notice.what}; since {when}. Next: sparkwright doctor --limit {spark}"
    return "".join(each if each.isprintable() else " " for each in line[:500])
