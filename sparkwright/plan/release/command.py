"""The `vllm serve` and `docker run` lines of a recipe."""

import json
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from sparkwright.common.paths import PLUGIN
from sparkwright.common.placed import FIRST_USER, SOCKET, Place
from sparkwright.common.ports import COPIES_PORT, MASTER_PORT
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.declared.recipe.recipe import Recipe
from sparkwright.declared.recipe.rules import doubts, published_faults
from sparkwright.declared.recipe.trust import needs
from sparkwright.declared.recipe.values import (
    DOMAINS,
    FABRIC_ENVIRONMENT,
    KV_CACHE,
    NO_REDIRECTS,
    NOWHERE,
    REFERENCE,
    RING_ENVIRONMENT,
    SPIN,
    STANDBY,
)
from sparkwright.declared.recipe.vllm_names import table
from sparkwright.plan.release.container import (
    CONFINEMENT,
    CONTAINER_OPTIONS,
    network_of,
    slice_of,
)

# Where the engine finds things inside its container.
_MODELS = "/models"
# Its home, the only folder that outlasts an engine: for code compiled by any tool that writes into
# a home (vLLM, FlashInfer, Triton, TileLang, modules of trust-remote-code). No image knows the user
# as whom it runs, and PyTorch asks for a name. Packages that an image has installed for the user
# root are still found, if it lets others read them.
_HOME = "/home/engine"
_AT_HOME = tuple(
    word
    for pair in (f"HOME={_HOME}", "USER=engine", "LOGNAME=engine", "PYTHONUSERBASE=/root/.local")
    for word in ("--env", pair)
)
# Where the folder of its socket is.
_API = "/run/vllm"
# Where it finds our plugins of vLLM, also if others are chosen by name. What else an image has on
# its path stays there. vLLM makes the socket as the umask says: the door and the supervisor, other
# users, are to reach it. Nobody else gets to its folder.
_PLUGIN = "/run/plugin"
_ENTRYPOINT = "/bin/sh"
_START = (
    f'umask 0; export PYTHONPATH="{_PLUGIN}${{PYTHONPATH:+:$PYTHONPATH}}"; '
    '[ -z "${VLLM_PLUGINS+x}" ] || export VLLM_PLUGINS="$VLLM_PLUGINS,sparkwright_standby"; '
)
# A standby has a socket of its own. Of a repeated option vLLM takes the last.
_OWN_SOCKET = f'[ -z "${STANDBY}" ] || set -- "$@" --uds {_API}/standby.sock; '
# In no argument of the container's, as it differs from start to start of one release.
_SIZED = f'[ -z "${KV_CACHE}" ] || set -- "$@" --kv-cache-memory-bytes "${KV_CACHE}"; '
# Where a standby finds the word of its supervisor.
_WORD = "/run/standby"

# Weights are on the host and verified before a start, so an engine contacts no hub. It sends no
# usage reports, either.
_ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"} | NO_REDIRECTS
# Triton's own default, in the home. By itself vLLM keeps these kernels under a hash of the command
# line, and makes them all anew for another flag: 84 to 110 s on an H100 in place of 4.
_KEPT = {"TRITON_CACHE_DIR": f"{_HOME}/.triton/cache"}
# With one Spark its processes meet on loopback: before 0.28 vLLM asks which address leads to the
# internet (UniProcExecutor), and Gloo takes the Spark's address in /etc/hosts. A group's are found
# at a start (files/host/engine/container.py).
_ALONE = {"VLLM_HOST_IP": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}

# Seconds that a head waits for a step of its worker, whose loss vLLM learns of in no other way; 300
# is vLLM's own (envs.py). It stands behind the supervisor's probe, which ends a hung engine after
# 6 + 6 s for each look, and which needs none of vLLM's help. A sound step never takes so long:
# twice the longest is waited for, and at least 180, since kernels that are compiled at a first
# request count as well (115 s for a whole start with empty caches). On two H100 with the worker
# killed, stopped or cut off, 60 ended the head at 60.9 s, and 300 left it hanging for 200 and on.
_STEP_TIMEOUT, _LEAST_STEP_TIMEOUT = "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS", 180

_SERVERS = "api-server-count"

# By which a group's processes do not keep looking whether another has done its part: our plugin's
# (files/plugin); what is in vLLM before 0.18, which has other queues, helps an idle engine only.
_QUIET = {SPIN: "0.0005"}
_SLEEP_WHEN_IDLE = "VLLM_SLEEP_WHEN_IDLE"


@dataclass(frozen=True)
class Ranks:
    """The Sparks that serve a replica together, the head first, and the rank of one of them.

    On the fabric each has addresses, the first for its own node; a single Spark has none.
    """

    sparks: tuple[str, ...] = ("",)
    fabric: tuple[tuple[str, ...], ...] = ()
    rank: int = 0

    @property
    def nodes(self) -> int:
        """The number of Sparks, each of which has one GPU."""
        return len(self.sparks)


