"""sparkwright-host: the programs that Sparkwright runs on a Spark, a subcommand each.

Systemd's units and Sparkwright's runs call them; by hand, they show something.
"""

import argparse
import importlib
import sys

# Subcommand -> the module of `host` whose `command` runs it, and what it is for.
COMMANDS = {
    "engine": ("engine.supervisor", "run the engine of a release, as vllm@RELEASE does"),
    "start": ("engine.startup", "keep what the start of an engine took"),
    "switch": ("engine.switch.course", "have another release serve, or take that back"),
    "turns": ("engine.turns.loop", "have models that do not fit together serve in turn"),
    "door": ("door.door", "list the engines behind the door, or change which is preferred"),
    "metrics": ("insight.monitoring.metrics", "print the metrics of GPU, engine, memory and door"),
    "notify": ("insight.monitoring.notify", "send notices to the owner's webhook, or a test"),
    "record": ("insight.recorder.recorder", "write a line a second about this Spark"),
    "state": ("state.state", "print what this Spark is"),
    "benchmark": ("insight.benchmark.measure", "measure what a run has asked for"),
    "gpu-proof": ("machine.runtime.gpu_proof", "show that a container gets the GPU"),
    "fetch-weights": ("artifacts.weights.fetch", "fetch and verify a checkpoint"),
    "link-weights": ("artifacts.weights.link", "begin with what other folders have"),
    "hand-over": ("artifacts.weights.hand_over", "give a folder of weights another owner"),
    "check-token": ("artifacts.weights.check_token", "ask the hub whose token this is"),
    "pull-image": ("artifacts.image.pull", "have Docker pull an image"),
    "build-image": ("artifacts.image.build", "have Docker build an image"),
    "copy-image": ("artifacts.image.copy", "copy an image from the other Spark of the pair"),
    "serve-files": ("network.fabric.file_server", "lend verified files to the other Spark"),
}


def main() -> None:
    """Run the subcommand that the command line names; its module says how it exits."""
    listing = "\n".join(f"  {name:<15}{purpose}" for name, (_, purpose) in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="sparkwright-host",
        description=__doc__,
        epilog=f"subcommands:\n{listing}\n\nEach of them has a --help of its own.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("subcommand", choices=COMMANDS, metavar="SUBCOMMAND")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...")
    chosen = parser.parse_args()
    sys.argv = [f"{parser.prog} {chosen.subcommand}", *chosen.arguments]
    importlib.import_module(f"host.{COMMANDS[chosen.subcommand][0]}").command()


if __name__ == "__main__":
    main()
