"""The changes from one lock to another."""

from sparkwright.release.lock import CheckpointLock, Lock


def diff(old: Lock, new: Lock) -> list[str]:
    """Return the changes from one lock to another, a line for each name, sorted."""
    before, after = _versions(old), _versions(new)
    lines = [f"- {name}: {before[name]}" for name in before.keys() - after.keys()]
    lines += [f"+ {name}: {after[name]}" for name in after.keys() - before.keys()]
    both = before.keys() & after.keys()
    changed = (name for name in both if before[name] != after[name])
    lines += [f"~ {name}: {before[name]} -> {after[name]}" for name in changed]
    return sorted(lines, key=lambda line: line[2:])


def _versions(lock: Lock) -> dict[str, str]:
    images = (
        (f"image {name}", f"{image.digest}, {image.size:,} bytes")
        for name, image in lock.images.items()
    )
    checkpoints = ((f"checkpoint {key}", _version(each)) for key, each in lock.checkpoints.items())
    return dict([*images, *checkpoints])


def _version(locked: CheckpointLock) -> str:
    day = f" of {locked.date}" if locked.date else ""
    left = locked.left_out
    out = f" ({left.files} files, {left.bytes:,} bytes left out)" if left else ""
    return f"{locked.commit}{day}, {len(locked.files)} files, {locked.size:,} bytes{out}"
