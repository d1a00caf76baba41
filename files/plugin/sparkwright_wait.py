"""A plugin of vLLM, by which the processes of an engine nap while they wait for each other.

vLLM's readers of a queue look at it without a pause for a second after each message
(`SpinCondition`, `busy_loop_s`). Steps come more often, so on a pair's head EngineCore and worker
hold two cores for as long as anything is generated, and heat the GPU, which shares their chip.
"""

import os
import sys
import time
from importlib import import_module

# Seconds of looking before the first nap: in the recipe's `env` another number wins, such as "1",
# vLLM's own. A nap is short, so a message is seen 0.1 ms later. vLLM's sleep after that second,
# which others have begin after 2 ms, costs 0.2 ms, and may miss its wake-up (vllm#45224): a pair
# hung so (MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#117).
VARIABLE, LOOK, NAP = "SPARKWRIGHT_SPIN_SECONDS", 0.0005, 0.0001
# Of vLLM 0.18 to 0.33. One with another default, or with a variable (vllm#52814), knows better.
_KNOWN = ((1,), "wait", ("self", "timeout_ms"))


def register() -> None:
    """Have the readers of this process nap, unless this vLLM is not as known.

    vLLM calls it in each process before it makes a queue, and ends the process if it raises.
    """
    try:
        queues = import_module("vllm.distributed.device_communicators.shm_broadcast")
        look, condition = float(os.environ.get(VARIABLE, LOOK)), queues.SpinCondition
        wait, defaults = condition.wait, condition.__init__.__defaults__
        arguments = wait.__code__.co_varnames[: wait.__code__.co_argcount]
    except (AttributeError, ImportError, ValueError) as error:
        print(f"sparkwright_wait: vLLM waits as it does by itself ({error})", file=sys.stderr)
        return
    if (defaults, wait.__name__, arguments) != _KNOWN:
        return

    def napping(self, timeout_ms=None):  # type: ignore[no-untyped-def]
        if look < time.monotonic() - self.last_read <= self.busy_loop_s:
            time.sleep(NAP)
        else:
            wait(self, timeout_ms)

    condition.wait = napping
