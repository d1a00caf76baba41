"""Provisions DGX Sparks, from their factory state to served models, with pyinfra."""

__version__ = "0.1.0"
