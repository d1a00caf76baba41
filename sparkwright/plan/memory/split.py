"""The split of a model among its Sparks, judged by heads, experts and layers."""

from collections.abc import Iterator

from sparkwright.common.errors import Finding, error
from sparkwright.plan.memory.plan import Load
from sparkwright.plan.release.model_config import Shape


def split_findings(load: Load) -> Iterator[Finding]:
    """Yield what does not divide, with the numbers.

    vLLM would say so after minutes; of the key heads of linear attention it takes the whole part of
    a division, without a word (qwen_gdn_linear_attn.py of 0.33.0).
    """
    model = load.checkpoints.get("model")
    if model is None or model.shape is None:
        return
    for count, what, parts, by in _shares(load, model.shape):
        if count % parts:
            yield error(
                f"{count} {what} of {model.repo} do not divide by {parts} ({by})",
                f"Serve it on another number of Sparks, or split it otherwise by "
                f"pipeline-parallel-size in by_sparks.{load.sparks} of the recipe",
            )


def _shares(load: Load, shape: Shape) -> Iterator[tuple[int, str, int, str]]:
    """Yield what is divided: how many there are of what, into how many parts, and by what."""
    split, tensor = load.split, "tensor parallel"
    yield shape.heads, "attention heads", split, tensor
    if shape.kv_heads < split:
        # Some Sparks have the same one.
        yield split, "parts of each layer", shape.kv_heads, "key-value heads"
    else:
        yield shape.kv_heads, "key-value heads", split, tensor
    yield shape.linear_key_heads, "key heads of linear attention", split, tensor
    yield shape.linear_value_heads, "value heads of linear attention", split, tensor
    if load.recipe.options.enable_expert_parallel:
        yield shape.experts, "experts", split * load.copies, "expert parallel"
    else:
        yield shape.expert_size, "numbers inside an expert", split * load.copies, tensor
    layers = shape.full_attention + shape.sliding_attention + shape.linear_attention
    yield layers, "layers", load.stages, "pipeline parallel"
