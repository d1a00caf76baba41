"""A plugin of vLLM, by which the processes of an engine sleep while they wait for each other.

vLLM's readers of a queue look at it without a pause for a second after each message
(`SpinCondition`, `busy_loop_s`). Steps come more often, so on a pair's head EngineCore and worker
hold two cores for as long as anything is generated, and heat the GPU, which shares their chip.
"""

import os
import sys
import time
from importlib import import_module

# Seconds of looking: in the recipe's `env` another number wins, such as "1", vLLM's own. With 0.002
# others had a head 11.6 to 12.7 °C cooler at the same speed, or 9.9 % more tokens at the same heat
# (MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#79); with 0, 11 % fewer.
VARIABLE, SHORT = "SPARKWRIGHT_SPIN_SECONDS", 0.002
# A vLLM with another default, or one that takes it from a variable (vllm#52814), knows better.
_OWN = (1,)
# ZeroMQ wakes a sleeper, or loses that: vLLM then sleeps on for 5 s (vllm#45224), before 0.27 for
# ever, and a pair with a short wait hung (#117 there). So one looks again after these milliseconds:
# while steps come, and while the engine is idle.
_BETWEEN_STEPS, _IDLE = 20, 1000


def register() -> None:
    """Have the readers to come of this process look briefly, unless this vLLM is not as known.

    vLLM calls it in each process before it makes a queue, and ends the process if it raises.
    """
    try:
        queues = import_module("vllm.distributed.device_communicators.shm_broadcast")
        seconds, condition = float(os.environ.get(VARIABLE, SHORT)), queues.SpinCondition
        wait, own = condition.wait, condition.__init__.__defaults__
        arguments = wait.__code__.co_varnames[: wait.__code__.co_argcount]
    except (AttributeError, ImportError, ValueError) as error:
        print(f"sparkwright_wait: vLLM waits as it does by itself ({error})", file=sys.stderr)
        return
    if (own, arguments) != (_OWN, ("self", "timeout_ms")):
        return

    def briefly(self, timeout_ms=None):  # type: ignore[no-untyped-def]
        again = _BETWEEN_STEPS if time.monotonic() < self.last_read + _OWN[0] else _IDLE
        wait(self, again if timeout_ms is None else min(timeout_ms, again))

    condition.__init__.__defaults__, condition.wait = (seconds,), briefly
