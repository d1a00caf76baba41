"""The differences between two Sparks that keep them from serving one model."""

import re
from collections.abc import Iterator

from sparkwright.common.errors import Finding, error, warning
from sparkwright.common.hardware import GIB
from sparkwright.machine.host.survey import Survey

# Two of one kind differ by what their firmware keeps; the 64 GB and 128 GB Sparks by far more.
MEMORY_TOLERANCE = 2 * GIB
# The surveys are taken one after the other, a few seconds apart.
CLOCK_TOLERANCE = 10


def differences(name_a: str, a: Survey, name_b: str, b: Survey) -> list[Finding]:
    """Return the differences that matter, errors first.

    What one Spark lacks is no difference: the findings of that Spark name it.
    """
    found = [*_versions(name_a, a, name_b, b), *_machines(name_a, a, name_b, b)]
    return sorted(found, key=lambda finding: not finding.error)


def _versions(name_a: str, a: Survey, name_b: str, b: Survey) -> Iterator[Finding]:
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


def _machines(name_a: str, a: Survey, name_b: str, b: Survey) -> Iterator[Finding]:
    if abs(a.memory - b.memory) > MEMORY_TOLERANCE:
        yield error(
            f"{a.memory / GIB:.1f} GiB of memory on {name_a}, {b.memory / GIB:.1f} GiB on {name_b}",
            "Half of the model must fit on each: put two Sparks of one size into the replica",
        )
    if abs(a.clock - b.clock) > CLOCK_TOLERANCE:
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


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]
