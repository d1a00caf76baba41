"""Drift that no operation detects: what runs on a Spark, compared with what is declared."""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import ClassVar

from sparkwright.common.errors import Difference
from sparkwright.common.hardware import GIB
from sparkwright.common.part import Ask, Bounded, Part
from sparkwright.common.placed import PACKAGES
from sparkwright.insight.doctor.checkup import GpuReading, gpu_lost
from sparkwright.machine.host.survey import Kernel
from sparkwright.plan.release.command import container_arguments, environment
from sparkwright.plan.release.release import Release

# Bits of `clocks_event_reasons.active` (NVML, nvmlClocksEventReasons) that hold the clock below
# what load and power limit allow.
_HOLDS = {
    0x2: "a setting of its own (nvidia-smi --applications-clocks)",
    0x8: "hardware slowdown",
    0x20: "heat, by the driver",
    0x40: "heat, by the hardware",
    0x80: "the power supply (power brake)",
}
# Packages that must not be held back, lest a Spark differ from its twin or from DGX OS's updates,
# which come as one set: driver, kernel, containers; and those that our runs install.
_OURS = "|".join(map(re.escape, PACKAGES))
_PACKAGES = f"(lib)?nvidia-|cuda|linux-|docker|containerd|mlnx|doca|({_OURS})$"


class RunningContainer(Bounded):
    """The container of an engine: its image's id, the words after `vllm`, and NAME=VALUE each."""

    image: str
    arguments: tuple[str, ...]
    environment: tuple[str, ...]


class Running(Part):
    """The state of a Spark that no operation compares.

    Attributes:
        containers: by release.
        image: id of the declared release's image.
        held: packages that are held back, by marks that are not of runs.
        inside: output of nvidia-smi in the container of the current engine; "" where none runs.
    """

    part: ClassVar = "status.running"

    containers: dict[str, RunningContainer]
    image: str | None
    held: tuple[str, ...]
    kernel: Kernel
    gpu: GpuReading | None
    inside: str


def ask_running(place: str, release: Release | None) -> Ask[Running]:
    """Return the ask for what runs in a seat, by its folder and the release that it should have."""
    return Running.ask(root=place, images=list(release.images) if release else [])


def running_differences(running: Running, release: Release | None) -> Iterator[Difference]:
    """Yield the differences of a seat's engine from its declared release, if there is one."""
    # A state that the doctor knows, and that nobody would declare.
    if evidence := gpu_lost(running.inside):
        yield Difference("GPU in the engine's container", "there", evidence)
    if release is None or not (container := running.containers.get(release.id)):
        return
    name = f"container vllm-{release.id}"
    if running.image and container.image != running.image:
        yield Difference(f"{name}: image", running.image, container.image)
    wanted = container_arguments(release.recipe, release.ranks)
    if list(container.arguments) != wanted:
        # There is none if words are only missing.
        others = [word for word in container.arguments if word not in wanted]
        yield Difference(f"{name}: arguments", "its release's", " ".join(others) or "fewer")
    for key, value in environment(release.recipe, release.ranks.nodes).items():
        if f"{key}={value}" not in container.environment:
            yield Difference(f"{name}: {key}", "its release's value", "another")


def spark_differences(
    running: Running, releases: Collection[str], clock_limit: int | None
) -> Iterator[Difference]:
    """Yield the differences of the Spark itself, which is to run these releases, up to some MHz."""
    for other in sorted(running.containers.keys() - {*releases}):
        yield Difference("release that runs", " and ".join(sorted(releases)) or "none", other)
    held = (running.gpu and running.gpu.reasons) or 0
    for bit, reason in _HOLDS.items():
        if held & bit:
            yield Difference("GPU clock", "not held back", f"held back by {reason}")
    clock = running.gpu and running.gpu.clock
    if clock_limit and clock and clock > clock_limit:
        yield Difference("GPU clock", f"at most {clock_limit} MHz", f"{clock:.0f} MHz")
    for package in running.held:
        if re.match(_PACKAGES, package):
            yield Difference(f"package {package}", "updated with the system", "held back")
    if running.gpu and (evidence := running.gpu.held_back):
        yield Difference("GPU clock under load", "as high as the load asks", evidence)
    kernel = running.kernel
    if kernel.handover:
        yield Difference(
            f"kernel {kernel.release}, booted with `{kernel.command_line}`",
            "no memory kept for kexec handover (kho=off)",
            f"{kernel.handover / GIB:.1f} GiB kept",
        )
    if kernel.pools:
        yield Difference("NVIDIA driver", "EnableSystemMemoryPools 0", "pools that keep memory")


def as_json(
    found: Mapping[str, Sequence[Difference]], unread: Mapping[str, str], now: float
) -> str:
    """Return the result as JSON."""
    result = {
        "time": round(now),
        "sparks": sorted(found),
        "differences": [
            {"spark": spark, **difference._asdict()}
            for spark in sorted(found)
            for difference in found[spark]
        ],
        "not_read": [{"spark": spark, "reason": unread[spark]} for spark in sorted(unread)],
    }
    return json.dumps(result, indent=2, ensure_ascii=False)


def exit_status(found: Mapping[str, Sequence[Difference]], unread: Collection[str]) -> int:
    """Return 0 if all is as declared, 2 if something differs, 1 if a Spark could not be read.

    Unlike with `git diff --exit-code`, 1 means an error, as it is pyinfra's own.
    """
    if unread:
        return 1
    return 2 if any(found.values()) else 0
