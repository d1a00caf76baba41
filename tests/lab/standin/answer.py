"""An answer in OpenAI's form, whole or in the chunks of a stream."""

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from standin import VERSION, tools

_FINGERPRINT = f"vllm-{VERSION}-standin"


@dataclass
class Answer:
    """An answer to the request `body`; `thinks`: its text is thought, not said."""

    body: dict[str, Any]
    prompt: int
    text: list[str]
    chat: bool
    thinks: bool
    reason: str

    def __post_init__(self) -> None:
        called = self.chat and self.body.get("tools")
        self._calls = tools.calls("".join(self.text)) if called else []
        self.reason = "tool_calls" if self._calls else self.reason
        self._id = f"{'chatcmpl' if self.chat else 'cmpl'}-{uuid.uuid4().hex[:16]}"

    def whole(self) -> dict[str, Any]:
        text = "".join(self.text)
        choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": self.reason}
        choice |= {"stop_reason": None}
        if self.chat:
            message = {"role": "assistant", "content": text, "reasoning": None}
            if self.thinks:
                message |= {"content": None, "reasoning": text}
            if self._calls:
                message |= {"content": None, "tool_calls": self._calls}
            choice["message"] = message
            if self.body.get("logprobs"):
                choice["logprobs"] = {"content": [*map(_logprob, self.text)]}
        else:
            choice["text"] = text
        kind = "chat.completion" if self.chat else "text_completion"
        fingerprint = {"system_fingerprint": _FINGERPRINT, "usage": self._usage(len(self.text))}
        return self._frame(kind, [choice]) | fingerprint

    def chunks(self, tokens: Iterator[str]) -> Iterator[dict[str, Any]]:
        """Yield the chunks of a stream, by its tokens as they are written."""
        kind = "chat.completion.chunk" if self.chat else "text_completion"
        options = self.body.get("stream_options") or {}
        counted = options.get("continuous_usage_stats", False)

        def chunk(content: dict[str, Any], tokens: int, reason: str | None) -> dict[str, Any]:
            choice = {"index": 0, **content, "logprobs": None, "finish_reason": reason}
            usage = {"usage": self._usage(tokens)} if counted else {}
            return self._frame(kind, [choice]) | usage

        if self.chat:
            yield chunk({"delta": {"role": "assistant", "content": ""}}, 0, None)
        held: dict[str, Any] | None = None
        for number, token in enumerate(tokens):
            if self._calls:
                continue
            if held:
                yield chunk(held, number, None)
            name = "reasoning" if self.thinks else "content"
            held = {"delta": {name: token}} if self.chat else {"text": token}
        for index, call in enumerate(self._calls):
            function = call["function"]
            begun = {**call, "index": index, "function": {"name": function["name"]}}
            yield chunk({"delta": {"tool_calls": [begun]}}, 0, None)
            more = {"index": index, "function": {"arguments": function["arguments"]}}
            yield chunk({"delta": {"tool_calls": [more]}}, 0, None)
        yield chunk(held or {"delta": {}}, len(self.text), self.reason)
        if options.get("include_usage"):
            yield self._frame(kind, []) | {"usage": self._usage(len(self.text))}

    def _usage(self, tokens: int) -> dict[str, int]:
        return {
            "prompt_tokens": self.prompt,
            "total_tokens": self.prompt + tokens,
            "completion_tokens": tokens,
        }

    def _frame(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        frame = {"id": self._id, "object": kind, "created": int(time.time())}
        return frame | {"model": self.body["model"], "choices": choices}


def _logprob(token: str) -> dict[str, Any]:
    return {"token": token, "logprob": -5.5, "bytes": [*token.encode()], "top_logprobs": []}
