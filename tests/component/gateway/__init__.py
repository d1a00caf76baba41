"""The gateway for real, on loopback behind its door, with curl before it."""
