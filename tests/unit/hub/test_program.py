"""The hub's commands as processes of their own."""

import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lab import hub
from tests.unit.hub.client import MODEL, get


def test_the_program_serves_and_takes_faults(tmp_path: Path, model: Path) -> None:
    hub.add_commit(tmp_path / "hub", MODEL, model)
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    program = [sys.executable, "-m", "tests.lab.hub"]
    root = Path(__file__).parents[3]
    server = subprocess.Popen(
        [*program, "serve", "--root", str(tmp_path / "hub"), "--listen", address],
        cwd=root,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(address)
        fault = [*program, "fault", "404", "--times", "1", "--hub", f"http://{address}"]
        subprocess.run(fault, cwd=root, check=True, timeout=30)
        statuses = [get(f"http://{address}", "/api/models/lab/tiny").status for _ in range(2)]
        assert statuses == [404, 200]
        assert hub.main(["fault", "500", "--hub", f"http://{address}"]) == 0
        assert get(f"http://{address}", "/api/models/lab/tiny").status == 500
        assert hub.main(["fault", "clear", "--hub", f"http://{address}"]) == 0
        assert get(f"http://{address}", "/api/models/lab/tiny").status == 200
    finally:
        server.terminate()
        server.wait(timeout=10)
    with pytest.raises(SystemExit) as gone:
        hub.main(["fault", "clear", "--hub", f"http://{address}"])
    assert gone.value.code == 1


def wait_for(address: str) -> None:
    host, _, port = address.partition(":")
    deadline = time.monotonic() + 20
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            return
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
