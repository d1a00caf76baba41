"""The verbs that write files for a site, and change nothing on a Spark."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from sparkwright.cli.site import enter_site
from sparkwright.common.paths import inventory_file
from sparkwright.plan.release.token import HTTP, HTTPS, NONE, Hub


def hub_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a command that asks a hub."""
    token = click.option(
        "--hf-token",
        type=click.Choice([HTTPS, HTTP, NONE]),
        default=HTTPS,
        show_default=True,
        help="Which hub gets this machine's token, as in the group data.",
    )
    endpoint = click.option("--hf-endpoint", metavar="URL", help="The hub (default: $HF_ENDPOINT).")
    return endpoint(token(command))


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
    recipes: tuple[str, ...],
    refresh: bool,
    adopt: tuple[str, ...],
    check: bool,
    mirrors: tuple[str, ...],
    hf_endpoint: str | None,
    hf_token: str,
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
    inventory, hub = inventory_file(), Hub(hf_endpoint, hf_token)
    changes = update(inventory, hub, refresh, recipes, adopt, mirrors, check)
    click.echo("\n".join(changes) or f"{lock_path(inventory)}: nothing changed")
    sys.exit(1 if changes and check else 0)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--apt",
    multiple=True,
    metavar="LINE",
    help="A line of apt's sources.list for the Sparks' packages; repeatable (default: Ubuntu "
    "24.04's archive).",
)
@hub_options
def bundle(folder: Path, apt: tuple[str, ...], hf_endpoint: str | None, hf_token: str) -> None:
    """Fill a folder for a site without internet.

    It gets all that the replicas of the inventory need: weights, images,
    wheels, packages. Run it again to complete or update it.

    Example: sparkwright bundle /media/usb/bundle
    """
    from sparkwright.artifacts.bundle.command import fill

    folder = folder.absolute()
    enter_site()
    click.echo(fill(folder, inventory_file(), Hub(hf_endpoint, hf_token), apt))


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
    enter_site()
    from sparkwright.cli.monitoring import write

    click.echo(write(inventory_file(), out))


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
    enter_site()
    from sparkwright.cli.openclaw import configuration, put

    content = configuration(inventory_file())
    click.echo(content if into is None else put(into.expanduser(), content), nl=into is not None)
