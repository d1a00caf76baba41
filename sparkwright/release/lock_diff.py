"""The changes from one lock to another."""

from __future__ import annotations

import hashlib

from sparkwright.release.lock import CheckpointLock, Lock


def diff(old: Lock, new: Lock) -> list[str]:
    """Return the changes from one lock to another, a line for each name, sorted."""
    before, after = _versions(old), _versions(new)
    lines = []
    for name in sorted(before.keys() | after.keys()):
        if name not in before:
            lines.append(f"+ {name}: {after[name]}")
        elif name not in after:
            lines.append(f"- {name}: {before[name]}")
        elif before[name] != after[name]:
            lines.append(f"~ {name}: {before[name]} -> {after[name]}")
    return lines


def _versions(lock: Lock) -> dict[str, str]:
    images = {
        f"image {ref}": f"{image.digest}, {image.size:,} bytes"
        for ref, image in lock.images.items()
    }
    checkpoints = {
        f"checkpoint {key}": _version(locked) for key, locked in lock.checkpoints.items()
    }
    return images | checkpoints


def _version(locked: CheckpointLock) -> str:
    day = f" of {locked.date}" if locked.date else ""
    known = locked.shape.model_dump_json().encode() if locked.shape else None
    shape = f", shape {hashlib.sha256(known).hexdigest()[:8]}" if known else ""
    left = locked.left_out
    out = f" ({left.files} files, {left.bytes:,} bytes left out)" if left else ""
    return f"{locked.commit}{day}, {len(locked.files)} files, {locked.size:,} bytes{out}{shape}"
