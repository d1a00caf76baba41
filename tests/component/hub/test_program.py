"""The hub's commands as processes of their own."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.clock import patience
from tests.component.hub.client import MODEL, get
from tests.component.servers import free_port, listens, until
from tests.lab import hub


def test_the_program_serves_and_takes_faults(tmp_path: Path, model: Path) -> None:
    hub.add_commit(tmp_path / "hub", MODEL, model)
    port = free_port()
    address = f"127.0.0.1:{port}"
    program = [sys.executable, "-m", "tests.lab.hub"]
    root = Path(__file__).parents[3]
    server = subprocess.Popen(
        [*program, "serve", "--root", str(tmp_path / "hub"), "--listen", address],
        cwd=root,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: listens(port))
        fault = [*program, "fault", "404", "--times", "1", "--hub", f"http://{address}"]
        subprocess.run(fault, cwd=root, check=True, timeout=patience())
        statuses = [get(f"http://{address}", "/api/models/lab/tiny").status for _ in range(2)]
        assert statuses == [404, 200]
        assert hub.main(["fault", "500", "--hub", f"http://{address}"]) == 0
        assert get(f"http://{address}", "/api/models/lab/tiny").status == 500
        assert hub.main(["fault", "clear", "--hub", f"http://{address}"]) == 0
        assert get(f"http://{address}", "/api/models/lab/tiny").status == 200
    finally:
        server.terminate()
        server.wait(timeout=patience())
    with pytest.raises(SystemExit) as gone:
        hub.main(["fault", "clear", "--hub", f"http://{address}"])
    assert gone.value.code == 1
