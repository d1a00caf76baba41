"""A Spark's own key and certificate, by which the other Spark of its pair authenticates it."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, cast, get_args

from sparkwright.common.host_output import MARK, sections
from sparkwright.common.paths import HOST_FILES

_MAKE = HOST_FILES / "network" / "link" / "new-identity.sh"
State = Literal["absent", "unreadable", "unfit", "fit"]


@dataclass(frozen=True)
class Identity:
    """The key and certificate of a Spark, as found.

    Attributes:
        state: "unfit" means that key and certificate do not belong together, or that other users
            may read the key.
        detail: the unreadable file, and the reason.
        certificate: in PEM, if it is fit.
    """

    state: State
    detail: str = ""
    certificate: str | None = None


def identity_script(root: str) -> str:
    """Return the POSIX shell script that reads a Spark's identity; it never prints the key."""
    return f"{_paths(root)}{_READ}"


def parse_identity(output: Iterable[str]) -> Identity:
    """Return the identity that the script's output lines describe."""
    found = sections(output)
    state, _, detail = " ".join(found.get("state", [])).partition(" ")
    if state not in get_args(State):
        raise ValueError(f"found {found}; expected a state")
    lines = found.get("certificate", [])
    return Identity(cast(State, state), detail, "".join(f"{line}\n" for line in lines) or None)


def new_identity_script(root: str, spark: str) -> str:
    """Return the POSIX shell script that makes a new key and its certificate, on the Spark itself.

    The Spark's name in the certificate is for people; only its content is trusted.
    """
    return f"{_paths(root)}spark={shlex.quote(spark)}\n{_MAKE.read_text('utf-8')}"


def _paths(root: str) -> str:
    return f"root={shlex.quote(root)} key={shlex.quote(root)}/secrets/link.key\n"


_READ = f"""certificate=$root/link/own.crt
state() {{
  for path in "$key" "$certificate"; do
    said=$(LC_ALL=C cat -- "$path" 2>&1 >/dev/null) && continue
    case $said in
      *': No such file or directory') echo absent ;;
      *) echo "unreadable $path: ${{said##*: }}" ;;
    esac
    return
  done
  public=$(openssl pkey -in "$key" -passin pass: -pubout 2>/dev/null) &&
    [ "$public" = "$(openssl x509 -in "$certificate" -noout -pubkey 2>/dev/null)" ] &&
    [ -O "$key" ] && [ "$(stat -L -c %a -- "$key")" = 600 ] && echo fit || echo unfit
}}
state=$(state)
echo {MARK}state; echo "$state"
echo {MARK}certificate; if [ "$state" = fit ]; then openssl x509 -in "$certificate"; fi
true"""
