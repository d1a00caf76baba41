"""One gateway, its replicas and a client with openai's package, for all tests here."""

from tests.makers.gateway_running import client, dead, doors, python, started, tls, url

__all__ = ["client", "dead", "doors", "python", "started", "tls", "url"]
