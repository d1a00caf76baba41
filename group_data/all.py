"""What a site may change. A file `group_data/sparks.py` of your own overrides single values.

Made by `python -m tests.group_data`; the settings are in sparkwright/fleet/settings.py.
"""

_sudo = True

# Folder of weights, releases and caches on a Spark: the layout that the community uses.
root = "/opt/qwen36"

# The door: what clients reach of a replica, on its port. "127.0.0.1" keeps it from the LAN.
bind = "0.0.0.0"

# "own": https, by certificates that a run makes and renews (docs/door.md). None: plain http, in
# which keys and prompts can be read on the way.
tls = None

# By which names clients ask, beside those of the inventory, such as ("llm.example.org",).
tls_names = ()

# A certificate of one's own instead: PEM files on the machine that runs pyinfra.
tls_certificate = None
tls_key = None

# MiB of one request: a million tokens are 4 MiB of text, and images go in base64.
max_body_mib = 64

# Clients at the same time, the silent ones too; the others wait until one has left. An engine
# takes at most some hundred requests at once (--max-num-seqs), and each connection takes 40 KiB
# here.
max_connections = 1000

# Of these, those of one source that has shown no key for an hour (with IPv6, a network of 64
# bits): as many as a program opens at once before its first request. Who has shown one may have
# three quarters of all.
stranger_connections = 200

# Requests a minute for each name in the file of keys, at each door; None for as many as it likes.
key_requests = None

# Seconds for which the door holds a request while no engine serves; then, and with 0 at once, it
# answers 503. An engine of 35B is back 3 to 5 minutes after its end (AEON-7's figures), and within
# 30 s more if it hung. The clients of OpenAI and Anthropic wait 10: that leaves 2 for the answer.
hold_seconds = 480

# "auto": where ufw is on, the door and a pair's fabric come through it. "on": ufw is turned on
# too.
firewall = "auto"

# Networks that may come to the door, such as ("192.168.1.0/24",); none named means all.
firewall_from = ()

# A switch to another release. Seconds for which the new engine must hold before the former one is
# given up: one that dies after a minute is caught.
trial_seconds = 120

# Seconds that requests in flight get to end before their engine is stopped: an answer of 8,000
# tokens, at 30 a second, takes 270.
drain_seconds = 300

# Releases that deploys/clean.py leaves for a way back, beside the one that serves.
keep_releases = 2

# What an engine logs into the journal. "WARNING": no line for each request, and its speeds every
# hour, not every ten seconds; what it says of its start and of errors stays. "DEBUG": all of it. A
# change is another release: the engine is switched.
log_level = "INFO"

# Hosts from which engines may fetch the images, sounds and videos that clients name by URL, such
# as ("images.example.org",). None: clients send them in their requests, as `data:` URLs. A host
# that is named here is asked whatever its name resolves to, from the Spark, and never redirects.
media_domains = ()

# The Hugging Face hub, or a mirror of it.
hf_endpoint = "https://huggingface.co"

# Who gets the Hugging Face token of the machine that runs pyinfra. "https": Sparks whose hub is
# asked by https. "http": those with a mirror by http too, which everybody on the way reads.
# "none": nobody, and a token that lies on a Spark is removed.
hf_token = "https"

# Seconds for which a run waits for others who use apt: a new Spark updates itself as it boots.
apt_patience_seconds = 1800

# What a Spark must have: AEON-7 and NVIDIA's playbooks ask for driver 580 and Docker 25.
driver_minimum = 580
docker_minimum = 25

# GiB that stay free beside weights and image: caches, logs, the next release's files.
disk_headroom_gib = 20

# Seconds by which a Spark's clock may differ from that of the machine that runs pyinfra.
clock_tolerance = 60

# A pair's own network. Each port shows as two interfaces, its twins: one subnet for each. Pairs on
# one switch need different ones: a file group_data/REPLICA.py with other values.
fabric_subnets = ("192.168.100.0/24", "192.168.101.0/24")

# Largest packet in bytes. NVIDIA's playbooks leave 1500; field reports gain up to 2 % with 9000.
fabric_mtu = 9000

# Gb/s that `ib_write_bw` must show for each twin; healthy ones show over 90, stale ones 8 to 25.
fabric_bandwidth_minimum = 80

# Where the NVIDIA container toolkit comes from if DGX OS's own is missing. The fingerprint is the
# one that public projects pin; one of them read it off the key on 2026-05-03.
toolkit_repository = {
    "url": "https://nvidia.github.io/libnvidia-container/stable/deb/$(ARCH)",
    "key_url": "https://nvidia.github.io/libnvidia-container/gpgkey",
    "fingerprint": "C95B321B61E88C1809C4F759DDCAE044F796ECB0",
}

# Log files of Docker containers other than the engine, whose log is the journal.
docker_log_options = {"max-size": "50m", "max-file": "3"}

# The most that the journal takes on the disk.
journal_max_use = "2G"

# MHz that the GPU's clock may reach, such as 2200 (2000 to 2200 in field reports); None for what
# it can. For Sparks that go off hard under load: it takes little of the speed of decoding.
gpu_clock_max_mhz = None

# Engines must not be swapped out; the kernel may still swap what is idle.
swappiness = 10

# earlyoom ends the engine before a full memory freezes the Spark: at 2 % free (2.4 GiB of 121) it
# asks, at 1 % it kills. It never takes sshd or systemd.
earlyoom_arguments = (
    "-m 2,1 -s 100 -r 3600 --prefer '^(VLLM|vllm|python3)' "
    "--avoid '^(systemd|systemd-.*|sshd|dockerd|containerd|dbus-daemon|NetworkManager)$'"
)
