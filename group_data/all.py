"""What a site may change. A file `group_data/sparks.py` of your own overrides single values.

Made by `python -m tests.group_data`; the settings are in sparkwright/declared/fleet/settings.py.
"""

_sudo = True

# Folder of weights, releases and caches on a Spark: the layout that the community uses.
root = "/opt/qwen36"

# The door: what clients reach of a replica, on its port. "127.0.0.1" keeps it from the LAN.
bind = "0.0.0.0"

# "own": https, by certificates that a run makes and renews (docs/door.md). None: plain http, whose
# keys and prompts the network can read.
tls = None

# Names that clients use beside those of the inventory, such as ("llm.example.org",).
tls_names = ()

# Your own certificate instead: PEM files on the machine that runs pyinfra.
tls_certificate = None
tls_key = None

# MiB of one request: a million tokens are 4 MiB of text, and images are sent in base64.
max_body_mib = 64

# Clients at the same time, idle ones included; more wait until one has left. Each takes 40 KiB of
# memory.
max_connections = 1000

# The part of these for one source without a key in the last hour (docs/door.md): enough for the
# connections that a program opens before its first request.
stranger_connections = 200

# Requests a minute for each name in the file of keys, at each door; None for no limit.
key_requests = None

# Seconds for which the door holds a request while no engine serves; then, and with 0 at once, it
# answers 503. None: as long as a start may take, by the recipe and by recorded ones, but at most
# 590, as clients give up after 600; docs/door.md explains it.
hold_seconds = None

# "auto": if ufw is on, it is opened for the door and a group's fabric. "on": ufw is turned on,
# too.
firewall = "auto"

# Networks that may reach the door, such as ("192.168.1.0/24",); none named means all.
firewall_from = ()

# Seconds for which a new release must serve before the previous one is given up, so that a switch
# to an engine that dies after a minute is reverted.
trial_seconds = 120

# Seconds that requests in flight get to end before their engine is stopped: an answer of 8,000
# tokens, at 30 a second, takes 270.
drain_seconds = 300

# "auto": where the memory plan has room, a second engine waits beside the one that serves, just
# before it would use the GPU: the next start goes on from there. A change is another release.
standby = "auto"

# Previous releases that `clean` keeps for a rollback.
keep_releases = 2

# The log level of engines, whose log is the journal. "WARNING": no line for each request, and
# speeds every hour instead of every ten seconds; lines about starts and errors stay. "DEBUG": all
# lines. A change makes another release.
log_level = "INFO"

# Hosts from which engines may fetch the images, sounds and videos that clients name by URL, such
# as ("images.example.org",). None: clients send them in their requests, as `data:` URLs. The Spark
# connects to any address that such a name resolves to; redirects are not followed.
media_domains = ()

# The Hugging Face hub, or a mirror of it.
hf_endpoint = "https://huggingface.co"

# Use of the Hugging Face token of the machine that runs pyinfra. "https": only with a hub by
# https. "http": with a mirror by http, too, where the network can read it. "none": never, and a
# token on a Spark is removed.
hf_token = "https"

# Mirrors of image registries, such as {"ghcr.io": "harbor.lan/ghcr"}: Sparks pull from them, and
# tags are looked up there (docs/network.md). Names, locks and releases stay as they are.
registry_mirrors = {}

# The HTTP proxy by which Sparks reach the hub, registries and package sources, such as
# "http://proxy.lan:3128" (docs/network.md); None for none.
proxy = None

# Hosts that Sparks reach without the proxy, such as ("hub.lan",): names, those below them, and
# addresses.
no_proxy = ()

# Folders on a Spark that may have checkpoints already, such as a cache of Hugging Face,
# ("/home/nvidia/.cache/huggingface/hub",) (docs/recipes.md).
model_folders = ()

# Seconds for which a run waits while other programs use apt: a new Spark updates itself when it
# boots.
apt_patience_seconds = 1800

# Have apt hold kernel, driver, container toolkit and Docker, security updates as well, until
# `sparkwright upgrade` (docs/updating.md). False ends the marks of runs, and none of yours.
hold_system = False

# The least versions: AEON-7 and NVIDIA's playbooks require driver 580 and Docker 25.
driver_minimum = 580
docker_minimum = 25

# GiB that stay free beside weights and image: caches, logs, the next release's files.
disk_headroom_gib = 20

# Seconds by which a Spark's clock may differ from that of the machine that runs pyinfra.
clock_tolerance = 60

# A group's own network: a subnet for each of the two interfaces of a port, its twins. Groups on
# one switch need different ones: set them in a file group_data/REPLICA.py.
fabric_subnets = ("192.168.100.0/24", "192.168.101.0/24")

# Three Sparks without a switch: each has both others by cables of their own, in either port. NCCL
# knows such a ring from 2.30.7 on. False: all are on one switch, or two on one cable.
fabric_ring = False

# Largest packet in bytes. NVIDIA's playbooks leave 1500; field reports gain up to 2 % with 9000.
fabric_mtu = 9000

# Gb/s that `ib_write_bw` must show for each twin; healthy ones show over 90, stale ones 8 to 25.
fabric_bandwidth_minimum = 80

# The source of the NVIDIA container toolkit if DGX OS's own is missing. Public projects pin the
# same fingerprint.
toolkit_repository = {
    "url": "https://nvidia.github.io/libnvidia-container/stable/deb/$(ARCH)",
    "key_url": "https://nvidia.github.io/libnvidia-container/gpgkey",
    "fingerprint": "C95B321B61E88C1809C4F759DDCAE044F796ECB0",
}

# Log files of Docker containers other than the engine, whose log is the journal.
docker_log_options = {"max-size": "50m", "max-file": "3"}

# The largest size of the journal on the disk.
journal_max_use = "2G"

# Seconds without a sign of life of systemd after which the machine's own watchdog resets it; None
# for no watchdog. A hung Spark serves again within five minutes: these 60 s, a boot, the engine's
# start.
watchdog_seconds = 60

# The webhook for notices (docs/monitoring.md): its URL, or the path of a file with it on the
# machine that runs pyinfra.
notify = None

# The limit of the GPU's clock in MHz, such as 2200; None for no limit. For Sparks that run hot or
# power off under load: it slows decoding only a little (docs/machine.md).
gpu_clock_max_mhz = None

# Engines must not be swapped out; the kernel may still swap idle memory.
swappiness = 10

# earlyoom ends the engine before a full memory freezes the Spark: by SIGTERM at 2 % free (2.4 GiB
# of 121), by SIGKILL at 1 %. It spares sshd and systemd.
earlyoom_arguments = (
    "-m 2,1 -s 100 -r 3600 --prefer '^(VLLM|vllm|python3)' "
    "--avoid '^(systemd|systemd-.*|sshd|dockerd|containerd|dbus-daemon|NetworkManager)$'"
)
