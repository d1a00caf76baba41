"""Prints parts of this host as one JSON document.

Each part is read by a function of a module beside this one, `read` or the one that its name has
after a dot, in a thread of its own: what fails, hangs or is too large is unknown, for its part
alone.
"""

import importlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any

from host.state.readers import UnknownError

# Seconds for a part, and bytes of its JSON text.
PATIENCE = 30.0
MOST = 8 << 20
# The parts that a person sees, in this order: those that need no more than the root folder.
SHOWN: tuple[str, ...] = (
    "door",
    "engines",
    "engines.history",
    "firewall",
    "machine",
    "machine.gpu_proof",
    "machine.memory",
    "network.fabric",
    "network.link",
    "sockets",
    "sockets.exporter",
    "status",
    "status.running",
)
# What others take for the end of a line, as JSON may have it in texts.
_LINES = {end: f"\\u{end:04x}" for end in (0x85, 0x2028, 0x2029)}
# A part: its name, the arguments of its `read`, and seconds within which it must be read.
Ask = tuple[str, dict[str, Any], float]


def answers(asks: Iterable[Ask]) -> list[str]:
    """Return the JSON text of each part: {"known": VALUE} or {"unknown": REASON}."""
    asks = list(asks)
    texts = [_unknown(f"no answer within {seconds:g} s") for _, _, seconds in asks]

    def answer(number: int, part: str, arguments: dict[str, Any]) -> None:
        texts[number] = _answer(part, arguments)

    readers = [
        threading.Thread(target=answer, args=(number, part, arguments), daemon=True)
        for number, (part, arguments, _) in enumerate(asks)
    ]
    for reader in readers:
        reader.start()
    begun = time.monotonic()
    for reader, (_, _, seconds) in zip(readers, asks, strict=True):
        reader.join(max(0.0, begun + seconds - time.monotonic()))
    return list(texts)


def _answer(part: str, arguments: dict[str, Any]) -> str:
    try:
        module, _, function = part.partition(".")
        read = getattr(importlib.import_module(f"host.state.{module}"), function or "read")
        value = read(**arguments)
        text = json.dumps({"known": value}, ensure_ascii=False, allow_nan=False)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _unknown(f"{where}{error.strerror or error}")
    except Exception as error:
        kind = "" if isinstance(error, UnknownError) else f"{type(error).__name__}: "
        return _unknown(f"{kind}{error}")
    if len(text) > MOST:
        return _unknown(f"found {len(text)} characters; expected at most {MOST}")
    return text


def _unknown(reason: str) -> str:
    return json.dumps({"unknown": reason[:500]})


def show(asks: Iterable[Ask]) -> None:
    """Print a line for each part, and end the process, whatever hangs."""
    for text in answers(asks):
        sys.stdout.buffer.write(f"{text}\n".translate(_LINES).encode("utf-8", "replace"))
    sys.stdout.buffer.flush()
    os._exit(0)


def command() -> None:
    """Run as ``sparkwright-host state [PART ...]``: show parts of this Spark to a person."""
    from host.common.command_line import words

    chosen = words(__doc__, rest="PART") or SHOWN
    # The archive is in the root folder's bin, also where a link outside of it was called.
    archive = os.path.realpath(__file__.partition("/host/state/")[0])
    root = os.path.dirname(os.path.dirname(archive))
    texts = answers((part, {"root": root}, PATIENCE) for part in chosen)
    document = dict(zip(chosen, map(json.loads, texts), strict=True))
    print(json.dumps(document, indent=2, ensure_ascii=False))
