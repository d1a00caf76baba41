"""The `vllm serve` and `docker run` lines.

    python -m deploys.plan.command RECIPE [--sparks N]

prints them for every rank, with no host and no lock at hand.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import PurePosixPath

from deploys.plan.errors import PlanError
from deploys.plan.recipe import REFERENCE, Recipe, load_recipe

# Where the engine finds things inside its container.
_MODELS = "/models"
_CACHES = {
    "vllm": "/root/.cache/vllm",
    "flashinfer": "/root/.cache/flashinfer",
    "triton": "/root/.triton",
}

# vLLM's own default (0.33.0); named so that both ranks are seen to agree.
_MASTER_PORT = 29501

# Weights are on the host and checked before a start: an engine asks no hub. Nor does it report use.
_ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}


def serve_arguments(
    recipe: Recipe,
    *,
    port: int,
    bind: str,
    rank: int = 0,
    nodes: int = 1,
    master: str | None = None,
) -> list[str]:
    """Arguments of ``vllm`` for one rank.

    Args:
        recipe: What is served.
        port: TCP port of the API (rank 0 only; the others have no API).
        bind: Address that the API listens on.
        rank: 0 is the head.
        nodes: Number of Sparks; each has one GPU, so it is the tensor-parallel size as well.
        master: The head's fabric address; needed with more than one Spark.

    Returns:
        The words after ``vllm``, unquoted.

    Raises:
        PlanError: More than one Spark, and no fabric address.
    """
    words = ["serve", _container_path(recipe, "model"), "--served-model-name", *recipe.served_names]
    words += ["--tensor-parallel-size", str(nodes)]
    if nodes > 1:
        if master is None:
            raise PlanError(f"{recipe.name}: found {nodes} Sparks; expected a fabric address")
        words += ["--nnodes", str(nodes), "--node-rank", str(rank)]
        words += ["--master-addr", master, "--master-port", str(_MASTER_PORT)]
    words += ["--host", bind, "--port", str(port)] if rank == 0 else ["--headless"]
    for option, value in recipe.args.items():
        words += _option(option, _resolve(recipe, value))
    return words


def environment(recipe: Recipe) -> dict[str, str]:
    """Environment of the engine, which the recipe's own and ours make up."""
    return {key: _substitute(recipe, value) for key, value in recipe.env.items()} | _ENVIRONMENT


def docker_run(
    recipe: Recipe,
    *,
    image: str,
    release: str,
    root: str,
    port: int,
    bind: str,
    rank: int = 0,
    nodes: int = 1,
    master: str | None = None,
) -> list[str]:
    """The whole command that runs an engine in the foreground.

    Args:
        recipe: What is served.
        image: The image, by digest.
        release: Id of the release: name of the container and of the folder with ``engine.env``.
        root: Folder of everything on the Spark (``/opt/qwen36``).
        port, bind, rank, nodes, master: As for `serve_arguments`.

    Returns:
        The words, unquoted.

    Raises:
        PlanError: As `serve_arguments`.
    """
    base = PurePosixPath(root)
    words = ["docker", "run", "--rm", "--name", f"vllm-{release}"]
    words += ["--label", f"sparkwright.release={release}"]
    # The image is on the host before a start; one that would download 10 GB is an error.
    words += ["--pull", "never"]
    words += ["--gpus", "all", "--ipc", "host", "--network", "host", "--cgroupns", "host"]
    words += ["--ulimit", "memlock=-1", "--ulimit", "stack=67108864", "--log-driver", "none"]
    words += ["--env-file", f"{base / 'releases' / release / 'engine.env'}"]
    for checkpoint in recipe.checkpoints.values():
        words += ["--volume", f"{base / checkpoint.folder}:{_MODELS}/{checkpoint.folder}:ro"]
    for cache, inside in _CACHES.items():
        words += ["--volume", f"{base / 'cache' / cache}:{inside}"]
    words += ["--entrypoint", "vllm", image]
    return words + serve_arguments(
        recipe, port=port, bind=bind, rank=rank, nodes=nodes, master=master
    )


