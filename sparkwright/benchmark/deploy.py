"""Does it deliver? Measures each replica from its head."""

from pyinfra.api import deploy

from sparkwright.benchmark.operations import benchmark
from sparkwright.common.files import ManagedFile
from sparkwright.common.paths import FILES
from sparkwright.common.placed import folder
from sparkwright.common.render import unit_file
from sparkwright.host.operations.files import managed_files
from sparkwright.recipe.workloads import WORKLOADS
from sparkwright.run.target import target

_PROGRAMS = [
    FILES / "jobs" / "progress.py",
    FILES / "benchmark" / "measure.py",
    *sorted((FILES / "benchmark").glob("bench_*.py")),
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
            unit_file(FILES / "benchmark" / "benchmark.service", root=root),
        ],
    )
    benchmark(
        name="Figures",
        release=served,
        replica=own.replica,
        hardware=own.hardware_class,
        workloads=[WORKLOADS[name] for name in own.options.workloads or WORKLOADS],
    )
