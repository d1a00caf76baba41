"""The checks before any connection: of `--limit`, group data, `--data`, and the files of SSH.

paramiko and pyinfra say little of a key that they cannot read, and only after they have connected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from sparkwright.common.errors import PlanError, problems_of, refuse
from sparkwright.common.local_file import content_of
from sparkwright.common.schema import nearest, shown
from sparkwright.common.yaml import lines_of
from sparkwright.declared.fleet.fabric_plan import fabric_of
from sparkwright.declared.fleet.fleet import Fleet
from sparkwright.declared.fleet.group_data import (
    FOLDER,
    GroupData,
    file_of,
    groups_of,
    is_of_pyinfra,
    own_settings,
    read_group_data,
    setting_problems,
)
from sparkwright.declared.fleet.settings import Settings, read_settings, settings_of
from sparkwright.run.options import OPTIONS, slips

Host = tuple[str, dict[str, Any]]
Groups = Mapping[str, Sequence[Host]]
# No private key is larger.
_MOST_BYTES = 2**16


def check_line(
    fleet: Fleet, groups: Groups, parameters: Mapping[str, Any], *, gateway: bool, removal: bool
) -> None:
    """Check pyinfra's command line, and choose what it is about."""
    for option in ("no_wait", "serial"):
        if parameters.get(option):
            raise PlanError(
                f"found --{option.replace('_', '-')}; expected it left out: where a step fails on "
                "one Spark, no other may go on. --limit NAME takes one Spark or replica"
            )
    _check_data(fleet, parameters, gateway, removal)
    limit = parameters.get("limit") or ()
    chosen = selected(groups, limit, parameters.get("exclude") or ())
    choose_replicas(groups, limit)
    if parameters.get("operations") != ("debug-inventory",):
        check_logins(fleet.source, chosen, parameters.get("ssh_key"))


def selected(groups: Groups, limit: Sequence[str], exclude: Sequence[str]) -> list[Host]:
    """Return the hosts of a run, in the order of the first group, which has all of them.

    A pattern that matches nothing, which pyinfra would ignore, is refused.
    """
    known = {*groups, *(name for hosts in groups.values() for name, _ in hosts)}
    refuse(
        f"{option}: found {pattern or shown(pattern)}, which matches nothing; "
        f"{nearest(pattern, known)}"
        for option, patterns in (("--limit", limit), ("--exclude", exclude))
        for pattern in patterns
        if not _matched(pattern, groups)
    )
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


def _check_data(fleet: Fleet, parameters: Mapping[str, Any], gateway: bool, removal: bool) -> None:
    """Refuse what would otherwise go unnoticed, or end the run after it has connected."""
    # Outside of pyinfra, this import would patch the standard library.
    from pyinfra_cli.util import parse_cli_arg

    pairs = [pair.partition("=") for pair in parameters.get("data") or ()]
    given = {name: parse_cli_arg(value) for name, _, value in pairs}
    files = read_group_data(Path(FOLDER), *map(Path, parameters.get("group_data") or ()))
    unused = _unused(files, fleet, Path(parameters["inventory"]))
    refuse([*unused, *_file_problems(files), *_option_problems(given, fleet, removal)])
    refuse(contradictions(fleet, files, given, gateway=gateway))


def _unused(files: GroupData, fleet: Fleet, inventory: Path) -> Iterator[str]:
    """Yield the files that are for no group of this inventory, nor for a name of another one."""
    beside = [path for path in fleet.source.parent.glob("*") if path.suffix in (".yaml", ".py")]
    others = [path for path in (inventory, *beside) if path.is_file() and path != fleet.source]
    text = "\n".join(path.read_text("utf-8", "replace") for path in others)
    elsewhere = {*re.findall(r"[\w.-]+", text), *(path.stem for path in beside), "lab"}
    local = {name for name, spark in fleet.sparks.items() if spark.local}
    own = {"all", "gateway", "sparks", "inventory", *fleet.replicas, *fleet.whole, *local}
    for name in sorted({*files} - own - elsewhere):
        yield f"{file_of(name)}: found a file for no replica; {nearest(name, own)}"


def _file_problems(files: GroupData) -> Iterator[str]:
    known = _of_pyinfra()
    for name, values in sorted(files.items()):
        for wrong in (each for each in values if each.startswith("ssh_") and each not in known):
            what = f"found an unknown key; {nearest(wrong, (k for k in known if k[0] != '_'))}"
            yield f"{file_of(name)}: {wrong}: {what}"
    yield from setting_problems(files)


