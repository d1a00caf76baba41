"""The verbs that write files for a site, and change nothing on a Spark."""

from __future__ import annotations

import json
import re
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click

from sparkwright.cli.run import enter_site, site_fleet
from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import file_in, read_text, write_file
from sparkwright.common.paths import FILES, inventory_file
from sparkwright.common.render import render
from sparkwright.declared.fleet.fleet import Fleet
from sparkwright.declared.fleet.group_data import gateway_settings, settings_of_site
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.door.gateway.gateway import ALIASES, ModelAlias, client_url, served, upstreams
from sparkwright.door.key import METRICS
from sparkwright.door.keys import named_key
from sparkwright.insight.monitoring.targets import monitoring_files, targets
from sparkwright.plan.release.token import HTTP, HTTPS, NONE, Hub

_MOST_BYTES = 2**20
_Texts = tuple[str, ...]


def hub_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a command that asks a hub: the fields of a `Hub`."""
    token = click.option(
        "--hf-token",
        "setting",
        type=click.Choice([HTTPS, HTTP, NONE]),
        default=HTTPS,
        show_default=True,
        help="Which hub gets this machine's token, as in the group data.",
    )
    about = "The hub (default: $HF_ENDPOINT)."
    return click.option("--hf-endpoint", "endpoint", metavar="URL", help=about)(token(command))


@click.command()
@click.argument("recipes", nargs=-1, metavar="[RECIPE]...")
@click.option("--refresh", is_flag=True, help="Ask again, for these recipes or for all in use.")
@click.option(
    "--adopt",
    multiple=True,
    metavar="VERSION",
    help="Take this version of what the lock lacks, such as OWNER/NAME@COMMIT; repeatable.",
)
@click.option("--check", is_flag=True, help="Write nothing; exit status 1 on a change.")
@click.option(
    "--registry-mirror",
    "mirrors",
    multiple=True,
    metavar="REGISTRY=MIRROR",
    help="Look images up there, as registry_mirrors in the group data; repeatable.",
)
@hub_options
def lock(
    recipes: _Texts, refresh: bool, adopt: _Texts, check: bool, mirrors: _Texts, **hub: Any
) -> None:
    """Record, or look up again, what recipes stand for.

    The lock is beside the inventory: images, checkpoints and files, each by
    its digest or commit. `apply` records what it lacks as well.

    Example: sparkwright lock --refresh qwen3.6-35b-nvidia
    """
    from sparkwright.plan.release.ensure import update
    from sparkwright.plan.release.lock import lock_path

    if refresh and adopt:
        raise click.UsageError("found --refresh and --adopt; expected one of them")
    if recipes and not refresh:
        raise click.UsageError(f"found {recipes[0]}; expected --refresh before names of recipes")
    enter_site()
    inventory = inventory_file()
    changes = update(inventory, Hub(**hub), refresh, recipes, adopt, mirrors, check)
    click.echo("\n".join(changes) or f"{lock_path(inventory)}: nothing changed")
    sys.exit(1 if changes and check else 0)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, resolve_path=True))
@click.option(
    "--apt",
    multiple=True,
    metavar="LINE",
    help="A line of apt's sources.list for the Sparks' packages; repeatable (default: Ubuntu "
    "24.04's archive).",
)
@hub_options
def bundle(folder: Path, apt: _Texts, **hub: Any) -> None:
    """Fill a folder for a site without internet.

    It gets all that the replicas of the inventory need: weights, images,
    wheels, packages. Run it again to complete or update it.

    Example: sparkwright bundle /media/usb/bundle
    """
    from sparkwright.artifacts.bundle.command import fill

    enter_site()
    click.echo(fill(folder, inventory_file(), Hub(**hub), apt))


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("monitoring"),
    show_default=True,
    metavar="FOLDER",
    help="Where they go.",
)
def monitoring(out: Path) -> None:
    """Write the files of Prometheus and Grafana.

    prometheus.yml, alert rules, the API key that the doors ask for, and a
    dashboard.
    """
    from sparkwright.run.inventory.groups import load

    fleet = site_fleet()
    load(fleet.source)
    watched = targets(fleet, settings_of_site(fleet))
    keyed = any(door.keyed for door in watched)
    key = named_key(fleet, "prometheus", (METRICS,)) if keyed else None
    files = monitoring_files(watched, key)
    for name, (text, mode) in files.items():
        write_file(file_in(out, name), text, mode)
    click.echo(f"{out}: {', '.join(name for name in files if not name.startswith('.'))}")


@click.command()
@click.option(
    "--into",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Put its providers into this file, such as ~/.openclaw/openclaw.json; all else stays.",
)
def openclaw(into: Path | None) -> None:
    """Print OpenClaw's configuration.

    It is for the gateway, or else for the doors of the inventory.

    Example: sparkwright openclaw --into ~/.openclaw/openclaw.json
    """
    content = _configuration(site_fleet())
    click.echo(content if into is None else _put(into.expanduser(), content), nl=into is not None)


class _Server(NamedTuple):
    """The gateway or a door, as a provider of OpenClaw's, with its names that chat."""

    provider: str
    url: str
    keyed: bool
    names: list[ModelAlias]


