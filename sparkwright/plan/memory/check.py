"""The problems of a Spark's memory: what cannot fit, or hardly, and which option to change."""

from collections.abc import Iterator
from dataclasses import replace

from sparkwright.common.command_line import next_line
from sparkwright.common.errors import Finding, error, warning
from sparkwright.common.hardware import GIB, Hardware
from sparkwright.plan.memory.beside import engine_bytes
from sparkwright.plan.memory.kv_cache import AUTO_COUNTS_ALL
from sparkwright.plan.memory.plan import (
    HOST,
    LEAST,
    MIB,
    WANTED,
    Load,
    MemoryPlan,
    gib,
    plan_memory,
)
from sparkwright.plan.memory.split import split_findings

# CUDA graphs of whole steps take a block for each request: "max_num_seqs (1024) exceeds available
# Mamba cache blocks (793)" ends the start (config/compilation.py, in 0.20.2 and later; seen on an
# H100 with 0.26.0, whose 793 blocks are the plan's).
_BLOCK_A_REQUEST = (0, 20, 0)
# Where the share sizes the KV cache, real ones were up to 8.3 % larger than planned (an H100; 8 % a
# Spark: docs/memory.md). So close to the limit, only vLLM knows.
_NEAR = 1.1


def memory_findings(
    load: Load, hardware: Hardware, memory: int, kept: int, beside: int = 0
) -> list[Finding]:
    """Judge whether what is to be served fits into the memory of a Spark; as `plan_memory`.

    A class without a nominal memory is not judged: the lab's engine runs on the CPU, in the memory
    of a machine that it shares.
    """
    if not hardware.total_gib:
        return []
    if undivided := [*split_findings(load)]:
        return undivided
    if plan := plan_memory(load, hardware, memory, kept, beside):
        return list(judge(plan))
    if load.copies > 1:
        return [warning(f"memory use is unknown: {load.copies} copies have no plan", "Watch it")]
    names = ", ".join(weights.repo for weights in load.shapeless)
    unknown = warning(
        f"memory use is unknown: the lock has no model shape for {names}",
        f"Refresh it: `{next_line('lock', '--refresh')}`. If that adds none, the memory plan does "
        "not support this architecture",
    )
    total, engine = int(hardware.total_gib * GIB), engine_bytes(load, hardware)
    if hardware.unified:
        total = memory - kept - HOST[1] - LEAST[1] * GIB
    if not beside or engine + beside <= total:
        return [unknown]
    found = f"its share and the other engine take {gib(engine)} and {gib(beside)} of {gib(total)}"
    return [unknown, error(found, "Set gpu-memory-utilization lower in one of the recipes")]


def judge(plan: MemoryPlan) -> Iterator[Finding]:
    """Yield the errors and warnings about a plan.

    The remedy of an error is checked with the plan: a recipe that follows it has no error left.
    """
    if too_high := _too_high(plan):
        yield too_high
        return
    if plan.kv_bytes < plan.cache.size(1):
        yield _weights(plan)
        return
    findings = [*_context(plan), *_head_room(plan)]
    yield from findings
    # The remedy of another error names how many requests it leaves room for.
    if _too_many(plan) and not (_is_refused(plan) and any(each.error for each in findings)):
        yield _requests(plan)
    auto = plan.flags.context is None and plan.flags.release < AUTO_COUNTS_ALL
    if auto and plan.cache.state and plan.context < plan.limit:
        yield warning(
            f"max-model-len auto stays at {plan.limit} with this vLLM, though the KV cache holds "
            f"{plan.context} tokens: a longer request never finishes",
            f"Set max-model-len to at most {_round(plan.context)}",
        )


def _too_high(plan: MemoryPlan) -> Finding | None:
    """Return the finding that an option, rather than the weights, leaves too little."""
    largest = max(plan.counts, key=lambda each: each.bytes)
    fits = plan.kv_bytes >= plan.cache.size(1) and plan.head_room >= _free(plan, LEAST)
    if fits or largest.bytes <= plan.total // 4:
        return None
    fitting = (plan.total - plan.weights - plan.drafter) // (16 * largest.each)
    if not fitting:
        return None
    return error(
        f"{largest.option} {largest.value} needs {gib(largest.bytes)} of {gib(plan.total)}",
        f"Set {largest.option} to at most {_round(fitting)}, or leave it out",
    )


def _weights(plan: MemoryPlan) -> Finding:
    """Return the finding that nothing is left for a KV cache of one token."""
    if plan.flags.kv_bytes is not None:
        found = f"{_set(plan)} holds no request"
    else:
        share = gib(int(plan.flags.utilization * plan.total))
        found = (
            f"weights of {gib(plan.weights + plan.drafter)}, and the memory to run them, leave "
            f"nothing of {_set(plan)} ({share}) for the KV cache"
        )
    larger = _enlarge(plan, plan.cache.size(min(plan.context or plan.limit, plan.limit)))
    return error(found, f"Set {larger}" if larger else _lower(plan))


def _context(plan: MemoryPlan) -> Iterator[Finding]:
    size = plan.cache.size(plan.context)
    if plan.kv_bytes >= size:
        return
    found = (
        f"max-model-len {plan.context} needs {gib(size)} of KV cache, {gib(plan.kv_bytes)} remain"
    )
    if plan.head_room < _free(plan, LEAST):
        yield error(found, _lower(plan))
        return
    remedy = f"Set {_shorter(plan, plan.kv_bytes)}"
    larger = _enlarge(plan, size)
    yield error(found, f"{remedy}, or {larger}" if larger else remedy)


