"""Weights: the Hub's token, and the checkpoints that a Spark should serve, as the lock has them."""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from pyinfra import host
from pyinfra.api import HiddenValue, Host, QuoteString, StringCommand, deploy, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.artifacts.jobs.deploy import follow, put_manifest, reason, start
from sparkwright.artifacts.weights.weights import (
    RECORD,
    WeightFolders,
    differences,
    manifest_text,
    weights_difference,
)
from sparkwright.common.files import ManagedFile
from sparkwright.common.operations import differs, failing
from sparkwright.common.part import Ask
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.ports import IMAGE_PORT, SHARE_PORT
from sparkwright.common.render import unit_file
from sparkwright.common.terminal import plain
from sparkwright.declared.fleet.fabric_plan import FabricPlan, neighbors
from sparkwright.machine.host.operations.bundle import send
from sparkwright.machine.host.operations.files import hub_token
from sparkwright.machine.host.operations.services import service
from sparkwright.plan.release.bundle import Bundle, checkpoint_folder
from sparkwright.plan.release.lock import CheckpointLock, checkpoint_key, places
from sparkwright.plan.release.programs import program_files
from sparkwright.plan.release.release import Release
from sparkwright.run.state import read, read_now
from sparkwright.run.target import Target, seats, target

# Deletes a checkpoint's folder in a bundle, unless its owner has it on a disk or link of their own.
_TIDY = (
    'sh -c \'cd "$0" && for at in bundle bundle/weights "$1"; do '
    '[ -d "$at" ] && [ ! -L "$at" ] && ! mountpoint --quiet "$at" || exit 0; done && '
    'find "$1" -xdev -type f -delete && find "$1" -depth -type d -empty -delete\''
)
Checkpoints = Mapping[str, CheckpointLock]


def reads(own: Target) -> Iterator[Ask[Any]]:
    """Yield what these steps ask of a Spark."""
    for seat in own.seats:
        if served := seat.release:
            names = [served.folders[name] for name in served.recipe.checkpoints]
            yield ask_folders(served.root, names)


@deploy("Weights")
def apply() -> None:
    """Have each checkpoint in its folder; `--data weights=verify` hashes every file anew.

    The head of a replica fetches them from the hub, or has them sent from a bundle; the others of a
    group copy them over the fabric, from it and from one another.
    """
    for own in seats():
        if own.release:
            _weights(own, own.release)


def _weights(own: Target, served: Release) -> None:
    plan, root = own.fabric, served.root
    checkpoints = {
        served.folders[name]: own.lock.checkpoints[checkpoint_key(checkpoint)]
        for name, checkpoint in served.recipe.checkpoints.items()
    }
    if own.is_head:
        others = copied(own.chosen_seats)
        alone = {name: each for name, each in checkpoints.items() if name not in others}
        weights(name="Checkpoints", root=root, checkpoints=alone)
    if plan is None:
        return
    source, taker = neighbors(own.ranks, own.spark)
    if taker:
        service(
            name="Share on the fabric",
            unit="fabric-share.socket",
            entries=[*program_files(root), *share_units(root, plan)],
        )
    # Where that one does not go on, the head lends the rest: it has all.
    sources = [*dict.fromkeys((source, own.ranks[0]))] if source else []
    # On all: an operation of the workers alone would not wait for the head's.
    weights(
        name="Checkpoints from another Spark",
        root=root,
        checkpoints=checkpoints if sources else {},
        shares=[f"http://{plan.of(each).addresses[0]}:{SHARE_PORT}" for each in sources],
    )


def copied(seats_of_spark: Iterable[Target]) -> set[str]:
    """Return the folders of checkpoints that a Spark copies from others, as a group's worker."""
    releases = [each.release for each in seats_of_spark if not each.is_head]
    return {folder for each in releases if each for folder in each.folders.values()}


def share_units(root: str, plan: FabricPlan) -> list[ManagedFile]:
    """Return the units by which a Spark offers weights, and an image, to others of its group."""
    values = {
        "root": root,
        "address": plan.addresses[0],
        "port": SHARE_PORT,
        "image_port": IMAGE_PORT,
        "clients": " ".join(plan.peer_addresses),
    }
    files = HOST_FILES / "network" / "fabric"
    paths = sorted((*files.glob("fabric-share.*"), *files.glob("fabric-image*")))
    return [unit_file(path, **values) for path in paths]


@deploy("Hugging Face auth")
def authenticate() -> None:
    """Have the token of HF_TOKEN, or of this machine's login, on the Spark and proved there."""
    own = target()
    if own.bundle:
        # Nobody asks a hub.
        return
    token = own.hub_token
    hub_token(name="Token", token=HiddenValue(token) if token else None)


