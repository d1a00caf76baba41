"""The index of a bundle."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any


def write_index(folder: Path, lock: Any = None, images: Any = None) -> str:
    files = {
        path.relative_to(folder).as_posix(): {
            "size": path.stat().st_size,
            "sha256": sha256(path.read_bytes()).hexdigest(),
        }
        for path in folder.rglob("[!.]*")
        if path.is_file() and path.name != "bundle.json"
    }
    index = {"version": 1, "lock": lock or {}, "images": images or {}, "files": files}
    (folder / "bundle.json").write_text(json.dumps(index))
    return sha256((folder / "bundle.json").read_bytes()).hexdigest()
