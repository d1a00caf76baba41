"""A release: a recipe with all its names resolved, frozen under one id."""

import hashlib
import json
import shlex
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from sparkwright.common.errors import refuse
from sparkwright.common.hardware import HARDWARE
from sparkwright.common.paths import HOST_FILES, PLUGIN
from sparkwright.common.placed import SOCKET, Place
from sparkwright.common.render import render
from sparkwright.declared.recipe.build import build_name
from sparkwright.declared.recipe.mods import read_mods
from sparkwright.declared.recipe.recipe import Recipe
from sparkwright.declared.recipe.values import STANDBY, ImageMods
from sparkwright.plan.release.command import (
    CACHE,
    IMAGE,
    Ranks,
    docker_run,
    environment,
    quoted,
    serve_arguments,
    shell_lines,
    tar_run,
)
from sparkwright.plan.release.container import (
    CONTAINER_OPTIONS,
    MEDIA_NETWORK,
    NEW_MEDIA_NETWORK,
    image_id,
    network_of,
)
from sparkwright.plan.release.lock import Lock, checkpoint_key, image_key, unresolved
from sparkwright.plan.release.programs import program

# Bytes of an archive of compiled code, at the most. Not measured: a bound, no estimate.
MOST_COMPILED = 2 << 30
# The file of a release folder that runs the engine.
PROGRAM = "bin/engine"
SCRIPTS = ("run", "keep")
_UNIT = HOST_FILES / "engine" / "vllm@.service"


@dataclass(frozen=True)
class Release:
    """The files of one replica's engine on the disk of one of its Sparks.

    Attributes:
        id: ``<recipe>-<8 hex>``, made of everything that the engine would notice on any rank.
        image: ``repo@sha256:…``, or the name of what is built: `build_name`.
        images: All names by which Docker may know this very image: a copied one has lost the first.
        folders: Where each checkpoint is, below the root.
        files: The text files of its folder, by name.
        program: What runs the engine, in that folder too: a later Sparkwright leaves it as it is.
        standby: Bytes that must be available for a start of its standby; 0: it has none.
        kv_cache: Bytes that an earlier start may have measured; 0: each one measures.
    """

    id: str
    recipe: Recipe
    image: str
    images: tuple[str, ...]
    place: Place
    folders: dict[str, str]
    ranks: Ranks
    files: dict[str, str] = field(repr=False)
    program: bytes = field(repr=False)
    standby: int = 0
    kv_cache: int = 0

    @property
    def root(self) -> str:
        """The folder of everything on the Spark."""
        return self.place.root

    @property
    def directories(self) -> list[str]:
        """The folders in its own, each behind the one that it is in."""
        parents = {each for name in (PROGRAM, *self.files) for each in PurePosixPath(name).parents}
        return sorted(map(str, parents - {PurePosixPath()}))


def make_release(
    recipe: Recipe, lock: Lock, place: Place, ranks: Ranks, standby: int = 0, kv_cache: int = 0
) -> Release:
    """Freeze a recipe for one of the Sparks of a replica; the rest is as of a `Release`."""
    recipe = recipe.for_sparks(ranks.nodes)
    refuse(unresolved([recipe], lock, "lock"))
    locked = lock.images[image_key(recipe)]
    image = f"{repository(recipe.base_image)}@{locked.digest}"
    images: tuple[str, ...] = (image, locked.digest, locked.config)
    if recipe.build:
        images = (image := build_name(recipe.build, locked.digest),)
    draft = Release(
        id="RELEASE",
        recipe=recipe,
        image=image,
        images=images,
        place=place,
        folders={name: lock.folder(each) for name, each in recipe.checkpoints.items()},
        ranks=ranks,
        files={},
        program=program("host.engine.supervisor"),
        standby=standby,
        kv_cache=kv_cache,
    )
    # The id is in the files that it is made of: these have a stand-in. The names of Sparks are for
    # people: two replicas may have one release.
    content = [
        _files(replace(draft, ranks=Ranks(("",) * ranks.nodes, ranks.fabric, rank)), lock)
        for rank in range(ranks.nodes)
    ]
    # What runs the engine is a part of it: a new one comes into force like a new image. The unit
    # has a stand-in for the root.
    content += [
        {PROGRAM: hashlib.sha256(draft.program).hexdigest()},
        {_UNIT.name: render(_UNIT, root="ROOT")},
    ]
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    made = replace(draft, id=f"{recipe.name}-{digest[:8]}")
    return replace(made, files=_files(made, lock))


