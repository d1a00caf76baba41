"""The token of this machine is the one that huggingface_hub finds."""

import os
import subprocess
import sys
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub import constants

from sparkwright.release.token import own_token


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The library's file of the token, which does not exist; no variable is set."""
    file = tmp_path / "token"
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(file))
    for name in [name for name in os.environ if name.startswith(("HF_", "HUGGING"))]:
        monkeypatch.delenv(name)
    return file


@pytest.mark.parametrize("content", [None, "hf_file\n", " \n"])
@pytest.mark.parametrize("old", [None, "hf_old"])
@pytest.mark.parametrize("variable", [None, "", "hf_own", "hf_own\n", " "])
def test_it_is_the_one_that_the_library_finds(
    variable: str | None,
    old: str | None,
    content: str | None,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (("HF_TOKEN", variable), ("HUGGING_FACE_HUB_TOKEN", old)):
        if value is not None:
            monkeypatch.setenv(name, value)
    if content is not None:
        file.write_text(content)
    assert own_token() == huggingface_hub.get_token()


def test_a_token_of_ci_goes_before_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_OIDC_RESOURCE", "models/a/b")
    monkeypatch.setenv("HF_TOKEN", "hf_own")
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: "hf_ci", raising=False)
    assert own_token() == "hf_ci"


@pytest.mark.parametrize("token", ["hf_own", ""])
def test_a_run_imports_no_client_for_a_plain_token_or_none(token: str, tmp_path: Path) -> None:
    program = (
        "import sys; from sparkwright.release.token import own_token; own_token(); "
        "print('httpx2' in sys.modules)"
    )
    environment = {**os.environ, "HF_HOME": str(tmp_path), "HF_TOKEN": token}
    said = subprocess.check_output([sys.executable, "-c", program], env=environment, text=True)
    assert said == "False\n"
