"""The engine's container, by the docker command."""

import asyncio
import os
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from pathlib import Path

# Docker may have 100 GB of memory to give back to the kernel before it answers.
PATIENCE = 60
# Between SIGKILL and the end of a process.
GOODBYE = 5


class Container:
    """One container, and the program in whose foreground it runs."""

    def __init__(self, name: str, command: Path) -> None:
        self._name = name
        self._command = command
        self._client: Process | None = None
        # There may be a container of our making.
        self.begun = False

    @property
    def running(self) -> bool:
        """Tell whether the client runs."""
        return self._client is not None and self._client.returncode is None

    async def start(self, environment: dict[str, str]) -> None:
        """Start the client with these variables on top of our own."""
        self.begun = True
        self._client = await asyncio.create_subprocess_exec(
            self._command, stdin=DEVNULL, env=os.environ | environment
        )

    async def ended(self) -> int:
        """Wait for the end; return the container's exit status."""
        assert self._client
        return await self._client.wait()

    async def stop(self, seconds: int) -> None:
        """SIGTERM, and SIGKILL after so many seconds; return when that is done."""
        if self.running:
            await docker("stop", "-t", str(seconds), self._name, patience=seconds + PATIENCE)

    async def remove(self) -> str | None:
        """Remove the container, whatever its state; return why it may still be there.

        SIGKILL, not SIGTERM: the engine may be stopped by a signal.
        """
        if self.running:
            await docker("kill", self._name)
            with suppress(TimeoutError):
                async with asyncio.timeout(GOODBYE):
                    await self.ended()
        if self.running:
            assert self._client
            await _kill(self._client)
        problem = await docker("rm", "--force", self._name)
        return None if problem and "No such container" in problem else problem


async def docker(*arguments: str, patience: float = PATIENCE) -> str | None:
    """Run a docker command; return None, or what went wrong."""
    try:
        process = await asyncio.create_subprocess_exec(
            "docker", *arguments, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE
        )
    except OSError as error:
        return f"docker: {error.strerror}"
    try:
        async with asyncio.timeout(patience):
            _, errors = await process.communicate()
    except TimeoutError:
        return f"docker {arguments[0]}: no answer in {patience} s"
    finally:
        if process.returncode is None:
            await _kill(process)
    if process.returncode == 0:
        return None
    return errors.decode(errors="replace").strip() or f"exit status {process.returncode}"


async def _kill(process: Process) -> None:
    with suppress(ProcessLookupError, TimeoutError):
        process.kill()
        async with asyncio.timeout(GOODBYE):
            await process.wait()
