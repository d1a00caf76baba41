"""The deploys that delete: what no rollback needs, or all of Sparkwright."""

import json
from collections.abc import Generator, Mapping
from typing import Any, NamedTuple

from pyinfra import host
from pyinfra.api import StringCommand, deploy, operation

from sparkwright.common.command_line import next_line
from sparkwright.common.facts import HostFact
from sparkwright.common.host_output import HostAnswer
from sparkwright.common.operations import failing, notice, spark_name
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.placed import removal_table
from sparkwright.common.progress import size_text
from sparkwright.release.container import MEDIA_NETWORK
from sparkwright.release.programs import program_command
from sparkwright.run.report import conclude
from sparkwright.run.target import target
from sparkwright.runtime.daemon_json import proxies

_CLEAN, _REMOVE = "host.cleanup.clean", "host.cleanup.remove"
_WITHDRAW = HOST_FILES / "fabric" / "withdraw.sh"


class Thing(NamedTuple):
    """One thing that goes or stays, with its bytes where they are known."""

    name: str
    size: int | None

    def __str__(self) -> str:
        return self.name if self.size is None else f"{self.name} ({size_text(self.size)})"


class Superfluous(HostAnswer):
    """What a Spark may lose; the releases that stay for a rollback; why something else stays."""

    at_work: list[str]
    releases: list[Thing]
    images: list[Thing]
    weights: list[Thing]
    caches: list[Thing]
    back: list[str]
    left: list[str]

    def lines(self) -> list[str]:
        """Return a line for each thing that goes."""
        shared = " less what others share with it"
        return [
            *(f"removes release {each}" for each in self.releases),
            *(f"removes image {each}{shared}" for each in self.images),
            *(f"removes weights {each}" for each in self.weights),
            *(f"removes compiled code cache/{each}" for each in self.caches),
        ]

    @property
    def result(self) -> str:
        """The result of the removal, as a sentence."""
        things = (*self.releases, *self.images, *self.weights, *self.caches)
        size = size_text(sum(each.size or 0 for each in things))
        freed = f"freed {'up to ' if self.images else ''}{size}" if things else "nothing to free"
        verb = "stays" if len(self.back) == 1 else "stay"
        stays = f"; {' and '.join(self.back)} {verb} for a rollback" if self.back else ""
        return f"{freed}{stays}."


class Footprint(HostAnswer):
    """What of a Spark is ours.

    Attributes:
        goes: by its kind.
        stays: what is not ours, or used by others, and why.
        weights: checkpoints that stay.
        packages: those that runs have installed.
    """

    goes: dict[str, list[Thing]]
    stays: list[str]
    weights: list[Thing]
    packages: list[str]

    @property
    def left(self) -> list[str]:
        """The packages that stay, with the line that removes them, for the owner to paste."""
        command = f"sudo apt-get purge --auto-remove {' '.join(self.packages)}"
        return [f"packages that runs have installed: {command}"] if self.packages else []

    def lines(self) -> list[str]:
        """Return a line for each kind of what goes, and for each thing that stays."""
        more = next_line("remove", "--weights", "--data weights=remove")
        weights = f"weights: {', '.join(map(str, self.weights))}; {more} takes them as well"
        return [
            *(f"goes: {what}: {', '.join(map(str, each))}" for what, each in self.goes.items()),
            *(f"stays: {each}" for each in self.stays),
            *([f"stays: {weights}"] if self.weights else []),
            *(f"stays: {each}" for each in self.left),
        ]


class SuperfluousParts(HostFact[Superfluous]):
    """The releases, images and weights on a Spark that can go."""

    def command(self, wanted: str) -> str:
        return program_command(_CLEAN, "look", wanted)

    def parse(self, output: list[str]) -> Superfluous:
        return Superfluous.model_validate_json("\n".join(output))


class OurFootprint(HostFact[Footprint]):
    """All that we put on a Spark and that is still there."""

    def command(self, table: str) -> str:
        return program_command(_REMOVE, "look", table)

    def parse(self, output: list[str]) -> Footprint:
        return Footprint.model_validate_json("\n".join(output))


@operation()
def clean(wanted: str) -> Generator[StringCommand]:
    """Delete releases beyond those that are kept, then images and weights that only they named.

    Each is shown with its bytes before. What we have not brought stays.

    Args:
        wanted: JSON for files/host/cleanup/clean.py.
    """
    found = host.get_fact(SuperfluousParts, wanted=wanted)
    if found.at_work:
        yield failing(f"{' and '.join(found.at_work)} is running: wait until it ends, run again.")
        return
    for line in (*found.lines(), *found.left):
        notice(line)
    if found.lines():
        yield StringCommand(program_command(_CLEAN, "do", wanted))
    else:
        host.noop("nothing to delete")
    conclude(spark_name(host), f": {found.result}")


@operation()
def remove_all(table: str) -> Generator[StringCommand]:
    """Show what goes and what stays, then take away what goes.

    Args:
        table: JSON for files/host/cleanup/remove.py.
    """
    found = host.get_fact(OurFootprint, table=table)
    for line in found.lines():
        notice(line, "yellow" if line.startswith("goes") else "cyan")
    if not found.goes:
        host.noop("nothing of ours is left")
        conclude(spark_name(host), ": nothing of Sparkwright is left.")
        return
    yield StringCommand(program_command(_REMOVE, "do", table))
    stays = [f"{', '.join(each.name for each in found.weights)} stays"] if found.weights else []
    conclude(spark_name(host), f": {'; '.join(['Sparkwright is removed', *stays, *found.left])}")


@deploy("Clean")
def apply() -> None:
    """Keep what serves, what the inventory asks for, and `keep_releases` of those before."""
    own = target()
    served = [release for each in own.seats if (release := each.release)]
    wanted: Mapping[str, Any] = {
        "root": own.root,
        "keep": own.settings.keep_releases,
        "releases": [each.id for each in served],
        "folders": [folder for each in served for folder in each.folders.values()],
        "images": [image for each in served for image in each.images],
    }
    clean(name="Releases, images and weights", wanted=json.dumps(wanted))


@deploy("Remove")
def remove() -> None:
    """Show it, then take it away; checkpoints stay unless `--data weights=remove` is given."""
    own = target()
    values = {
        "docker": {
            "log-opts": own.settings.docker_log_options,
            "runtimes": {"nvidia": None},
            "proxies": proxies(own.settings.proxy_variables),
        },
        "network": MEDIA_NETWORK,
        "withdraw": _WITHDRAW.read_text("utf-8"),
        "weights": own.options.weights == "remove",
    }
    remove_all(name="All of Sparkwright", table=json.dumps(removal_table(own.root) | values))
