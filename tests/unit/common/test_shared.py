"""Readings that the scripts of a survey share, by a shell of this machine."""

import re
import subprocess
from pathlib import Path

from sparkwright.common.host_output import shared
from sparkwright.run.survey_script import survey_script


def surveyed(*scripts: str) -> list[str]:
    """Return what each of these prints, as the scripts of one survey."""
    parts = re.split(r"^@@m \d+(?: 0)?\n", sh(survey_script(scripts, "@@m")), flags=re.MULTILINE)
    return [each.removesuffix("\n") for each in parts[1::2]]


def sh(script: str) -> str:
    return subprocess.run(
        ["sh"], input=script, capture_output=True, text=True, check=True, cwd="/"
    ).stdout


def test_the_scripts_of_a_survey_read_it_once(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\necho run >> {tmp_path}/log\nsleep 0.1\necho "$1"\n')
    program.chmod(0o755)
    reading = shared("reading", f"{program} '$a b'")
    found = surveyed(f"{reading} | cut -c 2-", reading, f'echo "x $({reading})"')
    assert found == ["a b\n", "$a b\n", "x $a b\n"]
    assert (tmp_path / "log").read_text() == "run\n"
    # By itself, a script reads it anew.
    assert sh(reading) == "$a b\n"
    assert (tmp_path / "log").read_text() == "run\nrun\n"


def test_of_a_program_that_fails_nothing_is_read() -> None:
    failing = shared("reading", "sh -c 'echo half; exit 1'")
    assert sh(f"{failing} || echo $?") == "1\n"
    assert surveyed(f"{failing} || echo $?", f"{failing}; echo more") == ["1\n", "more\n"]
    absent = shared("reading", "/no/such/program")
    assert sh(f"{absent} || echo $?") == "127\n"
    assert sh(f"{absent}; echo more") == "more\n"
