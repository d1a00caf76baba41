"""The virtual Sparks that are up: `python -m tests.lab up` writes the file that this reads."""

from pathlib import Path as _Path

from sparkwright.run.inventory.groups import for_pyinfra as _for_pyinfra

globals().update(_for_pyinfra(_Path(__file__).resolve().parents[1], _Path("inventory/lab.yaml")))
