"""The deploy of the certificates by which the two Sparks of a pair authenticate each other."""

from collections.abc import Generator, Iterator
from typing import Any

from pyinfra import host
from pyinfra.api import Host, StringCommand, deploy, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.common.files import ManagedFile
from sparkwright.common.operations import differs, failing, spark_name
from sparkwright.common.part import Ask
from sparkwright.machine.host.operations.files import managed_files
from sparkwright.network.link.identity import Identity, new_identity_script
from sparkwright.run.state import read
from sparkwright.run.target import Target, target


def reads(own: Target) -> Iterator[Ask[Any]]:
    """Yield what these steps ask of a Spark of a pair."""
    if own.is_pair:
        yield Identity.ask(root=own.root)


@deploy("Link")
def apply() -> None:
    """Make a key on each Spark of a pair, and give its certificate to the other."""
    own = target()
    if other := own.peer:
        identity(name="Key of this Spark", root=own.root, spark=own.spark)
        pinned(name="Certificate of the other Spark", root=own.root, peer=other)


@operation()
def identity(root: str, spark: str) -> Generator[StringCommand]:
    """Make a key on the Spark, which never leaves it, and a certificate for it.

    A key without its certificate, or one that other users may read, is replaced; the other Spark
    then gets the new certificate.
    """
    found = read(host, Identity.ask(root=root))
    if found.state == "fit":
        host.noop("the Spark has a key and its certificate")
    elif found.state == "unreadable":
        yield failing(f"{found.detail}. Move it away; the next run makes a new one.")
    else:
        differs(f"{root}/secrets/link.key", "a key with its certificate", found.state)
        yield StringCommand(new_identity_script(root, spark))


@operation()
def pinned(root: str, peer: Host) -> Generator[PyinfraCommand]:
    """Install the certificate of the other Spark, the only one that is accepted.

    Args:
        peer: the other Spark, on which `identity` has run, as both run each operation together.
    """
    path = f"{root}/link/peer.crt"
    theirs = read(peer, Identity.ask(root=root))
    if theirs.certificate is None:
        problem = theirs.detail or f"its key is {theirs.state}"
        yield failing(
            f"{spark_name(peer)} shows no certificate: {problem}. Run both Sparks again.",
            # In the plan of the first run the identity is still missing.
            mended=theirs.state != "unreadable",
        )
        return
    yield from managed_files._inner(entries=[ManagedFile(path, theirs.certificate)])