@operation()
def weights(
    root: str, checkpoints: Checkpoints, shares: Sequence[str] = ()
) -> Generator[PyinfraCommand]:
    """Have every file of each checkpoint, verified by hash, and no other file beside them.

    A unit on the Spark fetches what is missing or wrong; one that is at work already is joined.
    While files are as they were when they were verified, nothing is read and nothing is done.

    They come from what other Sparks of a group offer at the URLs `shares`, by preference, or else
    from the bundle or the hub; and, as far as they have them, from the owner's `model_folders`.
    """
    if not checkpoints:
        host.noop("others copy them")
        return
    own, folders = target(), read(host, ask_folders(root, checkpoints)).folders
    verify, bundle = own.options.weights == "verify", None if shares else own.bundle
    orders = {
        name: manifest_text(
            locked,
            "" if bundle else own.settings.hf_endpoint,
            places(locked.repo, name, own.settings.model_folders),
            shares=[f"{share}/weights/{name}" for share in shares],
        )
        for name, locked in checkpoints.items()
    }
    hashes = {name: sha256(text.encode()).hexdigest() for name, text in orders.items()}
    new_orders = [name for name in orders if folders[name].manifest != hashes[name]]
    faults = {name: differences(checkpoints[name], folders[name]) for name in checkpoints}
    wrong = {name: checkpoints[name] for name in checkpoints if verify or faults[name]}
    if not new_orders and not wrong:
        host.noop(f"{', '.join(checkpoints)}: every file is as it was verified")
        return
    for name in new_orders:
        before = "another" if folders[name].manifest else "nothing"
        differs(f"{root}/manifests/{name}.json", "the manifest of the lock", before)
    for name in wrong:
        if faults[name]:
            differs(*weights_difference(f"{root}/{name}", faults[name]))
    for name in new_orders:
        yield from put_manifest(root, name, _job(name), orders[name])
    for name, locked in wrong.items():
        if verify:
            yield StringCommand("systemctl stop", QuoteString(f"{_job(name)}.service"))
            yield StringCommand("rm -f", QuoteString(f"{root}/{name}/{RECORD}"))
        # The unit sees this folder as a mount of its own: it can neither make it nor link from
        # another.
        yield StringCommand("install -d -m 755", QuoteString(f"{root}/{name}"))
        yield _link(root, name)
        if bundle:
            yield _send(root, name, locked, bundle)
            # Who copies from there is a user of its own.
            place = QuoteString(f"{root}/bundle")
            yield StringCommand("[ -L", place, "] || chmod a+rx", place)
            yield _link(root, name)
    for name in wrong:
        yield start(_job(name))
    if wrong:
        yield from _finish(root, wrong, bundle)


def ask_folders(root: str, names: Iterable[str]) -> Ask[WeightFolders]:
    """Return the ask for the folders of checkpoints."""
    return WeightFolders.ask(root=root, folders=list(dict.fromkeys(names)))


def _link(root: str, name: str) -> StringCommand:
    """Return the command that has other folders give what they hold of a checkpoint."""
    # A job that goes on since another run has the folder.
    return StringCommand(
        "case $(systemctl show --value --property=ActiveState",
        QuoteString(f"{_job(name)}.service"),
        ") in inactive | failed) python3 -B",
        *map(QuoteString, (f"{root}/bin/sparkwright-host", "link-weights", root, name)),
        ";; esac",
    )


def _send(root: str, name: str, locked: CheckpointLock, bundle: Bundle) -> PyinfraCommand:
    """Return the command that sends what a checkpoint's folder lacks."""
    paths = {f"{checkpoint_folder(locked)}/{path}": path for path in locked.files}

    def lacking(spark: Host) -> list[str]:
        files = read_now(spark, ask_folders(root, [name])).folders[name].files
        sizes = {path: file.size for path, file in files.items()}
        return [each for each, path in paths.items() if sizes.get(path) != locked.files[path].size]

    return send(bundle, list(paths), lacking)


def _finish(
    root: str, checkpoints: Checkpoints, bundle: Bundle | None
) -> Generator[PyinfraCommand]:
    last = yield from follow(root, [_job(name) for name in checkpoints])
    folders = read_now(host, ask_folders(root, checkpoints)).folders
    lacking = [name for name in checkpoints if differences(checkpoints[name], folders[name])]
    if lacking:
        yield failing(
            "\n".join(f"{name}: {reason(_job(name), last[_job(name)])}" for name in lacking)
        )
    for name, locked in checkpoints.items():
        if bundle:
            folder = QuoteString(f"bundle/{checkpoint_folder(locked)}")
            yield StringCommand(_TIDY, QuoteString(root), folder)
        # Where it has come from, if that is not the hub alone.
        progress = last[_job(name)].progress
        if progress and progress.phase == "done" and progress.message:
            host.log(plain(f"{name}: complete, {progress.message}"))


def _job(name: str) -> str:
    return f"weights@{name}"
