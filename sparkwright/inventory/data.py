"""The check of group data and `--data`, before any connection."""

from __future__ import annotations

import ast
import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import click

from sparkwright.common import yaml
from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import content_of
from sparkwright.common.schema import nearest
from sparkwright.fleet.file import load_fleet
from sparkwright.fleet.settings import Settings, read_settings, settings_of
from sparkwright.inventory.selection import Host
from sparkwright.recipe.loader import recipe_names
from sparkwright.run.options import OPTIONS, slips

# The content of each file of group_data, by its name.
Files = Mapping[str, Mapping[str, object]]


def check_data(
    groups: Mapping[str, list[Host]], file_group: str, fleet: Path, *, removal: bool
) -> None:
    """Refuse unknown settings, invalid values and contradictions.

    Such errors would otherwise go unnoticed, or end the run after it has connected.

    Raises:
        PlanError: All of them.
    """
    context = click.get_current_context(silent=True)
    if not context:
        return
    # Outside of pyinfra, this import would patch the standard library.
    from pyinfra_cli.util import parse_cli_arg

    pairs = [pair.partition("=") for pair in context.params.get("data") or ()]
    given = {name: parse_cli_arg(value) for name, _, value in pairs}
    files: dict[str, dict[str, object]] = {}
    for folder in ("group_data", *(context.params.get("group_data") or ())):
        for path in sorted(Path(folder).glob("*.py")):
            files.setdefault(path.stem, {}).update(read_file(path))
    declared = load_fleet(fleet, recipe_names()).replicas
    own = {*groups, *declared, file_group}
    problems = [
        *_unused(files, own, fleet, Path(context.params["inventory"])),
        *_file_problems(files),
        *_option_problems(given, removal, _deploys(context.params["operations"])),
    ]
    pair = any(len(each.sparks) > 1 for each in declared.values())
    if given.get("fabric") == "verify" and not pair:
        found = f"--data fabric: found verify, and no pair in {fleet}"
        problems.append(f"{found}; expected two Sparks that serve one replica together")
    problems = problems or [
        *_contradictions(groups, file_group, files, given),
        *_divided(groups.get("sparks", ()), files),
    ]
    if problems:
        raise PlanError(*dict.fromkeys(problems))


def read_file(path: Path) -> dict[str, object]:
    """Return the data of a file of `group_data`, as pyinfra reads it.

    Raises:
        PlanError: It is no Python, or ends in an error.
    """
    from pyinfra_cli.exceptions import UnexpectedExternalError
    from pyinfra_cli.inventory import _get_group_data

    try:
        for node in ast.parse(content_of(path).decode()).body:
            if isinstance(node, ast.AnnAssign) and node.value is None:
                name = ast.unparse(node.target)
                found = f"found `{ast.unparse(node)}`, which sets nothing"
                raise PlanError(f"{path}:{node.lineno}: {found}; expected {name} = VALUE")
        return dict(_get_group_data(str(path)).get(path.stem, {}))
    except SystemExit as ended:
        found = f"found an end of the program (sys.exit, {ended.code})"
        raise PlanError(f"{path}: {found}; expected names and values") from None
    except SyntaxError as error:
        raise PlanError(f"{path}:{error.lineno or 1}: found no Python ({error.msg})") from None
    except UnexpectedExternalError as raised:
        inner = raised.exception
        frames = traceback.extract_tb(inner.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(path)]
        line = lines[-1] if lines else 1
        raise PlanError(f"{path}:{line}: found {type(inner).__name__}: {inner}") from None
    except (OSError, ValueError) as error:
        raise PlanError(f"{path}: cannot be read ({error})") from None


def _deploys(operations: Collection[str]) -> list[str]:
    """Return the names of the deploys of a run; none where it runs anything else, too."""
    paths = [Path(operation) for operation in operations]
    ours = all(path.suffix == ".py" and path.parent.name == "deploys" for path in paths)
    return [path.stem for path in paths] if ours else []


def _names(inventory: Path) -> set[str]:
    """Return the names that an inventory of pyinfra's gives values: other groups of its owner."""
    try:
        tree = ast.parse(inventory.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return set()
    return {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def _unused(files: Files, own: Collection[str], fleet: Path, inventory: Path) -> Iterator[str]:
    """Yield the files that are for no group, of this inventory or of one beside it."""
    beside = {path.stem for path in fleet.parent.glob("*") if path.suffix in (".yaml", ".py")}
    known = {"all", "gateway", "sparks", *own}
    for name in sorted({*files} - known - beside - {"lab"} - _names(inventory)):
        if not any(name in _replicas(path) for path in fleet.parent.glob("*.yaml")):
            yield f"{_file(name)}: found a file for no replica; {nearest(name, known)}"


def _replicas(path: Path) -> Collection[str]:
    """Return the replicas of another inventory, which may have errors of its own."""
    try:
        replicas = yaml.load(path).get("replicas")
    except PlanError:
        return ()
    return replicas if isinstance(replicas, dict) else ()


def _ours(values: Mapping[str, object]) -> dict[str, object]:
    """Return all values but pyinfra's own."""
    return {name: value for name, value in values.items() if not name.startswith(("ssh_", "_"))}


def _file_problems(files: Files) -> Iterator[str]:
    known = _of_pyinfra()
    for name, values in sorted(files.items()):
        for wrong in (each for each in values if each.startswith("ssh_") and each not in known):
            what = f"found an unknown key; {nearest(wrong, (k for k in known if k[0] != '_'))}"
            yield f"{_file(name)}: {wrong}: {what}"
        try:
            read_settings(_ours(values), _file(name))
        except PlanError as error:
            yield from error.problems


def _of_pyinfra() -> set[str]:
    """Return pyinfra's own names: those of its SSH, and of the arguments of each operation."""
    from pyinfra.api.arguments import all_global_arguments
    from pyinfra.connectors.ssh import connector_data_meta

    return {*connector_data_meta, *(name for name, _ in all_global_arguments())}


def _file(group: str) -> str:
    return str(Path("group_data", f"{group}.py"))


def _option_problems(
    given: Mapping[str, object],
    removal: bool,
    deploys: Collection[str],
) -> Iterator[str]:
    known = {*OPTIONS, *Settings.model_fields}
    foreign = _of_pyinfra()
    given = {name: value for name, value in given.items() if name not in foreign}
    for name in given:
        if name not in known:
            names = foreign if name.startswith(("ssh_", "_")) else known
            yield f"--data {name}: found a name that nothing reads; {nearest(name, names)}"
    try:
        read_settings({key: given[key] for key in given if key in Settings.model_fields}, "--data")
    except PlanError as error:
        yield from error.problems
    options = {key: given[key] for key in given if key in OPTIONS}
    yield from slips(options, removal=removal, deploys=deploys)


def _divided(hosts: Sequence[Host], files: Files) -> Iterator[str]:
    """Yield the settings that two replicas of one Spark do not share: a Spark has one of each."""
    for host, data in hosts:
        replicas = data.get("replicas", ())
        own = {name: _ours(files.get(name, {})) for name in replicas}
        for name in sorted({key for values in own.values() for key in values}):
            if len({repr(values.get(name)) for values in own.values()}) > 1:
                yield (
                    f"{_file(next(each for each in own if name in own[each]))}: {name}: found it "
                    f"for one of the replicas {' and '.join(replicas)}, which share {host}; "
                    f"expected the same value in {' and '.join(map(_file, replicas))}, or in "
                    f"{_file('sparks')}: what a Spark has, both of its replicas have"
                )


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
