"""The gateway for real: LiteLLM's proxy on loopback, and clients before it: openai and curl."""

from pathlib import Path

FILES = Path(__file__).parents[3] / "files" / "host" / "gateway"
KEYS = ["sk-door-and-client-0123", "sk-another-client-4567"]
