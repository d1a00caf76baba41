"""Memory plans of our recipes with other options, and what a Spark has."""

from sparkwright.common.hardware import GIB, HARDWARE
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.plan.memory.known_checkpoints import nominal_load
from sparkwright.plan.memory.plan import MemoryPlan, plan_memory

BF16, MTP = "qwen3.5-35b", "qwen3.5-122b-nvfp4-mtp"
CARD, PAIR = "qwen3.5-35b-nvfp4-rtx-5090", "qwen3.8-flash-next-b12x-pair"
MILLION = 1_048_576


def planned(recipe: str, vllm: str | None = None, sparks: int = 1, **args: object) -> MemoryPlan:
    """Plan a recipe with other options, by a vLLM of another version."""
    base = load_recipe(recipe).for_sparks(sparks)
    given = {name.replace("_", "-"): value for name, value in args.items()}
    merged = {name: value for name, value in (base.args | given).items() if value is not None}
    changed = base.model_copy(update={"args": merged, "judged_by": vllm or base.judge})
    hardware = HARDWARE[base.hardware[0]]
    total = int(hardware.total_gib * GIB)
    return plan_memory(nominal_load(changed, sparks), total, hardware.unified)
