"""The options that `--data` gives the deploys, beside the settings of group_data/all.py."""

from collections.abc import Callable, Collection, Iterator, Mapping

from deploys.plan.errors import PlanError
from deploys.plan.firewall import checked_mode
from deploys.plan.rollout_settings import settings
from deploys.plan.workloads import choose

# The one word that `--data NAME=WORD` takes. To deploys/remove.py, `weights` says REMOVE.
_WORDS = {"docker": "restart", "fabric": "verify", "weights": "verify"}
REMOVE = "remove"

# Seconds between two refreshes; an engine's counters move with each step, a table cannot be read
# faster.
_WATCH = range(1, 3601)


def watch_seconds(value: object) -> int | None:
    """Return the seconds between two refreshes, by `--data watch=…`; None for one look.

    Raises:
        PlanError: It is no such number.
    """
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value in _WATCH:
        return value
    raise PlanError(
        f"--data watch: found {value!r}; expected seconds from {_WATCH[0]} to {_WATCH[-1]}"
    )


def json_target(value: object) -> str | None:
    """Return where the JSON goes, by `--data json=…`: a path, or "-"; None for nowhere.

    Raises:
        PlanError: It is neither.
    """
    if value is None:
        return None
    if isinstance(value, str) and value and not value.endswith("/"):
        return value
    raise PlanError(
        f"--data json: found {value!r}; expected the path of a file, or - for standard output"
    )


_ROLLOUT = ("force", "minimum_speed", "soak")
_CHECKS: Mapping[str, Callable[[object], object]] = {
    "firewall": checked_mode,
    "json": json_target,
    "watch": watch_seconds,
    "workloads": choose,
}
OPTIONS = ("json", "watch", "workloads", *_ROLLOUT, *_WORDS)


def chosen(name: str, value: object, word: str = "") -> bool:
    """Return whether the command line says `--data NAME=WORD`; without the option it does not.

    Args:
        name: the option.
        value: what it says; None without it.
        word: the word that it takes; "" for its usual one.

    Raises:
        PlanError: it says something else.
    """
    word = word or _WORDS[name]
    if value not in (None, word):
        raise PlanError(f"--data {name}: found {value!r}; expected {word}, or no --data {name}")
    return value == word


def slips(
    given: Mapping[str, object], replicas: Collection[str], *, removal: bool
) -> Iterator[str]:
    """Say which values of the command line no deploy takes; before any connection.

    Args:
        given: what it says.
        replicas: the names that there are.
        removal: it is for deploys/remove.py.
    """
    for name, value in given.items():
        try:
            if name in _WORDS:
                chosen(name, value, REMOVE if removal and name == "weights" else "")
            elif name in _ROLLOUT:
                settings({name: value}, replicas)
            elif name in _CHECKS:
                _CHECKS[name](value)
        except PlanError as error:
            yield from error.problems