class Expansion(str):
    """A word that the shell is to expand, so it is not quoted."""


# As a release's `run` has them: Docker's id of the image, the name of its folder for what it
# compiles, and the numbers of user and group.
IMAGE, CACHE, _USER = Expansion('"$image"'), Expansion("${image#sha256:}"), Expansion('"$user"')


def serve_arguments(recipe: Recipe, ranks: Ranks) -> list[str]:
    """Return the arguments of ``vllm`` for one rank, unquoted; the head alone has the API."""
    words = ["serve", _container_path(recipe, "model")]
    args = dict(recipe.args)
    domains, copies = args.pop(DOMAINS, [NOWHERE]), recipe.options.data_parallel_size
    # By itself vLLM starts one for each copy, and then logs no throughput. A worker has none.
    servers = args.pop(_SERVERS, 1 if copies > 1 else None)
    if sizes := recipe.capture_sizes:
        args["cudagraph-capture-sizes"] = sizes
    for option, value in args.items():
        words += _option(option, _resolve(recipe, value))
    # Ours come last: of a repeated option vLLM takes the last.
    words += _option(DOMAINS, domains)
    words += ["--served-model-name", *recipe.served_names]
    words += ["--tensor-parallel-size", str(recipe.tensor_parallel(ranks.nodes))]
    if ranks.nodes > 1:
        words += ["--nnodes", str(ranks.nodes), "--node-rank", str(ranks.rank)]
        words += ["--master-addr", ranks.fabric[0][0], "--master-port", str(MASTER_PORT)]
        if copies > 1:
            words += ["--data-parallel-rpc-port", str(COPIES_PORT)]
    if ranks.rank:
        return [*words, "--headless"]
    return [*words, *(_option(_SERVERS, servers) if servers else []), "--uds", f"{_API}/{SOCKET}"]


def container_arguments(recipe: Recipe, ranks: Ranks) -> list[str]:
    """Return the arguments of the container for one rank, as `serve_arguments`."""
    script = f'{_START}{_SIZED}{"" if ranks.rank else _OWN_SOCKET}exec vllm "$@"'
    return ["-c", script, "vllm", *serve_arguments(recipe, ranks)]


def environment(recipe: Recipe, nodes: int = 1) -> dict[str, str]:
    """Return the environment of the engine: the recipe's own variables and ours."""
    own = {key: _substitute(recipe, value) for key, value in recipe.env.items()}
    if nodes == 1:
        return _KEPT | own | _ENVIRONMENT | _ALONE
    patience = str(max(_LEAST_STEP_TIMEOUT, ceil(2 * recipe.longest_step)))
    sleeps = recipe.release and table()[_SLEEP_WHEN_IDLE].is_in(recipe.release)
    quiet = {_SLEEP_WHEN_IDLE: "1"} if sleeps else _QUIET
    return {_STEP_TIMEOUT: patience, **quiet, **_KEPT} | own | _ENVIRONMENT


def docker_run(
    recipe: Recipe,
    ranks: Ranks,
    place: Place,
    *,
    release: str,
    folders: Mapping[str, str],
    image: str = IMAGE,
    cache: str = CACHE,
    user: str = _USER,
) -> list[str]:
    """Return the command that runs an engine in the foreground, unquoted."""
    words = ["docker", "run", "--rm"]
    words += ["--name", Expansion(f"vllm-{release}${{{STANDBY}:+-standby}}")]
    words += ["--env", STANDBY, "--env", KV_CACHE]
    word = f"{place}/state/standby@{release}:{_WORD}:ro"
    words.append(Expansion(f"${{{STANDBY}:+--volume {word}}}"))
    words += ["--label", f"sparkwright.release={release}"]
    # The image is on the host before a start, which must not download 10 GB.
    words += ["--pull", "never"]
    # Of the recipes' sources, --ipc host and --privileged (docai.hu) are left out: /dev/shm is the
    # container's own, and a group gets the devices that it needs by $RDMA_OPTIONS. Without the
    # host's control groups a container can lose the GPU when systemd reads its units anew.
    words += [*CONTAINER_OPTIONS, "--user", user, "--cgroupns", "host"]
    words += ["--network", network_of(recipe, ranks.nodes)]
    words += ["--cgroup-parent", slice_of(ranks.nodes)]
    words += ["--ulimit", "memlock=-1", "--ulimit", "stack=67108864", "--log-driver", "none"]
    words += ["--env-file", f"{place.release(release)}/engine.env"]
    if ranks.nodes > 1:
        in_ring = len(ranks.fabric[0]) > 2
        for variable in FABRIC_ENVIRONMENT + RING_ENVIRONMENT * in_ring:
            words += ["--env", variable]
        words.append(Expansion("$RDMA_OPTIONS"))
    words += ["--volume", f"{place.release(release)}/{PLUGIN.name}:{_PLUGIN}:ro"]
    for name in recipe.checkpoints:
        words += ["--volume", f"{place.root}/{folders[name]}:{_container_path(recipe, name)}:ro"]
    words += ["--volume", f"{place.sockets(release)}:{_API}"]
    words += [*_AT_HOME, "--volume", type(cache)(f"{place.cache(cache)}:{_HOME}")]
    words += ["--entrypoint", _ENTRYPOINT, image]
    return words + container_arguments(recipe, ranks)


