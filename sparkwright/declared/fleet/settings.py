"""The settings of a site, in group_data and `--data`, with unit, default and reason.

group_data/all.py is generated from here, for owners to read: `python -m tests.group_data`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from sparkwright.common.errors import refuse
from sparkwright.common.schema import Model, Text, as_python, parse
from sparkwright.declared.fleet import setting_values as kinds


def whole(least: int, most: int | None = None, unit: str = "a whole number", end: str = "") -> Any:
    """Return the field of a number: its bounds, and their description."""
    bounds = f"{least} or more" if most is None else f"{least} to {most}"
    return Field(ge=least, le=most, description=f"{unit}, {bounds}{end}")


Seconds = Annotated[int, whole(0, 604_800, "whole seconds")]


class AptRepository(Model):
    """The apt repository of the container toolkit."""

    url: Text = Field(description="a URL; apt puts the architecture for $(ARCH)")
    key_url: Text = Field(description="the URL of the key that signs it")
    fingerprint: Text = Field(description="the key's fingerprint: no other is trusted")


# Seconds. After 600 the clients of OpenAI and Anthropic give up; a 503 before that they answer by
# asking again, up to twice (_constants.py of openai 3.52.0 and of anthropic 2.11.0).
LONGEST_HOLD = 590


class Settings(Model):
    """All settings of a Spark, or of the host of a gateway."""

    root: kinds.Root = "/opt/qwen36"
    """Folder of weights, releases and caches on a Spark: the layout that the community uses."""

    bind: kinds.Address = "0.0.0.0"
    """The door: what clients reach of a replica, on its port. "127.0.0.1" keeps it from the LAN."""

    tls: Annotated[
        Literal["own"] | None,
        Field(description='"own", for certificates of the site\'s own, or None'),
    ] = None
    """"own": https, by certificates that a run makes and renews (docs/door.md). None: plain http,
    whose keys and prompts the network can read."""

    tls_names: kinds.Hosts = ()
    """Names that clients use beside those of the inventory, such as ("llm.example.org",)."""

    tls_certificate: kinds.File = None
    """Your own certificate instead: PEM files on the machine that runs pyinfra."""

    tls_key: kinds.File = None

    max_body_mib: Annotated[int, whole(1, 1024)] = 64
    """MiB of one request: a million tokens are 4 MiB of text, and images are sent in base64."""

    # haproxy takes 16 KiB of memory for each, and the kernel allows a million open files.
    max_connections: Annotated[int, whole(10, 100_000)] = 1000
    """Clients at the same time, idle ones included; more wait until one has left. Each takes 40 KiB
    of memory."""

    stranger_connections: Annotated[int, whole(1, 100_000)] = 200
    """The part of these for one source without a key in the last hour (docs/door.md): enough for
    the connections that a program opens before its first request."""

    key_requests: Annotated[int | None, whole(1, end=", or None")] = None
    """Requests a minute for each name in the file of keys, at each door; None for no limit."""

    hold_seconds: Annotated[int | None, whole(0, 86_400, "whole seconds", ", or None")] = None
    """Seconds for which the door holds a request while no engine serves; then, and with 0 at once,
    it answers 503. None: as long as a start may take, by the recipe and by recorded ones, but at
    most 590, as clients give up after 600; docs/door.md explains it."""

    firewall: Annotated[Literal["auto", "on"], Field(description="auto or on")] = "auto"
    """"auto": if ufw is on, it is opened for the door and a group's fabric. "on": ufw is turned on,
    too."""

    firewall_from: kinds.Networks = ()
    """Networks that may reach the door, such as ("192.168.1.0/24",); none named means all."""

    trial_seconds: Seconds = 120
    """Seconds for which a new release must serve before the previous one is given up, so that a
    switch to an engine that dies after a minute is reverted."""

    drain_seconds: Seconds = 300
    """Seconds that requests in flight get to end before their engine is stopped: an answer of 8,000
    tokens, at 30 a second, takes 270."""

    standby: Annotated[Literal["auto", "never"], Field(description="auto or never")] = "auto"
    """"auto": where the memory plan has room, a second engine waits beside the one that serves,
    just before it would use the GPU: the next start goes on from there. A change is another
    release."""

    keep_releases: Annotated[int, whole(0)] = 2
    """Previous releases that `clean` keeps for a rollback."""

    log_level: Annotated[
        Literal["DEBUG", "INFO", "WARNING"], Field(description="DEBUG, INFO or WARNING")
    ] = "INFO"
    """The log level of engines, whose log is the journal. "WARNING": no line for each request, and
    speeds every hour instead of every ten seconds; lines about starts and errors stay. "DEBUG": all
    lines. A change makes another release."""

    media_domains: kinds.Domains = ()
    """Hosts from which engines may fetch the images, sounds and videos that clients name by URL,
    such as ("images.example.org",). None: clients send them in their requests, as `data:` URLs. The
    Spark connects to any address that such a name resolves to; redirects are not followed."""

    hf_endpoint: kinds.Hub = "https://huggingface.co"
    """The Hugging Face hub, or a mirror of it."""

    hf_token: Annotated[
        Literal["https", "http", "none"], Field(description='"https", "http" or "none"')
    ] = "https"
    """Use of the Hugging Face token of the machine that runs pyinfra. "https": only with a hub by
    https. "http": with a mirror by http, too, where the network can read it. "none": never, and a
    token on a Spark is removed."""

    registry_mirrors: Annotated[
        Mapping[kinds.Registry, kinds.Mirror],
        Field(
            description='a mapping of registries to mirrors, such as {"ghcr.io": "harbor.lan/ghcr"}'
        ),
    ] = {}
    """Mirrors of image registries, such as {"ghcr.io": "harbor.lan/ghcr"}: Sparks pull from them,
    and tags are looked up there (docs/network.md). Names, locks and releases stay as they are."""

    proxy: kinds.Proxy = None
    """The HTTP proxy by which Sparks reach the hub, registries and package sources, such as
    "http://proxy.lan:3128" (docs/network.md); None for none."""

    no_proxy: kinds.Hosts = ()
    """Hosts that Sparks reach without the proxy, such as ("hub.lan",): names, those below them, and
    addresses."""

    model_folders: kinds.Folders = ()
    """Folders on a Spark that may have checkpoints already, such as a cache of Hugging Face,
    ("/home/nvidia/.cache/huggingface/hub",) (docs/recipes.md)."""

    apt_patience_seconds: Seconds = 1800
    """Seconds for which a run waits while other programs use apt: a new Spark updates itself when
    it boots."""

    hold_system: Annotated[bool, Field(description="True or False")] = False
    """Have apt hold kernel, driver, container toolkit and Docker, security updates as well, until
    `sparkwright upgrade` (docs/updating.md). False ends the marks of runs, and none of yours."""

    driver_minimum: Annotated[int, whole(1)] = 580
    """The least versions: AEON-7 and NVIDIA's playbooks require driver 580 and Docker 25."""

    docker_minimum: Annotated[int, whole(1)] = 25

    disk_headroom_gib: Annotated[
        float, Field(ge=0, allow_inf_nan=False, description="GiB, such as 20")
    ] = 20
    """GiB that stay free beside weights and image: caches, logs, the next release's files."""

    clock_tolerance: Seconds = 60
    """Seconds by which a Spark's clock may differ from that of the machine that runs pyinfra."""

    fabric_subnets: kinds.Subnets = ("192.168.100.0/24", "192.168.101.0/24")
    """A group's own network: a subnet for each of the two interfaces of a port, its twins. Groups
    on one switch need different ones: set them in a file group_data/REPLICA.py."""

    fabric_ring: Annotated[bool, Field(description="True or False")] = False
    """Three Sparks without a switch: each has both others by cables of their own, in either port.
    NCCL knows such a ring from 2.30.7 on. False: all are on one switch, or two on one cable."""

    # The smallest sensible MTU of IPv4, and the largest of ConnectX.
    fabric_mtu: Annotated[int, whole(1280, 9216)] = 9000
    """Largest packet in bytes. NVIDIA's playbooks leave 1500; field reports gain up to 2 % with
    9000."""

    fabric_bandwidth_minimum: Annotated[
        float, Field(ge=0, allow_inf_nan=False, description="Gb/s for each twin, such as 80")
    ] = 80
    """Gb/s that `ib_write_bw` must show for each twin; healthy ones show over 90, stale ones 8 to
    25."""

    toolkit_repository: Annotated[
        AptRepository, Field(description="a mapping of url, key_url and fingerprint")
    ] = AptRepository(
        url="https://nvidia.github.io/libnvidia-container/stable/deb/$(ARCH)",
        key_url="https://nvidia.github.io/libnvidia-container/gpgkey",
        fingerprint="C95B321B61E88C1809C4F759DDCAE044F796ECB0",
    )
    """The source of the NVIDIA container toolkit if DGX OS's own is missing. Public projects pin
    the same fingerprint."""

    docker_log_options: Annotated[
        Mapping[str, Text],
        Field(description='a mapping of Docker\'s options to texts, such as {"max-size": "50m"}'),
    ] = {"max-size": "50m", "max-file": "3"}
    """Log files of Docker containers other than the engine, whose log is the journal."""

    journal_max_use: kinds.Size = "2G"
    """The largest size of the journal on the disk."""

    # MediaTek's, which GB10 has, takes no less than 3.
    watchdog_seconds: Annotated[int | None, whole(20, 600, "whole seconds", ", or None")] = 60
    """Seconds without a sign of life of systemd after which the machine's own watchdog resets it;
    None for no watchdog. A hung Spark serves again within five minutes: these 60 s, a boot, the
    engine's start."""

    notify: kinds.Notify = None
    """The webhook for notices (docs/monitoring.md): its URL, or the path of a file with it on the
    machine that runs pyinfra."""

    # MHz: above the clock of a throttled Spark, up to more than any of these GPUs has.
    gpu_clock_max_mhz: Annotated[int | None, whole(1000, 3500, "MHz", ", or None")] = None
    """The limit of the GPU's clock in MHz, such as 2200; None for no limit. For Sparks that run hot
    or power off under load: it slows decoding only a little (docs/machine.md)."""

    swappiness: Annotated[int, whole(0, 200)] = 10
    """Engines must not be swapped out; the kernel may still swap idle memory."""

    earlyoom_arguments: Annotated[
        Text, Field(pattern='^[^"]*$', description="text on one line, without double quotes")
    ] = (
        "-m 2,1 -s 100 -r 3600 --prefer '^(VLLM|vllm|python3)' "
        "--avoid '^(systemd|systemd-.*|sshd|dockerd|containerd|dbus-daemon|NetworkManager)$'"
    )
    """earlyoom ends the engine before a full memory freezes the Spark: by SIGTERM at 2 % free (2.4
    GiB of 121), by SIGKILL at 1 %. It spares sshd and systemd."""

    def hold(self, start_timeout: int) -> int:
        """Return the seconds for which a door holds requests of a recipe with this bound."""
        if self.hold_seconds is None:
            return min(start_timeout, LONGEST_HOLD)
        return self.hold_seconds

    @property
    def proxy_variables(self) -> dict[str, str]:
        """The environment of programs that are to use the proxy; empty without one.

        In small letters: curl and apt read no others for plain http.
        """
        if not self.proxy:
            return {}
        direct = ",".join((*self.no_proxy, "localhost", "127.0.0.1", "::1"))
        return {"http_proxy": self.proxy, "https_proxy": self.proxy, "no_proxy": direct}

    @property
    def secured(self) -> bool:
        """Tell whether doors and gateway speak https."""
        return self.tls == "own" or bool(self.tls_certificate)


def read_settings(values: Mapping[str, object], source: str) -> Settings:
    """Check the settings of one source, each by itself."""
    return parse(Settings, values, source, as_python)


def settings_of(
    data: Mapping[str, object], origin: Callable[[str], str] = lambda _: "group_data"
) -> Settings:
    """Return the settings among the data of a host; `origin` names the file of each."""
    values = {name: data[name] for name in Settings.model_fields if name in data}
    settings = read_settings(values, "group_data")
    refuse(f"{origin(name)}: {name}: {text}" for name, text in _contradictions(settings))
    return settings


def _contradictions(settings: Settings) -> Iterator[tuple[str, str]]:
    certificate, key = settings.tls_certificate, settings.tls_key
    if settings.tls and (certificate or key):
        yield "tls", 'found "own" beside tls_certificate or tls_key; expected one of the two'
    if settings.no_proxy and not settings.proxy:
        yield "no_proxy", "found it without proxy; expected both, or neither"
    if bool(certificate) != bool(key):
        there, missing = ("tls_certificate", "tls_key")[:: 1 if certificate else -1]
        yield there, f"found it without {missing}; expected both"
