"""One gateway and its replicas, for all tests here."""

from tests.makers.gateway_running import dead, doors, python, sleeper, started, tls, url

__all__ = ["dead", "doors", "python", "sleeper", "started", "tls", "url"]
