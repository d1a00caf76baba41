"""What the attacks are made on, beside what a module starts itself."""

from tests.makers.gateway_running import dead, doors, python, started, tls, url

__all__ = ["dead", "doors", "python", "started", "tls", "url"]
