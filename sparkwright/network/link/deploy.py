"""Keys and certificates by which the Sparks of a group authenticate each other."""

import shlex
from collections.abc import Generator, Iterator, Sequence
from typing import Any, ClassVar, Literal

from pyinfra import host
from pyinfra.api import Host, StringCommand, deploy, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.common.files import ManagedFile
from sparkwright.common.operations import differs, failing, spark_name
from sparkwright.common.part import Ask, Part
from sparkwright.common.paths import HOST_FILES
from sparkwright.machine.host.operations.files import managed_files
from sparkwright.run.state import read
from sparkwright.run.target import Target, target

_MAKE = HOST_FILES / "network" / "link" / "new-identity.sh"


class Identity(Part):
    """The key and certificate of a Spark, as found.

    Attributes:
        state: "unfit" means that key and certificate do not belong together, or that other users
            may read the key.
        detail: the unreadable file, and the reason.
    """

    part: ClassVar = "network.link"

    state: Literal["absent", "unreadable", "unfit", "fit"]
    detail: str = ""
    certificate: str | None = None


def reads(own: Target) -> Iterator[Ask[Any]]:
    """Yield what these steps ask of a Spark of a group."""
    if own.is_group:
        yield Identity.ask(root=own.root)


@deploy("Link")
def apply() -> None:
    """Make a key on each Spark of a group, and give its certificate to the others."""
    own = target()
    if own.is_group:
        identity(name="Key of this Spark")
        pinned(name="Certificates of the other Sparks", peers=own.peers)


@operation()
def identity() -> Generator[StringCommand]:
    """Make a key on the Spark, which never leaves it, and a certificate for it.

    A key without its certificate, or one that other users may read, is replaced; the other Sparks
    then get the new certificate.
    """
    own = target()
    found = read(host, Identity.ask(root=own.root))
    if found.state == "fit":
        host.noop("the Spark has a key and its certificate")
    elif found.state == "unreadable":
        yield failing(f"{found.detail}. Move it away; the next run makes a new one.")
    else:
        differs(f"{own.root}/secrets/link.key", "a key with its certificate", found.state)
        yield StringCommand(new_identity_script(own.root, own.spark))


def new_identity_script(root: str, spark: str) -> str:
    """Return the POSIX shell script that makes a new key and its certificate, on the Spark itself.

    The Spark's name in the certificate is for people; only its content is trusted.
    """
    values = (f"root={shlex.quote(root)}", f"key={shlex.quote(root)}/secrets/link.key")
    return f"{' '.join(values)} spark={shlex.quote(spark)}\n{_MAKE.read_text('utf-8')}"


@operation()
def pinned(peers: Sequence[Host]) -> Generator[PyinfraCommand]:
    """Install the certificates of the other Sparks, in rank order: no other one is accepted.

    Their `identity` has run, as the Sparks of a group run each operation together.
    """
    root, certificates = target().root, list[str]()
    for peer in peers:
        theirs = read(peer, Identity.ask(root=root))
        if theirs.certificate is None:
            problem = theirs.detail or f"its key is {theirs.state}"
            yield failing(
                f"{spark_name(peer)} shows no certificate: {problem}. Run all its Sparks again.",
                # In the plan of the first run the identity is still missing.
                mended=theirs.state != "unreadable",
            )
            return
        certificates.append(theirs.certificate)
    # One file for all of them: the programs of former releases know it by this name.
    known = ManagedFile(f"{root}/link/peer.crt", "".join(certificates))
    yield from managed_files._inner(entries=[known])