def shell_lines(words: Sequence[str], breaks: Collection[int] = ()) -> str:
    """Quote a command for ``sh``, one option a line.

    Args:
        words: The words of the command.
        breaks: Positions of words that start a line, too.

    Returns:
        Text that ``sh`` splits into exactly these words.
    """
    lines: list[list[str]] = [[]]
    for position, word in enumerate(words):
        if word.startswith("--") or position in breaks:
            lines.append([])
        lines[-1].append(shlex.quote(word))
    return " \\\n  ".join(" ".join(line) for line in lines)


def _container_path(recipe: Recipe, checkpoint: str) -> str:
    return f"{_MODELS}/{recipe.checkpoints[checkpoint].folder}"


def _substitute(recipe: Recipe, text: str) -> str:
    return REFERENCE.sub(lambda match: _container_path(recipe, match[1]), text)


def _resolve(recipe: Recipe, value: object) -> object:
    """Put container paths in the place of ``${checkpoint}``, anywhere in a value."""
    if isinstance(value, str):
        return _substitute(recipe, value)
    if isinstance(value, list):
        return [_resolve(recipe, item) for item in value]
    if isinstance(value, dict):
        return {key: _resolve(recipe, item) for key, item in value.items()}
    return value


def _option(name: str, value: object) -> list[str]:
    match value:
        case True:
            return [f"--{name}"]
        case False:
            return [f"--no-{name}"]
        case list():
            return [f"--{name}", *(_scalar(item) for item in value)]
        case dict():
            return [f"--{name}", json.dumps(value, separators=(",", ":"))]
        case _:
            return [f"--{name}", _scalar(value)]


def _scalar(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _report(recipe: Recipe, nodes: int) -> Iterator[str]:
    """What `python -m deploys.plan.command` prints, line by line."""
    release = f"{recipe.name}-RELEASE"
    yield f"# {recipe.name}: {' '.join(recipe.description.split())}"
    yield f"# vLLM {recipe.vllm}; hardware {', '.join(recipe.hardware)}; {nodes} Spark(s)."
    yield "# A Spark runs the image by the digest in the lock, and RELEASE is 8 hexadecimal digits."
    if nodes > 1:
        yield "# HEAD-FABRIC-ADDRESS stands for what only the Sparks can tell, and so would each"
        yield "# rank's own VLLM_HOST_IP and NCCL_SOCKET_IFNAME, which are not shown."
    yield f"\n# {release}/engine.env"
    yield from (f"{key}={value}" for key, value in environment(recipe).items())
    for rank in range(nodes):
        role = "head" if rank == 0 else "worker"
        docker = docker_run(
            recipe,
            image=recipe.image,
            release=release,
            root="/opt/qwen36",
            port=8000,
            bind="0.0.0.0",
            rank=rank,
            nodes=nodes,
            master="HEAD-FABRIC-ADDRESS",
        )
        start = docker.index(recipe.image)
        yield f"\n# rank {rank} ({role}): docker run\n{shell_lines(docker, breaks=[start])}"
        yield f"\n# rank {rank} ({role}): vllm serve, as it runs inside"
        yield shell_lines(["vllm", *docker[start + 1 :]])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what a unit will run. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m deploys.plan.command", description="Print the lines that serve a recipe."
    )
    parser.add_argument("recipe", help="name of a recipe (files/recipes)")
    parser.add_argument(
        "--sparks", type=int, metavar="N", help="of the replica (default: the least)"
    )
    options = parser.parse_args(arguments)
    try:
        recipe = load_recipe(options.recipe)
        nodes = options.sparks if options.sparks is not None else min(recipe.sparks)
        if nodes not in recipe.sparks:
            supported = " or ".join(map(str, recipe.sparks))
            raise PlanError(f"--sparks: found {nodes}; expected {supported} ({recipe.name})")
        report = "\n".join(_report(recipe, nodes))
    except PlanError as error:
        print(error, file=sys.stderr)
        return 1
    print(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