def tar_run(home: str, *options: str) -> list[str]:
    """Return the command that packs or unpacks an engine's home: as its user, and confined so."""
    return [
        *("docker", "run", "--rm", "--interactive", "--pull", "never", "--log-driver", "none"),
        *("--network", "none", *CONFINEMENT, "--user", _USER),
        *("--volume", Expansion(f"{home}:{_HOME}"), "--entrypoint", "tar", IMAGE),
        *(*options, "--file", "-", "--directory", _HOME),
    ]


def quoted(word: str) -> str:
    """Return a word as ``sh`` reads it; what the shell is to expand stays as it is."""
    return word if isinstance(word, Expansion) else shlex.quote(word)


def shell_lines(words: Sequence[str], breaks: Collection[int] = ()) -> str:
    """Return a command, one option a line, which ``sh`` splits into exactly these words."""
    lines: list[list[str]] = [[]]
    for position, word in enumerate(words):
        if word.startswith("--") or position in breaks:
            lines.append([])
        lines[-1].append(quoted(word))
    return " \\\n  ".join(" ".join(line) for line in lines)


def _container_path(recipe: Recipe, checkpoint: str) -> str:
    return f"{_MODELS}/{recipe.checkpoints[checkpoint].folder}"


def _substitute(recipe: Recipe, text: str) -> str:
    return REFERENCE.sub(lambda match: _container_path(recipe, match[1]), text)


def _resolve(recipe: Recipe, value: object) -> object:
    """Replace ``${checkpoint}`` anywhere in a value by its path in the container."""
    if isinstance(value, str):
        return _substitute(recipe, value)
    if isinstance(value, list):
        return [_resolve(recipe, item) for item in value]
    if isinstance(value, dict):
        return {key: _resolve(recipe, item) for key, item in value.items()}
    return value


def _option(name: str, value: object) -> list[str]:
    match value:
        case bool():
            return [f"--{name}" if value else f"--no-{name}"]
        case list():
            return [f"--{name}", *map(_scalar, value)]
        case dict():
            return [f"--{name}", json.dumps(value, separators=(",", ":"))]
        case _:
            return [f"--{name}", _scalar(value)]


def _scalar(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def report(name: str, sparks: int | None = None) -> Iterator[str]:
    """Yield the lines that serve a recipe, as units run them; by default on the fewest Sparks."""
    whole = load_recipe(name)
    nodes = whole.checked_sparks(sparks)
    recipe = whole.for_sparks(nodes)
    release = f"{recipe.name}-RELEASE"
    yield f"# {recipe.name}: {' '.join(recipe.description.split())}"
    yield f"# vLLM {recipe.vllm}; hardware {', '.join(recipe.hardware)}; {nodes} Spark(s)."
    yield "# A Spark runs the image by the digest in the lock, and RELEASE is 8 hexadecimal digits;"
    yield "# COMMIT is the beginning of the one in the lock, and $image the image's id in Docker."
    yield f"# $user has the numbers of {FIRST_USER}, a user without rights of the Spark."
    if faults := published_faults(recipe):
        yield f"# {faults}"
    yield from (f"# {doubt}" for doubt in doubts(recipe))
    required = list(needs(recipe))
    if required:
        trusts = dict.fromkeys(need.name for need in required)
        yield "# Only a replica that says so in the inventory may serve it:"
        yield f"#   trusts: [{', '.join(trusts)}]"
        yield from (f"# {line}" for need in required for line in need.details)
    if nodes > 1:
        yield "# HEAD-FABRIC-ADDRESS is of `fabric_subnets`; what `--env` names, each Spark finds."
    yield f"\n# {release}/engine.env"
    yield from (f"{key}={value}" for key, value in environment(recipe, nodes).items())
    image = f"{recipe.build.repository}:BUILD" if recipe.build else recipe.base_image
    folders = {name: f"{each.folder}@COMMIT" for name, each in recipe.checkpoints.items()}
    for rank in range(nodes):
        role = "head" if rank == 0 else "worker"
        ranks, place = Ranks(("",) * nodes, (("HEAD-FABRIC-ADDRESS", ""),), rank), "/opt/qwen36"
        docker = docker_run(
            recipe, ranks, Place(place), release=release, folders=folders, image=image
        )
        start = docker.index(image)
        yield f"\n# rank {rank} ({role}): docker run\n{shell_lines(docker, breaks=[start])}"
        yield f"\n# rank {rank} ({role}): vllm serve, as it runs inside"
        yield shell_lines(docker[docker.index("vllm", start) :])
