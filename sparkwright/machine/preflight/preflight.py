"""What keeps a Spark, or two together, from serving a model, found before anything is changed."""

import re
from collections.abc import Iterator, Sequence

from sparkwright.common.errors import Finding, error, warning
from sparkwright.common.hardware import GIB, HARDWARE, Hardware
from sparkwright.common.progress import duration_text
from sparkwright.machine.host.survey import Survey
from sparkwright.machine.preflight.requirements import Requirements
from sparkwright.machine.runtime.runtime import obstacle
from sparkwright.plan.causes.log_causes import phrases

# AEON-7/Qwen3.6-NVFP4-DFlash, README: its image is about 9 GB compressed and 22 GB unpacked.
UNPACKED = 22 / 9
# While Docker unpacks an image, both the compressed layers and their content are on the disk.
IMAGE_DISK_FACTOR = 1 + UNPACKED
# Bytes by which two Sparks of one kind may differ, by what their firmware keeps; those of 64 GB and
# 128 GB differ by far more. And seconds: the surveys are taken one after the other.
_UNLIKE_MEMORY, _UNLIKE_CLOCK = 2 * GIB, 10


def findings(
    survey: Survey,
    wanted: Requirements,
    now: float,
    workers: Sequence[Survey] = (),
    others: Sequence[tuple[Survey, Requirements]] = (),
) -> Iterator[Finding]:
    """Yield all findings about a Spark.

    Args:
        now: this machine's clock when the survey was taken.
        workers: the other Sparks, where this one is the head of a group.
        others: of each further replica, what the Spark has of it, and what that requires.
    """
    seats = [(survey, wanted), *others]
    yield from _hardware(survey, wanted)
    yield from _software(survey, wanted, now)
    yield from _kernel(survey, wanted)
    yield from _disk(seats, workers)
    for each, required in seats:
        for listener in each.listeners:
            if not listener.ours:
                yield error(
                    f"port {listener.port} is taken by {listener.command} (pid {listener.pid})",
                    "Stop it, or give the replica another `port:` in the inventory",
                )
        yield from required.doubts


def _hardware(survey: Survey, wanted: Requirements) -> Iterator[Finding]:
    hardware, own = wanted.hardware, hardware_of(survey)
    remedy = f"No hardware class matches it; the classes are {', '.join(HARDWARE)}"
    if own:
        remedy = f"Set `hardware: {own.name}` for it in the inventory, and choose a recipe for "
        remedy += own.name
    if hardware.arch and survey.arch != hardware.arch:
        yield error(f"the processor is {survey.arch}, {hardware.name} is {hardware.arch}", remedy)
    if survey.gpu is None or survey.driver is None:
        said, known = survey.gpu_said, obstacle(survey.gpu_said)
        why = f" ({said}). {known.cause}" if known else f": {said}" if said else ""
        update = f"{hardware.update}, and reboot"
        yield error(f"nvidia-smi shows no GPU{why}", known.remedy if known else update)
        return
    memory = _memory(survey, hardware)
    if not survey.gpu.startswith(hardware.gpu):
        yield error(f"the GPU is {survey.gpu}, expected {hardware.gpu}", remedy)
    elif memory < hardware.memory_gib:
        of_gpu = "" if hardware.unified else " of the GPU's own"
        yield error(
            f"{memory:.1f} GiB of memory{of_gpu}, {hardware.name} has at least "
            f"{hardware.memory_gib} GiB",
            remedy,
        )
    if _major(survey.driver) < (least := wanted.settings.driver_minimum):
        yield error(
            f"NVIDIA driver {survey.driver}, at least {least} is needed",
            f"{hardware.update}, and reboot; driver and CUDA come as one set",
        )


def hardware_of(survey: Survey) -> Hardware | None:
    """Return the hardware class of a machine; None where it is of none."""
    for each in HARDWARE.values():
        is_kind = survey.arch == each.arch and (survey.gpu or "").startswith(each.gpu)
        if is_kind and _memory(survey, each) >= each.memory_gib:
            return each
    return None


def _memory(survey: Survey, hardware: Hardware) -> float:
    """GiB of the memory that the engine uses: the host's, or the GPU's own."""
    return (survey.memory if hardware.unified else survey.gpu_memory or 0) / GIB


def _software(survey: Survey, wanted: Requirements, now: float) -> Iterator[Finding]:
    if survey.os != "ubuntu 24.04":
        yield warning(
            f"the system is {survey.os_name}",
            "Recipes and their figures come from Ubuntu 24.04 (DGX OS 7)",
        )
    if survey.docker is None:
        yield error(
            "no Docker daemon answers",
            "Start it (`sudo systemctl enable --now docker`) or reinstall its package",
        )
    elif _major(survey.docker) < (least := wanted.settings.docker_minimum):
        update = wanted.hardware.update
        yield error(f"Docker {survey.docker}, at least {least} is needed", update)
    # A unit that failed may have recovered between the two questions.
    if survey.systemd == "degraded" and survey.failed_units:
        yield warning(
            f"failed units: {', '.join(survey.failed_units)}",
            "Look with `systemctl status UNIT`; clear with `sudo systemctl reset-failed`",
        )
    elif survey.systemd not in ("running", "starting", "degraded"):
        yield error(
            f"systemd is {survey.systemd}", "The engine is a systemd unit: boot the Spark normally"
        )
    skew = survey.clock - now
    direction = "ahead of" if skew > 0 else "behind"
    if abs(skew) > wanted.settings.clock_tolerance:
        yield error(
            f"the clock is {duration_text(abs(skew))} {direction} this machine's",
            "Set the wrong one right (`sudo timedatectl set-ntp true`): TLS needs it",
        )


