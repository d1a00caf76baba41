"""What the Sparks are and what they serve: sparks.yaml, and pyinfra's view of it."""
