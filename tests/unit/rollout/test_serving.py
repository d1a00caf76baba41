"""What a Spark serves, as a rollout reads it: the script, with another systemctl."""

import os
import subprocess
from pathlib import Path

import pytest

from sparkwright.rollout.serving import ServingState, parse_serving, serving_script, together

# Two units are active: one takes over from the other.
SYSTEMCTL = """#!/bin/sh
case "$*" in
  list-units*) for each in $ACTIVE; do echo "vllm@$each.service loaded active x"; done ;;
  *InvocationID*) echo "invocation of ${4#vllm@}" ;;
esac
"""


@pytest.mark.parametrize(
    ("active", "current", "expected"),
    [
        ("a-1", "a-1", ServingState("a-1", "invocation of a-1.service", frozenset({"qwen", "x"}))),
        ("a-1 b-1", "b-1", ServingState("b-1", "invocation of b-1.service", frozenset({"qwen"}))),
        ("b-1", "a-1", ServingState("b-1", "invocation of b-1.service", frozenset({"qwen"}))),
        ("gone-1", None, ServingState("gone-1", "invocation of gone-1.service")),
        ("", "a-1", ServingState()),
        ("", None, ServingState()),
    ],
)
def test_what_serves(
    tmp_path: Path, active: str, current: str | None, expected: ServingState
) -> None:
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
        ["sh", "-c", serving_script(str(root))],
        env=os.environ | {"PATH": path, "ACTIVE": active},
        capture_output=True,
        text=True,
        check=True,
    )
    assert parse_serving(said.stdout.splitlines()) == expected


@pytest.mark.parametrize("said", ["", "@@engines", "@@current\n@@engines\nwhat"])
def test_what_is_not_the_scripts_is_refused(said: str) -> None:
    with pytest.raises((KeyError, ValueError)):
        parse_serving(said.splitlines())


def test_a_pair_serves_what_both_serve() -> None:
    assert together([ServingState("x", "1"), ServingState("x", "2")]) == ServingState("x", "1")
    assert together([ServingState("x"), ServingState("y")]) == ServingState()
    assert together([ServingState("x"), ServingState()]) == ServingState()