def _kernel(survey: Survey, wanted: Requirements) -> Iterator[Finding]:
    kernel = survey.kernel
    if not wanted.hardware.unified:
        return
    if kernel.handover:
        harm = ": NCCL cannot register its memory for RDMA"
        kept = f"kernel {kernel.release} keeps {kernel.handover / GIB:.1f} GiB for kexec handover"
        found = kept + (harm if wanted.group else ", which no engine gets")
        yield Finding(wanted.group, found, phrases()["handover"])
    if kernel.pools:
        yield warning(
            f"driver {survey.driver} keeps memory that was freed: an engine may find too little "
            "when it starts again",
            phrases()["pools"],
        )


def _disk(
    seats: Sequence[tuple[Survey, Requirements]], workers: Sequence[Survey]
) -> Iterator[Finding]:
    needs: dict[str, tuple[int, int]] = {}
    for survey, wanted in seats:
        weights = max(0, wanted.weights - survey.weights)
        image = 0 if survey.image else int(wanted.image * IMAGE_DISK_FACTOR) + wanted.build
        # While an image moves from one Spark to the other, its unpacked archive is on both, and
        # once more on Docker's disk: Docker saves and loads by way of a folder there.
        moves = wanted.group and not all(each.image for each in workers or (survey,))
        export = int(wanted.image * UNPACKED) if moves else 0
        for device, free, need in (
            (survey.root_device, survey.root_free, weights + export),
            (survey.docker_device, survey.docker_free, image + export),
        ):
            needs[device] = (free, needs.get(device, (0, 0))[1] + need)
    spare = seats[0][1].settings.disk_headroom_gib
    for device, (free, need) in needs.items():
        if need and free < need + spare * GIB:
            yield error(
                f"{free / GIB:.1f} GiB free on {device}, expected {need / GIB:.1f} for weights and "
                f"image and {spare:.1f} to spare",
                phrases()["space"],
            )


def differences(name_a: str, a: Survey, name_b: str, b: Survey) -> Iterator[Finding]:
    """Yield the differences that matter.

    What one Spark lacks is no difference: the findings of that Spark name it.
    """
    docker, others = (each.docker or "" for each in (a, b))
    rows = (
        ("NVIDIA driver", a.driver or "", b.driver or "", True),
        ("Docker", docker, others, _numbers(docker)[:1] != _numbers(others)[:1]),
        ("kernel", a.kernel.release, b.kernel.release, False),
    )
    for what, one, other, is_error in rows:
        if one and other and one != other:
            older = name_a if _numbers(one) < _numbers(other) else name_b
            remedy = f"Update DGX OS on {older} (DGX Dashboard, Update) and reboot it"
            if what == "kernel" and (a.kernel.handover or b.kernel.handover):
                # An update would bring the kernel that keeps memory to both.
                remedy = "Boot one kernel on both that keeps no memory for kexec handover"
            yield Finding(is_error, f"{what} {one} on {name_a}, {other} on {name_b}", remedy)
    if abs(a.memory - b.memory) > _UNLIKE_MEMORY:
        yield error(
            f"{a.memory / GIB:.1f} GiB of memory on {name_a}, {b.memory / GIB:.1f} GiB on {name_b}",
            "Half of the model must fit on each: put two Sparks of one size into the replica",
        )
    if abs(a.clock - b.clock) > _UNLIKE_CLOCK:
        ahead, behind = (name_a, name_b) if a.clock > b.clock else (name_b, name_a)
        yield warning(
            f"the clock of {ahead} is {abs(a.clock - b.clock)} s ahead of that of {behind}",
            "Correct the wrong clock (`sudo timedatectl set-ntp true`), so that their logs can "
            "be compared",
        )
    if a.docker_driver and b.docker_driver and a.docker_driver != b.docker_driver:
        # Docker's two stores give one image two ids: the copy would not be recognized.
        yield error(
            f"Docker stores images by {a.docker_driver} on {name_a}, "
            f"by {b.docker_driver} on {name_b}",
            "Give both the same `storage-driver` and `features` in /etc/docker/daemon.json: "
            '`"features": {"containerd-snapshotter": true}` gives overlayfs, the default of '
            "a new Docker 29. Images in the other store are then hidden, and downloaded again",
        )
    elif a.image and b.image and a.image != b.image:
        yield error(
            f"the engine's image is {a.image} on {name_a}, {b.image} on {name_b}",
            f"Remove the one on {name_b} and run again: `sudo docker image rm --force {b.image}`",
        )


def _major(version: str) -> int:
    number = re.match(r"[0-9]{1,9}(?![0-9])", version)
    return int(number[0]) if number else 0


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d{1,9}", version)]
