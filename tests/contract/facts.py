"""What the stand-in knows of vLLM by heart, in the form in which it keeps it.

    python -m tests.contract.facts

asks the real engine, and writes tests/lab/standin/vllm.json anew.
"""

import argparse
import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from sparkwright.declared.recipe.loader import load_recipe
from tests.contract import engines
from tests.lab import registry
from tests.lab.engine_image import ENVIRONMENT, STAND_IN, Engine

FILE = STAND_IN / "vllm.json"
CAPTURED: dict[str, Any] = json.loads(FILE.read_text())
INSIDE = Path(__file__).with_name("inside.py")


def inside(engine: Engine, *orders: object) -> dict[str, Any]:
    variables = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
    mounted = 'mount -t tmpfs tmpfs "$0/tmp"; mount -t proc proc "$0/proc"; exec chroot "$0" "$@"'
    private = ["unshare", "--mount", "--propagation=slave", "--pid", "--fork", "--kill-child"]
    command = [*private, "sh", "-ec", mounted, str(registry.unpacked(engine)), "env", "-i"]
    command += [*variables, "PYTHONDONTWRITEBYTECODE=1", "python3", "-c", INSIDE.read_text()]
    command += map(json.dumps, orders)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def endpoints(openapi: dict[str, Any]) -> dict[str, list[str]]:
    return {path: sorted(methods) for path, methods in openapi["paths"].items()}


def endpoints_of(recipe: str) -> str:
    answers = load_recipe(recipe).answers
    return "endpoints" if answers == "chat" else f"endpoints_{answers}"


def metrics(text: str) -> list[dict[str, Any]]:
    families: dict[str, dict[str, Any]] = {}
    for line in text.splitlines():
        if found := re.match(r"# TYPE (vllm:\w+) (\w+)", line):
            family = {"name": found[1], "kind": found[2], "labels": [], "buckets": []}
            families[found[1]] = family
        elif found := re.match(r"(vllm:\w+)\{(.*)\} ", line):
            if found[1].endswith("_bucket"):
                bound = re.search(r'le="(.*?)"', found[2])
                assert bound
                family["buckets"].append(bound[1])
            elif not found[1].endswith("_sum"):
                family["labels"].append(found[2])
    # The time of a counter's birth is nothing that anybody reads.
    return [family for name, family in families.items() if not name.endswith("_created")]


def main() -> None:
    facts = inside("vllm", "environment")
    with tempfile.TemporaryDirectory() as folder:
        for recipe, models in engines.RECIPES.items():
            line = engines.line(recipe=recipe)
            running = engines.start("vllm", line, Path(folder) / recipe, models=models())
            try:
                running.wait_ready()
                facts[endpoints_of(recipe)] = endpoints(running.ask("/openapi.json").json())
                if recipe == engines.CHAT:
                    facts["metrics"] = metrics(running.ask("/metrics").text)
            finally:
                running.stop()
    FILE.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    argparse.ArgumentParser(
        prog="python -m tests.contract.facts",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).parse_args()
    main()
