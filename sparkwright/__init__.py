"""Provisions DGX Sparks, from their factory state to served models, with pyinfra."""
