"""What `--data` may say to a deploy that only looks."""

from deploys.plan.errors import PlanError

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
