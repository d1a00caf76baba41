"""Does it deliver? Measures each replica from its head."""

from pyinfra.api import deploy

from sparkwright.benchmark.operations import benchmark
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.placed import folder
from sparkwright.common.render import unit_file
from sparkwright.host.operations.files import managed_files
from sparkwright.recipe.workloads import WORKLOADS
from sparkwright.release.programs import program_files
from sparkwright.run.target import Target, seats


@deploy("Benchmark")
def apply() -> None:
    """Measure the workloads that `--data workloads=NAME,NAME` names; all without it."""
    for own in seats():
        _measure(own)


def _measure(own: Target) -> None:
    served = own.release
    if served is None or not own.is_head or not own.replica:
        return
    root = served.root
    managed_files(
        name="Programs of the benchmark",
        entries=[
            folder(root, "benchmarks"),
            *program_files(root),
            unit_file(HOST_FILES / "benchmark" / "benchmark.service", root=root),
        ],
    )
    benchmark(
        name="Figures",
        release=served,
        replica=own.replica,
        hardware=own.hardware_class,
        workloads=[WORKLOADS[name] for name in own.options.workloads or WORKLOADS],
    )
