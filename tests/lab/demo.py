"""The product on a virtual Spark, from nothing to an answer: what `make demo` shows."""

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

from tests.lab import state
from tests.lab.lab import Lab
from tests.lab.state import FLEET, PROJECT, LabError

_TOKEN = "hf_lab_reader"
_DEPLOY = ["inventory/lab.py", "deploys/spark.py", "-y"]
_QUESTION = {
    "model": "tiny",
    "messages": [{"role": "user", "content": "What is 17 x 23?"}],
    "max_tokens": 24,
    "temperature": 0,
    "chat_template_kwargs": {"enable_thinking": False},
}


def run() -> int:
    """Bring up a virtual Spark, deploy to it, ask it; return the exit status."""
    begun = time.monotonic()
    lab = Lab()
    if state.read():
        raise LabError("found a lab that is up; expected none. To remove it: make lab-down")
    _title("A virtual Spark, as it leaves the factory")
    lab.up(1)
    _title("From the factory to a served model: pyinfra " + shlex.join(_DEPLOY))
    # The lab's hub knows no token of anybody's login.
    environment = os.environ | {"HF_TOKEN": _TOKEN}
    command = [str(Path(sys.executable).with_name("pyinfra")), *_DEPLOY]
    if subprocess.run(command, cwd=PROJECT, env=environment, check=False).returncode:
        print("\nThe deploy failed. Look: python -m tests.lab ssh spark1. Remove: make lab-down")
        return 1
    url = f"http://{lab.spark('spark1').address}:8000/v1/chat/completions"
    request = ["curl", "--silent", "--fail-with-body", url, "--data", json.dumps(_QUESTION)]
    request += ["--header", "Content-Type: application/json"]
    key = f".venv/bin/python -m sparkwright -i {FLEET.stem} keys show"
    line = f'{shlex.join(request)} --header "Authorization: Bearer $({key})"'
    _title("A question to it")
    print(line, flush=True)
    answer = subprocess.run(line, shell=True, cwd=PROJECT, stdout=subprocess.PIPE, check=False)
    if answer.returncode:
        print(answer.stdout.decode())
        return 1
    choice = json.loads(answer.stdout)["choices"][0]["message"]["content"]
    print(f"\n{choice!r}\n")
    print("(The model is random and of a few million parameters: it proves the way, not the wit.)")
    _title(f"Done in {time.monotonic() - begun:.0f} s. The server goes on; now you can")
    for line, purpose in (
        ("the curl line above", "ask again"),
        (f". {_venv()}/bin/activate", "have pyinfra and pytest at hand for what follows"),
        (f"HF_TOKEN={_TOKEN} pyinfra {shlex.join(_DEPLOY)}", "run it again: nothing changes"),
        ("pytest tests/verify --inventory inventory/lab.py", "prove what stands"),
        ("python -m tests.lab ssh spark1", "look around: systemctl status 'vllm@*'"),
        ("python -m tests.lab power off spark1; … power on", "see it come back by itself"),
        ("make lab-down", "remove all of it but the caches"),
    ):
        print(f"  {line:<66} {purpose}")
    return 0


def _venv() -> str:
    folder = Path(sys.prefix)
    return str(folder.relative_to(PROJECT) if folder.is_relative_to(PROJECT) else folder)


def _title(text: str) -> None:
    print(f"\n=== {text}\n", flush=True)
