"""Make checkpoint folders what the lock says."""

from collections.abc import Generator, Mapping, Sequence

from pyinfra import host
from pyinfra.api import FunctionCommand, Host, QuoteString, State, StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.bundle.operations import sent
from sparkwright.common.operations import differs, failing
from sparkwright.common.terminal import plain
from sparkwright.jobs.facts import JobState
from sparkwright.jobs.operations import follow, put_manifest, reason, start
from sparkwright.release.bundle import Bundle, checkpoint_folder
from sparkwright.release.lock import CheckpointLock, places
from sparkwright.weights.facts import WeightFolders
from sparkwright.weights.weights import (
    RECORD,
    CheckpointFolder,
    bundled_manifest_text,
    copy_manifest_text,
    differences,
    has_manifest,
    manifest_text,
    weights_difference,
)

# Deletes a checkpoint's folder in a bundle, unless its owner has it on a disk or link of their own.
_TIDY = (
    'sh -c \'cd "$0" && for at in bundle bundle/weights "$1"; do '
    '[ -d "$at" ] && [ ! -L "$at" ] && ! mountpoint --quiet "$at" || exit 0; done && '
    'find "$1" -xdev -type f -delete && find "$1" -depth -type d -empty -delete\''
)


@operation()
def weights(
    root: str,
    endpoint: str,
    checkpoints: Mapping[str, CheckpointLock],
    verify: bool,
    bundle: Bundle | None = None,
    elsewhere: Sequence[str] = (),
) -> Generator[PyinfraCommand]:
    """Have every file of each checkpoint, verified by hash, and no other file beside them.

    A unit on the Spark fetches what is missing or wrong; one that is at work already is joined.
    While files are as they were when they were verified, nothing is read and nothing is done.

    Args:
        checkpoints: by folder below the root.
        bundle: takes the place of the hub.
        elsewhere: the setting `model_folders`.
    """
    orders = {
        name: bundled_manifest_text(locked, folders)
        if bundle
        else manifest_text(locked, endpoint, folders)
        for name, locked in checkpoints.items()
        for folders in [places(locked.repo, name, elsewhere)]
    }
    yield from _have(root, checkpoints, orders, verify, bundle)


@operation()
def copied_weights(
    root: str,
    share: str,
    checkpoints: Mapping[str, CheckpointLock],
    verify: bool,
    elsewhere: Sequence[str] = (),
) -> Generator[PyinfraCommand]:
    """Have the same as `weights`, from the other Spark of a pair, which has it already.

    Args:
        share: URL of what the other Spark lends.
        checkpoints: by folder below the root, here and there; none where nothing is to be copied.
        elsewhere: as for `weights`.
    """
    if not checkpoints:
        host.noop("they are copied from here")
        return
    orders = {
        name: copy_manifest_text(
            locked, f"{share}/weights/{name}", places(locked.repo, name, elsewhere)
        )
        for name, locked in checkpoints.items()
    }
    yield from _have(root, checkpoints, orders, verify)


def _have(
    root: str,
    checkpoints: Mapping[str, CheckpointLock],
    orders: Mapping[str, str],
    verify: bool,
    bundle: Bundle | None = None,
) -> Generator[PyinfraCommand]:
    found = host.get_fact(WeightFolders, root=root, folders=list(checkpoints))
    folders = {name: found.get(name, CheckpointFolder()) for name in checkpoints}
    new_orders = [name for name in orders if not has_manifest(folders[name], orders[name])]
    wrong = [name for name in folders if verify or differences(checkpoints[name], folders[name])]
    if not new_orders and not wrong:
        host.noop(f"{', '.join(checkpoints)}: every file is as it was verified")
        return
    for name in new_orders:
        differs(
            f"{root}/manifests/{name}.json",
            "the manifest of the lock",
            "another" if folders[name].manifest else "nothing",
        )
    for name in wrong:
        if trouble := differences(checkpoints[name], folders[name]):
            differs(*weights_difference(f"{root}/{name}", trouble))
    for name in new_orders:
        yield from put_manifest(root, name, _job(name), orders[name])
    for name in wrong:
        yield from _prepare(root, name, verify)
    for name in wrong:
        if bundle:
            yield _bring(root, name, checkpoints[name], bundle, hashed=False)
            # Who copies from there is a user of its own.
            place = QuoteString(f"{root}/bundle")
            yield StringCommand("[ -L", place, "] || chmod a+rx", place)
            yield _link(root, name)
        yield start(_job(name))
    if wrong:
        yield from _finish(root, {name: checkpoints[name] for name in wrong}, bundle)


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
    folder = f"{root}/{name}"
    # A job that goes on since another run has the folder. One that was cut off has left it to its
    # user, whose links root must not follow.
    return StringCommand(
        "case $(systemctl show --value --property=ActiveState",
        QuoteString(f"{_job(name)}.service"),
        ") in inactive | failed) python3 -B",
        *map(QuoteString, (f"{root}/bin/sparkwright-host", "hand-over", folder, "/")),
        "&& python3 -B",
        *map(QuoteString, (f"{root}/bin/sparkwright-host", "link-weights", root, name)),
        ";; esac",
    )


def _bring(
    root: str, name: str, locked: CheckpointLock, bundle: Bundle, *, hashed: bool
) -> FunctionCommand:
    """Return the command that sends what a checkpoint's folder lacks.

    Args:
        hashed: compare what an owner has brought by content, and not by size alone.
    """

    def run(state: State, host: Host) -> bool:
        found = host.get_fact(WeightFolders, root=root, folders=[name])
        files = found.get(name, CheckpointFolder()).files
        paths = [
            f"{checkpoint_folder(locked)}/{path}"
            for path, file in locked.files.items()
            if path not in files or files[path].size != file.size
        ]
        return sent(host, bundle, paths, hashed=hashed)

    return FunctionCommand(run, (), {})


def _finish(
    root: str, checkpoints: Mapping[str, CheckpointLock], bundle: Bundle | None
) -> Generator[PyinfraCommand]:
    last: dict[str, JobState] = {}
    yield follow(root, [_job(name) for name in checkpoints], last)
    folders = host.get_fact(WeightFolders, root=root, folders=list(checkpoints))
    lacking = [name for name, locked in checkpoints.items() if differences(locked, folders[name])]
    if bundle and lacking:
        # What an owner has brought was damaged.
        for name in lacking:
            yield _bring(root, name, checkpoints[name], bundle, hashed=True)
            yield _link(root, name)
            yield start(_job(name))
        yield follow(root, [_job(name) for name in lacking], last)
        folders = host.get_fact(WeightFolders, root=root, folders=list(checkpoints))
    problems = [
        f"{name}: {reason(_job(name), last[_job(name)])}"
        for name, locked in checkpoints.items()
        if differences(locked, folders[name])
    ]
    if problems:
        yield failing("\n".join(problems))
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
