"""haproxy as it runs: its processes, and the commands and questions to its master's socket.

While haproxy does not run, commands do nothing, and answers are empty.
"""

import os
import re
import signal
import socket
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from host.common.seat import SOCKET

# The second one is for requests that may wait. What no engine takes goes to NOBODY there, who
# refuses it: so haproxy tries it again a second later, until its time is over. The HEIR is
# the engine that a process is left to which a reload replaces.
BACKENDS = ("engines", "patient")
ENGINES, PATIENT = BACKENDS
NOBODY, HEIR = "nobody", "heir"
# Nothing listens on its port, and nothing without rights can.
NOBODY_SERVER = f"    server {NOBODY} 127.0.0.1:1 weight 1\n"

# How an engine is watched. It goes down by three checks in a row, since one that reads a long
# prompt may be slow to answer; what it refuses goes to another engine at once, and asks earlier.
CHECK = "check inter 2s fastinter 500ms downinter 500ms fall 3 rise 1 observe layer4 error-limit 1"
# One that refuses a request which may wait gets no other until a check finds it up.
_ON_ERROR = {ENGINES: "on-error fastinter", PATIENT: "on-error mark-down"}
# Weights of an engine: LB's largest, so that nobody is chosen last; and in a hold.
_WEIGHTS = {"no": 256, "yes": 0}

# Seconds for an answer of the door, which has it in a millisecond, and for one try to have it; for
# a reload, which reads a few small files; and between two looks at it.
ANSWER, TRY, RELOAD, LOOK = 10.0, 2.0, 30.0, 0.05


class DoorError(Exception):
    """What cannot be done, as a sentence."""


def server(backend: str, release: str, hold: str) -> str:
    """Return an engine in haproxy's words, as its files and `add server` take it.

    By its release haproxy knows it, and finds its socket where haproxy is confined.
    """
    words = f"{CHECK} {_ON_ERROR[backend]} weight {_WEIGHTS[hold]}"
    return f"{release} unix@/{release}/{SOCKET} {words}"


