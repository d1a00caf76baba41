"""A release: a recipe with all its names resolved, frozen under one id."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from ipaddress import ip_address

from deploys.plan.command import docker_run, environment, serve_arguments, shell_lines
from deploys.plan.errors import PlanError
from deploys.plan.lock import Lock, checkpoint_key
from deploys.plan.recipe import Recipe

# ':' separates the parts of docker's --volume; a root with a space has never been tried.
_ROOT = re.compile(r"(/[A-Za-z0-9][A-Za-z0-9._-]*)+")


@dataclass(frozen=True)
class Release:
    """What one replica's engine is, on disk.

    Attributes:
        id: ``<recipe>-<8 hex>``, made of everything that the engine would notice.
        recipe: The recipe that it came from.
        image: ``repo@sha256:…``.
        port: TCP port of the engine.
        bind: Address that it listens on.
        root: Folder of everything on the Spark.
        files: The files of the release folder, name -> text.
    """

    id: str
    recipe: Recipe
    image: str
    port: int
    bind: str
    root: str
    files: dict[str, str]

    @property
    def url(self) -> str:
        """Where the engine answers on its own Spark."""
        return engine_url(self.bind, self.port)


def engine_url(bind: str, port: int) -> str:
    """Where an engine answers on its own Spark: on loopback when it listens everywhere."""
    address = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(bind, bind)
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


def make_release(recipe: Recipe, lock: Lock, *, root: str, bind: str, port: int) -> Release:
    """Freeze a recipe.

    Args:
        recipe: What is served.
        lock: What its names stand for.
        root: Folder of everything on the Spark (``/opt/qwen36``).
        bind: Address that the engine listens on.
        port: TCP port of the engine.

    Raises:
        PlanError: The lock lacks a name of the recipe, or root, bind or port cannot be.
    """
    _check(recipe, lock, root=root, bind=bind, port=port)
    image = f"{repository(recipe.image)}@{lock.images[recipe.image].digest}"
    resolved = {
        "recipe": recipe.name,
        "vllm": recipe.vllm,
        "image": image,
        "checkpoints": {
            name: {
                "repo": checkpoint.repo,
                "commit": lock.checkpoints[checkpoint_key(checkpoint)].commit,
                "folder": checkpoint.folder,
            }
            for name, checkpoint in recipe.checkpoints.items()
        },
        "served_names": recipe.served_names,
        "bind": bind,
        "port": port,
        "arguments": serve_arguments(recipe, port=port, bind=bind),
        "environment": environment(recipe),
    }

    def files(release: str) -> dict[str, str]:
        command = docker_run(recipe, image=image, release=release, root=root, port=port, bind=bind)
        return {
            "release.json": json.dumps(resolved, indent=2, sort_keys=True) + "\n",
            "engine.env": "".join(f"{key}={value}\n" for key, value in environment(recipe).items()),
            "unit.env": (
                f"ENGINE_URL={engine_url(bind, port)}\n"
                f"START_TIMEOUT={recipe.start_timeout}\nSTOP_TIMEOUT={recipe.stop_timeout}\n"
            ),
            "run": f"#!/bin/sh\nexec {shell_lines(command, breaks=[command.index(image)])}\n",
        }

    # The id is in the files that it is made of: it is made of them with a stand-in for itself.
    content = json.dumps(files("RELEASE"), sort_keys=True).encode()
    release = f"{recipe.name}-{hashlib.sha256(content).hexdigest()[:8]}"
    return Release(release, recipe, image, port, bind, root, files(release))


def repository(image: str) -> str:
    """An image reference without its tag or digest."""
    name, _, _ = image.partition("@")
    head, slash, last = name.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}"


def _check(recipe: Recipe, lock: Lock, *, root: str, bind: str, port: int) -> None:
    problems = []
    where = f"recipe {recipe.name}"
    if not _ROOT.fullmatch(root):
        problems.append(f"{where}: root: found {root!r}; expected a path such as /opt/qwen36")
    try:
        ip_address(bind)
    except ValueError:
        problems.append(f"{where}: bind: found {bind!r}; expected an address such as 127.0.0.1")
    if not 1 <= port <= 65535:
        problems.append(f"{where}: port: found {port}; expected a TCP port from 1 to 65535")
    if recipe.image not in lock.images:
        problems.append(f"{where}: found no {recipe.image} in the lock; expected its digest")
    problems += [
        f"{where}: found no {checkpoint_key(checkpoint)} in the lock; expected its commit"
        for checkpoint in recipe.checkpoints.values()
        if lock.checkpoint(checkpoint) is None
    ]
    if problems:
        raise PlanError(*problems)