def _files(draft: Release, lock: Lock) -> dict[str, str]:
    recipe, place, ranks, nodes = draft.recipe, draft.place, draft.ranks, draft.ranks.nodes
    mods = read_mods(recipe.image.mods) if isinstance(recipe.image, ImageMods) else ()
    resolved = {
        "recipe": recipe.name,
        "vllm": recipe.vllm,
        "image": draft.image,
        "checkpoints": {
            name: {
                "repo": checkpoint.repo,
                "commit": lock.checkpoints[checkpoint_key(checkpoint)].commit,
                "folder": draft.folders[name],
            }
            for name, checkpoint in recipe.checkpoints.items()
        },
        "served_names": [*recipe.models],
        **({"mods": {mod.name: mod.digest for mod in mods}} if mods else {}),
        "fabric": ranks.fabric,
        "arguments": serve_arguments(recipe, replace(ranks, rank=0)),
        "environment": environment(recipe, nodes),
    }
    copies = recipe.options.data_parallel_size if recipe.answers == "chat" else 1
    unit = {
        "model": recipe.served_names[0],
        "answers": recipe.answers,
        "start_timeout": recipe.start_timeout,
        "stop_timeout": recipe.stop_timeout,
        "standby": draft.standby,
        "kv_cache": draft.kv_cache,
        "longest_step": round(recipe.longest_step, 1),
        "gpu": CONTAINER_OPTIONS,
        "unified": any(HARDWARE[name].unified for name in recipe.hardware),
        "rank": ranks.rank,
        "sparks": ranks.sparks,
        "fabric": ranks.fabric,
        **({"copies": copies} if copies > 1 else {}),
        # By it a Spark tells its two engines apart: files/host/common/seat.py.
        **({"seat": place.seat} if place.seat else {}),
    }
    variables = environment(recipe, nodes).items()
    plugin = sorted(each for name in ("*.py", "*.dist-info/*") for each in PLUGIN.glob(name))
    command = docker_run(recipe, ranks, place, release=draft.id, folders=draft.folders)
    found = (
        "#!/bin/sh\n"
        f"image=$({image_id(draft.images)})\n"
        f'[ -n "$image" ] || {{ echo "Docker has no {draft.image}" >&2; exit 1; }}\n'
        f"user=$(id -u {place.user}):$(id -g {place.user})\n"
    )
    return {
        "release.json": json.dumps(resolved, indent=2, sort_keys=True) + "\n",
        "engine.env": "".join(f"{key}={value}\n" for key, value in variables),
        "unit.json": json.dumps(unit, indent=2, sort_keys=True) + "\n",
        **{
            f"{PLUGIN.name}/{each.relative_to(PLUGIN).as_posix()}": each.read_text("utf-8")
            for each in plugin
        },
        "run": (
            f"{found}{_made(place, draft.id, network_of(recipe, nodes), lends=nodes == 1)}"
            f"exec {shell_lines(command, breaks=[command.index(IMAGE)])}\n"
        ),
        **({} if nodes > 1 else {"keep": found + _keep(place, draft.id)}),
    }


def _keep(place: Place, release: str) -> str:
    """Return the shell lines that pack what an engine has compiled that began with an empty home.

    The supervisor runs them before clients reach the engine: what other Sparks get is of nobody's
    making who could have got hold of it. Of a group there is none: each rank compiles its own, all
    at once.
    """
    file, fresh = shlex.quote(place.compiled(release)), f"{place.cache(CACHE)}.fresh"
    return (
        f"[ -e {fresh} ] && rm {fresh} || exit 0\n"
        f"( umask 077; ulimit -f {MOST_COMPILED // 512}; {_tar(place, '--create')} . >{file}.new "
        f") && exec mv {file}.new {file}\n"
        f"rm -f {file}.new; exit 1\n"
    )


def _tar(place: Place, option: str, more: str = "") -> str:
    words = tar_run(f"{place.cache(CACHE)}{more}", option)
    return f"timeout 120 {' '.join(map(quoted, words))}"


def _made(place: Place, release: str, network: str, *, lends: bool) -> str:
    """Return the shell lines that make what a container needs, from a `mkdir` on.

    What only asks for image and user ends there.
    """
    sockets, cache = shlex.quote(place.sockets(release)), place.cache(CACHE)
    # A standby's is standby.sock until it is the engine.
    socket = f'"${{{STANDBY}:-{PurePosixPath(SOCKET).stem}}}".sock'
    begun = _lent(place, release) if lends else f"rm -f {cache}.fresh\n"
    made = (
        f"mkdir -p -m 777 {sockets} && rm -f {sockets}/{socket} || exit 1\n"
        f"{begun}"
        f'mkdir -p -m 700 {cache} && chown "$user" {cache} || exit 1\n'
    )
    if network == MEDIA_NETWORK:
        known = f"docker network inspect {network} >/dev/null 2>&1"
        made += f"{known} || {NEW_MEDIA_NETWORK} || exit 1\n"
    return made


def _lent(place: Place, release: str) -> str:
    """Return the shell lines that begin an empty home with an archive, or note that it is new.

    Only in a switch clients come later than the supervisor. An archive that does not unpack is left
    alone: the engine compiles by itself.
    """
    file, cache = shlex.quote(place.compiled(release)), place.cache(CACHE)
    fresh = f"{cache}.fresh"
    made = f'mkdir -p -m 700 {cache}.new && chown "$user" {cache}.new'
    return (
        f"if [ ! -d {cache} ] && [ -f {file} ]; then\n"
        f"  {made} && {_tar(place, '--extract', '.new')} <{file} && mv {cache}.new {cache}\n"
        f"elif [ ! -d {cache} ] && [ -e {shlex.quote(f'{place}/state/switch.json')} ]; then\n"
        f"  mkdir -p {place.cache('')} {place.root}/cache/compiled\n"
        f"  : >{fresh}\n"
        "fi\n"
    )


def repository(image: str) -> str:
    """An image reference without its tag or digest."""
    name, _, _ = image.partition("@")
    head, slash, last = name.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}"
