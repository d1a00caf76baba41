"""vLLM's options that this project decides by, read as vLLM reads its command line.

Everything that depends on a recipe's ``args`` reads them by `Options`: the memory plan, the
supervisor's patience, the gateway, the rules. What vLLM would refuse is refused when the recipe is
loaded, and each option has one spelling.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from sparkwright.common.schema import shown

# vLLM's human_readable_int (utils/argparse_utils.py of 0.32.0): 1k is 1,000 and 1K 1,024.
_NUMBER = re.compile(r"(\d{1,18})(\.\d+)?([kmgtKMGT]?)")
_MULTIPLES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_MULTIPLES |= {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}

# Seconds; with the rest of a stop, less than TimeoutStopSec of files/host/engine/vllm@.service.
LONGEST_DRAIN = 400

AUTO = -1
# Tokens or requests; more is a slip, and overflows where it is reckoned with.
MOST = 2**40
# Tokens that are drafted for a step: each takes a state beside the KV cache.
_MOST_DRAFTS = 1000

# Options that each say one key of speculative-config, since vLLM 0.22.
_SHORT_DRAFT = {
    "spec-method": "method",
    "spec-model": "model",
    "spec-tokens": "num_speculative_tokens",
}


def _digits(value: object, least: int = 0, most: int = MOST) -> int | None:
    """Read what Python's int() reads of a word; None if it is none, or beyond the bounds."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    word = str(value).strip()
    fits = re.fullmatch(r"\d{1,13}", word) and least <= int(word) <= most
    return int(word) if fits else None


_drafts = partial(_digits, least=1, most=_MOST_DRAFTS)


def _human(value: object) -> int | None:
    match = _NUMBER.fullmatch(str(value).strip())
    if not match or isinstance(value, bool) or not isinstance(value, int | str):
        return None
    multiple = _MULTIPLES[match[3]]
    if not match[2]:
        return int(match[1]) * multiple or None
    # A fraction needs a decimal suffix: vLLM refuses 1.5K and 1.5.
    return int(float(match[1] + match[2]) * multiple) or None if match[3].islower() else None


def _length(value: object) -> int | None:
    if value == AUTO or str(value).strip().lower() in ("auto", str(AUTO)):
        return AUTO
    tokens = _human(value)
    return tokens if tokens and tokens <= MOST else None


def _share(value: object) -> float | None:
    try:
        share = float(value) if isinstance(value, int | float | str) else math.nan
    except ValueError:
        return None
    return share if not isinstance(value, bool) and 0 < share <= 1 else None


def _mapping(value: object) -> dict[str, Any] | None:
    """Read JSON as the command line has it; vLLM takes either sign between the words of a key."""
    try:
        mapping = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return None
    if not isinstance(mapping, dict):
        return None
    return {str(key).replace("-", "_"): item for key, item in mapping.items()}


_IN_CHECKPOINT = re.compile(r"\$\{([^}]+)\}(?:/[A-Za-z0-9_-][\w.-]*)*", re.ASCII)


class Adapter(BaseModel):
    """A LoRA adapter that the engine loads when it starts, and serves under a name of its own."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    name: str = Field(min_length=1)
    path: str
    base: str | None = Field(default=None, alias="base_model_name")
    # Tensors of experts in one piece, since vLLM 0.32.
    is_3d_lora_weight: bool = False

    @property
    def checkpoint(self) -> str:
        """The checkpoint of the recipe that holds it; "" for a path elsewhere."""
        found = _IN_CHECKPOINT.fullmatch(self.path)
        return found[1] if found else ""


def _adapters(value: object) -> tuple[Adapter, ...] | None:
    """Read the words of lora-modules (LoRAParserAction of vLLM's cli_args.py)."""
    found: list[Adapter] = []
    try:
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, str) and "=" in item and "," not in item:
                name, _, path = item.partition("=")
                found.append(Adapter(name=name, path=path))
            else:
                data = json.loads(item) if isinstance(item, str) else item
                found.append(Adapter.model_validate(data))
    except (ValueError, RecursionError):
        return None
    return tuple(found)


def _draft(draft: dict[str, Any]) -> dict[str, Any]:
    name = "num_speculative_tokens"
    if name not in draft:
        return draft
    if (tokens := _drafts(draft[name])) is None:
        raise ValueError(f"{name} to be {_DRAFTS}")
    return draft | {name: tokens}


def _read_by(read: Callable[[object], object | None], rule: str) -> BeforeValidator:
    """A validator that reads a value; where `read` returns None, ``rule`` follows "expected"."""

    def validate(value: object) -> object:
        result = read(value)
        if result is None:
            raise ValueError(rule)
        return result

    return BeforeValidator(validate)


def _instance(kind: type, rule: str) -> BeforeValidator:
    return _read_by(lambda value: value if isinstance(value, kind) else None, rule)


