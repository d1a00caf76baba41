"""Decides what a fleet should look like: pure Python, no pyinfra, no I/O but its own files."""
