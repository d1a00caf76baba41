"""The tiny model's tokenizer, a byte-level BPE trained here on a short text, and its template."""

import itertools
import re
from collections import Counter

CONTROL_TOKENS = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>",
    "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>",
]  # fmt: skip
MARKUP_TOKENS = [
    "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>",
]  # fmt: skip

CHAT_TEMPLATE = """\
{%- if tools %}
{{- '<|im_start|>system\\nTools:' }}
{%- for tool in tools %}
{{- '\\n' + (tool | tojson) }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
{{- '<|im_start|>' + ('user' if message.role == 'tool' else message.role) + '\\n' }}
{{- '<tool_response>\\n' if message.role == 'tool' }}
{%- if message.content is string %}
{{- message.content }}
{%- elif message.content %}
{%- for part in message.content if part.type == 'text' %}
{{- part.text }}
{%- endfor %}
{%- endif %}
{{- '\\n</tool_response>' if message.role == 'tool' }}
{%- for call in message.tool_calls or () %}
{{- '<tool_call>\\n<function=' + call.function.name + '>\\n' }}
{%- for name, value in call.function.arguments | items %}
{{- '<parameter=' + name + '>\\n' }}
{{- value if value is string else value | tojson }}
{{- '\\n</parameter>\\n' }}
{%- endfor %}
{{- '</function>\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n<think>\\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}
{{- '\\n</think>\\n\\n' }}
{%- endif %}
{%- endif %}
"""

TEXT = """\
A small computer stands on a desk and answers questions. Its memory holds the whole model, its
weights lie on a disk, and a cable carries what two of them have to tell each other. When a user
asks, the server reads the prompt, turns every word into numbers, and works through the layers one
after another. Some layers look back at all that was said before; most keep only a short summary of
it, because that is cheaper and nearly as good. A router sends each token to a few experts and
leaves the others alone. Then one more token is ready, and the work begins again, many times each
second, until the answer is complete. If the power fails, nothing is lost that matters: the service
starts with the machine, checks its files, loads them, and is ready for the next question.
Yesterday the first tests took 32 minutes, today they take 7. How long will they take tomorrow?
"""

WORD = re.compile(r" ?[A-Za-z]+| ?[0-9]+| ?[^ A-Za-z0-9]|\s")


def words() -> range:
    """Return the tokens of two characters or more that are plain text."""
    vocabulary = len(_vocabulary(merges := _merges()))
    return range(vocabulary - len(merges), vocabulary)


def size() -> int:
    """Return the number of tokens, rounded up to a multiple of 64 as embeddings are."""
    return -(-(len(_vocabulary(_merges())) + len(MARKUP_TOKENS)) // 64) * 64


def tokenizer() -> dict[str, object]:
    """Return the content of tokenizer.json, in the format of the `tokenizers` library."""
    merges = _merges()
    vocabulary = _vocabulary(merges)
    added = [_added(content, index, True) for index, content in enumerate(CONTROL_TOKENS)]
    added += [
        _added(text, index, False) for index, text in enumerate(MARKUP_TOKENS, len(vocabulary))
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    return {
        "version": "1.0",
        "added_tokens": added,
        "pre_tokenizer": byte_level | {"use_regex": True},
        "decoder": byte_level | {"use_regex": True},
        "model": {
            "type": "BPE",
            "vocab": {token: index for index, token in enumerate(vocabulary)},
            "merges": merges,
        },
    }


def config(context: int) -> dict[str, object]:
    """Return the content of tokenizer_config.json for a model with a context of so many tokens."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": context,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
    }


def _added(content: str, index: int, special: bool) -> dict[str, object]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": index, "content": content, "special": special} | flags


def _byte_names() -> list[str]:
    """Return the character by which byte-level BPE writes each byte; printable ones stay."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return [
        chr(byte) if byte in printable else chr(256 + others.index(byte)) for byte in range(256)
    ]


def _merges() -> list[tuple[str, str]]:
    """Train BPE: join the most frequent pair of neighbours, until every word is one token."""
    names = _byte_names()
    words = Counter(tuple(names[byte] for byte in word.encode()) for word in WORD.findall(TEXT))
    merges: list[tuple[str, str]] = []
    while True:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, count in words.items():
            for pair in itertools.pairwise(word):
                pairs[pair] += count
        if not pairs:
            return merges
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        words = Counter({_join(word, best): count for word, count in words.items()})


def _join(word: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    joined: list[str] = []
    for part in word:
        if joined and (joined[-1], part) == pair:
            joined[-1] += part
        else:
            joined.append(part)
    return tuple(joined)


def _vocabulary(merges: list[tuple[str, str]]) -> list[str]:
    return [*CONTROL_TOKENS, *_byte_names(), *(first + second for first, second in merges)]
