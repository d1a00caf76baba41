"""The token of this machine is the one that huggingface_hub finds."""

import os
import subprocess
import sys
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub import constants

from sparkwright.common.errors import PlanError
from sparkwright.plan.release.token import own_token
from tests.makers.refused import refusal


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


@pytest.mark.parametrize("variable", ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", None])
@pytest.mark.parametrize(
    ("token", "found"),
    [
        ("hf_a b", "spaces or control characters"),
        ("hf_\x07", "spaces or control characters"),
        ("hf_ü", "a letter that no token has"),
        ("hf_é\n", "a letter that no token has"),
    ],
)
def test_what_cannot_be_a_token_is_named_by_its_source_and_not_shown(
    token: str, found: str, variable: str | None, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable:
        monkeypatch.setenv(variable, token)
    else:
        file.write_text(f"{token}\n", encoding="utf-8")
    said = refusal(own_token)
    assert said.startswith(f"{variable or file}: found a Hugging Face token with {found} in it; ")
    assert token.strip() not in said
    if variable == "HF_TOKEN":
        # Two tokens in a variable are none; the library joins them.
        monkeypatch.setenv("HF_TOKEN", "hf_a\nhf_b")
        with pytest.raises(PlanError, match="HF_TOKEN: found a Hugging Face token with spaces or"):
            own_token()


def test_a_token_of_ci_goes_before_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_OIDC_RESOURCE", "models/a/b")
    monkeypatch.setenv("HF_TOKEN", "hf_own")
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: "hf_ci", raising=False)
    assert own_token() == "hf_ci"


@pytest.mark.parametrize("token", ["hf_own", ""])
def test_a_run_imports_no_client_for_a_plain_token_or_none(token: str, tmp_path: Path) -> None:
    program = (
        "import sys; from sparkwright.plan.release.token import own_token; own_token(); "
        "print('httpx2' in sys.modules)"
    )
    environment = {**os.environ, "HF_HOME": str(tmp_path), "HF_TOKEN": token}
    said = subprocess.check_output([sys.executable, "-c", program], env=environment, text=True)
    assert said == "False\n"
