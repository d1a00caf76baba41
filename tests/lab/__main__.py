"""Virtual Sparks and what stands beside them, from the command line: python -m tests.lab --help."""

import argparse
import os
import sys

from tests.lab import demo, state, variants
from tests.lab.lab import Lab
from tests.lab.setup import PACKAGES, build, missing_packages
from tests.lab.state import LabError


def make_parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="build what labs start from, some minutes the first time")
    up = commands.add_parser("up", help="start the lab")
    up.add_argument("--sparks", type=int, default=1, choices=range(1, 5), metavar="1..4")
    up.add_argument("--pair", action="store_true", help="a replica for each two Sparks")
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
            print(state.require().model_dump_json(indent=2))
        case "ssh":
            remote = options.remote[1:] if options.remote[:1] == ["--"] else options.remote
            command = lab.spark(options.spark).ssh_command(*remote)
            os.execvp(command[0], command)
        case "power":
            spark = lab.spark(options.spark)
            spark.power_on() if options.switch == "on" else spark.power_off()
        case "demo":
            return demo.run()
        case "packages":
            print(*(missing_packages() if options.missing else PACKAGES))
    return 0


def main(argv: list[str]) -> int:
    """Run one command of the lab; return the exit status."""
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
