"""The targets of Prometheus: each replica's door, for its engine, itself and its host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparkwright.common.errors import PlanError, refuse
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.render import render
from sparkwright.declared.fleet.fleet import Fleet, bracketed
from sparkwright.declared.fleet.settings import Settings

_FILES = HOST_FILES / "insight" / "monitoring"
_LOOPBACK = ("127.0.0.1", "::1")
_EVERYWHERE = ("0.0.0.0", "::")


@dataclass(frozen=True)
class ScrapeTarget:
    """The door of a replica, as Prometheus reaches it.

    Attributes:
        sparks: Those that serve it, the head first.
        address: HOST:PORT.
        keyed: It asks for a key.
        certificates: Its own certificate and those that came with it, as PEM; None without TLS.
        server_name: The name that the certificate has, where it is not the address.
        others: The labels of the figures of its Spark's other replicas: "" for the first one's.
    """

    replica: str
    sparks: tuple[str, ...]
    address: str
    keyed: bool
    certificates: str | None = None
    server_name: str | None = None
    others: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """Where a client asks, without a path: by the name that the certificate has."""
        if self.certificates is None:
            return f"http://{self.address}"
        host, _, port = self.address.rpartition(":")
        return f"https://{self.server_name or host}:{port}"

    @property
    def certificate_file(self) -> str:
        """Name of the file that Prometheus knows the door's certificate by."""
        return f"{self.replica}.crt"


def targets(
    fleet: Fleet, settings: Mapping[str, Settings], record: bool = True
) -> list[ScrapeTarget]:
    """Return the doors of a fleet.

    Args:
        settings: Of each replica.
        record: Write a certificate that is new to its file.

    Raises:
        PlanError: Nobody else reaches a door, a certificate is missing, or there is no replica.
    """
    if not fleet.replicas:
        raise PlanError(f"{fleet.source}: replicas: found none; expected at least one to ask")
    found, problems = list[ScrapeTarget](), list[str]()
    for name in fleet.replicas:
        try:
            found.append(_target(fleet, name, settings[name], record))
        except PlanError as error:
            problems += error.problems
    refuse(problems)
    return found


def _target(fleet: Fleet, name: str, settings: Settings, record: bool) -> ScrapeTarget:
    replica, bind = fleet.replicas[name], settings.bind
    head = replica.sparks[0]
    spark, beside = fleet.sparks[head], fleet.replicas_of(head)
    if bind in _LOOPBACK and not spark.local:
        raise PlanError(
            f"{fleet.source}: replicas.{name}: found bind {bind}, where only {head} itself "
            "reaches the door; expected another bind in the group data"
        )
    host = "127.0.0.1" if spark.local else spark.ssh_hostname or head
    certificate, server_name = None, None
    if settings.secured:
        # It takes 15 ms to import, and the end of each run asks for targets.
        from sparkwright.door.certificates import door_certificate

        certificate = door_certificate(fleet, name, settings, record)
    if certificate:
        known = _names(certificate.chain)
        # A wildcard is no name to ask for.
        plain = [each for each in known if not each.startswith("*")]
        server_name = plain[0] if plain and host not in known else None
    elif bind not in (*_EVERYWHERE, *_LOOPBACK):
        host = bind
    others = tuple("" if each == beside[0] else each for each in beside if each != name)
    address, keyed = f"{bracketed(host)}:{replica.port}", replica.api_key != "none"
    chain = certificate.chain if certificate else None
    return ScrapeTarget(name, tuple(replica.sparks), address, keyed, chain, server_name, others)


def _names(chain: str) -> list[str]:
    """Return the names and addresses of a chain's first certificate."""
    from cryptography import x509

    first = x509.load_pem_x509_certificate(chain.encode())
    try:
        names = first.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    addresses = map(str, names.get_values_for_type(x509.IPAddress))
    return [*names.get_values_for_type(x509.DNSName), *addresses]


def prometheus_config(doors: Sequence[ScrapeTarget]) -> str:
    """Return prometheus.yml: three jobs for each door, named by replica and kind."""
    return render(_FILES / "prometheus.yml.j2", doors=doors)


def monitoring_files(doors: Sequence[ScrapeTarget], key: str | None) -> dict[str, tuple[str, int]]:
    """Return what is written: text and mode of each file, by its name.

    Args:
        key: The API key that Prometheus shows; None where no door asks for one.
    """
    files = {
        # The key is no business of git's.
        ".gitignore": ("*\n", 0o644),
        "prometheus.yml": (prometheus_config(doors), 0o644),
    }
    for name in ("alerts.yml", "dashboard.json"):
        files[name] = ((_FILES / name).read_text("utf-8"), 0o644)
    if key:
        files["api_key"] = (f"{key}\n", 0o600)
    for door in doors:
        if door.certificates:
            files[door.certificate_file] = (door.certificates, 0o644)
    return files
