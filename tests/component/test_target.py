"""The target of a Spark: made once a run, and its release with it."""

INVENTORY = """
from pathlib import Path

def _spark(name, rank):
    return "@fake/" + name, {
        "fake_delay": 0, "fake_delay_jitter": 0, "spark": name, "hardware": "lab",
        "fleet": str(Path("sparks.yaml").absolute()), "replica": "chat", "recipe": "lab-tiny",
        "ranks": ["a", "b"], "rank": rank, "port": 8000, "api_key": "none",
    }

sparks = [_spark("a", 0), _spark("b", 1)]
"""
