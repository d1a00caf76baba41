"""The memory plan: what an engine takes of a Spark's memory, and what remains.

`sparkwright recipes memory` prints the plan of a recipe. Its method, accuracy and limits:
docs/memory.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil

from sparkwright.common.hardware import GIB, Hardware
from sparkwright.declared.recipe.recipe import Recipe
from sparkwright.plan.memory.kv_cache import TOKENS_BY_CONCURRENCY, Flags, KvCache, flags, kv_cache
from sparkwright.plan.release.lock import CheckpointLock, Lock
from sparkwright.plan.release.model_config import Shape

MIB = 1024**2

# What vLLM takes besides weights and KV cache, fitted to published figures: with ACTIVATIONS, 2.5
# makes docai.hu's 76.02 of weights and 30.33 GiB of KV cache 0.90 of its 121.7.
FIXED = int(2.5 * GIB)
# Two-byte numbers for each token of a step and each element of the hidden size: ig1 saves about
# 350 MiB with 2,048 tokens instead of 8,192.
ACTIVATIONS = 14.6
# Two copies of the logits in FP32 for each request that may run at once (sampler). Not measured.
LOGITS = 2 * 4
# CUDA graphs: 0.27 GiB with 24 tokens in docai.hu; with the logits, 5.65 MiB for each token up to
# 256 in ig1.
GRAPHS, GRAPH = int(0.18 * GIB), 3.75 * MIB
# What the host itself uses while it serves. One Spark: docai.hu has 117 GiB in use, 109.5 of them
# vLLM's share. Two, and more: 6 GiB idle at 0.80, 20 at 0.70 (gorlak/sparky-cluster,
# docs/adr/0028).
HOST = {1: int(6.9 * GIB), 2: int(17.4 * GIB)}
# GiB that must, and that should, stay free where the memory is the host's, by number of Sparks.
# One: the 0.90 of docai.hu, which leaves 5 by this plan, served for 90 minutes; sparkrun's earlyoom
# ends the engine at 2 %. With 0.85, which leaves 9, AEON-7 served for hours.
# Two, and more: with 6 idle a soak took both down; 10 to 12 is the rule of those who measured it
# (gorlak/sparky-cluster, docs/adr/0028).
LEAST = {1: 4, 2: 8}
WANTED = {1: 9, 2: 10}
# What the CUDA driver takes of a graphics card besides. A common figure, not measured here.
CONTEXT = GIB // 2
# What a standby takes of the host: with images 3,218 MiB were its own (PSS; vLLM 0.26.0, an H200).
STANDBY = int(3.2 * GIB)


def gib(size: float) -> str:
    """Return bytes as people read them."""
    return f"{size / GIB:.1f} GiB"


@dataclass(frozen=True)
class Weights:
    """A checkpoint's repository, the bytes of its safetensors files, and its shape, if known."""

    repo: str
    size: int
    shape: Shape | None


@dataclass(frozen=True)
class Load:
    """The recipe to serve, as it is for its number of Sparks, with its checkpoints by name."""

    recipe: Recipe
    sparks: int
    checkpoints: Mapping[str, Weights]

    @property
    def stages(self) -> int:
        """The parts of its layers, each on Sparks of its own (pipeline parallel)."""
        return self.recipe.options.pipeline_parallel_size

    @property
    def copies(self) -> int:
        """The copies of all but its experts (data parallel)."""
        return self.recipe.options.data_parallel_size

    @property
    def split(self) -> int:
        """The Sparks that share each layer (tensor parallel)."""
        return self.recipe.tensor_parallel(self.sparks)

    @property
    def shapeless(self) -> list[Weights]:
        """The checkpoints without a shape: with one of them there is no plan."""
        return [weights for weights in self.checkpoints.values() if weights.shape is None]


@dataclass(frozen=True)
class Count:
    """An option that counts something, and the bytes that each of it takes."""

    option: str
    value: int
    each: int

    @property
    def bytes(self) -> int:
        """The bytes of all of them together."""
        return self.value * self.each


@dataclass(frozen=True)
class MemoryPlan:
    """The plan of one Spark, in bytes.

    Attributes:
        total: The memory that the engine may use a share of; if `unified`, it is the host's.
        activations: What a step needs while it runs, and what is never freed.
        kv_bytes: The KV cache; below 0 when there is no room for any.
        limit: Tokens of the longest context that the model is run with, whatever fits.
        counts: What each option that counts something takes.
        kept: What of it the kernel keeps from all.
        beside: What another engine on the Spark takes.
        standby: What the engine's standby takes; 0 where there is no room for one.
    """

    total: int
    unified: bool
    sparks: int
    flags: Flags
    weights: int
    drafter: int
    activations: int
    graphs: int
    kv_bytes: int
    cache: KvCache
    limit: int
    counts: tuple[Count, ...]
    kept: int
    beside: int
    standby: int = 0

    @property
    def besides_cache(self) -> int:
        """The bytes that vLLM takes from its share besides the KV cache."""
        graphs = self.graphs if self.flags.graphs_in_share else 0
        return self.weights + self.drafter + self.activations + graphs

    @property
    def engine(self) -> int:
        """All that the engine takes of the memory, graphs outside the share included."""
        outside = 0 if self.flags.graphs_in_share else self.graphs
        return self.besides_cache + max(0, self.kv_bytes) + outside

    @property
    def host(self) -> int:
        """The bytes that are used beside the engine."""
        taken = self.beside + self.standby
        return taken + (HOST[min(self.sparks, 2)] + self.kept if self.unified else CONTEXT)

    @property
    def head_room(self) -> int:
        """The bytes that stay free."""
        return self.total - self.engine - self.host

    @property
    def blocks(self) -> int:
        """Blocks of the KV cache."""
        return self.cache.blocks(self.kv_bytes)

    @property
    def context(self) -> int:
        """Tokens of the longest request: as the recipe says, or as many as fit."""
        return self.flags.context or self.cache.longest(self.kv_bytes, self.limit)

    @property
    def concurrency(self) -> float:
        """Requests of that length that fit at once, as vLLM logs them."""
        needed = self.cache.needed(self.context)
        return self.blocks / needed if needed else 0.0

    @property
    def tokens(self) -> int:
        """The size of the KV cache in tokens, as this release of vLLM logs it."""
        if self.flags.release >= TOKENS_BY_CONCURRENCY:
            return int(self.concurrency * self.context)
        return self.blocks // self.cache.groups * self.cache.block


