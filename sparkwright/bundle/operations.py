"""Sends files of a bundle to a Spark, by the connection that the run has to it."""

import shlex
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from tarfile import BLOCKSIZE, TarInfo

from paramiko import SSHClient, SSHException
from pyinfra import logger
from pyinfra.api import FunctionCommand, Host, QuoteString, State, StringCommand
from pyinfra.api.exceptions import PyinfraError
from pyinfra.connectors.util import make_unix_command_for_host

from sparkwright.common.facts import HostFact
from sparkwright.common.operations import run_now, uses_sudo
from sparkwright.common.progress import JobProgress, ProgressLines, size_text
from sparkwright.common.terminal import plain_lines
from sparkwright.release.bundle import INDEX, Bundle, BundledFile
from sparkwright.run.target import target_of

# Bytes that are read, hashed and sent at once: with 1 MiB it was a fifth slower.
_CHUNK = 256 * 1024
# Seconds in which a Spark takes a chunk, or says how it has ended: its disk may be slow.
_PATIENCE = 120
# Paths that one command names: Linux allows 128 kB of it, and a path has about 100.
_AT_ONCE = 300
# Bytes that stay free on a Spark's disk.
_RESERVE = 1024**3
_AGAIN = "What has come whole of the bundle is kept there: run again, which sends the rest."
_LOST = f"The Spark stopped responding. {_AGAIN}"
_TAKE = 'umask 022; mkdir -p "$0" && cd "$0" && exec tar --extract --no-same-owner --touch'
# What an archive ends with.
_END = bytes(2 * BLOCKSIZE)


@dataclass(frozen=True)
class CarriedFiles:
    """The files of a bundle that a Spark has.

    Attributes:
        free: Bytes that are free on the disk of the root folder.
        architecture: As dpkg names it.
        files: Bytes, and the hash where it was asked for, by path in the bundle.
    """

    free: int = 0
    architecture: str = ""
    files: dict[str, tuple[int, str]] = field(default_factory=dict)

    def lack(self, path: str, wanted: BundledFile) -> bool:
        """Tell whether a file is absent or another."""
        size, digest = self.files.get(path, (-1, ""))
        return size != wanted.size or digest not in ("", wanted.sha256)


class Carried(HostFact[CarriedFiles]):
    """The files of a bundle that are on the Spark."""

    momentary = True
    default = CarriedFiles

    def command(self, root: str, paths: Sequence[str], hashed: bool) -> str:
        digest = 'sha256sum < "$path" | cut -d" " -f1' if hashed else "echo"
        return f"""
disk={shlex.quote(root)}
while [ ! -d "$disk" ]; do disk=$(dirname "$disk"); done
df --block-size=1 --output=avail "$disk" | tail -n 1
dpkg --print-architecture 2>/dev/null || echo unknown
cd {shlex.quote(root)}/bundle 2>/dev/null || exit 0
for path in {shlex.join(paths)}; do
  [ ! -f "$path" ] || printf '%s\\t%s\\t%s\\n' "$(stat -c %s "$path")" "$({digest})" "$path"
done"""

    def parse(self, output: list[str]) -> CarriedFiles:
        free, architecture, *lines = output
        found = (line.split("\t") for line in lines)
        files = {path: (int(size), digest) for size, digest, path in found}
        return CarriedFiles(int(free), architecture, files)


def architecture(host: Host) -> str:
    """Return a host's architecture, as dpkg names it."""
    found = host.get_fact(Carried, root=target_of(host).root, paths=[], hashed=False)
    return str(found.architecture)


def send(bundle: Bundle, paths: Sequence[str], *, hashed: bool = True) -> FunctionCommand:
    """Return the command that has files of a bundle in the Spark's folder `bundle`; as `bring`."""

    def run(state: State, host: Host) -> bool:
        return sent(host, bundle, paths, hashed=hashed)

    return FunctionCommand(run, (), {})


def sent(host: Host, bundle: Bundle, paths: Sequence[str], *, hashed: bool = True) -> bool:
    """Send files as `bring`; print why it failed, and return whether it succeeded."""
    try:
        bring(host, bundle, paths, hashed=hashed)
    except PyinfraError as error:
        host.log_styled(plain_lines(str(error)), fg="red", log_func=logger.error)
        return False
    return True


def bring(host: Host, bundle: Bundle, paths: Sequence[str], *, hashed: bool = True) -> None:
    """Send files of a bundle that are not there, whoever has brought them.

    Args:
        paths: In the bundle.
        hashed: Compare them by content; else by size alone, for what a job hashes.

    Raises:
        PyinfraError: Why it failed.
    """
    lacking, free = _lacking(host, bundle, paths, hashed)
    if not lacking:
        return
    root, size = target_of(host).root, sum(bundle.index.files[path].size for path in lacking)
    if size + _RESERVE > free:
        raise PyinfraError(
            f"{root}/bundle: found {size_text(free)} free; expected {size_text(size + _RESERVE)}, "
            f"for what comes from {bundle.folder}: free some space (sparkwright clean), and run "
            "again."
        )
    try:
        _stream(host, root, bundle, lacking, size)
    except (OSError, EOFError, SSHException):
        raise PyinfraError(_LOST) from None
    if hashed and (damaged := _lacking(host, bundle, lacking, hashed)[0]):
        raise PyinfraError(f"{', '.join(damaged)} arrived damaged: run again.")
    host.log(f"{len(lacking)} file(s) of the bundle sent, {size_text(size)}")


