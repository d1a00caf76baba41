"""The fields that the body of a request may have, and what each may be.

LiteLLM takes orders by the others: where to ask, with which key and headers, what to log where.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from host.gateway import shapes
from host.gateway.shapes import RefusedBody, Shape

# Values of a body, and how deep they may lie in each other. LiteLLM works on each for some
# microseconds, while nobody else is served; a conversation of 2,000 messages has 14,000.
VALUES, DEPTH = 30_000, 64
# Characters of a key, and of a number.
_KEY, _DIGITS = 256, 40
_STRING = re.compile('"[^"]*"?')

# OpenAI's chat completions, completions, responses and embeddings, Anthropic's messages, Cohere's
# reranking, and what vLLM 0.17 to 0.33 has beside them, but for what joins engines
# (`kv_transfer_params` and its like) and what gives it tensors (`prompt_embeds`, `mm_payload`).
_KINDS: dict[str, Shape] = {
    """
    add_generation_prompt add_special_tokens continue_final_message echo ignore_eos
    include_reasoning include_stop_str_in_output parallel_tool_calls return_assistant_tokens_mask
    return_documents return_prompt_text return_token_ids return_token_offsets
    return_tokens_as_token_ids skip_special_tokens spaces_between_special_tokens stream
    use_beam_search
    """: shapes.flag,
    """
    dimensions max_completion_tokens max_output_tokens max_tokens max_tokens_per_doc max_tool_calls
    min_tokens n priority prompt_logprobs seed stream_interval thinking_token_budget top_k
    top_logprobs top_n truncate_prompt_tokens
    """: shapes.whole,
    """
    frequency_penalty length_penalty min_p presence_penalty repetition_penalty temperature top_p
    """: shapes.number,
    """
    cache_salt encoding_format model reasoning_effort truncation truncation_side user verbosity
    """: shapes.name,
    "chat_template suffix": shapes.text,
    "bad_words include modalities stop stop_sequences": shapes.texts,
    "allowed_token_ids logprob_token_ids stop_token_ids": shapes.many(shapes.whole),
    """
    chat_template_kwargs logit_bias media_io_kwargs mm_processor_kwargs output_config output_format
    reasoning repetition_detection response_format stream_options structured_outputs text thinking
    """: shapes.mapping,
    "logprobs": shapes.either((bool, shapes.flag), (int, shapes.whole)),
    "function_call tool_choice": shapes.choice,
}
_COMMON = {name: kind for names, kind in _KINDS.items() for name in names.split()}
_NEEDED: Mapping[str, Mapping[str, Shape]] = {
    "/v1/chat/completions": {"messages": shapes.messages},
    "/v1/completions": {"prompt": shapes.texts},
    "/v1/embeddings": {"input": shapes.texts},
    "/v1/messages": {"messages": shapes.anthropic_messages},
    "/v1/rerank": {"query": shapes.text, "documents": shapes.documents},
    "/v1/responses": {"input": shapes.responses_input},
}
_OPTIONAL: Mapping[str, Mapping[str, Shape]] = {
    "/v1/chat/completions": {"tools": shapes.tools, "functions": shapes.functions},
    "/v1/messages": {"tools": shapes.anthropic_tools, "system": shapes.system},
    "/v1/responses": {"tools": shapes.response_tools, "instructions": shapes.text},
}
# What clients tell OpenAI and Anthropic about themselves, their bills and their caches.
_UNREAD = """
cache_control context_management metadata prompt_cache_key prompt_cache_options
prompt_cache_retention safety_identifier service_tier store
"""
_DROPPED = frozenset(_UNREAD.split())


@dataclass(frozen=True)
class JudgedBody:
    """A request as LiteLLM gets it.

    Attributes:
        values: Their number, by which LiteLLM takes memory.
    """

    model: str
    values: int
    body: bytes


def judged(path: str, body: bytes) -> JudgedBody:
    """Return a body in its one meaning, without what says nothing to an engine.

    Raises:
        RefusedBody: LiteLLM could not take it, or would take it for an order.
    """
    try:
        whole = body.decode()
        values = _bounded(whole)
        found = json.loads(
            whole,
            object_pairs_hook=_object,
            parse_int=lambda digits: int(_short(digits)),
            parse_constant=_nothing,
            parse_float=lambda digits: float(_short(digits)),
        )
        if not isinstance(found, dict):
            raise TypeError
        passed = checked(path, found)
        # A half of a surrogate pair has no bytes.
        return JudgedBody(passed["model"], values, _dumped(passed))
    except (ValueError, TypeError, RecursionError):
        raise RefusedBody("the body is no JSON object") from None


def _dumped(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, ensure_ascii=False).encode()


def _bounded(text: str) -> int:
    """Return about how many values a text of JSON has, before they are made."""
    bare = _STRING.sub("", text.replace(r"\\", "").replace(r"\"", ""))
    values = sum(map(bare.count, ",[{"))
    if values > VALUES:
        raise RefusedBody(f"found {values} values; expected {VALUES} at most")
    depth = 0
    for sign in re.findall(r"[][{}]", bare):
        depth += 1 if sign in "[{" else -1
        if depth > DEPTH:
            raise RefusedBody(f"found more than {DEPTH} levels; expected {DEPTH} at most")
    return values


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise RefusedBody("found a key twice in one object; expected it once")
    if any(len(key) > _KEY for key in found):
        raise RefusedBody(f"found a key of more than {_KEY} characters; expected {_KEY} at most")
    return found


def _nothing(word: str) -> NoReturn:
    raise ValueError(word)


def _short(digits: str) -> str:
    if len(digits) > _DIGITS:
        raise RefusedBody(
            f"found a number of more than {_DIGITS} digits; expected {_DIGITS} at most"
        )
    return digits


def checked(path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is passed on of the body of a request.

    Raises:
        RefusedBody: It has a field that is none of a request, or one of another shape.
    """
    needed = {"model": shapes.name, **_NEEDED[path]}
    known = {**_COMMON, **needed, **_OPTIONAL.get(path, {})}
    for name in needed:
        if body.get(name) is None:
            shapes.refuse("it", name)
    found = {name: value for name, value in body.items() if value is not None}
    for name in found:
        if name not in known and name not in _DROPPED:
            why = f"unknown field: {name}. The gateway takes OpenAI's, Anthropic's and vLLM's."
            raise RefusedBody(why, name)
    return {name: known[name](value, name) for name, value in found.items() if name in known}
