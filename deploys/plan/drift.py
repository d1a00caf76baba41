"""What differs from what is declared: how it is found where no operation looks, and told."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

from deploys.plan.cabling import Port
from deploys.plan.checkup import Checkup
from deploys.plan.command import Place, environment, image_id, serve_arguments
from deploys.plan.engine import EngineState
from deploys.plan.fabric import NETPLAN, FabricPlan
from deploys.plan.fabric_check import is_written
from deploys.plan.fabric_state import FabricState
from deploys.plan.files import Directory, Entry, FileState, ManagedFile, Symlink
from deploys.plan.host_ailments import HOST_AILMENTS
from deploys.plan.lock import Lock, checkpoint_key, image_key
from deploys.plan.recipe import Recipe
from deploys.plan.release import Release
from deploys.plan.sections import MARK, sections

# Exit statuses: as `git diff --exit-code`, grep and the like tell them, but 1 is pyinfra's for
# "something went wrong".
SAME, UNKNOWN, DIFFERENT = 0, 1, 2

# Of what the doctor knows of a host, that which is a state that nobody declared: what it is called
# and what is expected of it.
_AILMENTS = {
    "power-fault": ("GPU clock under load", "as high as the load asks"),
    "gpu-lost-in-container": ("GPU in the engine's container", "there"),
}
# Bits of `clocks_event_reasons.active` (NVML, nvmlClocksEventReasons) that hold the clock below
# what load and power limit allow.
_HOLDS = {
    0x2: "a setting of its own (nvidia-smi --applications-clocks)",
    0x8: "hardware slowdown",
    0x20: "heat, by the driver",
    0x40: "heat, by the hardware",
    0x80: "the power supply (power brake)",
}
# Packages that, held back, part a Spark from its twin or from DGX OS's updates, which come as one
# set: driver, kernel, containers; and those that our runs install.
_PACKAGES = (
    r"(lib)?nvidia-|cuda|linux-|docker|containerd|mlnx|doca"
    "|haproxy$|earlyoom$|prometheus-node-exporter$"
)

_LABEL = "sparkwright.release"
_CONTAINER = (
    f'{{{{index .Config.Labels "{_LABEL}"}}}}\t{{{{.Image}}}}\t'
    "{{json .Config.Cmd}}\t{{json .Config.Env}}"
)


class Difference(NamedTuple):
    """One thing that is not as declared.

    Attributes:
        what: a file, a unit, a package: what a person would look at.
        expected, found: in few words.
    """

    what: str
    expected: str
    found: str


@dataclass(frozen=True)
class Container:
    """An engine's container that runs.

    Attributes:
        image: its image's id.
        arguments: the words after `vllm`.
        environment: `NAME=value` each, the image's own among them.
    """

    image: str
    arguments: Sequence[str]
    environment: Collection[str]


@dataclass(frozen=True)
class Running:
    """What runs on a Spark, beside what operations look at.

    Attributes:
        containers: by release.
        image: id of the declared release's image; None where Docker has none.
        holds: what nvidia-smi says of why the GPU's clock is low; None where it does not.
        held: packages that are held back.
    """

    containers: Mapping[str, Container]
    image: str | None
    holds: int | None
    held: tuple[str, ...]


def running_script(images: Sequence[str]) -> str:
    """Return the POSIX shell script that reads `Running`; it only reads, and exits 0.

    Args:
        images: the names of the image of the declared release; none on an idle Spark.
    """
    parts = {
        "containers": f"docker ps --quiet --filter label={_LABEL} | "
        f"xargs --no-run-if-empty docker inspect --format '{_CONTAINER}'",
        "image": image_id(images) if images else "true",
        "holds": "nvidia-smi --query-gpu=clocks_event_reasons.active --format=csv,noheader",
        "held": "apt-mark showhold",
    }
    lines = [f"echo {MARK}{name}; ( {body} ) 2>/dev/null" for name, body in parts.items()]
    return "\n".join([*lines, "true"])


def parse_running(output: Iterable[str]) -> Running:
    """Return what the script's output lines describe.

    Raises:
        ValueError: a section is missing or malformed.
    """
    found = sections(output)
    try:
        bits = "".join(found["holds"]).strip()
        return Running(
            containers=dict(map(_container, filter(None, found["containers"]))),
            image=next(iter(found["image"]), None),
            holds=int(bits, 16) if re.fullmatch(r"0x[0-9a-fA-F]+", bits) else None,
            held=tuple(line.strip() for line in found["held"] if line.strip()),
        )
    except (KeyError, ValueError) as error:
        raise ValueError(f"what runs is unreadable: {error!r} in {found}") from error


def running_differences(running: Running, release: Release | None) -> Iterator[Difference]:
    """Yield what runs otherwise than declared.

    Args:
        release: the one that is declared; None on an idle Spark.
    """
    wanted = release.id if release else None
    for found in sorted(running.containers.keys() - {wanted}):
        yield Difference("release that runs", wanted or "none", found)
    if release and release.id in running.containers:
        yield from _container_differences(running, release)
    for bit, reason in _HOLDS.items():
        if (running.holds or 0) & bit:
            yield Difference("GPU clock", "not held back", f"held back by {reason}")
    for package in running.held:
        if re.match(_PACKAGES, package):
            yield Difference(f"package {package}", "updated with the system", "held back")


def _container_differences(running: Running, release: Release) -> Iterator[Difference]:
    container, name = running.containers[release.id], f"container vllm-{release.id}"
    if running.image and container.image != running.image:
        yield Difference(f"{name}: image", running.image, container.image)
    ranks = release.ranks
    master = ranks.fabric[0][0] if ranks.fabric else None
    place = Place(release.port, ranks.rank, len(ranks.sparks), master)
    wanted = serve_arguments(release.recipe, place)
    if list(container.arguments) != wanted:
        # A word that is only missing shows by none.
        others = [word for word in container.arguments if word not in wanted]
        yield Difference(f"{name}: arguments", "its release's", " ".join(others) or "fewer")
    for key, value in environment(release.recipe).items():
        if f"{key}={value}" not in container.environment:
            yield Difference(f"{name}: {key}", "its release's value", "another")


def engine_differences(
    state: EngineState, release: str | None, door: bool = False
) -> Iterator[Difference]:
    """Yield how the engines of a Spark are otherwise than declared.

    Args:
        state: of all of them.
        release: the one that is to serve; None on an idle Spark.
        door: whether a door stands before it.
    """
    if state.current != release:
        yield Difference("current release", release or "none", state.current or "none")
    for name, unit in state.units.items():
        if name == release:
            if unit.active != "active":
                yield Difference(f"vllm@{name}.service", "active", unit.active)
            if not unit.enabled:
                yield Difference(f"vllm@{name}.service", "enabled", "not enabled")
        elif not unit.stopped:
            boots = " and boots" if unit.enabled else ""
            yield Difference(f"vllm@{name}.service", "off", f"{unit.active}{boots}")
        if unit.needs_reload:
            yield Difference(f"vllm@{name}.service", "as its file has it", "an older text of it")
    for name in state.switches:
        yield Difference("switch", "none under way", f"one to {name}")
    if door and state.preferred != release:
        yield Difference("engine behind the door", f"{release}", state.preferred or "none")


def host_differences(checkup: Checkup) -> Iterator[Difference]:
    """Yield what of a host is in no state that anybody would declare."""
    for ailment in HOST_AILMENTS:
        if ailment.name in _AILMENTS and (evidence := ailment.sign(checkup)):
            what, expected = _AILMENTS[ailment.name]
            yield Difference(what, expected, evidence)


def file_difference(entry: Entry, state: FileState) -> Difference:
    """Return how a path that is not current differs, without its content.

    Args:
        entry: what is declared.
        state: what is there.
    """
    if isinstance(entry, Symlink):
        there = f"a link to {state.detail}" if state.kind == "link" else _kind(state)
        return Difference(entry.path, f"a link to {entry.target}", there)
    wanted = "directory" if isinstance(entry, Directory) else "file"
    if state.kind != wanted:
        return Difference(entry.path, f"a {wanted}", _kind(state))
    expected, found = [], []
    if (state.user, state.group, state.mode) != (entry.user, entry.group, entry.mode):
        expected.append(f"{entry.user}:{entry.group} {entry.mode}")
        found.append(f"{state.user}:{state.group} {state.mode}")
    if isinstance(entry, ManagedFile):
        content = sha256(entry.text.encode()).hexdigest()
        if state.detail != content:
            expected.append(f"content sha256:{content[:12]}")
            found.append(f"sha256:{state.detail[:12]}")
    return Difference(entry.path, ", ".join(expected), ", ".join(found))


def weights_difference(folder: str, wrong: Mapping[str, str]) -> Difference:
    """Return one line for a checkpoint's folder.

    Args:
        folder: its path.
        wrong: what is wrong with files, by path in it; at least one.
    """
    path, trouble = next(iter(wrong.items()))
    more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    return Difference(folder, "every file as the lock has it", f"{path} {trouble}{more}")


def secret_difference(path: str, state: FileState) -> Difference:
    """Return how a secret's file differs: of its content, not even a hash.

    Args:
        path: of the file.
        state: what is there, which is not what should be.
    """
    owner = ("root", "root", "600")
    if state.kind != "file":
        return Difference(path, "a file", _kind(state))
    if (state.user, state.group, state.mode) != owner:
        return Difference(path, "root:root 600", f"{state.user}:{state.group} {state.mode}")
    return Difference(path, "the present content", "another")


def fabric_differences(plan: FabricPlan, port: Port, state: FabricState) -> Iterator[Difference]:
    """Yield how the fabric differs, on disk and in the kernel.

    Args:
        plan: of this Spark.
        port: the twins of the cabled port.
        state: what was found.
    """
    if not is_written(plan, port, state):
        there = any(file.path == NETPLAN for file in state.netplan)
        found = "another text, owner or mode" if there else "nothing"
        yield Difference(NETPLAN, "the fabric's addresses, root:root 600", found)
    for name, address in zip(port, plan.interfaces, strict=True):
        netdev = state.netdevs.get(name)
        if netdev is None:
            yield Difference(name, "an interface", "none of that name")
            continue
        if not netdev.carrier:
            yield Difference(name, "a link", "none")
        if netdev.mtu != plan.mtu:
            yield Difference(name, f"MTU {plan.mtu}", str(netdev.mtu))
        addresses = [str(found) for where, found in state.addresses if where == name]
        if address not in addresses:
            yield Difference(name, address, ", ".join(addresses) or "no address")


def unresolved(recipes: Collection[Recipe], lock: Lock, path: str) -> list[str]:
    """Say which names of recipes a lock lacks: a look does not ask for them.

    Args:
        recipes: those that are served.
        path: of the lock, for the reader.

    Returns:
        Problems, as PlanError takes them.
    """
    names: dict[str, None] = {}
    for recipe in recipes:
        if lock.image(recipe) is None:
            names[image_key(recipe)] = None
        for checkpoint in recipe.checkpoints.values():
            if lock.checkpoint(checkpoint) is None:
                names[checkpoint_key(checkpoint)] = None
    return [
        f"{path}: found nothing for {name}; expected what it stands for, as a run of "
        "deploys/spark.py records it"
        for name in names
    ]


def line(spark: str, difference: Difference) -> str:
    """Return one line for people."""
    return f"{spark}: {difference.what}: expected {difference.expected}, found {difference.found}"


def as_json(
    found: Mapping[str, Sequence[Difference]], unread: Mapping[str, str], now: float
) -> str:
    """Return the result for machines.

    Args:
        found: the differences of each Spark that was looked at.
        unread: why a Spark was not, by its name.
        now: seconds since the epoch.
    """
    told = {
        "time": round(now),
        "sparks": sorted(found),
        "differences": [
            {"spark": spark, **difference._asdict()}
            for spark in sorted(found)
            for difference in found[spark]
        ],
        "not_read": [{"spark": spark, "reason": unread[spark]} for spark in sorted(unread)],
    }
    return json.dumps(told, indent=2, ensure_ascii=False)


def exit_status(found: Mapping[str, Sequence[Difference]], unread: Collection[str]) -> int:
    """Return 0 where all is as declared, 2 where something differs, 1 where one is not known."""
    if unread:
        return UNKNOWN
    return DIFFERENT if any(found.values()) else SAME


def _kind(state: FileState) -> str:
    if state.kind == "absent":
        return "nothing"
    if state.kind == "unreadable":
        return f"what cannot be read ({state.detail})"
    return f"another kind of thing ({state.kind})" if state.kind == "other" else f"a {state.kind}"


def _container(line: str) -> tuple[str, Container]:
    release, image, arguments, variables = line.split("\t")
    return release, Container(image, json.loads(arguments) or (), json.loads(variables) or ())
