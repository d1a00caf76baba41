"""Drift that no operation detects: a script reads the state of a Spark, functions compare it."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sparkwright.common.difference import Difference
from sparkwright.common.hardware import GIB
from sparkwright.common.host_output import read_json, sections, sections_script
from sparkwright.common.placed import PACKAGES
from sparkwright.insight.doctor.gpu import GPU_COMMAND, GpuReading, gpu_lost, parse_gpu
from sparkwright.machine.host.containers import ENGINES
from sparkwright.machine.host.kernel import KERNEL_COMMAND, Kernel, parse_kernel
from sparkwright.plan.release.command import container_arguments, environment, image_id
from sparkwright.plan.release.release import Release, current_engine

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

_LABEL = "sparkwright.release"
_CONTAINER = (
    f'{{{{index .Config.Labels "{_LABEL}"}}}}\t{{{{.Image}}}}\t'
    "{{json .Config.Cmd}}\t{{json .Config.Env}}"
)


@dataclass(frozen=True)
class RunningContainer:
    """The running container of an engine.

    Attributes:
        arguments: the words after `vllm`.
        environment: `NAME=value` each, the image's own among them.
    """

    image: str
    arguments: Sequence[str]
    environment: Sequence[str]


@dataclass(frozen=True)
class Running:
    """The state of a Spark that no operation compares.

    Attributes:
        containers: by release.
        image: id of the declared release's image; None where Docker has none.
        holds: bits of nvidia-smi's reasons for a low GPU clock; None where it has none.
        held: packages that are held back.
        inside: output of nvidia-smi in the container of the current engine; "" where none runs.
    """

    containers: Mapping[str, RunningContainer]
    image: str | None
    holds: int | None
    held: tuple[str, ...]
    kernel: Kernel
    gpu: GpuReading | None
    inside: str


def running_script(root: str, images: Sequence[str]) -> str:
    """Return the POSIX shell script that reads `Running`; it exits 0.

    Args:
        images: the names of the image of the declared release; none on an idle Spark.
    """
    parts = {
        "containers": f"{ENGINES} | xargs --no-run-if-empty docker inspect --format '{_CONTAINER}'",
        "image": image_id(images) if images else "true",
        "holds": "nvidia-smi --query-gpu=clocks_event_reasons.active,memory.total "
        "--format=csv,noheader,nounits",
        "held": "apt-mark showhold",
        "kernel": KERNEL_COMMAND,
        "gpu": GPU_COMMAND,
        "inside": "systemctl is-active --quiet $unit && "
        'docker exec "vllm-$release" nvidia-smi --list-gpus 2>&1',
    }
    return f"{current_engine(root)}\n{sections_script(parts)}"


def parse_running(output: Iterable[str]) -> Running:
    """Return what the script's output lines describe.

    Raises:
        ValueError: a section is missing or malformed.
    """
    parts = sections(output)
    try:
        bits = _of_largest(parts["holds"])
        return Running(
            containers=dict(map(_container, filter(None, parts["containers"]))),
            image=next(iter(parts["image"]), None),
            holds=int(bits, 16) if re.fullmatch(r"0x[0-9a-fA-F]+", bits) else None,
            held=tuple(line.strip() for line in parts["held"] if line.strip()),
            kernel=parse_kernel(parts["kernel"]),
            gpu=parse_gpu(parts["gpu"]),
            inside=" ".join(parts["inside"]),
        )
    except (KeyError, ValueError) as error:
        raise ValueError(f"what runs is unreadable: {error!r} in {parts}") from error


def _of_largest(lines: Iterable[str]) -> str:
    """Return the reading of the GPU with the most memory, as `parse_gpu` does."""
    gpus = [line.split(", ") for line in lines if line.count(", ") == 1]
    largest = max(gpus, key=lambda gpu: int(gpu[1]) if gpu[1].isdecimal() else 0, default=[""])
    return largest[0].strip()


def _container(line: str) -> tuple[str, RunningContainer]:
    release, image, arguments, variables = line.split("\t")
    return release, RunningContainer(image, read_json(arguments) or (), read_json(variables) or ())


def running_differences(
    running: Running,
    release: Release | None,
    clock_limit: int | None = None,
    known: Collection[str] = (),
    first: bool = True,
) -> Iterator[Difference]:
    """Yield the differences between what runs and what is declared.

    Args:
        release: the one that is declared; None on an idle Spark.
        clock_limit: of the GPU, in MHz.
        known: the releases of both replicas, where the Spark serves two.
        first: compare what is the Spark's own, too.
    """
    if first:
        wanted = {*known, *([release.id] if release else ())}
        for other in sorted(running.containers.keys() - wanted):
            yield Difference("release that runs", " and ".join(sorted(wanted)) or "none", other)
    if release and release.id in running.containers:
        yield from _container_differences(running, release)
    if first:
        yield from _of_spark(running, clock_limit)
    # A state that the doctor knows, and that nobody would declare.
    if evidence := gpu_lost(running.inside):
        yield Difference("GPU in the engine's container", "there", evidence)


def _of_spark(running: Running, clock_limit: int | None) -> Iterator[Difference]:
    """Yield the differences of the Spark itself, whatever it serves."""
    for bit, reason in _HOLDS.items():
        if (running.holds or 0) & bit:
            yield Difference("GPU clock", "not held back", f"held back by {reason}")
    clock = running.gpu and running.gpu.clock
    if clock_limit and clock and clock > clock_limit:
        yield Difference("GPU clock", f"at most {clock_limit} MHz", f"{clock:.0f} MHz")
    for package in running.held:
        if re.match(_PACKAGES, package):
            yield Difference(f"package {package}", "updated with the system", "held back")
    yield from _kernel_differences(running.kernel)
    if running.gpu and (evidence := running.gpu.held_back):
        yield Difference("GPU clock under load", "as high as the load asks", evidence)


def _kernel_differences(kernel: Kernel) -> Iterator[Difference]:
    if kernel.handover:
        yield Difference(
            f"kernel {kernel.release}, booted with `{kernel.command_line}`",
            "no memory kept for kexec handover (kho=off)",
            f"{kernel.handover / GIB:.1f} GiB kept",
        )
    if kernel.pools:
        yield Difference("NVIDIA driver", "EnableSystemMemoryPools 0", "pools that keep memory")


def _container_differences(running: Running, release: Release) -> Iterator[Difference]:
    container, name = running.containers[release.id], f"container vllm-{release.id}"
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
