"""Sends files of a bundle to a Spark, by the connection that the run has to it."""

import subprocess
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Protocol

from paramiko import SSHClient, SSHException
from pyinfra import logger
from pyinfra.api import FunctionCommand, Host, QuoteString, State, StringCommand
from pyinfra.api.exceptions import PyinfraError
from pyinfra.connectors.util import make_unix_command_for_host

from sparkwright.bundle.facts import PART, Carried, CarriedFile
from sparkwright.common.operations import uses_sudo
from sparkwright.common.progress import JobProgress, ProgressLines, size_text
from sparkwright.common.terminal import plain_lines
from sparkwright.release.bundle import INDEX, Bundle, BundledFile
from sparkwright.run.target import target_of

# Bytes that are read, hashed and sent at once: with 1 MiB it was a fifth slower.
_CHUNK = 256 * 1024
# Seconds in which a Spark takes a chunk, or says how a file has ended: its disk may be slow.
_PATIENCE = 120
# Paths that one command names: Linux allows 128 kB of it, and a path has about 100.
_AT_ONCE = 300
# Bytes that stay free on a Spark's disk.
_RESERVE = 1024**3
_LOST = (
    "The Spark stopped responding. What has come of the bundle is kept there: run again, which "
    "goes on with it."
)
# For each file come a line, its bytes, and a line that says whether they were the right ones.
_TAKE = f"""
umask 022
mkdir -p "$0" && cd "$0" || exit
tab=$(printf '\\t')
while IFS="$tab" read -r rest size hash path; do
  part=$path{PART}
  mkdir -p -- "$(dirname -- "$path")" || exit
  [ "$rest" != "$size" ] || rm -f -- "$part" || exit
  dd bs=1M iflag=fullblock,count_bytes count="$rest" status=none >>"$part" || exit
  read -r verdict && [ "$verdict" = right ] || {{ [ -z "$verdict" ] || rm -f -- "$part"; exit 3; }}
  [ "$(stat -c %s -- "$part")" = "$size" ] || {{ rm -f -- "$part"; exit 4; }}
  if [ "$hash" != - ]; then
    printf '%s  %s\\n' "$hash" "$part" | sha256sum --check --status - ||
      {{ rm -f -- "$part"; echo "$path arrived damaged" >&2; exit 5; }}
  fi
  mv -f -- "$part" "$path" || exit
done"""


def send(bundle: Bundle, paths: Sequence[str], *, hashed: bool = True) -> FunctionCommand:
    """Return the command that has files of a bundle in the Spark's folder `bundle`.

    Those that are there are not sent, whoever has brought them.

    Args:
        bundle: Has them.
        paths: In the bundle.
        hashed: Compare them by content; else by size alone, for what a job hashes.
    """

    def run(state: State, host: Host) -> bool:
        return sent(host, bundle, paths, hashed=hashed)

    return FunctionCommand(run, (), {})


def sent(host: Host, bundle: Bundle, paths: Sequence[str], *, hashed: bool = True) -> bool:
    """Send files as `send`; print why it failed, and return whether it succeeded."""
    try:
        bring(host, bundle, paths, hashed=hashed)
    except PyinfraError as error:
        host.log_styled(plain_lines(str(error)), fg="red", log_func=logger.error)
        return False
    return True


def bring(host: Host, bundle: Bundle, paths: Sequence[str], *, hashed: bool = True) -> None:
    """Send files as `send`.

    Raises:
        PyinfraError: Why it failed.
    """
    root = target_of(host).root
    carried: dict[str, CarriedFile] = {}
    free = 0
    for start in range(0, len(paths), _AT_ONCE):
        some = list(paths[start : start + _AT_ONCE])
        found = host.get_fact(Carried, root=root, paths=some, hashed=hashed)
        carried |= {path: found.files.get(path, CarriedFile()) for path in some}
        free = found.free
    parts = {
        path: _begun(carried[path], bundle.index.files[path])
        for path in paths
        if not _is_there(carried[path], bundle.index.files[path])
    }
    try:
        problem = _sent(host, root, bundle, parts, free, hashed) if parts else None
    except (OSError, EOFError, SSHException):
        problem = _LOST
    if problem:
        raise PyinfraError(problem)


def architecture(host: Host) -> str:
    """Return a host's architecture, as dpkg names it."""
    found = host.get_fact(Carried, root=target_of(host).root, paths=[], hashed=False)
    return str(found.architecture)


def _is_there(found: CarriedFile, wanted: BundledFile) -> bool:
    return found.size == wanted.size and found.sha256 in (None, wanted.sha256)


def _begun(found: CarriedFile, wanted: BundledFile) -> int:
    """Return how many bytes of a file have come."""
    return found.part if found.part <= wanted.size else 0


