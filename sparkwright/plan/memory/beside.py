"""Memory beside an engine, for another one or its standby, and for the KV cache of later starts."""

from math import ceil

from sparkwright.common.hardware import GIB, Hardware
from sparkwright.declared.recipe.recipe import Recipe
from sparkwright.plan.memory.kv_cache import share_of
from sparkwright.plan.memory.plan import CONTEXT, LEAST, MIB, STANDBY, Load, plan_memory

# What the processes of a second engine take of the host besides: 0.66 GB its API server and 0.61 GB
# its core were measured (vLLM 0.32.0 on a CPU); what is loaded for a GPU is more, and not measured.
PROCESSES = 2 * GIB
# Options by which a recipe sizes the cache; and vLLM's first release whose compiled code does not
# count kv-cache-memory-bytes in its key (CacheConfig.compute_hash of 0.24.0 and 0.26.0).
_SIZES = {"kv-cache-memory-bytes", "num-gpu-blocks-override"}
_NUMBER_COMPILES_NOTHING = (0, 26, 0)


def sized(load: Load, hardware: Hardware) -> Recipe:
    """Return a recipe whose engine shares its Spark with another one, whatever that one does.

    vLLM gives an engine what is left of its share once it has measured itself, which an engine that
    starts at the same time makes wrong; and it refuses to start where less than its share is free.
    So each engine gets its KV cache in bytes, by the plan, and a share that is what it takes. A
    size that the recipe has itself is kept. What cannot be planned stays as it is: the preflight
    says so.
    """
    recipe, plan = load.recipe, plan_memory(load, hardware)
    if plan is None or plan.kv_bytes <= 0:
        return recipe
    share = min(ceil(1000 * plan.engine / plan.total) / 1000, 1.0)
    size = {"kv-cache-memory-bytes": plan.kv_bytes // MIB * MIB}
    own = {} if plan.flags.kv_bytes is not None else size
    args = recipe.args | own | {"gpu-memory-utilization": share}
    return recipe.model_copy(update={"args": args})


def engine_bytes(load: Load, hardware: Hardware) -> int:
    """Return the bytes that an engine takes beside another one; 0 where nobody knows.

    What has no plan takes its share at the most.
    """
    if not hardware.total_gib:
        return 0
    plan = plan_memory(load, hardware)
    engine = plan.engine if plan else int(share_of(load.recipe) * hardware.total_gib * GIB)
    return engine + (PROCESSES if hardware.unified else CONTEXT)


def kv_budget(load: Load, hardware: Hardware) -> int:
    """Return the largest KV cache, in bytes, that a start may be given; 0: each start measures."""
    plan, release = plan_memory(load, hardware), load.recipe.release
    if plan is None or release is None or release < _NUMBER_COMPILES_NOTHING:
        return 0
    sized = _SIZES & load.recipe.args.keys()
    return 0 if sized else max(0, plan.engine - plan.weights - plan.drafter)


def standby_room(load: Load, hardware: Hardware) -> int:
    """Return the bytes that must be available where a standby is to start; 0: it has none.

    One of a graphics card takes none of its memory, and the host's is not planned. Copies find
    each other before they use the GPU: theirs would find the engines that serve.
    """
    if load.copies > 1:
        return 0
    least = STANDBY + LEAST[min(load.sparks, 2)] * GIB
    if not (hardware.unified and hardware.total_gib):
        return least if hardware.total_gib else STANDBY
    plan = plan_memory(load, hardware)
    return least if plan and plan.standby else 0
