"""Memory plans of our recipes with other options, and what a Spark makes of them."""

from sparkwright.common.errors import Finding
from sparkwright.common.hardware import HARDWARE
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.machine.host.survey import Survey
from sparkwright.plan.memory.check import memory_findings
from sparkwright.plan.memory.known_checkpoints import nominal_load
from sparkwright.plan.memory.plan import Load, MemoryPlan, plan_memory
from tests.makers.preflight import FIT

BF16, MTP = "qwen3.5-35b", "qwen3.5-122b-nvfp4-mtp"
CARD, PAIR = "qwen3.5-35b-nvfp4-rtx-5090", "qwen3.8-flash-next-b12x-pair"
MILLION = 1_048_576


def load(recipe: str, vllm: str | None = None, sparks: int = 1, **args: object) -> Load:
    base = load_recipe(recipe).for_sparks(sparks)
    given = {name.replace("_", "-"): value for name, value in args.items()}
    merged = {name: value for name, value in (base.args | given).items() if value is not None}
    changed = base.model_copy(update={"args": merged, "judged_by": vllm or base.judge})
    return nominal_load(changed, sparks)


def planned(recipe: str, vllm: str | None = None, sparks: int = 1, **args: object) -> MemoryPlan:
    loaded = load(recipe, vllm, sparks, **args)
    return plan_memory(loaded, HARDWARE[loaded.recipe.hardware[0]])


def findings(
    load: Load, hardware: str = "gb10", survey: Survey = FIT, beside: int = 0
) -> list[Finding]:
    kept = survey.kernel.handover
    return memory_findings(load, HARDWARE[hardware], survey.memory, kept, beside)
