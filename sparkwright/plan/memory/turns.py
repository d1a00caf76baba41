"""Which engines may run together, where models take turns: what the loop on a Spark keeps to.

Sizes and what `fit` says are those of files/host/engine/turns, which gets them from a run.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import ceil

from sparkwright.common.errors import Finding, error
from sparkwright.common.hardware import GIB, Hardware
from sparkwright.plan.memory.beside import PROCESSES, engine_bytes
from sparkwright.plan.memory.plan import HOST, LEAST, Load, gib

# Bytes that an engine of the lab takes beside its KV cache: 3.0 GB were measured with a tiny model
# on vLLM's CPU build and 1 GiB of cache; and the bytes that must stay free on its shared machine.
_LAB_ENGINE, LAB_LEAST = 2 * GIB, GIB
# Sets that a plan lists: twelve models may make hundreds.
_MOST = 8


def lab_bytes(load: Load) -> int:
    """Return the bytes that an engine of the lab takes; vLLM's own default is 4 GiB of cache."""
    return _LAB_ENGINE + int(load.recipe.env.get("VLLM_CPU_KVCACHE_SPACE", 4)) * GIB


@dataclass(frozen=True)
class Tenant:
    """A replica of a Spark on which models take turns, as its loop has it.

    One that `stays` always runs, or is pinned: none that takes turns may need its place.
    """

    name: str
    stays: bool
    grouped: bool
    size: int
    spare: int


def tenant(name: str, load: Load, hardware: Hardware, *, stays: bool) -> Tenant:
    """Return a replica by what it loads."""
    size, spare = engine_bytes(load, hardware), 0
    if not hardware.total_gib:
        size, spare = lab_bytes(load), LAB_LEAST
    elif hardware.unified:
        # The first engine's processes are counted for the host.
        kind = min(load.sparks, 2)
        spare = HOST[kind] + LEAST[kind] * GIB - PROCESSES
    return Tenant(name, stays, load.sparks > 1, size, spare)


def room(hardware: Hardware, memory: int, kept: int) -> int:
    """Return the bytes that engines and host have, of so much memory less what the kernel keeps, in
    whole GiB: from run to run it is some pages more or less."""
    return memory - ceil(kept / GIB) * GIB if hardware.unified else int(hardware.total_gib * GIB)


def alone(tenants: Sequence[Tenant], total: int) -> list[Tenant]:
    """Return replicas of which each may run alone: whether it may is the memory plan's to say.

    What has no plan takes its share at the most, which may be more than the host leaves.
    """
    return [replace(each, size=min(each.size, total - each.spare)) for each in tenants]


def fit(tenants: Sequence[Tenant], total: int) -> bool:
    """Tell whether engines may run together in so many bytes."""
    taken = sum(each.size for each in tenants) + max((each.spare for each in tenants), default=0)
    return taken <= total and sum(each.grouped for each in tenants) <= 1


def unmet(tenants: Sequence[Tenant], total: int) -> Iterator[tuple[str, Finding]]:
    """Yield the replicas that fit beside what stays never, each with an error."""
    for each in tenants:
        others = [one for one in tenants if one.stays and one is not each]
        if not fit([each, *others], total):
            names = " and ".join(one.name for one in others)
            beside = gib(sum(one.size for one in others))
            spare = max(one.spare for one in (each, *others))
            host = f", and the host {gib(spare)}" if spare else ""
            taken = f"{gib(each.size)} of {gib(total)}, {names} {beside}{host}"
            remedy = (
                f"Lower gpu-memory-utilization in its recipe, or have {names} on demand, unpinned"
            )
            yield each.name, error(f"replicas.{each.name} never fits: it takes {taken}", remedy)


def together(tenants: Sequence[Tenant], total: int) -> str:
    """Return the largest sets that may run together, for people."""
    found = [*islice(_sets(tenants, total), _MOST + 1)]
    shown = [" + ".join(one.name for one in tenants if one in each) for each in found]
    return " | ".join([*shown[:_MOST], *(["…"] if shown[_MOST:] else [])])


def _sets(tenants: Sequence[Tenant], total: int) -> Iterator[list[Tenant]]:
    """Yield the sets to which none can be added; those that stay are in each."""

    def grown(taken: list[Tenant], out: list[Tenant], left: list[Tenant]) -> Iterator[list[Tenant]]:
        # One that was left out for nothing makes no set the largest.
        if any(fit([*taken, *left, each], total) for each in out):
            return
        if not left:
            yield taken
        elif fit([*taken, left[0]], total):
            yield from grown([*taken, left[0]], out, left[1:])
        if left:
            yield from grown(taken, [*out, left[0]], left[1:])

    rest = sorted((each for each in tenants if not each.stays), key=lambda each: -each.size)
    yield from grown([each for each in tenants if each.stays], [], rest)
