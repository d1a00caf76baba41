"""The door: what a client reaches on the LAN, asked from here, and what it does not."""

import socket
import ssl

import pytest
from testinfra.host import Host

from sparkwright.common.placed import SOCKET
from sparkwright.door.certificates import authority_file
from sparkwright.plan.release.release import Release
from sparkwright.run.spark import SparkTarget
from sparkwright.verify.plugin import Proved
from sparkwright.verify.sparks import Client
from sparkwright.verify.test_engine import chat, chunks

# Routes of vLLM 0.33 that no client needs; its own `--api-key` leaves most of them open.
CLOSED = (
    ("POST", "/invocations"),
    ("POST", "/tokenize"),
    ("POST", "/detokenize"),
    ("POST", "/inference/v1/generate"),
    ("POST", "/generative_scoring"),
    ("POST", "/scale_elastic_ep"),
    ("POST", "/ping"),
    ("GET", "/ping"),
    ("GET", "/load"),
    ("GET", "/version"),
    ("GET", "/docs"),
    ("GET", "/openapi.json"),
)


def test_key(client: Client, target: SparkTarget, release: Release, proved: Proved) -> None:
    """Without the key, and with a wrong one, nobody gets in."""
    names = {entry["id"] for entry in client("GET", "/v1/models").json()["data"]}
    assert names >= set(release.recipe.models)
    if target.api_key == "none":
        assert client("GET", "/v1/models", key=None).ok
        proved(f"port {target.port} is open to all, as the inventory says")
        return
    for key in (None, "sk-wrong", ""):
        for path in ("/v1/models", "/metrics"):
            assert client("GET", path, key=key).status_code == 401, (key, path)
        body = {"model": release.recipe.served_names[0], "prompt": "Hi", "max_tokens": 1}
        assert client("POST", "/v1/completions", body, key=key).status_code == 401, key
    proved(f"port {target.port} wants the key: none and a wrong one get 401")


def test_certificate(target: SparkTarget, address: str, proved: Proved) -> None:
    if target.settings.tls != "own":
        pytest.skip('no certificate of the site\'s own: tls = "own" in the group data')
    context = ssl.create_default_context(cafile=authority_file(target.fleet))
    with (
        socket.create_connection((address, target.port), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname=target.spark) as secured,
    ):
        assert secured.version() in ("TLSv1.2", "TLSv1.3")
    proved("the door shows a certificate of the site's own authority")


def test_only_what_clients_need(client: Client, proved: Proved) -> None:
    assert client("GET", "/health", key=None).ok
    for method, path in CLOSED:
        assert client(method, path, {} if method == "POST" else None).status_code == 404, path
    proved(f"/v1 and /health pass; {len(CLOSED)} other endpoints are 404, with the key too")


def test_the_engine_is_behind_it(host: Host, release: Release, proved: Proved) -> None:
    listening = host.check_output("ss -Hltnp")
    pids = host.check_output(f"docker top vllm-{release.id} -o pid").split()[1:]
    assert not [pid for pid in pids if f",pid={pid}," in listening and not release.ranks.fabric]
    path = f"{release.place.sockets(release.id)}/{SOCKET}"
    # A worker's rank answers nobody.
    assert host.file(path).is_socket is (release.ranks.rank == 0)
    with host.sudo("nobody"):
        assert not host.file(path).exists
    proved("the engine has a socket that no user of the Spark reaches, and no port")


def test_metrics(client: Client, proved: Proved) -> None:
    """Engine, door and host of each Spark, for Prometheus."""
    kinds = {"/metrics": "vllm:", "/metrics/door": "haproxy_", "/metrics/host": "node_"}
    for path, prefix in kinds.items():
        assert f"\n{prefix}" in client("GET", path).text, path
    proved(f"{', '.join(kinds)} through the door")


@pytest.mark.usefixtures("chats")
def test_streaming(client: Client, release: Release, proved: Proved) -> None:
    body = chat(release, stream=True, stream_options={"include_usage": True})
    found = chunks(client("POST", "/v1/chat/completions", body).content.decode())
    assert len([chunk for chunk in found if chunk["choices"]]) >= 2
    tokens = found[-1]["usage"]["completion_tokens"]
    assert tokens >= 1
    proved(f"streaming: {tokens} tokens in {len(found)} events through the door")
