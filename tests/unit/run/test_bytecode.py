"""pyinfra turns bytecode off before it loads anything of ours; a person may as well."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
sys.dont_write_bytecode = True
import sparkwright.run.inventory
print(sys.dont_write_bytecode)
"""


@pytest.mark.parametrize(("options", "off"), [((), False), (("-B",), True)])
def test_pyinfra_does_not_turn_bytecode_off_and_a_person_does(
    monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], off: bool
) -> None:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    command = [sys.executable, *options, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(off)
