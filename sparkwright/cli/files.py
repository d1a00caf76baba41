"""The verbs that write files for a site, and change nothing on a Spark."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from sparkwright.cli.run import enter_site, site_fleet
from sparkwright.common.local_file import file_in, write_file
from sparkwright.common.paths import inventory_file
from sparkwright.plan.release.token import HTTP, HTTPS, NONE, Hub

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
    from sparkwright.declared.fleet.group_data import settings_of_site
    from sparkwright.door.key import METRICS
    from sparkwright.door.keys import named_key
    from sparkwright.insight.monitoring.targets import monitoring_files, targets
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
    from sparkwright.cli.openclaw import configuration, put

    content = configuration(site_fleet())
    click.echo(content if into is None else put(into.expanduser(), content), nl=into is not None)
