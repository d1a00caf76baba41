"""The gateway for real, on loopback behind its door, and clients before it: openai and curl."""
