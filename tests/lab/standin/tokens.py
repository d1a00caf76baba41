"""The checkpoint's tokenizer and chat template, and the words that stand for a model's."""

import hashlib
import json
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

# Of tests/lab/tiny_tokenizer.py, as is the template.
_WORD = re.compile(r" ?[A-Za-z]+| ?[0-9]+| ?[^ A-Za-z0-9]|\s")
_WORDS = ("it", "lies", "on", "a", "disk", "and", "the", "small", "model", "reads", "its", "next")
# One token of so many is the end.
_END = 509


def _bytes() -> dict[int, str]:
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {
        byte: chr(256 + position) for position, byte in enumerate(others)
    }


class Tokenizer:
    """A byte-level BPE, of a tokenizer.json."""

    def __init__(self, file: Path) -> None:
        content = json.loads(file.read_text())
        self.vocabulary: dict[str, int] = content["model"]["vocab"]
        added = {token["content"]: token["id"] for token in content["added_tokens"]}
        self.vocabulary |= added
        merges = content["model"]["merges"]
        self._ranks = {tuple(pair): rank for rank, pair in enumerate(merges)}
        self._added = re.compile("|".join(map(re.escape, added)))
        self._texts = {number: token for token, number in self.vocabulary.items()}
        self._special = {*added.values()}
        self._bytes = _bytes()
        self._values = {character: byte for byte, character in self._bytes.items()}

    def encode(self, text: str) -> list[int]:
        tokens: list[int] = []
        position = 0
        for match in self._added.finditer(text):
            tokens += self._plain(text[position : match.start()])
            tokens.append(self.vocabulary[match[0]])
            position = match.end()
        return tokens + self._plain(text[position:])

    def decode(self, tokens: Sequence[int]) -> str:
        raw = b""
        for token in tokens:
            text = self._texts[token]
            special = token in self._special
            raw += text.encode() if special else bytes(map(self._values.__getitem__, text))
        return raw.decode(errors="replace")

    def _plain(self, text: str) -> list[int]:
        return [token for word in _WORD.findall(text) for token in self._merged(word)]

    def _merged(self, word: str) -> list[int]:
        parts = [self._bytes[byte] for byte in word.encode()]
        while len(parts) > 1:
            ranks = [self._ranks.get(pair, len(self._ranks)) for pair in pairwise(parts)]
            best = min(range(len(ranks)), key=ranks.__getitem__)
            if ranks[best] == len(self._ranks):
                break
            parts[best : best + 2] = [parts[best] + parts[best + 1]]
        return [self.vocabulary[part] for part in parts]


def prompt(body: dict[str, Any]) -> str:
    tools = "".join(f"\n{json.dumps(each, ensure_ascii=False)}" for each in body.get("tools") or ())
    text = f"<|im_start|>system\nTools:{tools}<|im_end|>\n" if tools else ""
    for message in body["messages"]:
        tool = message["role"] == "tool"
        text += f"<|im_start|>{'user' if tool else message['role']}\n"
        content = message.get("content") or ""
        if not isinstance(content, str):
            content = "".join(part["text"] for part in content if part["type"] == "text")
        text += f"<tool_response>\n{content}\n</tool_response>" if tool else content
        for call in message.get("tool_calls") or ():
            text += f"<tool_call>\n<function={call['function']['name']}>\n"
            for name, value in json.loads(call["function"]["arguments"]).items():
                shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                text += f"<parameter={name}>\n{shown}\n</parameter>\n"
            text += "</function>\n</tool_call>"
        text += "<|im_end|>\n"
    thinks = (body.get("chat_template_kwargs") or {}).get("enable_thinking") is not False
    return text + "<|im_start|>assistant\n<think>\n" + ("" if thinks else "\n</think>\n\n")


def words(seed: str, most: int, ignore_end: bool) -> list[str]:
    """Return the tokens of an answer, always the same of a seed; `most` where no end may come."""
    found: list[str] = []
    for position in range(most):
        digest = hashlib.blake2s(f"{position} {seed}".encode(), digest_size=4).digest()
        choice = int.from_bytes(digest)
        if position and not ignore_end and choice % _END == 0:
            break
        found.append(" " + _WORDS[choice // _END % len(_WORDS)])
    return found
