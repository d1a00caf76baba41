"""The door: haproxy itself on loopback, with small servers in the place of engines."""
