"""The lab's inventory, where every Spark is the first one by an address of its own.

tests.benchmarks.fleet writes the file that this reads. Named as the lab's, for its group data.
"""

from pathlib import Path as _Path

from sparkwright.run.inventory.groups import for_pyinfra as _for_pyinfra
from tests.benchmarks.fleet import alike as _alike

globals().update(
    _alike(_for_pyinfra(_Path(__file__).resolve().parents[3], _Path("inventory/lab.yaml")))
)
