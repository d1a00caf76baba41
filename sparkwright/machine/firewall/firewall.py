"""The firewall: the rules that ufw must have, and its state, read by one shell script."""

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from sparkwright.common.host_output import sections, sections_script
from sparkwright.declared.fleet.fabric_plan import FabricPlan
from sparkwright.machine.host.containers import RUNNING

# Begins the comment of each rule of ours; its purpose follows.
_COMMENT = "sparkwright"
SSH = "ssh"


@dataclass(frozen=True)
class UfwRule:
    """The words of a rule after `ufw`, and the purpose of one of ours; None for another one."""

    text: str
    purpose: str | None

    @property
    def comment(self) -> str:
        """The comment that marks it as ours."""
        return f"{_COMMENT} {self.purpose}"


@dataclass(frozen=True)
class FirewallState:
    """The firewall of a Spark, as found.

    Attributes:
        active: its rules are in force; None if that is unknown.
        at_boot: they come into force at boot.
        status: the first line of `ufw status`, or its error.
        ssh: TCP ports that sshd listens on, that of this connection among them.
        turned_on: a run of ours turned ufw on.
        other: another firewall that is active.
        published: containers with ports on the LAN, past ufw: NAME (PORTS).
    """

    installed: bool
    active: bool | None
    at_boot: bool
    status: str
    rules: tuple[UfwRule, ...]
    ssh: tuple[int, ...]
    turned_on: bool
    other: str | None
    published: tuple[str, ...]

    @property
    def used(self) -> bool:
        """Tell whether its rules hold now, or will after a boot."""
        return bool(self.active) or self.at_boot


def port_rules(port: int, purpose: str, sources: Sequence[str]) -> list[UfwRule]:
    """Return the rules that open a TCP port for some networks, or for all where none is named."""
    if not sources:
        return [UfwRule(f"allow {port}/tcp", purpose)]
    return [
        UfwRule(f"allow from {source} to any port {port} proto tcp", purpose) for source in sources
    ]


def fabric_rules(plan: FabricPlan) -> list[UfwRule]:
    """Return the rules that let in all packets of the other Spark of a pair over the fabric."""
    return [
        UfwRule(f"allow from {theirs} to {own}", "fabric")
        for own, theirs in zip(plan.addresses, plan.peer_addresses, strict=True)
    ]


def ssh_rules(state: FirewallState) -> list[UfwRule]:
    """Return the rules without which the Spark could no longer be reached."""
    return [UfwRule(f"allow {port}/tcp", SSH) for port in state.ssh]


def differences(
    state: FirewallState, wanted: Sequence[UfwRule], purposes: Collection[str]
) -> tuple[list[UfwRule], list[UfwRule]]:
    """Return the rules to add, and those to delete.

    An equal rule of the owner's is enough, and stays theirs. A rule that is not ours, or for
    another purpose than those for which `wanted` is complete, is never deleted.
    """
    texts = {rule.text for rule in wanted}
    found = {rule.text for rule in state.rules}
    missing = [rule for rule in wanted if rule.text not in found]
    stale = [rule for rule in state.rules if rule.purpose in purposes and rule.text not in texts]
    return list(dict.fromkeys(missing)), stale


def firewall_script(root: str) -> str:
    """Return the POSIX shell script that reads the firewall; it only reads, and exits 0."""
    parts = {
        "ufw": _UFW,
        "boot": "grep -qix 'ENABLED=yes' /etc/ufw/ufw.conf && systemctl is-enabled ufw.service",
        # It ends without a line feed. Without rules of an owner there is nothing to ask for.
        "rules": "grep -qs '^### tuple ###' /etc/ufw/user.rules /etc/ufw/user6.rules && "
        "LC_ALL=C ufw show added; echo",
        "ssh": _SSH,
        "turned-on": f"cat {shlex.quote(root)}/state/firewall",
        "other": "case $units in *Id=firewalld.service*ActiveState=active*) echo firewalld ;; esac",
        "published": f"{RUNNING} | cut -f 2,3",
    }
    return f"{_UNITS}\n{sections_script(parts)}"


# That by which `other` is known comes last.
_UNITS = (
    "units=$(systemctl show --property=Id,ActiveState,Listen ssh.socket firewalld.service "
    "2>/dev/null)"
)

# ufw is a program of Python, which takes a tenth of a second: its chains are looked for as
# `ufw status` does (backend_iptables.py, get_status), which is asked only where it would fail.
# It may print warnings before its status.
_UFW = """
command -v ufw >/dev/null || exit
PATH=$PATH:/usr/sbin:/sbin
six() { [ -e /proc/sys/net/ipv6 ] && grep -qi '^ipv6=.*yes' /etc/default/ufw; }
loaded() {
  for way in input output forward; do
    iptables -L "ufw-user-$way" -n >/dev/null 2>&1 || return
    ! six || ip6tables -L "ufw6-user-$way" -n >/dev/null 2>&1 || return 2
  done
}
loaded
case $? in
  0) echo 'Status: active' ;;
  1) echo 'Status: inactive' ;;
  *) said=$(LC_ALL=C ufw status 2>&1)
    echo "$said" | grep '^Status: ' || echo "$said" | head -n 1 ;;
esac"""

# sudo hides SSH_CONNECTION (client, its port, server, its port): it is in the session's shell.
_SSH = """
pid=$$ files=
while [ "${pid:-0}" -gt 1 ]; do
  files="$files /proc/$pid/environ"
  while read -r key pid; do [ "$key" != PPid: ] || break; done < "/proc/$pid/status" || pid=
done
grep -zhas '^SSH_CONNECTION=' $files | tr '\\0' '\\n' | sed 's/.* //;q'
PATH=$PATH:/usr/sbin:/sbin sshd -T | sed -n 's/^port //p'
echo "$units" | sed -n 's/^Listen=.*:\\([0-9]*\\) (Stream)$/\\1/p'
ss -Hltnp | awk '/"sshd"/ {sub(/.*:/, "", $4); print $4}'"""

_RULE = re.compile(rf"ufw (?P<text>.*?)(?: comment '(?:{_COMMENT} (?P<purpose>\w+)|[^']*)')?")


def parse_firewall(output: Iterable[str]) -> FirewallState:
    """Return the firewall that the script's output lines describe."""
    found = sections(line.strip() for line in output)
    status = found["ufw"][0] if found["ufw"] else None
    return FirewallState(
        installed=status is not None,
        active={"Status: active": True, "Status: inactive": False, None: False}.get(status),
        at_boot="enabled" in found["boot"],
        status=status or "",
        rules=tuple(
            UfwRule(match["text"], match["purpose"])
            for line in found["rules"]
            if (match := _RULE.fullmatch(line))
        ),
        ssh=tuple(sorted({int(line) for line in found["ssh"] if line})),
        turned_on="on" in found["turned-on"],
        other=found["other"][0] if found["other"] else None,
        published=tuple(_published(found["published"])),
    )


_PUBLISHED = re.compile(r"(?P<address>\S*):(?P<port>[\d-]+)->")


def _published(lines: Iterable[str]) -> Iterator[str]:
    """Yield the containers that other hosts can reach, with the host's ports."""
    for line in lines:
        name, _, ports = line.partition("\t")
        open_to_all = {
            match["port"]
            for part in ports.split(", ")
            if (match := _PUBLISHED.match(part))
            and not match["address"].startswith("127.")
            and match["address"] != "[::1]"
        }
        if open_to_all:
            yield f"{name} ({', '.join(sorted(open_to_all))})"