def _too_many(plan: MemoryPlan) -> bool:
    """Tell whether more requests run at once than the KV cache has blocks, and vLLM checks that.

    A request has a block with its state in each linear-attention layer of a group.
    """
    checked = plan.flags.whole_steps and plan.flags.release >= _BLOCK_A_REQUEST
    return bool(checked and plan.cache.state and plan.flags.sequences > plan.blocks)


def _is_refused(plan: MemoryPlan) -> bool:
    """Tell whether vLLM certainly refuses more requests than blocks.

    With drafts, an attention backend such as FlashInfer makes graphs hold pieces of steps after
    all, and vLLM does not check.
    """
    exact = plan.flags.kv_bytes is not None or plan.flags.sequences > _NEAR * plan.blocks
    return exact and not plan.flags.drafted


def _requests(plan: MemoryPlan) -> Finding:
    finding, may = (error, "refuses") if _is_refused(plan) else (warning, "may refuse")
    larger = _enlarge(plan, plan.flags.sequences * plan.cache.pool)
    return finding(
        f"max-num-seqs {plan.flags.sequences} exceeds the {plan.blocks} KV cache blocks; with "
        f"CUDA graphs each request needs one. vLLM {may} to start",
        f"Set max-num-seqs to at most {plan.blocks}{f', or {larger}' if larger else ''}",
    )


def _head_room(plan: MemoryPlan) -> Iterator[Finding]:
    wanted = _free(plan, WANTED)
    if plan.head_room + plan.standby >= wanted:
        return
    free, left = max(0, plan.head_room), plan.total - plan.engine
    if plan.unified and left > 0:
        kept = f" ({plan.kept / GIB:.1f} kept by its kernel)" if plan.kept else ""
        others = f" and the other engine, which takes {gib(plan.beside)}" if plan.beside else ""
        found = (
            f"{_set(plan)} leaves {gib(left)} to the host{kept}{others}, {gib(free)} of them "
            f"free when it serves; expected {gib(wanted)}"
        )
    else:
        others = f" beside the other engine's {gib(plan.beside)}" if plan.beside else ""
        taken = plan.engine + plan.host - plan.beside
        found = f"{_set(plan)} takes {gib(taken)} of {gib(plan.total)}{others}"
    finding = error if plan.head_room < _free(plan, LEAST) else warning
    yield finding(found, _lower(plan))


def _free(plan: MemoryPlan, bound: dict[int, int]) -> int:
    return bound[min(plan.sparks, 2)] * GIB if plan.unified else 0


def _enlarge(plan: MemoryPlan, least: int) -> str | None:
    """Name the setting for a KV cache of so many bytes; None if too little would stay free."""
    value, size = _sized(plan, least, up=True)
    fits = replace(plan, kv_bytes=size).head_room >= _free(plan, LEAST)
    return f"{_option(plan)} to at least {value}{_fewer(plan, size)}" if fits else None


def _lower(plan: MemoryPlan) -> str:
    """Name the setting that leaves enough free, and a context that fits then."""
    wanted = _free(plan, WANTED)
    room = max(0, plan.kv_bytes) + plan.head_room
    tries = [_sized(plan, room - free) for free in (wanted, _free(plan, LEAST))]
    needed = plan.cache.size(plan.flags.context or 1)
    for value, size in tries:
        if size >= needed:
            bound = "at most " if size < plan.kv_bytes else ""
            return f"Set {_option(plan)} to {bound}{value}{_fewer(plan, size)}"
    for value, size in tries:
        if size >= plan.cache.size(1):
            return f"Set {_option(plan)} to {value}, and {_shorter(plan, size)}"
    more = ""
    if plan.sparks == 1 and plan.unified:
        # Half of the weights would be on each of two Sparks.
        engine = plan.engine - max(0, plan.kv_bytes) - (plan.weights + plan.drafter) // 2
        needed = engine + plan.cache.size(1) + HOST[2] + plan.kept + LEAST[2] * GIB
        more = ", or serve it with two Sparks" if needed <= plan.total else ""
    return f"It does not fit into {gib(plan.total)}: choose a smaller checkpoint{more}"


def _sized(plan: MemoryPlan, size: int, *, up: bool = False) -> tuple[str, int]:
    """Return the value of the option that sizes the engine, for a KV cache of so many bytes, and
    the bytes that it makes."""
    if plan.flags.kv_bytes is not None:
        number = _divided(size, MIB, up)
        return f"{number}M", number * MIB
    share = _divided(100 * (plan.besides_cache + size), plan.total, up) / 100
    return f"{share:.2f}", int(share * plan.total) - plan.besides_cache


def _divided(number: int, step: int, up: bool) -> int:
    return -(-number // step) if up else number // step


def _fewer(plan: MemoryPlan, size: int) -> str:
    """Name how many requests a KV cache of so many bytes has blocks for, if they are too few."""
    changed = replace(plan, kv_bytes=size)
    if not (_too_many(changed) and _is_refused(changed)):
        return ""
    return f", and max-num-seqs to at most {changed.blocks}"


def _shorter(plan: MemoryPlan, size: int) -> str:
    """Name the context and the number of requests for a KV cache of so many bytes."""
    longest = _round(plan.cache.longest(size, plan.limit))
    return f"max-model-len to at most {longest}{_fewer(plan, size)}"


def _option(plan: MemoryPlan) -> str:
    return "gpu-memory-utilization" if plan.flags.kv_bytes is None else "kv-cache-memory-bytes"


def _set(plan: MemoryPlan) -> str:
    """Return the option that sizes the engine, with its value."""
    size = plan.flags.kv_bytes
    value = f"{plan.flags.utilization:g}" if size is None else f"{_divided(size, MIB, up=True)}M"
    return f"{_option(plan)} {value}"


def _round(context: int) -> int:
    """Return a multiple of 1,024 tokens, which reads better, where there is one."""
    return context // 1024 * 1024 or context