def _of_pyinfra() -> set[str]:
    """Return pyinfra's own names: those of its SSH, and of the arguments of each operation."""
    from pyinfra.api.arguments import all_global_arguments
    from pyinfra.connectors.ssh import connector_data_meta

    return {*connector_data_meta, *(name for name, _ in all_global_arguments())}


def _option_problems(given: Mapping[str, object], fleet: Fleet, removal: bool) -> Iterator[str]:
    known = {*OPTIONS, *Settings.model_fields}
    foreign = _of_pyinfra()
    given = {name: value for name, value in given.items() if name not in foreign}
    for name in given:
        if name not in known:
            names = foreign if is_of_pyinfra(name) else known
            yield f"--data {name}: found a name that nothing reads; {nearest(name, names)}"
    settings = {key: given[key] for key in given if key in Settings.model_fields}
    yield from problems_of(read_settings, settings, "--data")
    yield from slips(given, removal=removal)
    if given.get("fabric") == "verify" and not any(
        len(each.sparks) > 1 for each in fleet.replicas.values()
    ):
        found = f"--data fabric: found verify, and no pair in {fleet.source}"
        yield f"{found}; expected two Sparks that serve one replica together"


def _divided(fleet: Fleet, files: GroupData) -> Iterator[str]:
    """Yield the settings that two replicas of one Spark do not share: a Spark has one of each."""
    for spark in fleet.sparks:
        replicas = fleet.replicas_of(spark)
        own = {name: own_settings(files.get(name, {})) for name in replicas}
        for name in sorted({key for values in own.values() for key in values}):
            if len({repr(values.get(name)) for values in own.values()}) > 1:
                yield (
                    f"{file_of(next(each for each in own if name in own[each]))}: {name}: found it "
                    f"for one of the replicas {' and '.join(replicas)}, which share {spark}; "
                    f"expected the same value for both, as in {file_of('sparks')}"
                )


def contradictions(
    fleet: Fleet, files: GroupData, given: Mapping[str, object], *, gateway: bool = False
) -> Iterator[str]:
    """Yield what the settings of a host contradict, each with the file that decides."""
    yield from _divided(fleet, files)
    for spark in [None] if gateway else fleet.sparks:
        layers = [(file_of(name), files.get(name, {})) for name in groups_of(fleet, spark)]
        layers.append(("--data", given))
        values = {name: value for _, layer in layers for name, value in layer.items()}
        origins = {name: source for source, layer in layers for name in layer}
        wrong = problems_of(settings_of, values, origins.__getitem__)
        yield from wrong
        for name in fleet.replicas_of(spark or "") if not wrong else ():
            replica, whole = fleet.replicas[name], fleet.whole.get(name, ())
            if (group := replica.sparks)[0] == spark:
                found = [*problems_of(fabric_of, spark, group, settings_of(values), whole)]
                if replica.on_demand and values.get("hold_seconds") == 0:
                    why = f"no request waits for {name}, and so none starts it"
                    found.append(f"hold_seconds: found 0, with which {why}; expected 1 or more")
                yield from (f"{origins[each.partition(':')[0]]}: {each}" for each in found)


def check_logins(path: Path, hosts: Sequence[Host], key: str | None = None) -> None:
    """Check the files of hosts: their private keys, or the command line's own, and known_hosts."""
    problems = [f"--ssh-key: {found}"] if key and (found := key_problem(key)) else []
    for name, data in hosts:
        where = f"{path}: sparks.{data.get('spark') or name}"
        if not key and (own := data.get("ssh_key")) and (found := key_problem(own)):
            problems.append(f"{where}.ssh_key: {found}")
        if known := data.get("ssh_known_hosts_file"):
            folder = Path(known).expanduser().parent
            if not folder.is_dir():
                problems.append(
                    f"{where}.ssh_known_hosts_file: found no folder {folder}; expected one"
                )
    with lines_of(path):
        refuse(problems)


def key_problem(name: str) -> str:
    """Return what is wrong with the file of a private key; "" where it looks like one."""
    try:
        first = content_of(Path(name).expanduser(), _MOST_BYTES).lstrip().partition(b"\n")[0]
    except FileNotFoundError:
        return f"found no file {name}; expected a private key: ssh-keygen -t ed25519 makes one"
    except OSError as error:
        return f"found {name}, which cannot be read ({error.strerror}); expected a private key"
    if first.startswith((b"ssh-", b"ecdsa-", b"sk-")):
        private = name.removesuffix(".pub") if name.endswith(".pub") else "the file without .pub"
        return f"found {name}, a public key; expected the private one: {private}"
    if not (first.startswith(b"-----BEGIN ") and first.rstrip().endswith(b"PRIVATE KEY-----")):
        return f"found {name}, which is no key; expected a private key of OpenSSH"
    return ""
