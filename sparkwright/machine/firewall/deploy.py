"""The deploy of the firewall: it lets in clients and a group's other Sparks."""

from collections.abc import Collection, Generator, Iterator, Sequence
from typing import Any

from pyinfra import host, logger
from pyinfra.api import FunctionCommand, Host, QuoteString, State, StringCommand, deploy, operation
from pyinfra.api.command import PyinfraCommand
from pyinfra.api.exceptions import ConnectError

from sparkwright.common.operations import differs, failing, notice
from sparkwright.common.part import Ask
from sparkwright.common.placed import UFW_CONF
from sparkwright.common.terminal import plain_lines
from sparkwright.machine.firewall.firewall import (
    FirewallState,
    UfwRule,
    differences,
    fabric_rules,
    port_rules,
    ssh_rules,
)
from sparkwright.machine.host.operations.packages import install
from sparkwright.run.state import read
from sparkwright.run.target import Target, target

_UNDO = "sparkwright-firewall"
# Until ufw goes off again by itself: longer than a new connection takes to succeed or fail.
_UNDO_SECONDS = 60


def reads(own: Target) -> Iterator[Ask[Any]]:
    """Yield what this step asks of a Spark."""
    yield FirewallState.ask(root=own.root)


@deploy("Firewall")
def apply() -> None:
    """Open the door's port on a head, and a group's fabric to the others."""
    own = target()
    rules: list[UfwRule] = []
    for port in own.may_listen.doors:
        rules += port_rules(port, "door", own.settings.firewall_from)
    if own.fabric:
        rules += fabric_rules(own.fabric)
    firewall(name="Firewall", purposes=("door", "fabric"), rules=rules)


@operation()
def firewall(purposes: Collection[str], rules: Sequence[UfwRule]) -> Generator[PyinfraCommand]:
    """Give ufw these rules, if it is in use or the settings turn it on; never close it for SSH.

    Before it is turned on, every port of sshd is opened. It then goes off after a minute, unless a
    new connection from here comes through it; only then it survives a boot.

    Args:
        purposes: the purposes for which `rules` are complete: our other rules for them go.
    """
    root, mode = target().root, target().settings.firewall
    state = read(host, FirewallState.ask(root=root))
    if mode == "auto" and rules and state.other:
        needed = ", ".join(rule.text for rule in rules)
        notice(f"{state.other} is not changed. It must allow, in ufw's syntax: {needed}.")
    elif mode == "auto" and rules and not state.used:
        notice('ufw is off, and left so. firewall = "on" in the group data turns it on.')
    if state.published and (mode == "on" or state.used):
        notice(
            f"ufw does not filter ports that Docker publishes: {', '.join(state.published)}. To "
            "keep it from the LAN, publish it at 127.0.0.1 (docker run -p 127.0.0.1:8080:80)."
        )
    if mode == "auto" and not state.used:
        host.noop("ufw is off or absent, and left so")
        return
    if state.other and mode == "on":
        yield failing(
            f"{state.other} is active, and two firewalls would conflict. Turn it off, or set "
            'firewall = "auto" in the group data.'
        )
        return
    if state.installed and state.active is None:
        yield failing(f"the state of ufw cannot be read: {state.status or 'no answer'}.")
        return

    turn_on = mode == "on" and not (state.active and state.at_boot)
    if turn_on and not state.ssh and getattr(host.connector, "client", None):
        yield failing("No port of sshd was found: ufw could lock out this very connection.")
        return
    ours = state.turned_on or turn_on
    add, delete = differences(state.rules, [*(ssh_rules(state) if ours else ()), *rules], purposes)
    if not (turn_on or add or delete):
        host.noop("ufw lets through what it should")
        return
    if turn_on:
        differs("ufw", "on", "off")
    for rule in add:
        differs("ufw", f"`{rule.text}`", "no such rule")
    for rule in delete:
        differs("ufw", f"no rule `{rule.text}`", "one of ours")
    if not state.installed:
        yield install("ufw")
    for rule in add:
        yield StringCommand("ufw", rule.text, "comment", QuoteString(f"sparkwright {rule.purpose}"))
    for rule in delete:
        yield delete_rule(rule)
    if turn_on:
        yield StringCommand(enabling())
        proved: list[bool] = []
        yield FunctionCommand(_prove, (proved,), {})
        if proved:
            yield StringCommand(_keep(root))
        else:
            # If this connection is gone as well, the timer undoes it.
            yield StringCommand("ufw disable")
            yield failing(
                "No new connection comes through ufw: it is off again. Compare `sudo ufw show "
                "added` with the port and the address at which this Spark is reached."
            )


def delete_rule(rule: UfwRule) -> StringCommand:
    """Return the command that deletes a rule, for IPv6 as well."""
    return StringCommand("ufw --force delete", *map(QuoteString, rule.text.split()))


def enabling(seconds: int = _UNDO_SECONDS) -> str:
    """Return a command that turns ufw on for so many seconds, unless the timer is stopped."""
    return f"""
ufw=$(command -v ufw) && {{ systemctl stop {_UNDO}.timer 2>/dev/null; true; }} &&
systemd-run --quiet --collect --unit {_UNDO} --on-active={seconds} \
  --timer-property=AccuracySec=1s "$ufw" disable &&
ufw --force enable && sed -i 's/^ENABLED=.*/ENABLED=no/' {UFW_CONF}"""


def _prove(state: State, host: Host, proved: list[bool]) -> None:
    """Reach the host by a new connection; append True to `proved` if that works."""
    connector = host.connector_cls(state, host)
    try:
        connector.connect()
        answered, _ = connector.run_shell_command(
            StringCommand("true"), print_output=False, print_input=False
        )
        if answered:
            proved.append(True)
    except ConnectError as error:
        host.log_styled(plain_lines(str(error)), fg="red", log_func=logger.error)
    if client := getattr(connector, "client", None):
        client.close()


def _keep(root: str) -> str:
    folder = StringCommand(QuoteString(f"{root}/state")).get_raw_value()
    return f"""
systemctl stop {_UNDO}.timer
if ! LC_ALL=C ufw status | grep -q '^Status: active'; then
  echo "ufw went off before a new connection had come through it: run again" >&2
  exit 1
fi
sed -i 's/^ENABLED=.*/ENABLED=yes/' {UFW_CONF} && systemctl enable --quiet ufw.service &&
mkdir -p {folder} && echo on > {folder}/firewall"""
