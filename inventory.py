"""pyinfra's entry: the hosts and groups of inventory/sparks.yaml. Run pyinfra from this folder.

Another inventory: SPARKWRIGHT_INVENTORY=staging reads inventory/staging.yaml.
"""

from pathlib import Path as _Path

_root = _Path(__file__).resolve().parent
try:
    from sparkwright.run.inventory.groups import for_pyinfra as _for_pyinfra
except ImportError:
    raise SystemExit(f"\nfound no project here; expected its root: cd {_root}") from None

globals().update(_for_pyinfra(_root))
