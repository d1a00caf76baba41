"""pyinfra's command line, with every remote command written down: python -m … REPORT ARGUMENTS.

The report is a JSON list of [operation, seconds], one entry a command or file transfer.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyinfra.connectors.ssh import SSHConnector
from pyinfra_cli.main import main

_calls: list[tuple[str, float]] = []


def _counted(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: SSHConnector, *arguments: Any, **options: Any) -> Any:
        begun = time.monotonic()
        try:
            return function(self, *arguments, **options)
        finally:
            operation = self.host.executing_op_hash
            names = self.state.op_meta[operation].names if operation else {"preparation"}
            _calls.append((", ".join(sorted(names)), time.monotonic() - begun))

    return call


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.counted", description=__doc__)
    parser.add_argument("report", type=Path)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="pyinfra's")
    told = parser.parse_args()
    report = told.report
    sys.argv[1:] = told.arguments
    for method in ("run_shell_command", "put_file", "get_file"):
        setattr(SSHConnector, method, _counted(getattr(SSHConnector, method)))
    try:
        main()
    finally:
        report.write_text(json.dumps(_calls))
