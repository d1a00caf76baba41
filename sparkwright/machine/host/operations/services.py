"""Operations of units, kernel parameters and the users of engines."""

from collections.abc import Collection, Generator, Mapping, Sequence

from pyinfra import host
from pyinfra.api import QuoteString, StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.common.files import Directory, Entry, ManagedFile
from sparkwright.common.operations import differs, unit_differs
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.placed import SYSTEMD, USERS, check
from sparkwright.common.render import unit_file
from sparkwright.machine.host.operations.files import managed_files, placed, unit_state
from sparkwright.machine.host.operations.packages import install
from sparkwright.run.target import target

GPU_CLOCK = "gpu-clock.service"


@operation()
def service(
    unit: str, entries: Sequence[Entry], package: str | None = None, restart: bool = False
) -> Generator[PyinfraCommand]:
    """Enable and run a unit with these files; restart it when one of them is newer than its start.

    So the next run finishes one that was interrupted between file and restart.

    Args:
        package: is installed where the unit is missing.
        restart: the unit is to start anew in any case.
    """
    files = [entry.path for entry in entries if not isinstance(entry, Directory)]
    state = unit_state(unit, files)
    changes = list(managed_files._inner(entries=entries))
    if package and not state.known:
        differs(f"package {package}", "installed", "not installed")
    else:
        unit_differs(unit, active=state.active, enabled=state.enabled, outdated=state.outdated)
    # A package starts its program at once: by these settings.
    yield from changes
    if package and not state.known:
        yield install(package)
    if not state.enabled:
        yield StringCommand("systemctl enable --quiet", QuoteString(unit))
    if changes or state.outdated or restart:
        yield StringCommand("systemctl daemon-reload && systemctl restart", QuoteString(unit))
    elif not state.active:
        yield StringCommand("systemctl start", QuoteString(unit))


@operation()
def sysctl(
    path: str, values: Mapping[str, str], optional: Collection[str] = ()
) -> Generator[PyinfraCommand]:
    """Set kernel parameters by name, now and at every boot, by a file below /etc/sysctl.d.

    Without one that is optional, a kernel is as it should be.
    """
    check(parameters=values)
    parameters = placed().parameters
    values = {key: values[key] for key in values if key in parameters or key not in optional}
    entry = ManagedFile(path, "".join(f"{key} = {value}\n" for key, value in values.items()))
    found = {key: parameters[key] for key in values if key in parameters}
    changes = list(managed_files._inner(entries=[entry]))
    for key, value in values.items():
        if found.get(key) != value:
            differs(key, value, found.get(key, "no such parameter"))
    if changes or found != values:
        # Their values before our first change are kept.
        folder = f"{target().root}/state"
        state, file = QuoteString(folder), QuoteString(f"{folder}/sysctl")
        yield StringCommand(
            *("mkdir -p", state, "&& for key in", *map(QuoteString, values), "; do"),
            *('grep -qsF "$key = "', file, '|| sysctl "$key" 2>/dev/null >>', file, "; done; true"),
        )
    yield from changes
    if changes or found != values:
        yield StringCommand("sysctl --quiet --load", QuoteString(path))


@operation()
def engine_users() -> Generator[StringCommand]:
    """Have the users as whom engines run: they own what an engine writes, and may do nothing."""
    found = placed().users
    missing = [name for name in USERS if name not in found]
    if not missing:
        host.noop("they are there")
    for name in missing:
        differs(f"user {name}", "there", "absent")
        yield StringCommand(
            "useradd --system --user-group --no-create-home --home-dir /nonexistent",
            f"--shell /usr/sbin/nologin {name}",
        )


@operation()
def gpu_clock() -> Generator[PyinfraCommand]:
    """Limit the GPU's clock, now and at every boot, by a unit; without a limit, remove ours."""
    own = target()
    if limit := own.settings.gpu_clock_max_mhz:
        unit = unit_file(HOST_FILES / "machine" / GPU_CLOCK, root=own.root, megahertz=limit)
        yield from service._inner(unit=GPU_CLOCK, entries=[unit])
    elif unit_state(GPU_CLOCK).known:
        differs(GPU_CLOCK, "none: the GPU's clock has no limit", "one")
        remove = f"rm -f {SYSTEMD}/{GPU_CLOCK} && systemctl daemon-reload"
        yield StringCommand(f"systemctl disable --quiet --now {GPU_CLOCK}; {remove}")
    else:
        host.noop("the GPU's clock has no limit of ours")


@operation()
def guarded(entries: Sequence[ManagedFile]) -> Generator[PyinfraCommand]:
    """Install the slices of engines, each with a packet filter, and have systemd read them.

    systemd sets up a container's filter before it starts the container, and replaces it when it
    reads the files anew: there is no moment without a filter.
    """
    known = placed().units
    units = [entry.path.rpartition("/")[2] for entry in entries]
    yield from read_anew(entries, [u for u in units if u not in known or known[u].unread])


def read_anew(entries: Sequence[Entry], unread: Sequence[str]) -> Generator[PyinfraCommand]:
    """Yield what places files of units, and has systemd read them, or these units alone, anew."""
    changes = list(managed_files._inner(entries=entries))
    for unit in [] if changes else unread:
        differs(unit, "as in its file", "an older version")
    yield from changes
    if changes or unread:
        yield StringCommand("systemctl daemon-reload")
