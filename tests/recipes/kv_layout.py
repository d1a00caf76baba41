"""Asks a release of vLLM how it lays out the KV cache of a model that it is told to serve.

Runs in the engine image's Python, with nothing of the model but its config.json. Reads a list of
cases from standard input: `configs` (config.json by folder of /models), `args` (EngineArgs) and
`memory` (bytes of the KV cache). Writes block, blocks and groups, what it logs as concurrency, and
the bytes that one request of the whole context takes.
"""

import json
import sys
import types
from pathlib import Path

from inside import gpu


def main():
    """Answer all cases."""
    answer, sys.stdout = sys.stdout, sys.stderr  # vLLM's log is no part of the answer
    gpu.present(gpu.GPUS["gb10"])
    gpu.inspect_models_here()
    # What 0.19 and older import for structured output, which is not asked for here.
    sys.modules.setdefault("diskcache", types.SimpleNamespace(Cache=None))
    json.dump([_case(**case) for case in json.load(sys.stdin)], answer)


def _case(configs, args, memory):
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.usage.usage_lib import UsageContext
    from vllm.v1.core import kv_cache_utils

    for folder, config in configs.items():
        path = Path("/models", folder, "config.json")
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(config))
    config = AsyncEngineArgs(
        model="/models/model", skip_tokenizer_init=True, **args
    ).create_engine_config(usage_context=UsageContext.OPENAI_API_SERVER)
    _align(config)
    layers = _layers(config)
    _resolve(config, layers)
    layout = kv_cache_utils.get_kv_cache_configs(config, [layers], [memory])[0]
    return {
        "block": min(group.kv_cache_spec.block_size for group in layout.kv_cache_groups),
        "blocks": layout.num_blocks,
        "groups": len(layout.kv_cache_groups),
        "concurrency": kv_cache_utils.get_max_concurrency_for_kv_cache_config(config, layout),
        "context": config.model_config.max_model_len,
    }


def _align(config):
    """Make the block as long as the state is large; until 0.19 the configuration did it."""
    from vllm.platforms import current_platform
    from vllm.v1.attention.backends.flash_attn import FlashAttentionBackend

    if hasattr(current_platform, "_align_hybrid_block_size"):
        platform = type(current_platform)
        platform._find_non_ssm_backend = classmethod(lambda *_: FlashAttentionBackend)
        platform._find_non_ssm_backends = classmethod(lambda *_: [FlashAttentionBackend])
        current_platform.update_block_size_for_backend(config)


def _resolve(config, layers):
    """Let vLLM choose how pages lie in memory, which it does before anything else since 0.32."""
    from vllm.v1.attention.backends import utils
    from vllm.v1.attention.backends.flash_attn import FlashAttentionBackend

    if hasattr(utils, "resolve_kv_cache_layout"):
        names = [
            layout.name for layout in utils.get_supported_kv_cache_layouts([FlashAttentionBackend])
        ]
        utils.resolve_kv_cache_layout(config, [names], layers.values())


def _layers(config):
    """Return what each layer of the model, and of its drafter, asks of the cache."""
    from vllm.model_executor.models import ModelRegistry

    model = config.model_config
    specs = {}
    kinds = model.hf_text_config.layer_types
    linear = _linear(config, ModelRegistry.resolve_model_cls(model.architecture, model)[0])
    for number, kind in enumerate(kinds):
        full = kind == "full_attention"
        specs[f"layers.{number}"] = _attention(config, model) if full else linear
    if draft := config.speculative_config:
        drafter = draft.draft_model_config
        count = 1 if draft.method == "mtp" else len(drafter.hf_config.layer_types)
        for number in range(count):
            specs[f"draft.{number}"] = _attention(config, drafter)
    return specs


def _attention(config, model):
    from vllm.utils.torch_utils import STR_DTYPE_TO_TORCH_DTYPE
    from vllm.v1.kv_cache_interface import FullAttentionSpec

    cache = config.cache_config
    auto = cache.cache_dtype == "auto"
    return FullAttentionSpec(
        block_size=cache.block_size,
        num_kv_heads=model.get_num_kv_heads(config.parallel_config),
        head_size=model.get_head_size(),
        dtype=model.dtype if auto else STR_DTYPE_TO_TORCH_DTYPE[cache.cache_dtype],
    )


def _linear(config, model):
    from vllm.v1.kv_cache_interface import MambaSpec

    cache, draft = config.cache_config, config.speculative_config
    return MambaSpec(
        shapes=tuple(model.get_mamba_state_shape_from_config(config)),
        dtypes=tuple(model.get_mamba_state_dtype_from_config(config)),
        block_size=cache.mamba_block_size,
        page_size_padded=cache.mamba_page_size_padded,
        mamba_cache_mode=cache.mamba_cache_mode,
        num_speculative_blocks=draft.num_speculative_tokens if draft else 0,
    )


if __name__ == "__main__":
    main()