class Haproxy:
    """The haproxy of a door, by the path of its master's socket."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def running(self) -> dict[str, str]:
        """Return `version` and `mark` of the present worker; nothing without one."""
        for worker in self._workers()[:1]:
            lines = self._ask("show info", worker).splitlines()
            info = dict(line.split(": ", 1) for line in lines if ": " in line)
            return {"version": info["Version"], "mark": info.get("description", "")}
        return {}

    def reload(self, master: int) -> None:
        """Have haproxy read its files anew, in a new process; the old one ends with its streams."""
        before, failed_before = self._processes()
        os.kill(master, signal.SIGUSR2)
        deadline = time.monotonic() + RELOAD
        while True:
            workers, failed = self._processes()
            if workers and workers[0] not in before:
                return
            if failed > failed_before or time.monotonic() > deadline:
                # It goes on as it was.
                raise DoorError("the door did not take its new files: journalctl -u door")
            time.sleep(LOOK)

    def leave_to(self, release: str) -> None:
        """Have the requests that wait in the present process try an engine, up or not.

        After a reload that process makes no health check. If the reload fails, `apply` ends this.
        """
        for worker in self._workers()[:1]:
            socket_of = f"unix@/{release}/{SOCKET} weight {_WEIGHTS['no']}"
            self._ask(f"add server {PATIENT}/{HEIR} {socket_of}", worker)
            self._ask(f"set server {PATIENT}/{HEIR} state ready", worker)

    def end_previous(self) -> None:
        """End the processes that a reload left, and all that they have in flight."""
        for worker in self._workers()[1:]:
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGTERM)

    def apply(self, engines: Collection[str], choices: Path, choice: Mapping[str, str]) -> None:
        """Have every process know these engines alone, and the choice among them.

        A process that a reload has replaced takes no new engine, but a choice. The choice is the
        content of the map in the file `choices`.
        """
        kept = {NOBODY}
        for worker in self._workers():
            for key, value in choice.items():
                words = value.replace(" ", "\\ ")
                self._ask(f"set map {choices} {key} {words}", worker)
            for backend in BACKENDS:
                self._apply(worker, backend, engines, choice["hold"], kept)
            kept |= {HEIR}

    def _apply(
        self, worker: int, backend: str, engines: Collection[str], hold: str, kept: Collection[str]
    ) -> None:
        state = self._ask(f"show servers state {backend}", worker)
        found = {row["srv_name"]: row for row in _table(state, " ")}
        for release in engines:
            name = f"{backend}/{release}"
            if release not in found:
                self._ask(f"add server {backend}/{server(backend, release, hold)}", worker)
                self._ask(f"enable health {name}", worker)
            if found.get(release, {}).get("srv_admin_state") != "0":
                self._ask(f"set server {name} state ready", worker)
            self._ask(f"set server {name} weight {_WEIGHTS[hold]}", worker)
        if backend == PATIENT:
            # Whoever was to refuse what waits may have been killed.
            self._ask(f"set server {PATIENT}/{NOBODY} state ready", worker)
        for release in found.keys() - {*engines, *kept}:
            self._ask(f"set server {backend}/{release} state maint", worker)
            # Refused while it has requests in flight; the next change tries it again.
            self._ask(f"del server {backend}/{release}", worker)

    def let_wait(self, may: bool) -> None:
        """Say, until the next `apply`, whether requests may wait: else all have 503 in a second."""
        for worker in self._workers():
            state = "ready" if may else "maint"
            self._ask(f"set server {PATIENT}/{NOBODY} state {state}", worker)

    def counts(self, release: str, held: bool) -> tuple[int, int, int]:
        """Return how many requests are in flight at an engine in all processes, how many wait for
        one, and how many an engine of this release has had since the last reload.

        The next request of an idle connection to a process that a reload has replaced may go to
        this engine as well: such connections count, except in a hold.
        """
        count = waiting = had = 0
        # What has waited through a reload goes to an engine by the name of its heir.
        asked = ((ENGINES, release), (PATIENT, release), (PATIENT, HEIR))
        for number, worker in enumerate(self._workers()):
            rows = dict(self._stat(worker))
            waiting += _waiting(rows)[0]
            if number == 0:
                had = sum(int(rows[each]["stot"]) for each in asked if each in rows)
            if asked[0] in rows:
                now = sum(int(rows[each]["scur"]) for each in asked if each in rows)
                door = rows.get(("door", "FRONTEND"), {})
                ends = door.get("status") == "STOP"
                count += max(now, int(door["scur"])) if ends and not held else now
        return count, waiting, had

    def held(self) -> tuple[int, int]:
        """Return how many requests wait for an engine in all processes, and how many were given up
        since the last reload.
        """
        found = [_waiting(dict(self._stat(worker))) for worker in self._workers()]
        return sum(now for now, _ in found), next((given_up for _, given_up in found), 0)

    def names(self) -> dict[str, tuple[int, int, int]]:
        """Return three numbers of requests for each name of a key: those since the last reload,
        those in flight in all processes, and those that were held for want of an engine.
        """
        found: dict[str, tuple[int, int, int]] = {}
        for number, worker in enumerate(self._workers()):
            for line in self._ask("show table names", worker).splitlines():
                row = dict(field.split("=", 1) for field in line.split() if "=" in field)
                if "http_req_cnt" in row:
                    came, now, held = found.get(row["key"], (0, 0, 0))
                    if number == 0:
                        came, held = int(row["http_req_cnt"]), int(row.get("gpc0", 0))
                    found[row["key"]] = came, now + int(row["conn_cur"]), held
        return found

    def _stat(self, worker: int) -> Iterator[tuple[tuple[str, str], dict[str, str]]]:
        for row in _table(self._ask("show stat", worker), ","):
            yield (row["pxname"], row["svname"]), row

    def _workers(self) -> list[int]:
        return self._processes()[0]

    def _processes(self) -> tuple[list[int], int]:
        """Return the workers' process IDs, the present one first, and the number of failed reloads.

        A worker that a reload has replaced stays until its last stream has ended.
        """
        workers, failures = [], 0
        for line in self._ask("show proc").splitlines():
            fields = line.split()
            if fields[1:2] == ["worker"]:
                workers.append(int(fields[0]))
            if failed := re.search(r"failed: (\d+)", line):
                failures = int(failed[1])
        return workers, failures

    def _ask(self, command: str, worker: int | None = None) -> str:
        """Return the answer of a worker, or of the master, to a command."""
        words = f"@!{worker} {command}\n" if worker else f"{command}\n"
        deadline = time.monotonic() + ANSWER
        while time.monotonic() < deadline:
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(TRY)
                try:
                    client.connect(str(self._path))
                except (FileNotFoundError, ConnectionRefusedError):
                    return ""
                # A reload drops the connections that it finds, and haproxy 3.0.0 has been seen to
                # leave one without an answer. What is asked may be asked twice.
                with suppress(ConnectionError, TimeoutError):
                    client.sendall(words.encode())
                    # Else it waits for another command.
                    client.shutdown(socket.SHUT_WR)
                    if answer := b"".join(iter(lambda: client.recv(65536), b"")):
                        return answer.decode()
            time.sleep(LOOK)
        raise DoorError("the door does not answer: journalctl -u door")


def _waiting(rows: Mapping[tuple[str, str], Mapping[str, str]]) -> tuple[int, int]:
    """Return how many requests of a process wait for an engine, and how many were given up."""
    of = {name: row for (backend, name), row in rows.items() if backend == PATIENT}
    whole = of.pop("BACKEND", {})
    now = int(whole.get("scur", 0)) - sum(int(row["scur"]) for row in of.values())
    return max(now, 0), int(whole.get("econ", 0))


def _table(text: str, separator: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a table whose head begins with "# "."""
    head: list[str] = []
    for line in text.splitlines():
        if line.startswith("# "):
            head = line.removeprefix("# ").split(separator)
        elif head and line:
            yield dict(zip(head, line.split(separator), strict=False))
