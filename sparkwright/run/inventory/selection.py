"""Which hosts `--limit` and `--exclude` leave in a run, and which replicas of them it is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from typing import Any

from sparkwright.common.errors import PlanError
from sparkwright.common.schema import nearest, shown

Host = tuple[str, dict[str, Any]]
Groups = Mapping[str, Sequence[Host]]


def selected(groups: Groups, limit: Sequence[str], exclude: Sequence[str]) -> list[Host]:
    """Return the hosts of a run, in the order of the first group, which has all of them.

    Raises:
        PlanError: A pattern matches nothing, which pyinfra would ignore, or no host is left.
    """
    known = {*groups, *(name for hosts in groups.values() for name, _ in hosts)}
    if problems := [
        f"{option}: found {pattern or shown(pattern)}, which matches nothing; "
        f"{nearest(pattern, known)}"
        for option, patterns in (("--limit", limit), ("--exclude", exclude))
        for pattern in patterns
        if not _matched(pattern, groups)
    ]:
        raise PlanError(*problems)
    within = {name for each in limit for name in _matched(each, groups)}
    out = {name for each in exclude for name in _matched(each, groups)}
    hosts = next(iter(groups.values()))
    left = [host for host in hosts if (host[0] in within or not limit) and host[0] not in out]
    if not left:
        raise PlanError(f"--exclude: found {', '.join(exclude)}; expected a host to be left")
    return left


def choose_replicas(groups: Groups, limit: Sequence[str]) -> None:
    """Give each host of a run that is in two replicas the one that is meant, as ``chosen``.

    pyinfra's ``--limit`` chooses hosts: ``--limit REPLICA`` takes the Spark, on which the run then
    leaves the other replica as it is. A Spark that is named itself, too, is meant as a whole.
    """
    for name, data in next(iter(groups.values())):
        replicas = data.get("replicas", ())
        matching = [each for each in limit if name in _matched(each, groups)]
        if matching and {*matching} <= {*replicas}:
            data["chosen"] = [each for each in replicas if each in matching]


def _matched(pattern: str, groups: Groups) -> set[str]:
    if pattern in groups:
        return {name for name, _ in groups[pattern]}
    return {name for hosts in groups.values() for name, _ in hosts if fnmatch(name, pattern)}
