"""What a Spark serves, as a rollout reads it: the script, with another systemctl."""

import os
import subprocess
from pathlib import Path

import pytest

from sparkwright.rollout.serving import Standing, parse_standing, standing_script, together

# Two units are active: one takes over from the other.
SYSTEMCTL = """#!/bin/sh
case "$*" in
  list-units*) for each in $ACTIVE; do echo "vllm@$each.service loaded active x"; done ;;
  *InvocationID*) echo "life of ${4#vllm@}" ;;
esac
"""


@pytest.mark.parametrize(
    ("active", "current", "expected"),
    [
        ("a-1", "a-1", Standing("a-1", "life of a-1.service", frozenset({"qwen", "x"}))),
        ("a-1 b-1", "b-1", Standing("b-1", "life of b-1.service", frozenset({"qwen"}))),
        ("b-1", "a-1", Standing("b-1", "life of b-1.service", frozenset({"qwen"}))),
        ("gone-1", None, Standing("gone-1", "life of gone-1.service")),
        ("", "a-1", Standing()),
        ("", None, Standing()),
    ],
)
def test_what_serves(tmp_path: Path, active: str, current: str | None, expected: Standing) -> None:
    bin_folder, root = tmp_path / "bin", tmp_path / "the root"
    bin_folder.mkdir()
    (bin_folder / "systemctl").write_text(SYSTEMCTL)
    (bin_folder / "systemctl").chmod(0o755)
    for name, names in (("a-1", '["qwen", "x"]'), ("b-1", '["qwen"]')):
        folder = root / "releases" / name
        folder.mkdir(parents=True)
        (folder / "release.json").write_text(f'{{\n  "served_names": {names}\n}}\n')
    if current:
        (root / "current").symlink_to(f"releases/{current}")
    path = f"{bin_folder}:{os.environ['PATH']}"
    said = subprocess.run(
        ["sh", "-c", standing_script(str(root))],
        env=os.environ | {"PATH": path, "ACTIVE": active},
        capture_output=True,
        text=True,
        check=True,
    )
    assert parse_standing(said.stdout.splitlines()) == expected


@pytest.mark.parametrize("said", ["", "@@engines", "@@current\n@@engines\nwhat"])
def test_what_is_not_the_scripts_is_refused(said: str) -> None:
    with pytest.raises((KeyError, ValueError)):
        parse_standing(said.splitlines())


def test_a_pair_serves_what_both_serve() -> None:
    assert together([Standing("x", "1"), Standing("x", "2")]) == Standing("x", "1")
    assert together([Standing("x"), Standing("y")]) == Standing()
    assert together([Standing("x"), Standing()]) == Standing()
