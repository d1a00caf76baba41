"""Two engines on one Spark: what each takes of its memory, whatever the other one does.

vLLM gives an engine what is left of its share once it has measured itself, which an engine that
starts at the same time makes wrong; and it refuses to start where less than its share is free. So
each engine gets its KV cache in bytes, by the plan, and a share that is what it takes.
"""

from collections.abc import Iterator, Sequence
from math import ceil

from sparkwright.common.errors import Finding, error
from sparkwright.common.hardware import GIB, Hardware
from sparkwright.declared.recipe.recipe import Recipe
from sparkwright.plan.memory.check import LEAST
from sparkwright.plan.memory.kv_cache import share_of
from sparkwright.plan.memory.plan import CONTEXT, HOST, MIB, Load, gib, plan_memory

# What the processes of a second engine take of the host besides: 0.66 GB its API server and 0.61 GB
# its core were measured (vLLM 0.32.0 on a CPU); what is loaded for a GPU is more, and not measured.
_PROCESSES = 2 * GIB


def sized(load: Load, hardware: Hardware) -> Recipe:
    """Return a recipe whose engine shares its Spark with another one.

    What cannot be planned stays as it is: the preflight says so. A size that the recipe has itself
    is kept.
    """
    recipe, plan = load.recipe, plan_memory(load, hardware)
    if plan is None or plan.kv_bytes <= 0:
        return recipe
    share = min(ceil(1000 * plan.engine / plan.total) / 1000, 1.0)
    size = {"kv-cache-memory-bytes": plan.kv_bytes // MIB * MIB}
    own = {} if plan.flags.kv_bytes is not None else size
    args = recipe.args | own | {"gpu-memory-utilization": share}
    return recipe.model_copy(update={"args": args})


def engine_bytes(load: Load, hardware: Hardware) -> int | None:
    """Return the bytes that an engine takes beside another one; None where nobody knows.

    What has no plan takes its share at the most.
    """
    if not hardware.total_gib:
        return None
    plan = plan_memory(load, hardware)
    engine = plan.engine if plan else int(share_of(load.recipe) * hardware.total_gib * GIB)
    return engine + (_PROCESSES if hardware.unified else CONTEXT)


def sum_findings(
    loads: Sequence[Load], hardware: Hardware, memory: int, kept: int
) -> Iterator[Finding]:
    """Yield what is wrong with the sum of engines, none of which has a plan of its own.

    Those that have one are judged by it: `memory_findings`.
    """
    if not hardware.total_gib or any(plan_memory(load, hardware) for load in loads):
        return
    engines = [engine_bytes(load, hardware) or 0 for load in loads]
    total = memory if hardware.unified else int(hardware.total_gib * GIB)
    most = total - (HOST[1] + kept + LEAST[1] * GIB if hardware.unified else 0)
    if sum(engines) > most:
        sizes = " and ".join(map(gib, engines))
        yield error(
            f"the shares of the two engines are {sizes}, of {gib(most)} that engines may take of "
            f"{gib(total)}",
            "Set gpu-memory-utilization lower in one of the recipes",
        )
