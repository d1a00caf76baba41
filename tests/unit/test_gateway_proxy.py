"""The gateway for real: LiteLLM's proxy on loopback, and clients before it: openai and curl.

Behind it stand small servers that speak as vLLM's door does, and that can fail in several ways.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from deploys.plan.gateway import Upstream
from deploys.plan.gateway_files import configuration, environment
from tests.lab import cache
from tests.unit.certificates import certificate, private_key, written
from tests.unit.servers import free_port, serving, until

FILES = Path(__file__).parents[2] / "files" / "gateway"
KEYS = ["sk-door-and-client", "sk-another-client"]
WORDS = ["one ", "two ", "three ", "four "]
Client = Callable[[str, str], Any]
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}

# The program, with shorter times: between looks, and until a Spark without power is given up.
HURRIED = """
import doors, runpy
doors.EVERY, doors.CONNECT = 0.1, 2
runpy.run_path("gateway.py", run_name="__main__")
"""
# A client that runs the code that comes in, a line of JSON each; the code prints JSON.
CLIENT = f"""
import json, sys, openai
sys.stdout.reconfigure(line_buffering=True)
user = [{{"role": "user", "content": "hello"}}]
for line in sys.stdin:
    url, code = json.loads(line)
    client = openai.OpenAI(base_url=url + "/v1", api_key={KEYS[1]!r}, max_retries=0)
    exec(code)
