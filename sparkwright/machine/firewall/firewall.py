"""The firewall: the rules that ufw must have, and its state."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

from sparkwright.common.part import Part
from sparkwright.declared.fleet.fabric_plan import FabricPlan


@dataclass(frozen=True)
class UfwRule:
    """The words of a rule after `ufw`, and the purpose of one of ours; None for another one."""

    text: str
    purpose: str | None


class FirewallState(Part):
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

    part: ClassVar = "firewall"

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
    """Return the rules that let in all packets of the other Sparks of a group over the fabric."""
    return [
        UfwRule(f"allow from {theirs} to {own}", "fabric")
        for link in plan.links
        for twin, theirs in link.reached
        for own in dict.fromkeys((link.addresses[twin], plan.addresses[twin]))
    ]


def ssh_rules(state: FirewallState) -> list[UfwRule]:
    """Return the rules without which the Spark could no longer be reached."""
    return [rule for port in state.ssh for rule in port_rules(port, "ssh", ())]


def differences(
    found: Collection[UfwRule], wanted: Sequence[UfwRule], purposes: Collection[str]
) -> tuple[list[UfwRule], list[UfwRule]]:
    """Return the rules to add, and those to delete.

    An equal rule of the owner's is enough, and stays theirs. A rule that is not ours, or for
    another purpose than those for which `wanted` is complete, is never deleted.
    """
    texts = {rule.text for rule in wanted}
    known = {rule.text for rule in found}
    missing = [rule for rule in wanted if rule.text not in known]
    stale = [rule for rule in found if rule.purpose in purposes and rule.text not in texts]
    return list(dict.fromkeys(missing)), stale
