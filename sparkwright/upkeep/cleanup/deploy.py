"""The deploys that delete: what no rollback needs, or all of Sparkwright."""

import json
from collections.abc import Generator, Mapping
from typing import Any, ClassVar

from pyinfra import host
from pyinfra.api import StringCommand, deploy, operation

from sparkwright.common.command_line import next_line
from sparkwright.common.operations import failing, notice, spark_name
from sparkwright.common.part import Part
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.placed import removal_table
from sparkwright.machine.runtime.runtime import proxies
from sparkwright.plan.release.container import MEDIA_NETWORK
from sparkwright.plan.release.programs import program_command
from sparkwright.run.ending import conclude
from sparkwright.run.state import read_now
from sparkwright.run.target import target

_WITHDRAW = HOST_FILES / "network" / "fabric" / "withdraw.sh"


class Announced(Part):
    """The plan of a program of files/host/upkeep/cleanup for a Spark, in lines for people.

    Attributes:
        refusal: why it must not run now; "" where it may.
        result: what will be so.
    """

    part: ClassVar = "cleanup"
    # The sizes of all that is there are summed up.
    patience: ClassVar[float] = 600

    goes: list[str]
    stays: list[str]
    result: str
    refusal: str = ""


@operation()
def delete(program: str, given: Mapping[str, Any]) -> Generator[StringCommand]:
    """Show what goes and what stays, then have a module of files/host/upkeep/cleanup delete it."""
    found = read_now(host, Announced.ask(program=program, given=given))
    if found.refusal:
        yield failing(found.refusal)
        return
    for line in found.goes:
        notice(line)
    for line in found.stays:
        notice(line, "cyan")
    if found.goes:
        yield StringCommand(program_command(f"host.upkeep.cleanup.{program}", json.dumps(given)))
    else:
        host.noop("nothing to delete")
    conclude(spark_name(host), f": {found.result}")


@deploy("Clean")
def apply() -> None:
    """Keep what serves, what the inventory asks for, and `keep_releases` of those before."""
    own = target()
    served = [release for each in own.seats if (release := each.release)]
    wanted = {
        "root": own.root,
        "keep": own.settings.keep_releases,
        "releases": [each.id for each in served],
        "folders": [folder for each in served for folder in each.folders.values()],
        "images": [image for each in served for image in each.images],
    }
    delete(name="Releases, images and weights", program="clean", given=wanted)


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
        "more": next_line("remove", "--data weights=remove"),
    }
    table = removal_table(own.root) | values
    delete(name="All of Sparkwright", program="remove", given=table)
