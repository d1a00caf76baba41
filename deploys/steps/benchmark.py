"""Does it deliver? Measures each replica from its head."""

from pathlib import Path

from pyinfra.api import deploy

from deploys.operations.benchmark import benchmark
from deploys.operations.files import managed_files
from deploys.plan.files import ManagedFile
from deploys.plan.placed import folder
from deploys.plan.render import unit_file
from deploys.plan.workloads import WORKLOADS
from deploys.target import target

_FILES = Path(__file__).parents[2] / "files"
_PROGRAMS = [
    _FILES / "jobs" / "progress.py",
    _FILES / "benchmark" / "measure.py",
    *sorted((_FILES / "benchmark").glob("bench_*.py")),
]


@deploy("Benchmark")
def apply() -> None:
    """Measure the workloads that `--data workloads=NAME,NAME` names; all without it."""
    own = target()
    served = own.release
    if served is None or not own.is_head or not own.replica:
        return
    root = served.root
    managed_files(
        name="Programs of the benchmark",
        entries=[
            folder(root, "benchmarks"),
            *(ManagedFile(f"{root}/bin/{path.name}", path.read_text()) for path in _PROGRAMS),
            unit_file(_FILES / "benchmark" / "benchmark.service", root=root),
        ],
    )
    benchmark(
        name="Figures",
        release=served,
        replica=own.replica,
        hardware=own.hardware_class,
        workloads=[WORKLOADS[name] for name in own.options.workloads or WORKLOADS],
    )
