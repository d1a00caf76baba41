"""Templates: what becomes of names, values and ends of lines."""

from pathlib import Path

import pytest
from jinja2 import UndefinedError

from sparkwright.common.render import render, unit_file


def test_what_becomes_of_values_names_and_conditions() -> None:
    value = "{{ other }} <a href='$x'> 100%"
    assert render("say {{ value }}\n", value=value) == f"say {value}\n"
    with pytest.raises(UndefinedError, match="'rot' is undefined"):
        render("{{ rot }}", root="/r")
    # A condition takes its lines with it.
    text = "a\n  {% if b %}\nb\n  {% endif %}\n{# Why. #}\nc\n"
    assert (render(text, b=True), render(text, b=False)) == ("a\nb\nc\n", "a\nc\n")


def test_a_unit_is_called_like_its_template(tmp_path: Path) -> None:
    (tmp_path / "x@.service").write_text("[Service]\nExecStart={{ root }}/x %i\n")
    unit = unit_file(tmp_path / "x@.service", root="/r")
    assert unit.path == "/etc/systemd/system/x@.service"
    assert unit.text == "[Service]\nExecStart=/r/x %i\n"
