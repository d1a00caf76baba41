"""Virtual Sparks and what stands beside them, from the command line: python -m tests.lab --help."""

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import get_args

from tests.lab import state, variants
from tests.lab.lab import Lab
from tests.lab.setup import PACKAGES, build, missing_packages
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


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="build what labs start from, some minutes the first time")
    up = commands.add_parser("up", help="start the lab")
    up.add_argument("--sparks", type=int, default=1, choices=range(1, 5), metavar="1..4")
    up.add_argument("--together", choices=get_args(state.Together), default="alone")
    up.add_argument("--factory", choices=variants.VARIANTS, default="standard")
    commands.add_parser("down", help="remove all of it but the caches")
    commands.add_parser("status", help="show what is up, as JSON")
    ssh = commands.add_parser("ssh", help="open a shell on a Spark, or run a command there")
    power = commands.add_parser("power", help="cut a Spark's power, or switch it on")
    power.add_argument("switch", choices=["on", "off"])
    for command in (ssh, power):
        command.add_argument("spark", metavar="SPARK")
    ssh.add_argument("remote", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    commands.add_parser("demo", help="the product on a virtual Spark, from nothing to an answer")
    packages = commands.add_parser("packages", help="print the Debian packages that the lab needs")
    packages.add_argument("--missing", action="store_true", help="only those not installed")
    return parser


def run(options: argparse.Namespace) -> int:
    lab = Lab()
    match options.command:
        case "build":
            build()
        case "up":
            lab.up(options.sparks, options.factory, together=options.together)
        case "down":
            lab.down()
        case "status":
            print(state.require().model_dump_json(indent=2))
        case "ssh":
            remote = options.remote[1:] if options.remote[:1] == ["--"] else options.remote
            command = lab.spark(options.spark).ssh_command(*remote)
            os.execvp(command[0], command)
        case "power":
            spark = lab.spark(options.spark)
            spark.power_on() if options.switch == "on" else spark.power_off()
        case "demo":
            return demo()
        case "packages":
            print(*(missing_packages() if options.missing else PACKAGES))
    return 0


def demo() -> int:
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
    key = f"{_venv()}/bin/sparkwright -i {FLEET.stem} keys show"
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
        (f". {_venv()}/bin/activate", "have sparkwright, pyinfra and pytest at hand"),
        (f"HF_TOKEN={_TOKEN} pyinfra {shlex.join(_DEPLOY)}", "run it again: nothing changes"),
        ("sparkwright -i lab status", "see what serves"),
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


def main(argv: list[str]) -> int:
    try:
        return run(make_parser().parse_args(argv))
    except LabError as problem:
        print(f"lab: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            "\nlab: interrupted; to remove what is there: python -m tests.lab down", file=sys.stderr
        )
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