def _servers(fleet: Fleet) -> list[_Server]:
    replicas = upstreams(fleet, {name: load_recipe(name) for name in fleet.recipes})
    if fleet.gateway:
        url = client_url(fleet, gateway_settings(fleet))
        found = [_Server("sparkwright", url, True, served(replicas))]
    else:
        asked = targets(fleet, settings_of_site(fleet))
        found = [
            _Server(
                "sparkwright" if len(asked) == 1 else f"sparkwright-{door.replica}",
                door.url,
                door.keyed,
                served([replica], by_gateway=False),
            )
            for door, replica in zip(asked, replicas, strict=True)
        ]
    return [
        server._replace(names=chatting)
        for server in found
        if (chatting := [name for name in server.names if name.answers == "chat"])
    ]


def _configuration(fleet: Fleet) -> str:
    """Return OpenClaw's configuration for the gateway or the doors of a fleet."""
    if not (servers := _servers(fleet)):
        raise PlanError(f"{fleet.source}: found no replica that chats; expected one for OpenClaw")
    # If two doors serve the same name, a preset asks the first of them.
    known = {name.name: (server, name) for server in reversed(servers) for name in server.names}
    presets = [(alias, *known[name]) for name, alias in ALIASES.items() if name in known]
    text = render(FILES / "openclaw" / "openclaw.json.j2", servers=servers, presets=presets)
    return json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n"


def _put(path: Path, ours: str) -> str:
    """Put our providers into OpenClaw's file, and return what was done."""
    previous = read_text(path, "OpenClaw's configuration", _MOST_BYTES)
    if previous is None:
        write_file(path, ours, 0o600)
        return f"{path}: made"
    try:
        own: dict[str, Any] = json.loads(previous)
        models = {"mode": "merge", **own.get("models", {})}
        others = models.get("providers", {}).items()
        kept = {name: each for name, each in others if not re.match(r"sparkwright(-|$)", name)}
        models["providers"] = kept | json.loads(ours)["models"]["providers"]
        merged = own | {"models": models}
    except (ValueError, AttributeError, TypeError, RecursionError):
        raise PlanError(
            f"{path}: found JSON5 with comments, or something else than mappings; expected JSON, "
            "as comments would be lost: take over by hand what this command prints without --into"
        ) from None
    backup, mode = path.with_name(f"{path.name}.before-sparkwright"), path.stat().st_mode
    if merged != own:
        write_file(backup, previous, stat.S_IMODE(mode))
        text = json.dumps(merged, indent=2, ensure_ascii=False) + "\n"
        write_file(path, text, stat.S_IMODE(mode))
    return f"{path}: has our providers, and all else as it was (before: {backup})"
