"""Asks a release of vLLM what a checkpoint's text_config is once a recipe's hf-overrides are in it.

Runs in the engine image's Python. Reads from standard input: `config` (config.json), `args`
(EngineArgs) and `key`. Writes the key's value.
"""

import json
import sys
from pathlib import Path

from inside import gpu


def main():
    """Answer one request."""
    answer, sys.stdout = sys.stdout, sys.stderr  # vLLM's log is no part of the answer
    gpu.present(gpu.GPUS["gb10"])
    gpu.inspect_models_here()
    from vllm.engine.arg_utils import EngineArgs

    request = json.load(sys.stdin)
    path = Path("/models/model/config.json")
    path.parent.mkdir()
    path.write_text(json.dumps(request["config"]))
    arguments = EngineArgs(model=str(path.parent), skip_tokenizer_init=True, **request["args"])
    json.dump(getattr(arguments.create_model_config().hf_text_config, request["key"], None), answer)


if __name__ == "__main__":
    main()
