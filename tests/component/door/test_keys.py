"""Keys at the door: their names, ends and limits."""

from datetime import UTC, datetime, timedelta

from sparkwright.door.key import Key
from tests.component.door.running import FakeServer, Running, haproxy, stream
from tests.component.servers import until
from tests.unit.door.plans import KEY, OTHER, plan


@haproxy
def test_what_is_in_flight_is_known_by_the_names_of_keys(
    behind: tuple[Running, FakeServer],
) -> None:
    running, engine = behind
    with stream(running, pieces=1) as answer:
        assert running.door.names() == {"client1": (1, 1, 0)}
        running.reload()
        assert running.status("GET", "/v1/models") == 200
        until(lambda: running.door.names() == {"client1": (1, 1, 0)})
        engine.turns.release()
        assert answer.read() == b"a"
    until(lambda: running.door.names() == {"client1": (1, 0, 0)})


@haproxy
def test_a_key_has_a_name_and_an_end_and_may_be_for_metrics_alone(
    behind: tuple[Running, FakeServer],
) -> None:
    running, _ = behind
    today = datetime.now(UTC).date()
    keys = [
        Key("ann", KEY, until=today),
        Key("bob", OTHER, until=today - timedelta(days=1)),
        Key("prometheus", f"{KEY}-prometheus", ("metrics",)),
        Key("elsewhere", f"{KEY}-elsewhere", ("code",)),
        Key("gateway", f"{KEY}-gateway"),
    ]
    running.lay(plan(running.port, keys=keys, key_requests=10))
    running.reload()
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
    until(lambda: running.door.names().pop("gateway") == (25, 0, 0))
    names = running.door.names()
    assert names == {"ann": (12, 0, 0), "prometheus": (4, 0, 0), "gateway": (25, 0, 0)}
    log = running.root / "log"
    until(lambda: log.read_text().count(' ann "GET /v1/models') == 12)
    assert log.read_text().count(' - "GET /v1/models') == 2
    assert ' prometheus "GET /v1/models' in log.read_text()
