"""Whose token it is, as a deploy asks before the token comes into force."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.clock import patience
from tests.component.hub.client import Running
from tests.programs import host_program


def check(
    folder: Path, endpoint: str, token: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    (folder / "token").write_text(f"{token}\n")
    own = {"HF_ENDPOINT": endpoint, "HF_TOKEN_PATH": str(folder / "token")}
    own |= {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_UPDATE_CHECK": "1"}
    return subprocess.run(
        host_program("check-token"),
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **own, **variables},
        capture_output=True,
        text=True,
        timeout=patience(),
    )


# The second is what an owner may have set for all programs of the Spark (/etc/environment).
@pytest.mark.parametrize("variables", [{}, {"HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}])
def test_a_token_has_an_owner(running: Running, tmp_path: Path, variables: dict[str, str]) -> None:
    done = check(tmp_path, running.url, "hf_lab_reader", **variables)
    assert (done.returncode, done.stdout) == (0, "lab-reader\n")


def test_one_that_the_hub_refuses_is_told_with_what_helps(running: Running, tmp_path: Path) -> None:
    done = check(tmp_path, running.url, "hf_wrong")
    assert done.returncode == 1
    assert done.stderr.startswith(f"{running.url} refuses the Hugging Face token (401): it is")
    assert f"Make another at {running.url}/settings/tokens" in done.stderr
    assert "hf_wrong" not in done.stderr
