"""Copies of recipes with one mistake each, of every kind that the judge is there to find.

What sparkwright/declared/recipe/options.py and check.py refuse, no judge sees.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from sparkwright.declared.recipe.loader import RECIPES

BASE = "qwen3.5-122b-nvfp4-mtp"  # two Sparks as well, a model with MTP, on vLLM 0.28.0


@dataclass(frozen=True)
class Mistake:
    """One wrong setting.

    Attributes:
        key: whose setting is wrong, as a message names it.
        value: as a message shows it.
        expected: what the message says beside it.
        args, env: what the copy says, beside what the recipe does.
    """

    key: str
    value: str
    expected: str
    args: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)


BROKEN = {
    "unknown-option": Mistake(
        "args.max-modell-len", "32768", "did you mean 'max-model-len'", {"max-modell-len": 32768}
    ),
    # The last release with it is 0.27.
    "dropped-option": Mistake(
        "args.calculate-kv-scales", "true", "0.28.0 does not know", {"calculate-kv-scales": True}
    ),
    "wrong-type": Mistake("args.seed", '"many"', "invalid", {"seed": "many"}),
    "unknown-variable": Mistake(
        "env.VLLM_ENGINE_READY_TIMEOUT",
        '"60"',
        "did you mean 'VLLM_ENGINE_READY_TIMEOUT_S'",
        env={"VLLM_ENGINE_READY_TIMEOUT": "60"},
    ),
    # Removed at 0.24, with three others that set the kernels of a quantized model.
    "dropped-variable": Mistake(
        "env.VLLM_USE_FLASHINFER_MOE_FP4",
        '"1"',
        "0.28.0 does not know",
        env={"VLLM_USE_FLASHINFER_MOE_FP4": "1"},
    ),
    "unreadable-variable": Mistake(
        "env.VLLM_KEEP_ALIVE_ON_ENGINE_DEATH",
        '"no"',
        "invalid literal",
        env={"VLLM_KEEP_ALIVE_ON_ENGINE_DEATH": "no"},
    ),
    "tool-parser": Mistake(
        "args.tool-call-parser", '"qwen3_codr"', "'qwen3_coder'", {"tool-call-parser": "qwen3_codr"}
    ),
    "reasoning-parser": Mistake(
        "args.reasoning-parser", '"qwen33"', "'qwen3'", {"reasoning-parser": "qwen33"}
    ),
    "load-format": Mistake(
        "args.load-format", '"safetensor"', "'safetensors'", {"load-format": "safetensor"}
    ),
    "speculative-method": Mistake(
        "args.speculative-config.method",
        '"mpt"',
        "'mtp'",
        {"speculative-config": {"method": "mpt", "num_speculative_tokens": 2}},
    ),
    "speculative-tokens": Mistake(
        "args.speculative-config",
        '{"method": "mtp"}',
        "num_speculative_tokens",
        {"speculative-config": {"method": "mtp"}},
    ),
    "attention-backend": Mistake(
        "args.attention-backend", '"flashinfr"', "FLASHINFER", {"attention-backend": "flashinfr"}
    ),
    # Its variable lets any context pass; the copy that is judged next must not see it.
    "quantization": Mistake(
        "args.quantization",
        '"modelopt"',
        "compressed-tensors",
        {"quantization": "modelopt"},
        {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"},
    ),
    "context": Mistake(
        "args.max-model-len",
        "1010000",
        "max_position_embeddings=262144",
        {"max-model-len": 1010000},
    ),
    "range": Mistake(
        "args.stream-interval",
        "0",
        "greater than or equal to 1",
        {"stream-interval": 0},
    ),
}


def write(name: str, folder: Path) -> Path:
    """Write a broken copy into a folder and return its file."""
    mistake = BROKEN[name]
    data = yaml.safe_load((RECIPES / f"{BASE}.yaml").read_text())
    data["args"] |= mistake.args
    data["env"] |= mistake.env
    for difference in data.get("by_sparks", {}).values():
        # What one number of Sparks sets by itself would hide the mistake.
        for kind, wrong in (("args", mistake.args), ("env", mistake.env)):
            for key in wrong:
                difference.get(kind, {}).pop(key, None)
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    return file
