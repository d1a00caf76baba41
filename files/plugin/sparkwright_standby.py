"""A plugin of vLLM, by which an engine that has done all that needs no GPU waits for a word.

That is two thirds of a start. It is done in the process itself: nothing is forked, and nothing is
answered in CUDA's place. The supervisor (files/host/engine/standby.py) says the word.
"""

import ctypes
import gc
import os
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

VARIABLE = "SPARKWRIGHT_STANDBY"
# The supervisor's files, which the engine cannot change, and one that says that it waits.
ALIVE, GO = Path("/run/standby/alive"), Path("/run/standby/go")
WAITING = Path("/run/vllm/waiting")
# Seconds between two looks; and without a new sign of its supervisor, which a Spark that boots does
# not give either, after which it has been forgotten.
NAP, FORGOTTEN = 0.1, 900
# What the kernel ends first in a full memory is this, not the engine that serves, which has 500.
_EXPENDABLE, _OWN = "900", Path("/proc/self/oom_score_adj")


def register() -> None:
    """Have the process of this standby that is to use the GPU wait before it does.

    vLLM calls it in each process, and ends the process if it raises: a vLLM whose way to the GPU is
    another has no standby, rather than one that takes the memory of the engine that serves.
    """
    gc.freeze()  # imports stay: of a start's dozen collections each looks at them for 0.3 s
    if not os.environ.get(VARIABLE):
        return
    wrapper = import_module("vllm.v1.worker.worker_base").WorkerWrapperBase
    init_device = wrapper.init_device

    def told(self, *arguments, **named):  # type: ignore[no-untyped-def]
        with suppress(Exception):
            _make_ready(self.vllm_config)
        gc.freeze()
        wait()
        return init_device(self, *arguments, **named)

    wrapper.init_device = told
    with suppress(AttributeError, ImportError):
        _warm_up_before_the_engine()


def _make_ready(config: Any) -> None:
    """Import model and attention, and make the processor of images: vLLM keeps what it reads."""
    import_module("vllm.model_executor.model_loader").get_model_architecture(config.model_config)
    if backend := config.attention_config.backend:
        backend.get_class()
    registry = import_module("vllm.multimodal").MULTIMODAL_REGISTRY
    import_module("vllm.multimodal.encoder_budget").MultiModalBudget(config, registry)


def _warm_up_before_the_engine() -> None:
    """Have the API warm up first: vLLM 0.20 to 0.28 does when the engine is ready, for 30 s."""
    inputs = import_module("vllm.v1.engine.input_processor").InputProcessor
    make = inputs.__init__

    def made(self, *arguments, **named):  # type: ignore[no-untyped-def]
        make(self, *arguments, **named)
        with suppress(Exception):
            self.renderer.warmup(import_module("vllm.renderers").ChatParams())
            # vLLM's own comes all the same; a template found is kept, images would be made again.
            self.renderer._warmup_mm_processor = lambda *_, **__: None
            ctypes.CDLL(None).malloc_trim(0)  # half a GiB

    inputs.__init__ = made


def wait() -> None:
    """Return at the word; end this process when nobody is left to say it."""
    before = _expend(_EXPENDABLE)
    WAITING.touch()
    seen, since = None, time.monotonic()
    while not GO.exists():
        sign = ALIVE.exists() and ALIVE.stat().st_mtime_ns
        if sign and sign != seen:
            seen, since = sign, time.monotonic()
        elif not sign or time.monotonic() - since > FORGOTTEN:
            raise SystemExit("sparkwright_standby: its supervisor has forgotten it")
        time.sleep(NAP)
    # Only at the word: one that ends, which takes vLLM seconds, must not pass for the next engine.
    WAITING.unlink(missing_ok=True)
    _expend(before)


def _expend(score: str) -> str:
    """Set how readily the kernel ends this process; return how it was."""
    before = score
    with suppress(OSError):
        before = _OWN.read_text()
        _OWN.write_text(score)
    return before
