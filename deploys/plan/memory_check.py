"""What cannot fit into a Spark's memory, or hardly, and which option to change to what."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, floor

from deploys.plan.hardware import Hardware
from deploys.plan.memory import MIB, Load, MemoryPlan, plan_memory
from deploys.plan.memory_flags import GIB
from deploys.plan.preflight import Finding, error, warning
from deploys.plan.survey import Survey

# GiB that must stay free where the memory is the host's, and that should, by number of Sparks.
# One: the 0.90 of seed 004, which leaves 5 by this plan, served for 90 minutes; sparkrun's earlyoom
# ends the engine at 2 %. With 0.85, which leaves 9, seed 001 served for hours.
# Two: with 6 idle a soak took both down; 10 to 12 is the rule of those who measured it
# (gorlak/sparky-cluster, docs/adr/0028).
LEAST = {1: 4, 2: 8}
WANTED = {1: 9, 2: 10}

# CUDA graphs of whole steps take a block for each request; vLLM refuses to start without
# (config/compilation.py, in 0.20.2 and later).
_BLOCK_A_REQUEST = (0, 20, 0)


def memory_findings(load: Load, hardware: Hardware, survey: Survey) -> list[Finding]:
    """Judge whether what is to be served fits into the memory of a Spark.

    Args:
        load: What is served.
        hardware: The class of the Spark. One without a nominal memory is not judged: the lab's
            engine runs on the CPU, in the memory of a machine that it shares.
        survey: The Spark as found.
    """
    if not hardware.total_gib:
        return []
    if load.shapeless:
        return [_unknown(load)]
    # A card's nominal memory is less than nvidia-smi shows, as CUDA counts it.
    total = survey.memory if hardware.unified else int(hardware.total_gib * GIB)
    try:
        return list(judge(plan_memory(load, total, hardware.unified)))
    except ValueError as problem:
        return [error(f"an option of recipe {load.recipe.name} is wrong: {problem}", "Correct it")]


def judge(plan: MemoryPlan) -> Iterator[Finding]:
    """Say what of a plan cannot be, and what should not."""
    if plan.kv_bytes < plan.cache.size(1):
        yield _weights(plan)
        return
    if plan.kv_bytes < plan.cache.size(plan.context):
        yield _context(plan)
    if _too_many(plan):
        yield warning(
            f"max-num-seqs {plan.flags.sequences} is more than the {plan.blocks} blocks of the KV "
            "cache, of which CUDA graphs take one a request",
            f"Set max-num-seqs to at most {plan.blocks}",
        )
    yield from _head_room(plan)


def _unknown(load: Load) -> Finding:
    names = ", ".join(weights.repo for weights in load.shapeless)
    return warning(
        f"whether it fits into memory is not known: the lock has no shape of {names}",
        "Refresh it: `python -m deploys.lock --refresh`. If that brings none, the architecture is "
        "one that the plan cannot count",
    )


def _weights(plan: MemoryPlan) -> Finding:
    """The finding that nothing is left for a KV cache of one token."""
    parts = f"weights of {_gib(plan.weights + plan.drafter)} and what they run with"
    need = plan.beside + plan.cache.size(min(plan.context or plan.limit, plan.limit))
    if plan.flags.kv_bytes is not None:
        found = f"kv-cache-memory-bytes of {_gib(plan.kv_bytes)} holds no request"
        return error(found, f"Set it to at least {_mib(plan.cache.size(plan.limit))}")
    found = f"{parts} leave nothing of {_share(plan)} for the KV cache"
    return error(found, _raise_share(plan, need) or _too_small(plan))


def _context(plan: MemoryPlan) -> Finding:
    need, longest = plan.cache.size(plan.context), plan.cache.longest(plan.kv_bytes, plan.context)
    # A round figure reads better, where there is one.
    shorter = longest // 1024 * 1024 or longest
    remedies = [f"Set max-model-len to at most {shorter}"]
    if plan.flags.kv_bytes is not None:
        remedies.append(f"kv-cache-memory-bytes to at least {_mib(need)}")
    elif larger := _raise_share(plan, plan.beside + need):
        remedies.append(larger.removeprefix("Set "))
    asked = f"max-model-len {plan.context} needs {_gib(need)} of KV cache"
    return error(f"{asked}, {_gib(plan.kv_bytes)} remain", ", or ".join(remedies))


def _too_many(plan: MemoryPlan) -> bool:
    graphs = plan.flags.captured and plan.flags.release >= _BLOCK_A_REQUEST
    return bool(graphs and plan.cache.state and plan.flags.sequences > plan.blocks)


def _head_room(plan: MemoryPlan) -> Iterator[Finding]:
    if not plan.unified:
        if plan.head_room < 0:
            yield error(
                f"{_set(plan)} takes {_gib(plan.engine)} of {_gib(plan.total)}", _lower(plan, 0)
            )
        return
    least, wanted = LEAST[plan.sparks] * GIB, WANTED[plan.sparks] * GIB
    if plan.head_room >= wanted:
        return
    left = plan.total - plan.engine
    free = max(0, plan.head_room)
    found = (
        f"{_set(plan)} leaves {_gib(left)} to the host, {_gib(free)} of them free when it serves; "
        f"expected {_gib(wanted)}"
    )
    finding = error if plan.head_room < least else warning
    yield finding(found, _lower(plan, wanted))


def _lower(plan: MemoryPlan, free: int) -> str:
    """Name the value of the option that sizes the engine with which so much stays free."""
    over = free - plan.head_room
    if plan.flags.kv_bytes is not None:
        size = plan.kv_bytes - over
        return (
            f"Set kv-cache-memory-bytes to at most {_mib(size)}" if size > 0 else _too_small(plan)
        )
    share = _floor(plan.flags.utilization - over / plan.total)
    if share * plan.total <= plan.beside:
        return _too_small(plan)
    return f"Set gpu-memory-utilization to at most {share:.2f}"


def _raise_share(plan: MemoryPlan, need: int) -> str | None:
    """Name the share that is needed; None where it would take what must stay free."""
    share = ceil(100 * need / plan.total) / 100
    least = LEAST[plan.sparks] * GIB if plan.unified else 0
    outside = plan.engine - plan.beside - max(0, plan.kv_bytes)
    if share > 1 or share * plan.total + outside + plan.host + least > plan.total:
        return None
    return f"Set gpu-memory-utilization to at least {share:.2f}"


def _too_small(plan: MemoryPlan) -> str:
    more = ", or serve it with two Sparks" if plan.sparks == 1 and plan.unified else ""
    return f"It does not fit into {_gib(plan.total)}: choose a smaller checkpoint{more}"


def _set(plan: MemoryPlan) -> str:
    if plan.flags.kv_bytes is not None:
        return f"kv-cache-memory-bytes {_mib(plan.flags.kv_bytes)}"
    return f"gpu-memory-utilization {plan.flags.utilization:g}"


def _share(plan: MemoryPlan) -> str:
    share = plan.flags.utilization
    return f"gpu-memory-utilization {share:g} ({_gib(int(share * plan.total))})"


def _floor(share: float) -> float:
    return floor(100 * share + 1e-6) / 100


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"


def _mib(size: int) -> str:
    return f"{ceil(size / MIB)}M"
