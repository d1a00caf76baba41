"""The server: vLLM's endpoints."""

import json
import re
import select
import socket
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler
from itertools import chain
from typing import Any

from standin import CAPTURED, VERSION, pooling, tools
from standin.answer import Answer
from standin.engine import Engine, RefusedError
from standin.tokens import prompt, words

# What a request must hold, of those that are answered.
_NEEDED = {
    "/v1/chat/completions": ("messages",),
    "/v1/completions": (),
    "/v1/responses": ("input",),
    "/v1/messages": ("model", "messages", "max_tokens"),
    "/tokenize": ("prompt", "messages"),
    "/detokenize": ("tokens",),
    "/v1/embeddings": ("input",),
    "/v1/rerank": ("query", "documents"),
}


def bad(message: str, param: str | None = None, value: object = None) -> RefusedError:
    if param:
        message += f" (parameter={param}, value={value})"
    return RefusedError(400, message, "BadRequestError", param)


def invalid(kind: str, place: str, message: str, shown: str) -> RefusedError:
    found = {"type": kind, "loc": place, "msg": message, "input": shown}
    return RefusedError(400, f"1 validation error:\n  {found}", "Bad Request", place)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "uvicorn", ""
    disable_nagle_algorithm = True
    engine: Engine

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if not self._known(path):
            return
        options = self.engine.options
        match path:
            case "/health":
                self._send(503 if self.engine.dead else 200, b"", "")
            case "/ping":
                self._send(200, b"", "")
            case "/metrics":
                kind = "text/plain; version=1.0.0; charset=utf-8"
                self._send(200, self.engine.metrics.text().encode(), kind)
            case "/openapi.json":
                paths = self._endpoints.items()
                shown = {path: {method: {} for method in methods} for path, methods in paths}
                self._json({"openapi": "3.1.0", "paths": shown})
            case "/version":
                self._json({"version": VERSION})
            case "/v1/models":
                own = {"object": "model", "owned_by": "vllm", "root": options.model_tag}
                own |= {"created": int(time.time()), "max_model_len": options.max_model_len}
                names = options.served_model_name or [options.model_tag]
                self._json({"object": "list", "data": [{"id": name, **own} for name in names]})
            case _:
                self._json({})

    do_HEAD = do_GET

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        if not self._known(path):
            return
        self.engine.in_flight.add(threading.get_ident())
        try:
            self._answer(path, self._checked(path, body))
        except RefusedError as error:
            self._json({"error": error.body}, error.status)
        finally:
            self.engine.in_flight.discard(threading.get_ident())

    @property
    def _endpoints(self) -> dict[str, list[str]]:
        kind = self.engine.kind
        found: dict[str, list[str]] = CAPTURED[
            "endpoints" if kind == "chat" else f"endpoints_{kind}"
        ]
        return found

    def _known(self, path: str) -> bool:
        for known, methods in self._endpoints.items():
            if re.fullmatch(re.sub(r"{.*?}", "[^/]+", known), path):
                if self.command.lower() in methods:
                    return True
                self._json({"detail": "Method Not Allowed"}, 405)
                return False
        if path != "/openapi.json":
            self._json({"detail": "Not Found"}, 404)
        return path == "/openapi.json"

    def _checked(self, path: str, raw: bytes) -> dict[str, Any]:
        if self.headers.get_content_type() != "application/json":
            what = "Unsupported Media Type: Only 'application/json' is allowed"
            raise RefusedError(400, f"1 validation error:\n  {what}", "Bad Request")
        try:
            body = json.loads(raw)
        except ValueError:
            shown = "<dict of 0 items>"
            raise invalid("json_invalid", "body.0", "JSON decode error", shown) from None
        if not isinstance(body, dict):
            what = "Input should be a valid dictionary or object to extract fields from"
            raise invalid("model_attributes_type", "body", what, f"<list of {len(body)} items>")
        needed = _NEEDED.get(path, ())
        missing = [name for name in needed if name not in body]
        if missing and not (path == "/tokenize" and len(missing) < len(needed)):
            shown = f"<dict of {len(body)} items>"
            raise invalid("missing", f"body.{missing[0]}", "Field required", shown)
        if not isinstance(body.get("messages", []), list):
            what, shown = "Input should be a valid list", str(body["messages"])
            raise invalid("list_type", "body.messages", what, shown)
        names = self.engine.options.served_model_name or [self.engine.name]
        if body.setdefault("model", self.engine.name) not in names:
            message = f"The model `{body['model']}` does not exist."
            if self.engine.kind == "chat":
                message += f" Valid aliases: {names[0]}."
            raise RefusedError(404, message, "NotFoundError", "model")
        return body

    def _answer(self, path: str, body: dict[str, Any]) -> None:
        encode, most = self.engine.tokenizer.encode, self.engine.options.max_model_len
        match path:
            case "/tokenize":
                text = body["prompt"] if "prompt" in body else prompt(body)
                tokens = encode(text)
                self._json({"count": len(tokens), "max_model_len": most, "tokens": tokens})
            case "/detokenize":
                self._json({"prompt": self.engine.tokenizer.decode(body["tokens"])})
            case "/v1/chat/completions" | "/v1/completions":
                self._complete(body, chat=path.startswith("/v1/chat"))
            case "/v1/embeddings":
                texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
                vectors, read = self._pooled(texts)
                self._json(pooling.embeddings(body["model"], vectors, read))
            case "/v1/rerank":
                (query, *vectors), read = self._pooled([body["query"], *body["documents"]])
                scores = [pooling.near(query, each) for each in vectors]
                most = body.get("top_n", 0)
                self._json(pooling.ranking(body["model"], body["documents"], scores, most, read))
            case _:
                raise RefusedError(501, "the stand-in does not do this", "NotImplementedError")

    def _pooled(self, texts: list[str]) -> tuple[list[list[float]], int]:
        """Return the vectors that the core makes of texts, and the number of their tokens."""
        encoded = [self.engine.tokenizer.encode(text) for text in texts]
        for tokens in encoded:
            self._fits(len(tokens))
        for tokens in encoded:
            list(self.engine.write(len(tokens), [""], "stop", self._gone, pools=True))
        vectors = [pooling.vector(tokens, self.engine.size) for tokens in encoded]
        return vectors, sum(map(len, encoded))

    def _complete(self, body: dict[str, Any], chat: bool) -> None:
        if chat and not body["messages"]:
            raise bad(
                "Cannot apply chat template to an empty conversation. Provide at least one message."
            )
        if not chat and not body.get("prompt"):
            message = "Either prompt or prompt_embeds must be provided and non-empty."
            raise bad(f"{message} (parameter=prompt)")
        asked = prompt(body) if chat else str(body["prompt"])
        tokens = len(self.engine.tokenizer.encode(asked))
        limit = self._limit(body, tokens, None if chat else 16)
        if body.get("temperature", 1) > 0:
            asked += uuid.uuid4().hex
        parser = self.engine.parser
        script = tools.scripted(parser, body) if parser and chat and body.get("tools") else None
        if script is not None:
            text = re.findall(r"\s*\S+|\s+", script)[:limit]
        else:
            text = words(asked, limit, bool(body.get("ignore_eos")))
        thinks = (body.get("chat_template_kwargs") or {}).get("enable_thinking") is not False
        thinks = thinks and bool(self.engine.options.reasoning_parser) and script is None
        reason = "length" if len(text) == limit else "stop"
        written = self.engine.write(tokens, text, reason, self._gone)
        answer = Answer(body, tokens, text, chat, thinks, reason)
        if not body.get("stream"):
            list(written)
            self._json(answer.whole())
            return
        first = next(written)
        chunked = self.request_version == "HTTP/1.1"
        self._head(200, "text/event-stream; charset=utf-8", None)

        def event(content: str) -> None:
            data = f"data: {content}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data) if chunked else data)

        try:
            for chunk in answer.chunks(chain([first], written)):
                event(json.dumps(chunk))
        except RefusedError as error:
            event(json.dumps({"error": error.body}))
        finally:
            written.close()
        event("[DONE]")
        if chunked:
            self.wfile.write(b"0\r\n\r\n")

    def _limit(self, body: dict[str, Any], tokens: int, default: int | None) -> int:
        most: int = self.engine.options.max_model_len
        if body.get("temperature", 0) < 0:
            value = float(body["temperature"])
            raise bad(f"temperature must be non-negative, got {value}.", "temperature", value)
        limit = body.get("max_tokens") or body.get("max_completion_tokens") or default
        limit = body["max_tokens"] if body.get("max_tokens") == 0 else limit
        if limit is not None and not isinstance(limit, int):
            what = "Input should be a valid integer, unable to parse string as an integer"
            raise invalid("int_parsing", "body.max_tokens", what, limit)
        if limit is not None and limit < 1:
            raise bad(f"max_tokens must be at least 1, got {limit}.", "max_tokens", limit)
        self._fits(tokens)
        if limit is not None and limit > most:
            raise bad(
                f"max_tokens={limit} cannot be greater than max_model_len={most}. Please request "
                "fewer output tokens.",
                "max_tokens",
                limit,
            )
        return min(limit or most, most - tokens)

    def _fits(self, tokens: int) -> None:
        most = self.engine.options.max_model_len
        if tokens >= most:
            raise bad(
                f"This model's maximum context length is {most} tokens. However, your prompt "
                f"contains at least {most + 1} input tokens, which exceeds this limit even without "
                "any output tokens. Please reduce the length of the input prompt.",
                "input_tokens",
                most + 1,
            )

    def _gone(self) -> bool:
        if not select.select([self.connection], [], [], 0)[0]:
            return False
        try:
            return not self.connection.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def _json(self, content: object, status: int = 200) -> None:
        self._send(status, json.dumps(content).encode(), "application/json")

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self._head(status, kind, len(body))
        if self.command != "HEAD":
            self.wfile.write(body)

    def _head(self, status: int, kind: str, length: int | None) -> None:
        self.send_response(status)
        if kind:
            self.send_header("Content-Type", kind)
        if length is not None:
            self.send_header("Content-Length", str(length))
        elif self.request_version == "HTTP/1.1":
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def log_message(self, text: str, *values: object) -> None:
        line = text % values
        print(f"INFO:     {':'.join(map(str, self.client_address))} - {line}", flush=True)
