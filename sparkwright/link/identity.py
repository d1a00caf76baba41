"""A Spark's own key and certificate, by which the other Spark of its pair knows it."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from sparkwright.common.host_output import MARK, sections
from sparkwright.common.render import render

State = Literal["absent", "unreadable", "unfit", "fit"]


@dataclass(frozen=True)
class Identity:
    """The key and certificate of a Spark, as found.

    Attributes:
        state: "unfit" means that key and certificate do not belong together, or that others than
            the owner may read the key.
        detail: what could not be read, and why.
        certificate: in PEM, where it is fit.
    """

    state: State
    detail: str = ""
    certificate: str | None = None


def identity_script(root: str) -> str:
    """Return the POSIX shell script that reads a Spark's identity; it never prints the key.

    Args:
        root: the folder of everything on the Spark.

    The script only reads, and always exits 0.
    """
    return _paths(root) + render(_READ, mark=MARK)


def parse_identity(output: Iterable[str]) -> Identity:
    """Return the identity that the script's output lines describe.

    Raises:
        ValueError: they are no such output.
    """
    found = sections(output)
    said, _, detail = " ".join(found.get("state", [])).partition(" ")
    for state in get_args(State):
        if said == state:
            lines = found.get("certificate", [])
            return Identity(state, detail, "".join(f"{line}\n" for line in lines) or None)
    raise ValueError(f"found {found}; expected a state")


def new_identity_script(root: str, spark: str) -> str:
    """Return the POSIX shell script that makes a new key and its certificate, on the Spark itself.

    Args:
        root: the folder of everything on the Spark, with `secrets` and `link` in it.
        spark: the name that the certificate tells a reader; trust is by its content.

    Both are made aside and then put in place: what a cut between the two leaves is unfit.
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

# `openssl ca` alone can set both dates in OpenSSL 3.0: a Spark whose clock is wrong, as after a
# long time without power, must still know its peer.
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
