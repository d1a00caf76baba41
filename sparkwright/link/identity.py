"""A Spark's own key and certificate, by which the other Spark of its pair authenticates it."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, cast, get_args

from sparkwright.common.host_output import MARK, sections
from sparkwright.common.render import render

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
    """Return the POSIX shell script that reads a Spark's identity; it never prints the key.

    The script only reads, and always exits 0.
    """
    return _paths(root) + render(_READ, mark=MARK)


def parse_identity(output: Iterable[str]) -> Identity:
    """Return the identity that the script's output lines describe.

    Raises:
        ValueError: they are no such output.
    """
    found = sections(output)
    state, _, detail = " ".join(found.get("state", [])).partition(" ")
    if state not in get_args(State):
        raise ValueError(f"found {found}; expected a state")
    lines = found.get("certificate", [])
    return Identity(cast(State, state), detail, "".join(f"{line}\n" for line in lines) or None)


def new_identity_script(root: str, spark: str) -> str:
    """Return the POSIX shell script that makes a new key and its certificate, on the Spark itself.

    Args:
        root: the folder of everything on the Spark, with `secrets` and `link` in it.
        spark: the name in the certificate, for people; only its content is trusted.

    Both are made in a folder of their own and then moved: an interruption leaves an unfit identity.
    """
    return f"{_paths(root)}spark={shlex.quote(spark)}{_MAKE}"


def _paths(root: str) -> str:
    return f"root={shlex.quote(root)} key={shlex.quote(root)}/secrets/link.key\n"


_READ = """certificate=$root/link/own.crt
state() {
  for path in "$key" "$certificate"; do
    said=$(LC_ALL=C cat -- "$path" 2>&1 >/dev/null) && continue
    case $said in
      *': No such file or directory') echo absent ;;
      *) echo "unreadable $path: ${said##*: }" ;;
    esac
    return
  done
  public=$(openssl pkey -in "$key" -passin pass: -pubout 2>/dev/null) &&
    [ "$public" = "$(openssl x509 -in "$certificate" -noout -pubkey 2>/dev/null)" ] &&
    [ -O "$key" ] && [ "$(stat -L -c %a -- "$key")" = 600 ] && echo fit || echo unfit
}
state=$(state)
echo {{ mark }}state; echo "$state"
echo {{ mark }}certificate; if [ "$state" = fit ]; then openssl x509 -in "$certificate"; fi
true"""

# Only `openssl ca` of OpenSSL 3.0 can set both dates: a Spark whose clock is wrong, as after a long
# time without power, must still recognize its peer.
_MAKE = """
set -eu
umask 077
new=$root/secrets/link.new
rm -rf -- "$new"
mkdir -- "$new"
cd -- "$new"
: > index
cat > config <<'END'
[ca]
default_ca = own
[own]
database = index
new_certs_dir = .
rand_serial = yes
default_md = sha256
policy = policy
x509_extensions = extensions
[policy]
commonName = supplied
[extensions]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
[req]
distinguished_name = policy
END
openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key
openssl req -new -config config -key key -subj "/CN=$spark" -out request
openssl ca -batch -notext -config config -selfsign -keyfile key -in request -out certificate \\
  -startdate 19700101000000Z -enddate 21250101000000Z
chmod 644 certificate
mv -f -- certificate "$root/link/own.crt"
mv -f -- key "$key"
rm -rf -- "$new\""""
