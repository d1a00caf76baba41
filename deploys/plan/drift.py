"""The differences between what is on a Spark and what is declared."""

from collections.abc import Collection, Iterator, Mapping
from hashlib import sha256

from deploys.plan.cabling import Port
from deploys.plan.checkup import Checkup
from deploys.plan.difference import Difference
from deploys.plan.engine import EngineState
from deploys.plan.fabric import NETPLAN, FabricPlan
from deploys.plan.fabric_check import is_written
from deploys.plan.fabric_state import FabricState
from deploys.plan.files import Directory, Entry, FileState, ManagedFile, Symlink
from deploys.plan.host_ailments import HOST_AILMENTS
from deploys.plan.lock import Lock, checkpoint_key, image_key
from deploys.plan.recipe import Recipe

# Of what the doctor knows of a host, that which is a state that nobody declared: what it is called
# and what is expected of it.
_AILMENTS = {
    "power-fault": ("GPU clock under load", "as high as the load asks"),
    "gpu-lost-in-container": ("GPU in the engine's container", "there"),
}


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
    for name in state.failed:
        if name != f"vllm@{release}.service":
            yield Difference(name, "not failed", "failed")
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


def _kind(state: FileState) -> str:
    if state.kind == "absent":
        return "nothing"
    if state.kind == "unreadable":
        return f"what cannot be read ({state.detail})"
    return f"another kind of thing ({state.kind})" if state.kind == "other" else f"a {state.kind}"


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
