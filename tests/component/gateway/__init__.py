"""The gateway for real: LiteLLM's proxy on loopback, and clients before it: openai and curl."""
