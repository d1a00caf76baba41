"""A Spark's own key and certificate, by which the other Spark of its pair authenticates it."""

import shlex
from typing import ClassVar, Literal

from sparkwright.common.part import Part
from sparkwright.common.paths import HOST_FILES

_MAKE = HOST_FILES / "network" / "link" / "new-identity.sh"


class Identity(Part):
    """The key and certificate of a Spark, as found.

    Attributes:
        state: "unfit" means that key and certificate do not belong together, or that other users
            may read the key.
        detail: the unreadable file, and the reason.
        certificate: in PEM, if it is fit.
    """

    part: ClassVar = "network.link"

    state: Literal["absent", "unreadable", "unfit", "fit"]
    detail: str = ""
    certificate: str | None = None


def new_identity_script(root: str, spark: str) -> str:
    """Return the POSIX shell script that makes a new key and its certificate, on the Spark itself.

    The Spark's name in the certificate is for people; only its content is trusted.
    """
    values = (f"root={shlex.quote(root)}", f"key={shlex.quote(root)}/secrets/link.key")
    return f"{' '.join(values)} spark={shlex.quote(spark)}\n{_MAKE.read_text('utf-8')}"
