"""Serve a folder of repositories: python -m tests.lab.hub ROOT HOST:PORT."""

import sys
from pathlib import Path

from tests.lab.hub.server import Hub

root, listen = sys.argv[1:]
host, _, port = listen.rpartition(":")
with Hub(Path(root), (host, int(port))) as hub:
    hub.serve_forever()