def _lacking(
    host: Host, bundle: Bundle, paths: Sequence[str], hashed: bool
) -> tuple[list[str], int]:
    """Return the files that a Spark lacks, and the bytes that are free on its disk."""
    root, lacking, free = target_of(host).root, [], 0
    for start in range(0, len(paths), _AT_ONCE):
        some = list(paths[start : start + _AT_ONCE])
        found = host.get_fact(Carried, root=root, paths=some, hashed=hashed)
        lacking += [path for path in some if found.lack(path, bundle.index.files[path])]
        free = found.free
    return lacking, free


def _stream(host: Host, root: str, bundle: Bundle, paths: Sequence[str], total: int) -> None:
    """Send files as one tar archive, which the Spark unpacks as it comes."""
    lines = ProgressLines(lambda line: host.log(f"bundle: {line}"))
    line, done = _open(host, root), 0

    def seen(count: int) -> None:
        nonlocal done
        done += count
        lines.show(JobProgress("copying", done, total, ""))

    path = ""
    try:
        try:
            for path in paths:
                _add(line, bundle, path, seen)
            line.write(_END)
            line.close_input()
        except PyinfraError:
            line.close_input()
            line.end()
            run_now(host, StringCommand("rm -f --", QuoteString(f"{root}/bundle/{path}")))
            raise
        except (OSError, EOFError, SSHException):
            # The command on the Spark has ended, or the connection has.
            pass
        status, errors = line.end()
    finally:
        line.close()
    if status in (None, -1):
        raise PyinfraError(_LOST)
    if status:
        reason = errors.strip()[:500] or f"its command ended with status {status}"
        refused = f"The Spark did not take all that {bundle.folder} has for it"
        raise PyinfraError(f"{refused}: {reason}. {_AGAIN}")


def _add(line: "_Remote | _Local", bundle: Bundle, path: str, seen: Callable[[int], None]) -> None:
    """Write a file of a bundle into an archive; its end only if all is as the index says.

    Raises:
        PyinfraError: It is not.
    """
    wanted, source = bundle.index.files[path], bundle.folder / path
    changed = PyinfraError(
        f"{source}: found another content than {INDEX} says; expected the file as it was fetched. "
        f"Delete it, and {bundle.remedy}"
    )
    try:
        file = source.open("rb", buffering=0)
    except OSError as error:
        found = f"found {error.strerror}; expected a file"
        raise PyinfraError(f"{source}: {found}: {bundle.remedy}") from None
    with file:
        entry = TarInfo(path)
        entry.size = wanted.size
        line.write(entry.tobuf())
        digest, come = sha256(), 0
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            come += len(chunk)
            whole = (come, digest.hexdigest()) == (wanted.size, wanted.sha256)
            if come >= wanted.size and not whole:
                raise changed
            line.write(chunk)
            seen(len(chunk))
    if come != wanted.size:
        raise changed
    line.write(bytes(-come % BLOCKSIZE))


def _open(host: Host, root: str) -> "_Remote | _Local":
    words = StringCommand("sh -c", QuoteString(_TAKE), QuoteString(f"{root}/bundle"))
    command = make_unix_command_for_host(
        host.state, host, words, _sudo=uses_sudo(host)
    ).get_raw_value()
    client = getattr(host.connector, "client", None)
    return _Remote(client, command) if client else _Local(command)


class _Remote:
    """A command on a Spark, by a channel of the run's connection.

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
        """Return its exit status, None if it is unknown, and what it said of errors."""
        with suppress(OSError, EOFError, SSHException):
            errors = self._channel.makefile_stderr("rb").read(4096)
            if self._channel.status_event.wait(_PATIENCE):
                return self._channel.exit_status, errors.decode(errors="replace")
        return None, ""

    def close(self) -> None:
        self._channel.close()


class _Local:
    """The same on the machine that runs pyinfra."""

    def __init__(self, command: str) -> None:
        self._process = subprocess.Popen(
            ["sh", "-c", command], stdin=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )

    def write(self, content: bytes) -> None:
        assert self._process.stdin
        rest = memoryview(content)
        while rest:
            rest = rest[self._process.stdin.write(rest) :]

    def close_input(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()

    def end(self) -> tuple[int | None, str]:
        """Return its exit status, and what it said of errors."""
        assert self._process.stderr
        errors = self._process.stderr.read()
        return self._process.wait(), errors.decode(errors="replace")

    def close(self) -> None:
        self.close_input()
        self._process.wait()