def plan_memory(
    load: Load, hardware: Hardware, memory: int = 0, kept: int = 0, beside: int = 0
) -> MemoryPlan | None:
    """Plan the memory of one of the Sparks that serve a recipe; None where nothing can be planned.

    Of several stages it is that of the last, which has the head that drafts tokens. With copies
    there is no plan: of a checkpoint's bytes nobody knows which are experts, of which there are
    none.

    Args:
        memory: Bytes of the host's as measured; 0 = those that the class has.
        kept, beside: As of a `MemoryPlan`.
    """
    model = load.checkpoints.get("model")
    unknown = model is None or model.shape is None or load.shapeless or load.copies > 1
    if not hardware.total_gib or unknown or model is None or model.shape is None:
        return None
    # A card's nominal memory is less than nvidia-smi shows, as CUDA counts it.
    total = memory if memory and hardware.unified else int(hardware.total_gib * GIB)
    shape, settings = model.shape, flags(load.recipe, model.shape, total, load.split)
    drafter = load.checkpoints[settings.drafter] if settings.drafter else None
    step = Count("max-num-batched-tokens", settings.batched, int(ACTIVATIONS * shape.hidden * 2))
    requests = Count("max-num-seqs", settings.sequences, LOGITS * shape.vocabulary)
    graphs = Count("max-cudagraph-capture-size", settings.captured, int(GRAPH))
    plan = MemoryPlan(
        total=total,
        unified=hardware.unified,
        sparks=load.sparks,
        flags=settings,
        weights=_loaded(model.size, shape, settings) // (load.split * load.stages),
        drafter=drafter.size // load.split if drafter else 0,
        activations=FIXED + step.bytes + requests.bytes,
        graphs=GRAPHS + graphs.bytes if settings.captured else 0,
        kv_bytes=settings.kv_bytes or 0,
        cache=kv_cache(_stage(shape, load.stages), settings, drafter.shape if drafter else None),
        limit=settings.context or shape.positions,
        counts=(requests, step, graphs),
        kept=kept,
        beside=beside,
    )
    if settings.kv_bytes is None:
        plan = replace(plan, kv_bytes=int(settings.utilization * total) - plan.besides_cache)
    # It never is a reason to warn. It ends first where memory is short: a GiB less may be left.
    spare = plan.head_room - (WANTED[min(load.sparks, 2)] - 1) * GIB
    has_room = plan.unified and not beside and spare >= STANDBY
    return replace(plan, standby=STANDBY) if has_room else plan


def _stage(shape: Shape, stages: int) -> Shape:
    """Return the shape of the layers of one stage; of each kind it has as many as any stage."""
    kinds = ("full_attention", "sliding_attention", "linear_attention")
    return shape.model_copy(update={kind: ceil(getattr(shape, kind) / stages) for kind in kinds})


def _loaded(size: int, shape: Shape, settings: Flags) -> int:
    """Bytes of a checkpoint's weights once they are loaded."""
    number = shape.number_bytes
    if settings.table_on_disk:
        size -= shape.table_bytes
    if not settings.vision:
        size -= shape.vision * number
    if not settings.mtp and not shape.quantized:
        # In a quantized checkpoint it is not known whether they are there, and in what.
        size -= shape.mtp_parameters * number
    if settings.halved:
        kept = 2 * shape.vocabulary * shape.hidden + (shape.vision if settings.vision else 0)
        size = kept * number + (size - kept * number) // number
    return max(0, size)


def load_of(recipe: Recipe, lock: Lock, sparks: int) -> Load:
    """Return the load that a recipe makes, by the sizes of a lock; what that lacks is left out."""
    checkpoints = {}
    for name, checkpoint in recipe.whole_models.items():
        if locked := lock.checkpoint(checkpoint):
            checkpoints[name] = Weights(checkpoint.repo, weights_size(locked), locked.shape)
    return Load(recipe.for_sparks(sparks), sparks, checkpoints)


def weights_size(locked: CheckpointLock) -> int:
    """Return the bytes of a checkpoint's safetensors files."""
    files = locked.files.items()
    return sum(file.size for path, file in files if path.endswith(".safetensors"))