def _sent(
    host: Host, root: str, bundle: Bundle, parts: dict[str, int], free: int, hashed: bool
) -> str | None:
    """Send files; return why it failed, None if it did not.

    Args:
        parts: By path, how many bytes have come.
        free: Bytes on the Spark's disk.
    """
    files = bundle.index.files
    missing = sum(files[path].size - begun for path, begun in parts.items())
    if missing + _RESERVE > free:
        return (
            f"{root}/bundle: found {size_text(free)} free; expected "
            f"{size_text(missing + _RESERVE)}, for what comes from {bundle.folder}: free some "
            "space (sparkwright clean), and run again."
        )
    report = _Report(host, sum(files[path].size for path in parts), sum(parts.values()))
    line = _open(host, root)
    try:
        for path, begun in parts.items():
            if problem := _send_file(line, bundle, path, begun, report, hashed):
                return problem
        line.close_input()
        status, errors = line.end()
    except (OSError, EOFError, SSHException):
        # The command on the Spark has ended, or the connection has.
        status, errors = line.end()
        if status in (None, -1):
            return _LOST
    finally:
        line.close()
    if status:
        reason = errors.strip() or f"its command ended with status {status}"
        refused = f"The Spark did not take all that {bundle.folder} has for it"
        return f"{refused}: {reason[:500]}. Run again, which goes on with it."
    host.log(f"{len(parts)} file(s) of the bundle sent, {size_text(missing)}")
    return None


def _send_file(
    line: "_Input", bundle: Bundle, path: str, begun: int, report: "_Report", hashed: bool
) -> str | None:
    wanted, source = bundle.index.files[path], bundle.folder / path
    digest = sha256()
    try:
        file = source.open("rb", buffering=0)
    except OSError as error:
        return f"{source}: found {error.strerror}; expected a file: {bundle.remedy}"
    with file:
        checked = wanted.sha256 if hashed else "-"
        line.write(f"{wanted.size - begun}\t{wanted.size}\t{checked}\t{path}\n".encode())
        position = 0
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            new = chunk[max(0, begun - position) :]
            position += len(chunk)
            if position > wanted.size:
                break
            if new:
                line.write(new)
                report.add(len(new))
    if position != wanted.size or digest.hexdigest() != wanted.sha256:
        if position == wanted.size:
            with suppress(OSError, EOFError, SSHException):
                line.write(b"wrong\n")
                line.close_input()
                line.end()
        return (
            f"{source}: found another content than {INDEX} says; expected the file as it was "
            f"fetched. Delete it, and {bundle.remedy}"
        )
    line.write(b"right\n")
    return None


class _Report:
    """Shows how far the sending has come."""

    def __init__(self, host: Host, total: int, done: int) -> None:
        self._total, self._done = total, done
        self._lines = ProgressLines(lambda line: host.log(f"bundle: {line}"))

    def add(self, count: int) -> None:
        self._done += count
        self._lines.show(JobProgress("copying", self._done, self._total, ""))


class _Input(Protocol):
    """A command on a host, and a way to its standard input."""

    def write(self, content: bytes) -> None: ...

    def close_input(self) -> None: ...

    def end(self) -> tuple[int | None, str]:
        """Return its exit status, None if it is unknown, and what it said of errors."""
        ...

    def close(self) -> None: ...


def _open(host: Host, root: str) -> _Input:
    words = StringCommand("sh -c", QuoteString(_TAKE), QuoteString(f"{root}/bundle"))
    command = make_unix_command_for_host(
        host.state, host, words, _sudo=uses_sudo(host)
    ).get_raw_value()
    client = getattr(host.connector, "client", None)
    return _RemoteInput(client, command) if client else _LocalInput(command)


class _RemoteInput:
    """By a channel of the run's connection.

    SFTP would need the login to be root's, and wait for an answer to each 32 kB, or for none.
    """

    def __init__(self, client: SSHClient, command: str) -> None:
        transport = client.get_transport()
        if transport is None:
            raise EOFError
        self._channel = transport.open_session(timeout=_PATIENCE)
        self._channel.settimeout(_PATIENCE)
        self._channel.exec_command(command)

    def write(self, content: bytes) -> None:
        self._channel.sendall(content)

    def close_input(self) -> None:
        self._channel.shutdown_write()

    def end(self) -> tuple[int | None, str]:
        with suppress(OSError, EOFError, SSHException):
            errors = self._channel.makefile_stderr("rb").read(4096)
            if self._channel.status_event.wait(_PATIENCE):
                return self._channel.exit_status, errors.decode(errors="replace")
        return None, ""

    def close(self) -> None:
        self._channel.close()


class _LocalInput:
    """By a pipe, on the machine that runs pyinfra."""

    def __init__(self, command: str) -> None:
        self._process = subprocess.Popen(
            ["sh", "-c", command], stdin=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )
        assert self._process.stdin
        self._input = self._process.stdin

    def write(self, content: bytes) -> None:
        rest = memoryview(content)
        while rest:
            rest = rest[self._input.write(rest) :]

    def close_input(self) -> None:
        self._input.close()

    def end(self) -> tuple[int | None, str]:
        assert self._process.stderr
        errors = self._process.stderr.read()
        return self._process.wait(), errors.decode(errors="replace")

    def close(self) -> None:
        with suppress(OSError):
            self._input.close()
        self._process.wait()
