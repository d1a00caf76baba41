"""The check of group data and `--data`, before any connection."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from sparkwright.common.errors import PlanError
from sparkwright.common.schema import nearest
from sparkwright.fleet.settings import Settings, read_settings, settings_of
from sparkwright.run.options import OPTIONS, slips

Host = tuple[str, dict[str, Any]]
# The content of each file of group_data, by its name.
Files = Mapping[str, Mapping[str, object]]


def check_data(groups: Mapping[str, list[Host]], file_group: str, *, removal: bool) -> None:
    """Refuse unknown settings, invalid values and contradictions.

    Such errors would otherwise go unnoticed, or end the run after it has connected.

    Args:
        groups: The groups for pyinfra.
        file_group: pyinfra's group of all its hosts.
        removal: The run is for deploys/remove.py.

    Raises:
        PlanError: All of them.
    """
    context = click.get_current_context(silent=True)
    if not context:
        return
    # Outside of pyinfra, this import would patch the standard library.
    from pyinfra_cli.inventory import _get_group_data
    from pyinfra_cli.util import parse_cli_arg

    pairs = [pair.partition("=") for pair in context.params.get("data") or ()]
    given = {name: parse_cli_arg(value) for name, _, value in pairs}
    files: dict[str, dict[str, object]] = {}
    for folder in ("group_data", *(context.params.get("group_data") or ())):
        for name, values in _get_group_data(folder).items():
            files.setdefault(name, {}).update(values)
    replicas = {str(data["replica"]) for _, data in groups.get("sparks", ()) if data.get("replica")}
    problems = [*_file_problems(files), *_option_problems(given, replicas, removal)]
    problems = problems or [*_contradictions(groups, file_group, files, given)]
    if problems:
        raise PlanError(*dict.fromkeys(problems))


def _ours(values: Mapping[str, object]) -> dict[str, object]:
    """Return all values but pyinfra's own."""
    return {name: value for name, value in values.items() if not name.startswith(("ssh_", "_"))}


def _file_problems(files: Files) -> Iterator[str]:
    for name, values in sorted(files.items()):
        try:
            read_settings(_ours(values), _file(name))
        except PlanError as error:
            yield from error.problems


def _file(group: str) -> str:
    return str(Path("group_data", f"{group}.py"))


def _option_problems(
    given: Mapping[str, object], replicas: Collection[str], removal: bool
) -> Iterator[str]:
    given = _ours(given)
    known = {*OPTIONS, *Settings.model_fields}
    for name in given:
        if name not in known:
            found = "found a name that nothing reads"
            yield f"--data {name}: {found}; {nearest(name, known)}"
    try:
        read_settings({key: given[key] for key in given if key in Settings.model_fields}, "--data")
    except PlanError as error:
        yield from error.problems
    options = {key: given[key] for key in given if key in OPTIONS}
    yield from slips(options, replicas, removal=removal)


def _contradictions(
    groups: Mapping[str, list[Host]],
    file_group: str,
    files: Files,
    given: Mapping[str, object],
) -> Iterator[str]:
    """Put the data of each host together as pyinfra does: a later group decides."""
    for host in dict.fromkeys(name for group in groups.values() for name, _ in group):
        own = [group for group, hosts in groups.items() if host in (name for name, _ in hosts)]
        layers = [
            *((_file(name), files.get(name, {})) for name in ("all", *own, file_group)),
            ("--data", given),
        ]
        values = {name: value for _, layer in layers for name, value in layer.items()}
        origins = {name: source for source, layer in layers for name in layer}
        try:
            settings_of(values, origins.__getitem__)
        except PlanError as error:
            yield from error.problems
