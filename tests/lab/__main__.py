"""Virtual Sparks and what stands beside them, from the command line: python -m tests.lab --help."""

import argparse
import json
import os
import re
import sys

from tests.lab import demo, hub, variants
from tests.lab.lab import Lab
from tests.lab.setup import PACKAGES, build, missing_packages
from tests.lab.spark import Handle
from tests.lab.state import TWINS, LabError


def milliseconds(text: str) -> float:
    """Read `25ms` as 0.025 seconds."""
    if not (found := re.fullmatch(r"(\d+(?:\.\d+)?)(ms)?", text)):
        raise argparse.ArgumentTypeError(f"found {text}; expected milliseconds, such as 25ms")
    return float(found[1]) / 1000


def percent(text: str) -> float:
    """Read `1%` as 0.01."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)%?", text)
    if not found or float(found[1]) > 100:
        raise argparse.ArgumentTypeError(f"found {text}; expected per cent, such as 1%")
    return float(found[1]) / 100


def make_parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    commands.add_parser("build", help="build what labs start from, some minutes the first time")
    up = commands.add_parser("up", help="start the lab")
    up.add_argument("--sparks", type=int, default=1, choices=range(1, 5), metavar="1..4")
    up.add_argument("--pair", action="store_true", help="a replica for each two Sparks")
    commands.add_parser("down", help="remove all of it but the caches")
    status = commands.add_parser("status", help="show what is up")
    status.add_argument("--json", action="store_true")
    ssh = commands.add_parser("ssh", help="open a shell on a Spark, or run a command there")
    power = commands.add_parser("power", help="cut a Spark's power, or switch it on")
    power.add_argument("switch", choices=["on", "off"])
    cable = commands.add_parser("cable", help="cut, mend, move or spoil a Spark's fabric cable")
    cable.add_argument("action", nargs="?", choices=["cut", "mend"])
    netem = commands.add_parser("netem", help="make a Spark's LAN slow or lossy, each way")
    reset = commands.add_parser("reset", help="put a Spark and its cables back as delivered")
    for command in (up, reset):
        command.add_argument("--factory", choices=variants.VARIANTS, default="standard")
    for command in (ssh, power, cable, netem, reset):
        command.add_argument("spark", metavar="SPARK")
    cable.add_argument("--twin", choices=TWINS, help="only this one of the two")
    cable.add_argument("--port", type=int, choices=[0, 1], help="plug it in there")
    cable.add_argument("--mtu", type=int, help="swallow what is larger; 9000 is as it was")
    ssh.add_argument("remote", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    netem.add_argument("--delay", type=milliseconds, default=0.0, metavar="25ms")
    netem.add_argument("--loss", type=percent, default=0.0, metavar="1%")
    netem.add_argument("--clear", action="store_true", help="as it was")
    commands.add_parser("demo", help="the product on a virtual Spark, from nothing to an answer")
    commands.add_parser("hub", help="make the hub misbehave: hub fault NAME", add_help=False)
    packages = commands.add_parser("packages", help="print the Debian packages that the lab needs")
    packages.add_argument("--missing", action="store_true", help="only those not installed")
    return parser


def run(options: argparse.Namespace, rest: list[str]) -> int:
    """Do what the parsed command line asks; return the exit status."""
    lab = Lab()
    match options.command:
        case "build":
            build()
        case "up":
            lab.up(options.sparks, options.factory, pair=options.pair)
        case "down":
            lab.down()
        case "status":
            show(lab.status(), options.json)
        case "ssh":
            remote = options.remote[1:] if options.remote[:1] == ["--"] else options.remote
            command = lab.spark(options.spark).ssh_command(*remote)
            os.execvp(command[0], command)
        case "power":
            spark = lab.spark(options.spark)
            spark.power_on() if options.switch == "on" else spark.power_off()
        case "cable":
            change_cable(lab.spark(options.spark), options)
        case "netem":
            if options.clear == bool(options.delay or options.loss):
                raise LabError("netem needs --delay or --loss, or else --clear")
            lab.spark(options.spark).netem(options.delay, options.loss)
        case "reset":
            lab.spark(options.spark).reset(options.factory)
        case "demo":
            return demo.run()
        case "hub":
            return hub.main(rest)
        case "packages":
            print(*(missing_packages() if options.missing else PACKAGES))
    return 0


def change_cable(spark: Handle, options: argparse.Namespace) -> None:
    """Do to a Spark's fabric cable what the parsed command line asks."""
    if options.action or options.port is not None:
        spark.cable(options.action != "cut", twin=options.twin, port=options.port)
    elif options.mtu is None:
        raise LabError("cable needs cut, mend, --port or --mtu")
    if options.mtu is not None:
        spark.mtu(options.mtu)


def show(status: dict[str, object], as_json: bool) -> None:
    """Print the lab's status, for people or for programs."""
    if as_json:
        print(json.dumps(status, indent=2))
        return
    if not status["up"]:
        print("no lab is up")
    for part in ("services", "sparks"):
        for name, value in status[part].items():  # type: ignore[attr-defined]
            if isinstance(value, dict):
                value = ", ".join(f"{key} {each}" for key, each in value.items())
            print(f"{name}: {value}")


def main(argv: list[str]) -> int:
    """Run one command of the lab; return the exit status."""
    parser = make_parser()
    if argv[:1] == ["hub"]:
        options, rest = parser.parse_args(argv[:1]), argv[1:]
    else:
        options, rest = parser.parse_args(argv), []
    try:
        return run(options, rest)
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
