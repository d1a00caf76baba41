"""What differs on the virtual Sparks of tests/lab. pyinfra reads it also when no lab is up."""

from os import environ as _environ
from pathlib import Path

_fingerprint = Path("/run/sparkwright-lab/apt-fingerprint")

hf_endpoint = "http://10.213.0.1:8090"
# Its tokens are made up, and its network is a bridge of this machine.
hf_token = "http"

toolkit_repository = {
    "url": "http://10.213.0.1:8091/deb/$(ARCH)",
    "key_url": "http://10.213.0.1:8091/gpgkey",
    "fingerprint": _fingerprint.read_text() if _fingerprint.exists() else "",
}

# GiB. The lab's checkpoints are tiny, and so may be the disk of the machine that it runs on.
disk_headroom_gib = 2

# Tests wait for it.
trial_seconds = 5

_state = Path("/run/sparkwright-lab/lab.json")
fabric_ring = _state.exists() and '"together": "ring"' in _state.read_text()

# Most tests are of one engine, and count its containers: those of a standby ask for it.
standby = _environ.get("SPARKWRIGHT_LAB_STANDBY", "never")
