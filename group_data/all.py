"""What a site may change. A file `group_data/sparks.py` of your own overrides single values."""

_sudo = True

# Folder of weights, releases and caches on a Spark: the layout that the community uses.
root = "/opt/qwen36"
# The door: what clients reach of a replica, on its port. "127.0.0.1" keeps it from the LAN.
bind = "0.0.0.0"
# PEM files on the machine that runs pyinfra, for https; without them the door speaks plain http.
tls_certificate = None
tls_key = None
# MiB of one request: a million tokens are 4 MiB of text, and images go in base64.
max_body_mib = 64
# Clients at the same time, the silent ones too; the others wait until one has left. An engine takes
# at most some hundred requests at once (--max-num-seqs), and each connection takes 40 KiB here.
max_connections = 1000

# "auto": where ufw is on, the door and a pair's fabric come through it. "on": ufw is turned on too.
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

hf_endpoint = "https://huggingface.co"

# What a Spark must have: seed 001 and NVIDIA's playbooks ask for driver 580 and Docker 25.
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
journal_max_use = "2G"
# Engines must not be swapped out; the kernel may still swap what is idle.
swappiness = 10
# earlyoom ends the engine before a full memory freezes the Spark: at 2 % free (2.4 GiB of 121)
# it asks, at 1 % it kills. It never takes sshd or systemd.
earlyoom_arguments = (
    "-m 2,1 -s 100 -r 3600 --prefer '^(VLLM|vllm|python3)' "
    "--avoid '^(systemd|systemd-.*|sshd|dockerd|containerd|dbus-daemon|NetworkManager)$'"
)
