"""The group data of a site: its files group_data/GROUP.py, put together as pyinfra does."""

from __future__ import annotations

import ast
import runpy
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from sparkwright.common.errors import PlanError, problems_of, refuse
from sparkwright.common.local_file import content_of
from sparkwright.declared.fleet.fleet import Fleet
from sparkwright.declared.fleet.settings import Settings, read_settings, settings_of

FOLDER = "group_data"
GroupValues = Mapping[str, object]
# The values of each file of group_data, by the name of its group.
GroupData = Mapping[str, GroupValues]


def settings_of_site(fleet: Fleet, given: GroupValues | None = None) -> dict[str, Settings]:
    """Return the settings of each replica, by its name, of the site that is the current folder.

    Those that are `given`, such as those of the command line, override them.
    """
    data = checked_group_data()
    return {
        name: settings_of({**data_of_spark(fleet, replica.sparks[0], data), **(given or {})})
        for name, replica in fleet.replicas.items()
    }


def gateway_settings(fleet: Fleet) -> Settings:
    """Return the settings of the gateway's host."""
    return settings_of(data_of_spark(fleet, None, checked_group_data()))


def data_of_spark(fleet: Fleet, spark: str | None, data: GroupData) -> dict[str, object]:
    """Return the group data of a Spark, or of the gateway's host for None."""
    groups = groups_of(fleet, spark)
    return {name: value for group in groups for name, value in data.get(group, {}).items()}


def groups_of(fleet: Fleet, spark: str | None) -> Sequence[str]:
    """Return the groups of a Spark, or of the gateway's host for None; the later ones decide.

    pyinfra has a group of all hosts, which is named after the inventory's file.
    """
    own = fleet.source.stem if fleet.source.stem != "sparks" else "inventory"
    if spark is None:
        on_spark = ["sparks"] if fleet.gateway and fleet.gateway.spark else []
        return ["all", "gateway", *on_spark, own]
    local = [spark] if fleet.sparks[spark].local else []
    return ["all", "sparks", *fleet.replicas_of(spark), *local, own]


def checked_group_data() -> GroupData:
    """Return the group data of a site, whose settings are valid each by itself."""
    data = read_group_data(Path(FOLDER))
    refuse(setting_problems(data))
    return data


def setting_problems(data: GroupData) -> Iterator[str]:
    """Yield what is wrong with each setting by itself; names of pyinfra's own are none."""
    for group, values in sorted(data.items()):
        yield from problems_of(read_settings, own_settings(values), file_of(group))


def own_settings(values: GroupValues) -> dict[str, object]:
    """Return the values but those of pyinfra's own names."""
    return {name: value for name, value in values.items() if not is_of_pyinfra(name)}


def is_of_pyinfra(name: str) -> bool:
    """Tell whether a name is for pyinfra's SSH, or an argument of its operations."""
    return name.startswith(("ssh_", "_"))


def file_of(group: str) -> str:
    """Return the name of a group's file."""
    return str(Path(FOLDER, f"{group}.py"))


def read_group_data(*folders: Path) -> dict[str, dict[str, object]]:
    """Return the values of each file, by the name of its group."""
    found: dict[str, dict[str, object]] = {}
    for folder in folders:
        for path in sorted(folder.glob("*.py")):
            found.setdefault(path.stem, {}).update(read_file(path))
    return found


def read_file(path: Path) -> dict[str, object]:
    """Return the values of a file of group data: of all names but those that it imports."""
    try:
        tree = ast.parse(content_of(path).decode())
    except SyntaxError as error:
        raise PlanError(f"{path}:{error.lineno or 1}: found no Python ({error.msg})") from None
    except (OSError, ValueError) as error:
        raise PlanError(f"{path}: cannot be read ({error})") from None
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and node.value is None:
            name = ast.unparse(node.target)
            found = f"found `{ast.unparse(node)}`, which sets nothing"
            raise PlanError(f"{path}:{node.lineno}: {found}; expected {name} = VALUE")
    try:
        values = runpy.run_path(str(path))
    except (Exception, SystemExit) as error:
        frames = reversed(traceback.extract_tb(error.__traceback__))
        line = next((each.lineno for each in frames if each.filename == str(path)), 1)
        raise PlanError(f"{path}:{line}: found {type(error).__name__}: {error}") from None
    imported = {
        alias.asname or alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    return {
        name: value
        for name, value in values.items()
        if not (name.startswith("__") or name in imported)
    }
