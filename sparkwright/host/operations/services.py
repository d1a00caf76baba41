"""Operations of services, kernel parameters and the clock."""

from collections.abc import Generator, Mapping, Sequence

from pyinfra import host
from pyinfra.api import QuoteString, StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.common.files import Directory, Entry, ManagedFile
from sparkwright.common.operations import differs, foresee, unit_differs
from sparkwright.common.placed import USERS, check
from sparkwright.host.facts import Accounts, ClockSync, Service, Sysctls
from sparkwright.host.operations.files import file_states, managed_files
from sparkwright.host.operations.packages import install
from sparkwright.run.target import target


@operation()
def service(
    unit: str, entries: Sequence[Entry], package: str | None = None
) -> Generator[PyinfraCommand, None, None]:
    """Enable and run a unit with these files; restart it when one of them is newer than its start.

    So the next run finishes one that was interrupted between file and restart.

    Args:
        unit: with its suffix, as in `docker.service`.
        entries: the files that configure the unit, and their directories.
        package: the one to install if the unit is missing.
    """
    files = [entry.path for entry in entries if not isinstance(entry, Directory)]
    foresee(lambda: file_states(entries))
    state = host.get_fact(Service, unit=unit, files=files)
    changes = list(managed_files._inner(entries=entries))
    if package and not state.known:
        differs(f"package {package}", "installed", "not installed")
    else:
        unit_differs(unit, active=state.active, enabled=state.enabled, outdated=state.outdated)
    if package and not state.known:
        yield install(package)
    yield from changes
    if not state.enabled:
        yield StringCommand("systemctl enable --quiet", QuoteString(unit))
    if changes or state.outdated:
        yield StringCommand("systemctl daemon-reload && systemctl restart", QuoteString(unit))
    elif not state.active:
        yield StringCommand("systemctl start", QuoteString(unit))


@operation()
def sysctl(path: str, values: Mapping[str, str]) -> Generator[PyinfraCommand, None, None]:
    """Set kernel parameters, now and at every boot.

    Args:
        path: the file below /etc/sysctl.d that holds them.
        values: parameters by name, as in `{"vm.swappiness": "10"}`.
    """
    check(parameters=values)
    entry = ManagedFile(path, "".join(f"{key} = {value}\n" for key, value in values.items()))
    foresee(lambda: file_states([entry]))
    found = host.get_fact(Sysctls, keys=list(values))
    changes = list(managed_files._inner(entries=[entry]))
    for key, value in values.items():
        if found.get(key) != value:
            differs(key, value, found.get(key, "no such parameter"))
    if changes or found != values:
        yield _remember(list(values))
    yield from changes
    if changes or found != values:
        yield StringCommand("sysctl --quiet --load", QuoteString(path))


def _remember(keys: Sequence[str]) -> StringCommand:
    """Return the command that records the values of parameters before our first change."""
    folder = f"{target().root}/state"
    state, file = QuoteString(folder), QuoteString(f"{folder}/sysctl")
    return StringCommand(
        *("mkdir -p", state, "&& for key in", *map(QuoteString, keys), "; do"),
        *('grep -qsF "$key = "', file, '|| sysctl "$key" 2>/dev/null >>', file, "; done; true"),
    )


@operation()
def engine_users() -> Generator[StringCommand, None, None]:
    """Have the users as whom engines run: they own what an engine writes, and may do nothing."""
    found = host.get_fact(Accounts, names=USERS)
    missing = [name for name in USERS if name not in found]
    if not missing:
        host.noop("they are there")
    state = f"{target().root}/state"
    for name in missing:
        differs(f"user {name}", "there", "absent")
        yield StringCommand(
            "useradd --system --user-group --no-create-home --home-dir /nonexistent",
            f"--shell /usr/sbin/nologin {name}",
            *("&& mkdir -p", QuoteString(state), f"&& echo {name} >>"),
            QuoteString(f"{state}/accounts"),
        )


@operation()
def clock() -> Generator[StringCommand, None, None]:
    """Keep the clock by NTP, by whatever service the system has for it."""
    if host.get_fact(ClockSync):
        host.noop("the clock is kept by NTP, or is not the host's own")
    else:
        differs("clock", "kept by NTP", "not kept")
        yield StringCommand("timedatectl set-ntp true")
