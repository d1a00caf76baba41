"""Which replica lends a checkpoint to which others: a site fetches it from the hub once.

The lender of a checkpoint is the head of the first replica, in the inventory's order, that serves
it; the heads of the others copy it over the LAN.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address

from sparkwright.fleet.fleet import Fleet
from sparkwright.fleet.setting_values import is_address
from sparkwright.recipe.recipe import Checkpoint, Recipe
from sparkwright.release.lock import checkpoint_key


@dataclass(frozen=True)
class Loan:
    """A checkpoint that one head lends to others.

    Attributes:
        lender: Its Spark.
        checkpoint: As the lender's recipe has it, whose folder may have a name of its own.
        borrowers: Addresses by Spark.
    """

    lender: str
    address: str
    checkpoint: Checkpoint
    borrowers: Mapping[str, str]


@dataclass(frozen=True)
class Lending:
    """The part of one Spark in all loans of its fleet.

    Attributes:
        address: Its own, at which it lends; None if it lends nothing.
        lent: The checkpoints that it lends.
        clients: Addresses of the heads that may copy them.
        borrowed: Loans to it, by `checkpoint_key`.
    """

    address: str | None = None
    lent: tuple[Checkpoint, ...] = ()
    clients: tuple[str, ...] = ()
    borrowed: Mapping[str, Loan] = field(default_factory=dict)

    @property
    def takes_part(self) -> bool:
        """Tell whether it lends or borrows anything."""
        return bool(self.lent or self.borrowed)


def loans(fleet: Fleet, recipes: Mapping[str, Recipe]) -> dict[str, Loan]:
    """Return the loans of a fleet, by `checkpoint_key`."""
    addresses = lan_addresses(fleet)
    holders: dict[str, dict[str, Checkpoint]] = {}
    for replica in fleet.replicas.values():
        head = replica.sparks[0]
        if head in addresses:
            for checkpoint in recipes[replica.recipe].checkpoints.values():
                holders.setdefault(checkpoint_key(checkpoint), {}).setdefault(head, checkpoint)
    found = {}
    for key, heads in holders.items():
        (lender, checkpoint), *others = heads.items()
        if others:
            borrowers = {head: addresses[head] for head, _ in others}
            found[key] = Loan(lender, addresses[lender], checkpoint, borrowers)
    return found


def lending_of(spark: str, site: Mapping[str, Loan]) -> Lending:
    """Return the part of a Spark in the loans of its fleet."""
    own = [loan for loan in site.values() if loan.lender == spark]
    clients = {address for loan in own for address in loan.borrowers.values()}
    return Lending(
        address=own[0].address if own else None,
        lent=tuple(loan.checkpoint for loan in own),
        clients=tuple(sorted(clients)),
        borrowed={key: loan for key, loan in site.items() if spark in loan.borrowers},
    )


def lan_addresses(fleet: Fleet) -> dict[str, str]:
    """Return the addresses by which Sparks can reach each other, by Spark.

    That is an ``ssh_hostname`` which is a private address, and no other Spark's: a name may be
    known to this machine alone, several Sparks at one address are behind a router that forwards
    ports, and a loan to a public address would leave the site, unencrypted.
    """
    found = {
        name: str(ip_address(spark.ssh_hostname))
        for name, spark in fleet.sparks.items()
        if spark.ssh_hostname and is_address(spark.ssh_hostname)
    }
    times = Counter(found.values())
    return {
        name: address for name, address in found.items() if times[address] == 1 and _is_lan(address)
    }


def _is_lan(text: str) -> bool:
    address = ip_address(text)
    elsewhere = address.is_global or address.is_loopback or address.is_link_local
    return not (elsewhere or address.is_unspecified or address.is_multicast)
