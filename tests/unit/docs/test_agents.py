"""A site's words to programs that operate it: which commands are safe; none is missing."""

import re

import pytest

from sparkwright.cli.main import cli
from sparkwright.common.paths import FILES

TEXT = (FILES / "site/AGENTS.md.j2").read_text()
TABLE, _, REST = TEXT.partition("**A person's word first**")
ASKS, _, NEVER = REST.partition("**Never**")
# `init` makes the site; these write files on this machine alone.
LEFT_OUT = {"init", "monitoring", "openclaw"}


def verbs(text: str) -> set[str]:
    """Return the commands that a text names, by their first words."""
    return {
        quoted.split()[0] for quoted in re.findall(r"`(?:sparkwright )?([a-z][^`]*)`", text)
    } & set(cli.commands)


def test_each_command_is_safe_or_asked_for_or_forbidden() -> None:
    safe = verbs("\n".join(re.findall(r"^\| (.*?) \|", TABLE, re.MULTILINE)))
    asked = verbs(ASKS) - safe
    assert safe == {"plan", "status", "drift", "doctor", "logs", "verify", "check", "recipes"}
    assert safe | asked | {"keys"} | LEFT_OUT == set(cli.commands)
    assert "keys" in verbs(NEVER)


@pytest.mark.parametrize("line", re.findall(r"`sparkwright (\w+) (-[^`]*|NAME -[^`]*)`", TABLE))
def test_the_options_of_safe_commands_exist(line: tuple[str, str]) -> None:
    verb, words = line
    known = {option for each in cli.commands[verb].params for option in each.opts}
    assert set(re.findall(r"(?<!\S)--?[a-z]+", words)) <= known


def test_a_safe_command_has_no_question_to_skip() -> None:
    for verb in ("plan", "status", "drift", "doctor", "logs"):
        assert "--yes" not in {option for each in cli.commands[verb].params for option in each.opts}
