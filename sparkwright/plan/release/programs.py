"""The programs of a Spark, as zip archives that Python runs: each is named by its content.

The same files make the same bytes on every machine: nothing is compressed, as versions of zlib
differ, and all members have one date.
"""

import io
import re
import shlex
import zipfile
import zlib
from base64 import b64encode
from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path

from sparkwright.common.files import Entry, ManagedFile, Symlink
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.placed import COMMAND

# The earliest that a zip archive can have.
_EPOCH = (1980, 1, 1, 0, 0, 0)
# To parse the modules takes 20 ms, as part of each run.
_IMPORT = re.compile(r"^ *from (host\.[\w.]+) import (?:\(([^)]*)\)|(.*))", re.MULTILINE)
# Imports modules from the texts that stand before it, by their names.
_LOADER = """
import sys
from importlib.machinery import ModuleSpec
class Loader:
    def find_spec(self, name, path=None, target=None):
        if name in TEXTS:
            is_package = any(each.startswith(f"{name}.") for each in TEXTS)
            return ModuleSpec(name, self, is_package=is_package)
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        exec(compile(TEXTS[module.__name__], module.__name__, "exec"), vars(module))
sys.meta_path.insert(0, Loader())
"""


def program_files(root: str) -> list[Entry]:
    """Return all programs of a Spark as its file ``sparkwright-host``.

    The file's name has its hash in it, and a link is what units call: a program that starts during
    an update finds either version whole.
    """
    content = spark_programs()
    name = f"sparkwright-host-{sha256(content).hexdigest()[:12]}"
    return [
        ManagedFile(f"{root}/bin/{name}", content, mode="755"),
        Symlink(f"{root}/bin/sparkwright-host", name),
        Symlink(COMMAND, f"{root}/bin/sparkwright-host"),
    ]


@cache
def spark_programs() -> bytes:
    """Return the archive of ``sparkwright-host``: all programs but the gateway's."""
    paths = (path for path in HOST_FILES.rglob("*.py") if path.parent.name != "gateway")
    return _archive("host.command", "main", paths)


@cache
def program(module: str) -> bytes:
    """Return the archive that runs ``command`` of a module such as "host.engine.supervisor"."""
    return _archive(module, "command", _imported(module))


def _archive(module: str, function: str, paths: Iterable[Path]) -> bytes:
    texts = {path.relative_to(HOST_FILES.parent).as_posix(): path.read_bytes() for path in paths}
    texts["__main__.py"] = f"from {module} import {function}\n\n{function}()\n".encode()
    buffer = io.BytesIO(b"#!/usr/bin/python3 -B\n")
    buffer.seek(0, io.SEEK_END)
    with zipfile.ZipFile(buffer, "w") as made:
        for name, text in sorted(texts.items()):
            member = zipfile.ZipInfo(name, _EPOCH)
            member.create_system = 3
            made.writestr(member, text)
    return buffer.getvalue()


def _imported(*modules: str) -> set[Path]:
    """Return the files of modules, of the packages above them, and of all that they import."""
    waiting, paths = [*modules], set[Path]()
    while waiting:
        parts = waiting.pop().split(".")
        for end in range(1, len(parts) + 1):
            path = HOST_FILES.parent.joinpath(*parts[:end])
            file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
            # The last part may be a name in a module.
            if file not in paths and file.exists():
                paths.add(file)
                waiting += _imports(file)
    return paths


def _imports(path: Path) -> Iterator[str]:
    for module, lines, line in _IMPORT.findall(path.read_text("utf-8")):
        names = (name.split() for name in (lines or line).split(","))
        yield from (f"{module}.{words[0]}" for words in names if words)


@cache
def state_program(parts: frozenset[str]) -> str:
    """Return the program that reads parts of a host, as a line of text: zlib's, in base64.

    It reads its request from standard input: a line of JSON, as files/host/state/state.py has it.
    """
    modules = ("host.state.state", *(f"host.state.{part.partition('.')[0]}" for part in parts))
    code = f"{_texts(*modules)}import json\nfrom host.state.state import show\n"
    code += "show(json.loads(sys.stdin.buffer.readline()))\n"
    return b64encode(zlib.compress(code.encode())).decode()


def program_command(module: str, *arguments: str) -> str:
    """Return the shell command that runs a module's ``command`` on a host that may lack it.

    It makes no file there: the module travels in the command, with all that it imports.
    """
    code = f"{_texts(module)}from {module} import command\ncommand()"
    return f"python3 -I - {shlex.join(arguments)} <<'END'\n{code}\nEND"


def _texts(*modules: str) -> str:
    """Return the code that makes modules importable, with all that they import."""
    texts = {}
    for path in sorted(_imported(*modules)):
        name = ".".join(path.relative_to(HOST_FILES.parent).with_suffix("").parts)
        texts[name.removesuffix(".__init__")] = path.read_text("utf-8")
    return f"TEXTS = {texts!r}{_LOADER}"