_HUMAN = (
    "a whole number above 0, which may end in k, m, g, t (powers of 1,000) or K, M, G, T (powers "
    "of 1,024); a fraction only before a small letter"
)
_DRAFTS = f"a whole number above 0, in digits, at most {_MOST_DRAFTS}"
Count = Annotated[
    int, _read_by(partial(_digits, least=1), f"a whole number above 0, in digits, at most {MOST:,}")
]
Drafts = Annotated[int, _read_by(_drafts, _DRAFTS)]
Whole = Annotated[int, _read_by(_digits, f"a whole number, in digits, at most {MOST:,}")]
Drain = Annotated[
    int, _read_by(partial(_digits, most=LONGEST_DRAIN), f"whole seconds, 0 to {LONGEST_DRAIN}")
]
Human = Annotated[int, _read_by(_human, _HUMAN)]
Length = Annotated[int, _read_by(_length, f"auto, or {_HUMAN}; at most {MOST:,}")]
Share = Annotated[float, _read_by(_share, "a share above 0, at most 1, such as 0.8")]
Flag = Annotated[bool, _instance(bool, "true or false")]
Word = Annotated[str, _instance(str, "text")]
Sizes = Annotated[list[Count], _read_by(lambda value: value or None, "numbers above 0")]
Mapped = Annotated[dict[str, Any], _read_by(_mapping, "a mapping, such as {key: value}")]
Adapters = Annotated[
    tuple[Adapter, ...],
    _read_by(
        _adapters,
        "a list of NAME=${CHECKPOINT}, or of JSON with the keys name, path and base_model_name",
    ),
]
Draft = Annotated[Mapped, AfterValidator(_draft)]


class Options(BaseModel):
    """The values in a recipe's ``args``; None where vLLM's default applies."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=lambda name: name.replace("_", "-")
    )

    # AUTO: as many tokens as fit.
    max_model_len: Length | None = None
    max_num_seqs: Count | None = None
    max_num_batched_tokens: Human | None = None
    gpu_memory_utilization: Share | None = None
    # Stages, each with a part of the layers; copies that answer at the same time.
    pipeline_parallel_size: Count = 1
    data_parallel_size: Count = 1
    # Each GPU has whole experts, in place of a part of each.
    enable_expert_parallel: Flag = False
    # With it, the share of memory does not size the KV cache.
    kv_cache_memory_bytes: Human | None = None
    max_cudagraph_capture_size: Whole | None = None
    cudagraph_capture_sizes: Sizes = []
    # Seconds that running requests get at a stop.
    shutdown_timeout: Drain = 0
    enforce_eager: Flag = False
    enable_lora: Flag = False
    lora_modules: Adapters = ()
    default_mm_loras: Mapped | None = None
    enable_prefix_caching: Flag | None = None
    async_scheduling: Flag | None = None
    language_model_only: Flag = False
    enable_auto_tool_choice: Flag = False
    kv_cache_dtype: Word = "auto"
    calculate_kv_scales: Flag = False
    attention_backend: Word | None = None
    attention_config: Mapped | None = None
    quantization: Word | None = None
    uvicorn_log_level: Word = "info"
    hf_overrides: Mapped | None = None
    compilation_config: Mapped | None = None
    optimization_level: Whole | None = None
    speculative_config: Draft | None = None
    spec_method: Word | None = None
    spec_model: Word | None = None
    spec_tokens: Drafts | None = None

    @property
    def draft(self) -> dict[str, Any]:
        """What drafts tokens: --spec-method and its like each set one key; empty = nothing."""
        given = {key: getattr(self, short.replace("-", "_")) for short, key in _SHORT_DRAFT.items()}
        short = {key: value for key, value in given.items() if value is not None}
        return (self.speculative_config or {}) | short

    @property
    def drafted(self) -> int:
        """Tokens that are drafted for each step; 0 = none."""
        return int(self.draft.get("num_speculative_tokens", 0))

    @property
    def mtp(self) -> bool:
        """Tell whether the model's own MTP head drafts them."""
        return str(self.draft.get("method", "")).endswith("mtp")

    @property
    def attention(self) -> str:
        """The attention backend, in small letters: vLLM minds no case; empty = vLLM's choice."""
        named = self.attention_backend or (self.attention_config or {}).get("backend", "")
        return str(named).lower()

    @property
    def graphs(self) -> Literal["none", "pieces", "steps"]:
        """The scope of CUDA graphs: none, pieces of steps, or whole steps (vLLM's default)."""
        level = 2 if self.optimization_level is None else self.optimization_level
        by_level = {0: "NONE", 1: "PIECEWISE"}.get(level, "FULL_AND_PIECEWISE")
        mode = str((self.compilation_config or {}).get("cudagraph_mode", by_level)).upper()
        if self.enforce_eager or mode == "NONE" or self.max_cudagraph_capture_size == 0:
            return "none"
        return "pieces" if mode == "PIECEWISE" else "steps"


def problems(args: Mapping[str, Any]) -> Iterator[str]:
    """Yield what vLLM would refuse of a recipe's ``args``, as ``KEY: found X; expected Y``."""
    for name, value in args.items():
        if name.startswith("no-"):
            # Otherwise an option that is set to false this way would be read as unset.
            yield (
                f"{name}: found it set to {shown(value)}; expected {name.removeprefix('no-')}: "
                f"{json.dumps(value is False)}"
            )
    try:
        read = Options.model_validate(args)
    except ValidationError as error:
        for detail in error.errors():
            expected = detail["msg"].removeprefix("Value error, ")
            yield f"{detail['loc'][0]}: found {shown(detail['input'])}; expected {expected}"
        return
    for short, key in _SHORT_DRAFT.items():
        if short in args and key in (read.speculative_config or {}):
            yield f"{short}: is set here and as speculative-config's {key}; expected only one"
