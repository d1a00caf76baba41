"""A stand-in for `vllm serve`: what others see of it, in the standard library alone.

It takes vLLM's command line, reads the checkpoint's configuration, tokenizer and headers, has
vLLM's processes and endpoints, and tells its clients words at a pace. It has no model: the words
follow from the prompt. `vllm.json` holds what was captured from the real one; tests/contract runs
the same cases against both, and where they differ this one is wrong.
"""

import json
from pathlib import Path

VERSION = "0.32.0"
CAPTURED = json.loads(Path(__file__).with_name("vllm.json").read_text())
