"""Keys at the door: their names, ends and limits; and what a Spark says about a door that runs."""

import json
import re
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from host.door import door as program
from host.state import door as part
from host.state import sockets
from sparkwright.door.door import DoorState, mark
from sparkwright.door.key import Key
from tests.component.door.running import FakeServer, Running, haproxy, stream
from tests.component.servers import until
from tests.makers.door import KEY, OTHER

pytestmark = haproxy


def test_a_key_has_a_name_and_an_end_and_may_be_for_metrics_alone(
    running: Running, engine: FakeServer
) -> None:
    today = datetime.now(UTC).date()
    keys = [
        Key(name="ann", secret=KEY, until=today),
        Key(name="bob", secret=OTHER, until=today - timedelta(days=1)),
        Key(name="prometheus", secret=f"{KEY}-prometheus", places=["metrics"]),
        Key(name="elsewhere", secret=f"{KEY}-elsewhere", places=["code"]),
        Key(name="gateway", secret=f"{KEY}-gateway"),
    ]
    running.change(keys=keys, key_requests=10)
    ann, bob, prometheus, elsewhere, gateway = (key.secret for key in keys)
    assert running.status("GET", "/v1/models", ann) == 200
    assert running.status("GET", "/v1/models", None, **{"x-api-key": ann}) == 200
    assert running.status("GET", "/v1/models", bob) == 401
    assert running.status("GET", "/v1/models", elsewhere) == 401
    assert running.status("GET", "/metrics/door", prometheus) == 200
    assert running.status("GET", "/health", prometheus) == 200
    status, said, _ = running.ask("GET", "/v1/models", prometheus)
    assert (status, said["error"]["code"]) == (403, "forbidden")
    # A name has its requests a minute, and the others have theirs.
    found = [running.status("GET", "/v1/models", ann) for _ in range(10)]
    assert found == [200] * 8 + [429] * 2
    assert running.status("GET", "/metrics/door", prometheus) == 200
    # The gateway's requests are those of many clients.
    assert [running.status("GET", "/v1/models", gateway) for _ in range(25)] == [200] * 25
    names = {"ann": (12, 0, 0), "prometheus": (4, 0, 0), "gateway": (25, 0, 0)}
    until(lambda: running.door.haproxy.names() == names)
    log, lines = running.root / "log", {"ann": 12, "-": 2, "prometheus": 1}
    for name, count in lines.items():
        said = f' {name} "GET /v1/models'
        until(lambda said=said, count=count: log.read_text().count(said) == count)  # type: ignore[misc]


def clients(running: Running) -> set[str]:
    """The sources that the door takes for clients."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect(str(running.root / "run" / "master.sock"))
        asking.sendall(b"@1 show table clients\n")
        asking.shutdown(socket.SHUT_WR)
        table = b"".join(iter(lambda: asking.recv(65536), b"")).decode()
    return set(re.findall(r"key=::ffff:(\S+)", table))


def test_who_looks_at_metrics_is_no_client_and_looks_twice_a_second_at_most(
    running: Running, engine: FakeServer
) -> None:
    keys = [Key(name="ann", secret=KEY), Key(name="prometheus", secret=OTHER, places=["metrics"])]
    running.change(keys=keys)
    for path in ("/metrics/door", "/health", "/v1/models"):
        running.ask("GET", path, OTHER)
    assert running.status("GET", "/metrics", KEY, source="127.0.0.2") == 200
    assert clients(running) == set()
    found = [running.status("GET", "/metrics/door", OTHER) for _ in range(120)]
    assert found == [200] * 119 + [429]
    assert running.status("GET", "/metrics/door", KEY) == 200
    assert running.status("GET", "/v1/models", KEY, source="127.0.0.3") == 200
    assert clients(running) == {"127.0.0.3"}


def test_a_name_has_so_many_new_sources_in_an_hour(running: Running, engine: FakeServer) -> None:
    """Other sources are let in all the same, as strangers."""
    running.change(keys=[KEY, OTHER], max_connections=20)
    sources = [f"127.0.1.{number}" for number in range(1, 11)]
    assert [running.status("GET", "/v1/models", KEY, source=each) for each in sources * 2] == [
        200
    ] * 20
    assert clients(running) == set(sources[:5])
    assert running.status("GET", "/v1/models", OTHER, source="127.0.2.1") == 200
    assert clients(running) == {*sources[:5], "127.0.2.1"}


def test_the_more_a_name_has_in_flight_the_smaller_is_its_next_body(
    running: Running, engine: FakeServer
) -> None:
    """Here all together have 2 MiB times the sum of 1/1, 1/2 and so on."""
    running.change(keys=[KEY, OTHER], max_body_mib=2, max_connections=12)
    whole, half = bytes(2 * 1024**2), bytes(1024**2)
    with stream(running, pieces=1) as answer:
        size = {"Content-Length": str(len(whole))}
        status, said, head = running.ask("POST", "/v1/completions", KEY, b"", **size)
        assert (status, said["error"]["code"]) == (429, "too_many_requests")
        assert head["Retry-After"] == "10"
        assert running.status("POST", "/v1/completions", KEY, half, "127.0.0.2") == 200
        assert running.status("POST", "/v1/completions", OTHER, whole, "127.0.0.3") == 200
        engine.turns.release()
        assert answer.read() == b"a"
    until(lambda: running.door.haproxy.names()["client1"][1] == 0)
    assert running.status("POST", "/v1/completions", KEY, whole, "127.0.0.2") == 200


def read(root: Path, **arguments: object) -> DoorState:
    return DoorState.model_validate_json(json.dumps(part.read(str(root), **arguments)))  # type: ignore[arg-type]


def test_a_door_that_runs_is_known_by_what_it_was_made_of(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "RUN", tmp_path / "units")
    # Each program on a Spark looks once.
    monkeypatch.setattr(sockets, "listening", sockets.listening.__wrapped__)  # type: ignore[attr-defined]
    (tmp_path / "units").mkdir()
    found = read(tmp_path, bind="192.0.2.1", port=running.port)
    assert (found.version, found.mark, found.stray, found.elsewhere) == ("", "", False, True)

    (tmp_path / "units/door").symlink_to("../run")
    found = read(tmp_path, bind="127.0.0.1", port=running.port)
    assert found.version == found.installed
    assert found.mark == mark(running.plan.files(str(tmp_path)))
    assert not found.elsewhere
    # This one is of no unit.
    assert {each.split()[0] for each in found.taken} == {"haproxy"}
    own = sockets.process(running.master)["cgroup"].rpartition("/")[2]
    assert part.taken(running.port, own) == []
    assert read(tmp_path).taken == ()
