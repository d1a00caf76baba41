"""pyinfra's command line, with every remote command written down: python -m … REPORT ARGUMENTS.

The report is a JSON list of [operation, seconds], one entry a command or file transfer.
"""

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
    report = Path(sys.argv.pop(1))
    for method in ("run_shell_command", "put_file", "get_file"):
        setattr(SSHConnector, method, _counted(getattr(SSHConnector, method)))
    try:
        main()
    finally:
        report.write_text(json.dumps(_calls))
