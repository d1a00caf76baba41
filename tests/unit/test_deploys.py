"""What the deploys have in common."""

import re
from pathlib import Path

PROJECT = Path(__file__).parents[2]


def test_a_rollout_brings_what_a_deploy_brings() -> None:
    """All but what may disturb an engine that serves."""
    deploy, rollout = (
        re.findall(r"^(\w+)\.", (PROJECT / f"deploys/{name}.py").read_text(), re.MULTILINE)
        for name in ("spark", "rollout")
    )
    left_out = {"fabric", "firewall", "runtime"}
    assert rollout == [*(step for step in deploy if step not in left_out), "rollout"]
