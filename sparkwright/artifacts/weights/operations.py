"""Make checkpoint folders what the lock says."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from hashlib import sha256

from pyinfra import host
from pyinfra.api import Host, QuoteString, StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.artifacts.jobs.operations import follow, put_manifest, reason, start
from sparkwright.artifacts.jobs.state import JobState
from sparkwright.artifacts.weights.weights import (
    RECORD,
    WeightFolders,
    differences,
    manifest_text,
    weights_difference,
)
from sparkwright.common.operations import differs, failing
from sparkwright.common.part import Ask
from sparkwright.common.terminal import plain
from sparkwright.machine.host.operations.bundle import send
from sparkwright.plan.release.bundle import Bundle, checkpoint_folder
from sparkwright.plan.release.lock import CheckpointLock, places
from sparkwright.run.state import read, read_now

# Deletes a checkpoint's folder in a bundle, unless its owner has it on a disk or link of their own.
_TIDY = (
    'sh -c \'cd "$0" && for at in bundle bundle/weights "$1"; do '
    '[ -d "$at" ] && [ ! -L "$at" ] && ! mountpoint --quiet "$at" || exit 0; done && '
    'find "$1" -xdev -type f -delete && find "$1" -depth -type d -empty -delete\''
)
Checkpoints = Mapping[str, CheckpointLock]


@operation()
def weights(
    root: str,
    checkpoints: Checkpoints,
    verify: bool,
    *,
    endpoint: str = "",
    share: str = "",
    bundle: Bundle | None = None,
    elsewhere: Sequence[str] = (),
) -> Generator[PyinfraCommand]:
    """Have every file of each checkpoint, verified by hash, and no other file beside them.

    A unit on the Spark fetches what is missing or wrong; one that is at work already is joined.
    While files are as they were when they were verified, nothing is read and nothing is done.

    They come from the hub at `endpoint`, or from a bundle, or from what the other Spark of a pair
    offers at the URL `share`; and, as far as they have them, from the folders `elsewhere`.
    """
    if not checkpoints:
        host.noop("they are copied from here")
        return
    folders = read(host, ask_folders(root, checkpoints)).folders
    orders = {
        name: manifest_text(
            locked,
            endpoint,
            places(locked.repo, name, elsewhere),
            share=share and f"{share}/weights/{name}",
            bundled=bool(bundle),
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
    for name in wrong:
        yield from _prepare(root, name, verify)
    if bundle:
        for name, locked in wrong.items():
            yield from _bring(root, name, locked, bundle)
    for name in wrong:
        yield start(_job(name))
    if wrong:
        yield from _finish(root, wrong, bundle)


def ask_folders(root: str, names: Iterable[str]) -> Ask[WeightFolders]:
    """Return the ask for the folders of checkpoints."""
    return WeightFolders.ask(root=root, folders=list(dict.fromkeys(names)))


def _prepare(root: str, name: str, verify: bool) -> Generator[PyinfraCommand]:
    folder = f"{root}/{name}"
    if verify:
        yield StringCommand("systemctl stop", QuoteString(f"{_job(name)}.service"))
        yield StringCommand("rm -f", QuoteString(f"{folder}/{RECORD}"))
    # The unit sees this folder as a mount of its own: it can neither make it nor link from another.
    yield StringCommand("install -d -m 755", QuoteString(folder))
    yield _link(root, name)


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


def _bring(
    root: str, name: str, locked: CheckpointLock, bundle: Bundle
) -> Generator[PyinfraCommand]:
    """Yield the commands that send what a checkpoint's folder lacks, and link it."""

    paths = {f"{checkpoint_folder(locked)}/{path}": path for path in locked.files}

    def lacking(spark: Host) -> list[str]:
        files = read_now(spark, ask_folders(root, [name])).folders[name].files
        sizes = {path: file.size for path, file in files.items()}
        return [each for each, path in paths.items() if sizes.get(path) != locked.files[path].size]

    yield send(bundle, list(paths), lacking)
    # Who copies from there is a user of its own.
    place = QuoteString(f"{root}/bundle")
    yield StringCommand("[ -L", place, "] || chmod a+rx", place)
    yield _link(root, name)


def _finish(
    root: str, checkpoints: Checkpoints, bundle: Bundle | None
) -> Generator[PyinfraCommand]:
    last: dict[str, JobState] = {}
    yield follow(root, [_job(name) for name in checkpoints], last)
    folders = read_now(host, ask_folders(root, checkpoints)).folders
    lacking = [name for name in checkpoints if differences(checkpoints[name], folders[name])]
    if lacking:
        yield failing(
            "\n".join(f"{name}: {reason(_job(name), last[_job(name)])}" for name in lacking)
        )
    if bundle:
        for locked in checkpoints.values():
            folder = QuoteString(f"bundle/{checkpoint_folder(locked)}")
            yield StringCommand(_TIDY, QuoteString(root), folder)
    for name in checkpoints:
        # Where it has come from, if that is not the hub alone.
        progress = last[_job(name)].progress
        if progress and progress.phase == "done" and progress.message:
            host.log(plain(f"{name}: complete, {progress.message}"))


def _job(name: str) -> str:
    return f"weights@{name}"