"""

pytestmark = pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")


class Door(ThreadingHTTPServer):
    """A replica behind its door.

    Attributes:
        state: "serves"; "starts" answers 503; "gone" answers nothing; "silent" ends a stream
            before its first token, "cut" after its second word; "late" waits there for `go`.
        seen: It answers the gateway's looks by its state; else as if it served.
        asked: The bodies of its requests, with their paths.
    """

    daemon_threads = True

    def __init__(self, tls: Path | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Replica)
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls / "tls.crt", tls / "tls.key")
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.state = "serves"
        self.seen = True
        self.key = f"Bearer {KEYS[0]}"
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.go = threading.Event()
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.server_port}"


class Replica(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Door

    def log_message(self, *arguments: Any) -> None:
        pass

    def do_GET(self) -> None:
        if self._allowed(self.server.state if self.server.seen else "serves"):
            self._json(200, {"object": "list", "data": [{"id": "tiny", "object": "model"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append((self.path, body))
        if not self._allowed(self.server.state):
            return
        if body.get("stream"):
            self._stream(body)
        elif "prompt" in body:
            choice = {"index": 0, "text": "".join(WORDS), "finish_reason": "stop"}
            self._json(200, {"id": "c", "object": "text_completion", "choices": [choice]})
        else:
            message: dict[str, Any] = {"role": "assistant", "content": "".join(WORDS)}
            message["reasoning"] = "hm"
            if body.get("tools"):
                call = {"name": "add", "arguments": '{"a": 1}'}
                message["tool_calls"] = [{"id": "t", "type": "function", "function": call}]
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            usage = {"prompt_tokens": 1, "completion_tokens": 4, "total_tokens": 5}
            self._json(200, {"id": "c", "object": "chat.completion", "created": 1, "model": "tiny"}
                       | {"choices": [choice], "usage": usage})  # fmt: skip

    def _allowed(self, state: str) -> bool:
        if state == "gone":
            self.close_connection = True
            self.connection.shutdown(2)
        elif self.headers["authorization"] != self.server.key:
            self._json(401, {"error": {"message": "no key"}})
        elif state == "starts":
            self._json(503, {"error": {"message": "the engine starts"}})
        else:
            return True
        return False

    def _json(self, status: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        if status == 503:
            self.send_header("retry-after", "5")
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, body: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        state = self.server.state
        if state == "silent":
            self.connection.shutdown(2)
            return
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}, {"reasoning": "hm"}]
        if body.get("tools"):
            call = {"name": "add", "arguments": '{"a": 1}'}
            deltas.append({"tool_calls": [{"index": 0, "id": "t", "function": call}]})
        deltas += [{"content": word} for word in WORDS]
        for number, delta in enumerate(deltas):
            self._event(delta, None)
            if number == 3 and state == "cut":
                time.sleep(0.3)  # what came before has been read
                self.connection.shutdown(2)
                return
            if number == 3 and state == "late":
                self.server.go.wait(20)
        self._event({}, "tool_calls" if body.get("tools") else "stop")
        self._chunk(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _event(self, delta: dict[str, Any], reason: str | None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        content = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "tiny"}
        self._chunk(b"data: " + json.dumps(content | {"choices": [choice]}).encode() + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


@pytest.fixture(scope="module")
def python() -> Path:
    """Python with LiteLLM, from the very requirements that the gateway's host gets."""
    requirements = FILES / "requirements.txt"

    def build(folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
        pip = [folder / "env/bin/python", "-m", "pip", "install", "--quiet", "--require-hashes"]
        options = ["--disable-pip-version-check", "--only-binary", ":all:", "--requirement"]
        subprocess.run([*pip, *options, requirements], check=True)

    return cache.entry("gateway", [requirements, sys.version], build) / "env/bin/python"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a key, and a certificate that it has signed itself."""
    folder, key = tmp_path_factory.mktemp("tls"), private_key()
    written(folder, certificate(key, days=1), key)
    return folder


@pytest.fixture(scope="module")
def doors(tls: Path) -> Iterator[list[Door]]:
    """Two replicas, the second one by https."""
    both = [Door(), Door(tls)]
    with serving(both[0]), serving(both[1]):
        yield both
        for door in both:
            door.go.set()


@pytest.fixture(scope="module")
def dead() -> Iterator[socket.socket]:
    """The port of a door that refuses every connection, until somebody listens."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        yield server


@pytest.fixture(scope="module")
def started(
    python: Path,
    tls: Path,
    doors: list[Door],
    dead: socket.socket,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[str, Path]]:
    """A gateway as its unit starts it: its URL, and the file that holds what it prints."""
    folder = tmp_path_factory.mktemp("gateway")
    for program in (*FILES.glob("*.py"), FILES.parent / "engine" / "notify.py"):
        shutil.copy(program, folder)
    names = ("tiny", "qwen36-fast")
    replicas = [
        Upstream(f"chat-{each}", names, "sparkwright/tiny-qwen3.5-moe", 4096, keyed=True)
        for each in "ab"
    ]
    replicas.append(Upstream("dead", ("dead",), "some/Model", None, keyed=False))
    urls = {"chat-a": doors[0].url, "chat-b": doors[1].url}
    urls["dead"] = f"http://127.0.0.1:{dead.getsockname()[1]}"
    (folder / "config.yaml").write_text(configuration(replicas, urls))
    lines = [
        line.removeprefix("Environment=").split()
        for line in (FILES / "gateway.service").read_text().splitlines()
        if line.startswith("Environment=") and "doors.pem" not in line
    ]
    secrets = environment(KEYS).splitlines()
    variables = dict(pair.split("=", 1) for pair in [*chain(*lines), *secrets])
    # What is not on loopback is nowhere.
    variables |= {f"{kind}_PROXY": "http://127.0.0.1:9" for kind in ("HTTP", "HTTPS")}
    variables |= {"NO_PROXY": "127.0.0.1", "SSL_CERT_FILE": str(tls / "tls.crt")}
    port = str(free_port())
    log = folder / "log"
    with log.open("w") as file:
        process = subprocess.Popen(
            [python, "-B", "-c", HURRIED, "config.yaml", "127.0.0.1", port],
            cwd=folder,
            env={"PATH": os.environ["PATH"], "HOME": str(folder), **variables},
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        until(lambda: "Uvicorn running" in log.read_text() or process.poll() is not None, 120)
        assert process.poll() is None, log.read_text()
        yield url, log
    finally:
        process.send_signal(signal.SIGTERM)
        # uvicorn ends, in good order, by the signal itself.
        assert process.wait(timeout=60) == -signal.SIGTERM, log.read_text()
        for key in KEYS:
            assert key not in log.read_text()


@pytest.fixture
def url(started: tuple[str, Path], doors: list[Door]) -> str:
    """A gateway with both replicas in service, which have not been asked for anything yet."""
    for door in doors:
        door.state, door.seen = "serves", True
        door.key = f"Bearer {KEYS[0]}"
        door.go.clear()
    until(lambda: said(started[1]) == "in service: chat-a, chat-b")
    for door in doors:
        door.asked.clear()
    return started[0]


def said(log: Path) -> str:
    """What the gateway said last of its replicas, but for the dead one."""
    lines = (line for line in reversed(log.read_text().splitlines()) if "in service: " in line)
    return next(lines).partition("; dead does not (no answer from ")[0]


def ask(url: str, path: str, key: str | None = KEYS[1], **body: Any) -> tuple[int, str]:
    """One request: its status and what came."""
    headers = {"content-type": "application/json"}
    if key:
        headers["authorization"] = f"Bearer {key}"
    data = json.dumps(body).encode() if body else None
    try:
        with urlopen(Request(url + path, data, headers), timeout=30) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def requests(stream: bool) -> dict[str, dict[str, Any]]:
    """A request to each path, by path."""
    messages = [{"role": "user", "content": "hello"}]
    common: dict[str, Any] = {"model": "tiny-thinking-coding"} | (
        {"stream": True} if stream else {}
    )
    return {
        "/v1/chat/completions": {**common, "messages": messages},
        "/v1/completions": {**common, "prompt": "hello"},
        "/v1/messages": {**common, "messages": messages, "max_tokens": 9},
        "/v1/responses": {**common, "input": "hello"},
    }


STREAM = {"model": "tiny", "stream": True, "messages": [{"role": "user", "content": "hello"}]}


def curl(url: str) -> Sequence[str]:
    """The command that asks for a stream."""
    headers = [f"authorization: Bearer {KEYS[1]}", "content-type: application/json"]
    options = chain(*(("--header", header) for header in headers))
    target = f"{url}/v1/chat/completions"
    return ["curl", "--silent", "--no-buffer", *options, "--data", json.dumps(STREAM), target]


def spread(url: str, doors: list[Door], requests: int) -> list[int]:
    """How many of so many requests, all in flight at a time, each replica gets."""
    for door in doors:
        door.state = "late"
        door.go.clear()
        door.asked.clear()
    threads = [
        threading.Thread(target=ask, args=(url, "/v1/chat/completions"), kwargs=STREAM)
        for _ in range(requests)
    ]
    for number, thread in enumerate(threads, 1):
        thread.start()
        until(lambda now=number: sum(len(door.asked) for door in doors) == now)  # type: ignore[misc]
    found = [len(door.asked) for door in doors]
    for door in doors:
        door.go.set()
    for thread in threads:
        thread.join()
    return found


@pytest.fixture(scope="module")
def client(python: Path) -> Iterator[Client]:
    """Runs code with openai's package, where `client` is a client of a gateway; what it printed."""
    command, pipe = [python, "-c", CLIENT], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin
        assert process.stdout
        stdin, stdout = process.stdin, process.stdout

        def run(url: str, code: str) -> Any:
            print(json.dumps([url, code]), file=stdin, flush=True)
            return json.loads(stdout.readline())

        yield run
        stdin.close()


def asked_until(door: Door, request: Callable[[], None]) -> int:
    """Repeat a request until a door has been asked: which is asked first is chance. How often."""
    for times in range(1, 21):
        request()
        if door.asked:
            return times
    pytest.fail("it was asked by none of 20 requests")


@pytest.mark.parametrize("key", [None, "sk-wrong", "sk-door-and-clien", ""])
def test_nothing_without_a_key(url: str, doors: list[Door], key: str | None) -> None:
    for path, body in requests(stream=False).items():
        status, text = ask(url, path, key=key, **body)
        assert status == 401
        assert json.loads(text)["error"]["type"] == "authentication_error"
    assert ask(url, "/v1/models", key=key)[0] == 401
    assert ask(url, "/health", key=key)[0] == 200
    assert [door.asked for door in doors] == [[], []]


OTHER_PATHS = """\
/ /ui/ /docs /openapi.json /metrics /config/yaml /model/info /key/list /v1/model/info /v1/embeddings
//v1/models /v1/models/ /v1/models/.. /v1/%2e%2e/config/yaml /health/readiness /health/
/chat/completions /openai/v1/chat/completions /v1/chat/completions/ /V1/models
"""


@pytest.mark.parametrize("path", OTHER_PATHS.split())
def test_no_other_path(url: str, path: str) -> None:
    for body in ({}, {"model": "tiny"}):
        assert ask(url, path, **body)[0] == 404


def test_methods(url: str) -> None:
    assert ask(url, "/v1/chat/completions")[0] == 405
    assert ask(url, "/v1/models", model="tiny")[0] == 405


@pytest.mark.parametrize("key", KEYS)
def test_every_key_opens(url: str, key: str) -> None:
    status, text = ask(url, "/v1/models", key=key)
    assert status == 200
    profiles = ("thinking-general", "thinking-coding", "instruct-general", "instruct-reasoning")
    names = [each["id"] for each in json.loads(text)["data"]]
    assert names == ["tiny", *(f"tiny-{profile}" for profile in profiles), "qwen36-fast", "dead"]


@pytest.mark.parametrize("path", requests(stream=False))
def test_a_profile_reaches_the_engine_by_every_path(url: str, doors: list[Door], path: str) -> None:
    assert ask(url, path, **requests(stream=False)[path])[0] == 200
    ((asked, body),) = doors[0].asked + doors[1].asked
    assert asked == ("/v1/completions" if path == "/v1/completions" else "/v1/chat/completions")
    expected = {"model": "tiny", "temperature": 0.6, "top_p": 0.95, "presence_penalty": 0.0}
    expected |= {"top_k": 20, "min_p": 0.0, "repetition_penalty": 1.0}
    assert expected.items() <= body.items()
    assert body["chat_template_kwargs"] == {"enable_thinking": True}


def test_what_a_request_says_itself_counts(url: str, doors: list[Door]) -> None:
    body = requests(stream=False)["/v1/chat/completions"] | {"temperature": 0.1, "top_k": 7}
    assert ask(url, "/v1/chat/completions", **body)[0] == 200
    ((_, found),) = doors[0].asked + doors[1].asked
    assert (found["temperature"], found["top_k"], found["top_p"]) == (0.1, 7, 0.95)


def test_presets_and_plain_names(url: str, doors: list[Door]) -> None:
    messages = [{"role": "user", "content": "hello"}]
    for model in ("qwen36-fast", "tiny"):
        assert ask(url, "/v1/chat/completions", model=model, messages=messages)[0] == 200
    found = sorted((body for _, body in doors[0].asked + doors[1].asked), key=len)
    assert found[0].keys() == {"model", "messages", "stream"}
    assert found[1]["temperature"] == 0.0
    assert [each["model"] for each in found] == ["tiny", "tiny"]


@pytest.mark.parametrize("name", ["nothing", "openai/gpt-4o", "*"])
def test_an_unknown_name(url: str, doors: list[Door], name: str) -> None:
    status, text = ask(url, "/v1/chat/completions", model=name, messages=[])
    assert (status, "Invalid model name" in text) == (400, True)
    assert [door.asked for door in doors] == [[], []]


def test_a_request_cannot_choose_where_it_goes(url: str, doors: list[Door]) -> None:
    body = requests(stream=False)["/v1/chat/completions"]
    for key in ("api_base", "base_url", "user_config"):
        assert ask(url, "/v1/chat/completions", **body, **{key: "http://127.0.0.1:9"})[0] >= 400
    assert [door.asked for door in doors] == [[], []]


def test_curl_gets_a_stream_as_it_comes(url: str, doors: list[Door]) -> None:
    for door in doors:
        door.state = "late"
    with subprocess.Popen(curl(url), stdout=subprocess.PIPE) as run:
        assert run.stdout
        before = b""
        while b"two" not in before:
            before += run.stdout.readline()
        assert b"three" not in before  # the replica has not said it yet
        for door in doors:
            door.go.set()
        after = run.stdout.read()
    assert after.rstrip().endswith(b"data: [DONE]")


def test_openai_streams_text_and_thinking(client: Client, url: str) -> None:
    found = client(
        url,
        "text, thinking = '', ''\n"
        "for chunk in client.chat.completions.create(model='tiny', messages=user, stream=True):\n"
        "    delta = chunk.choices[0].delta\n"
        "    text += delta.content or ''\n"
        "    thinking += getattr(delta, 'reasoning_content', None) or ''\n"
        "print(json.dumps([text, thinking, chunk.choices[0].finish_reason]))",
    )
    assert found == ["".join(WORDS), "hm", "stop"]


@pytest.mark.parametrize("stream", [True, False])
def test_openai_gets_tool_calls(client: Client, url: str, stream: bool) -> None:
    found = client(
        url,
        f"tools = [{TOOL!r}]\n"
        f"answer = client.chat.completions.create(model='tiny', messages=user, tools=tools,"
        f" tool_choice='auto', parallel_tool_calls=False, stream={stream})\n"
        f"calls = [call for chunk in answer for call in chunk.choices[0].delta.tool_calls or []]"
        f" if {stream} else answer.choices[0].message.tool_calls\n"
        "print(json.dumps([[call.function.name, call.function.arguments] for call in calls]))",
    )
    assert found == [["add", '{"a": 1}']]


def test_requests_are_shared_out(url: str, doors: list[Door]) -> None:
    assert spread(url, doors, requests=6) == [3, 3]


def test_a_client_that_leaves_is_forgotten(
    url: str, started: tuple[str, Path], doors: list[Door]
) -> None:
    """What it had in flight counts no longer."""
    doors[0].state, doors[1].state = "late", "starts"
    until(lambda: "chat-b does not" in said(started[1]))
    for _ in range(2):
        with subprocess.Popen(curl(url), stdout=subprocess.PIPE) as run:
            assert run.stdout
            assert any(b"two" in line for line in run.stdout)
            run.kill()
    assert [len(door.asked) for door in doors] == [2, 0]
    doors[1].state = "serves"
    until(lambda: said(started[1]) == "in service: chat-a, chat-b")
    until(lambda: spread(url, doors, requests=2) == [1, 1])


def test_a_draining_replica_gets_nothing(
    url: str, started: tuple[str, Path], doors: list[Door]
) -> None:
    doors[0].state = "starts"
    until(lambda: "in service: chat-b; chat-a does not (" in said(started[1]))
    assert said(started[1]).endswith(f"({doors[0].url}/v1 answers 503)")
    for _ in range(4):
        assert ask(url, "/v1/chat/completions", **requests(False)["/v1/chat/completions"])[0] == 200
    assert [len(door.asked) for door in doors] == [0, 4]


@pytest.mark.parametrize("path", requests(stream=False))
@pytest.mark.parametrize("state", ["starts", "gone"])
def test_a_replica_lost_between_requests_is_not_noticed(
    url: str, doors: list[Door], state: str, path: str
) -> None:
    doors[0].state, doors[0].seen = state, False

    def request() -> None:
        assert ask(url, path, **requests(stream=False)[path])[0] == 200

    assert asked_until(doors[0], request) == len(doors[1].asked)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_a_replica_lost_before_the_first_token_is_not_noticed(
    url: str, doors: list[Door], path: str
) -> None:
    doors[0].state = "silent"

    def request() -> None:
        status, text = ask(url, path, **requests(stream=True)[path])
        assert (status, all(word in text for word in WORDS)) == (200, True)

    assert asked_until(doors[0], request) == len(doors[1].asked)


def test_a_response_lost_before_the_first_token_fails(url: str, doors: list[Door]) -> None:
    """LiteLLM announces a stream of /v1/responses before the engine has said anything."""
    for door in doors:
        door.state = "silent"
    status, text = ask(url, "/v1/responses", **requests(stream=True)["/v1/responses"])
    assert (status, "event: response.failed" in text) == (200, True)


def test_a_replica_that_has_lost_its_power_is_left_out(
    url: str, started: tuple[str, Path], doors: list[Door]
) -> None:
    doors[0].state = "gone"
    for _ in range(4):
        assert ask(url, "/v1/completions", **requests(False)["/v1/completions"])[0] == 200
    until(lambda: "chat-a does not (no answer from" in said(started[1]))


def test_a_spark_without_power_is_given_up_soon(url: str, dead: socket.socket) -> None:
    with ExitStack() as stack:
        dead.listen(0)
        for _ in range(4):  # its queue is full: it answers nothing
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(dead.getsockname())
        began = time.monotonic()
        status, _ = ask(url, "/v1/chat/completions", model="dead", messages=STREAM["messages"])
        assert status in (408, 500, 503)
        # Three tries of 2 s, and pauses between them; TCP would try for minutes.
        assert 6 < time.monotonic() - began < 16
        dead.shutdown(socket.SHUT_RDWR)


def test_no_replica_left(url: str, started: tuple[str, Path], doors: list[Door]) -> None:
    for door in doors:
        door.state = "starts"
    status, text = ask(url, "/v1/chat/completions", **requests(False)["/v1/chat/completions"])
    assert (status, "the engine starts" in text) == (503, True)
    until(lambda: "in service: none; " in said(started[1]))
    assert ask(url, "/health", key=None)[0] == 503


def test_a_door_that_refuses_the_key(
    url: str, started: tuple[str, Path], doors: list[Door]
) -> None:
    doors[1].key = "Bearer sk-rotated"
    until(lambda: said(started[1]).endswith(f"({doors[1].url}/v1 refuses the key)"))
    assert ask(url, "/v1/chat/completions", **requests(False)["/v1/chat/completions"])[0] == 200


def test_a_replica_lost_in_mid_stream_is_an_error_for_the_client(
    client: Client, url: str, doors: list[Door]
) -> None:
    """No other replica can go on with half an answer; the client is told, and keeps what it has."""
    for door in doors:
        door.state = "cut"
    found = client(
        url,
        "text, error = '', None\n"
        "try:\n"
        "    chunks = client.chat.completions.create(model='tiny', messages=user, stream=True)\n"
        "    for chunk in chunks:\n"
        "        text += chunk.choices[0].delta.content or ''\n"
        "except openai.APIError as failure:\n"
        "    error = str(failure)\n"
        "print(json.dumps([text, error]))",
    )
    assert found[0] == "one two "
    assert "Response payload is not completed" in found[1]
    assert sum(len(door.asked) for door in doors) == 1
