"""Tool calls: vLLM's interface for parsers that come as a plugin, and Qwen's calls in a text."""

import importlib.util
import json
import re
import sys
import uuid
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

from standin import CAPTURED

_CALL = re.compile(r"<tool_call>\n<function=(\w+)>\n(.*?)</function>\n</tool_call>", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=(\w+)>\n(.*?)\n</parameter>", re.DOTALL)


class Parser:
    """A parser that leaves a request as it is."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        self.vocab = vocabulary

    def adjust_request(self, request: Any) -> Any:
        return request


class Manager:
    """What a plugin imports as vLLM's ToolParserManager."""

    registered: dict[str, type[Parser]] = dict.fromkeys(CAPTURED["tool_parsers"], Parser)

    @classmethod
    def get_tool_parser(cls, name: str) -> type[Parser]:
        if name not in cls.registered:
            chosen = ",".join(cls.registered)
            raise KeyError(f"invalid tool call parser: {name} (chose from {{ {chosen} }})")
        return cls.registered[name]

    @classmethod
    def register_module(cls, name: str) -> Callable[[type[Parser]], type[Parser]]:
        def register(parser: type[Parser]) -> type[Parser]:
            cls.registered[name] = parser
            return parser

        return register


def load(plugin: str | None) -> None:
    """Load a plugin, as vLLM does: one that fails is only spoken of."""
    if not plugin:
        return
    for name, content in {
        "vllm": {},
        "vllm.sampling_params": {"StructuredOutputsParams": SimpleNamespace},
        "vllm.tool_parsers": {"ToolParserManager": Manager},
    }.items():
        module = sys.modules[name] = ModuleType(name)
        vars(module).update(content)
    try:
        spec = importlib.util.spec_from_file_location("plugin", plugin)
        assert spec
        assert spec.loader
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    except Exception as error:
        print(f"Failed to load module from {plugin}: {error!r}", flush=True)


def scripted(parser: Parser, body: dict[str, Any]) -> str | None:
    """Return the text that a parser has the engine generate for a request, if it has."""
    request = SimpleNamespace(
        tools=body.get("tools"), messages=body["messages"], structured_outputs=None
    )
    outputs = parser.adjust_request(request).structured_outputs
    if outputs is None:
        return None
    text: str = json.loads(outputs.structural_tag)["format"]["value"]
    return text


def calls(text: str) -> list[dict[str, Any]]:
    return [
        {
            "id": f"chatcmpl-tool-{uuid.uuid4().hex[:16]}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(_arguments(parameters))},
        }
        for name, parameters in _CALL.findall(text)
    ]


def _arguments(parameters: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in _PARAMETER.findall(parameters):
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found
