"""The forms of what a request may say: of its fields, its messages and their parts, its tools.

LiteLLM obeys fields that are none of a request: where to ask, with which key and headers, what to
log where. A value that it cannot take it searches and logs as a text, for minutes; an address it
fetches. So it gets the keys that this table knows, each with a value of its form.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# A form is a word of `WORDS`; [FORM] for a list; {"key": FORM, "optional?": FORM} for an object;
# (FORM, FORM) for a value of several types; or `Kinds`.
Form = Any
# Characters of a name: of a model, a function, a call, a role.
NAME = 256
# Word -> the types of its values, and what a message expects.
WORDS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "text": ((str,), "text"),
    "name": ((str,), f"a name of at most {NAME} characters"),
    "data": ((str,), "a data: URL, with the content in it; addresses are not fetched"),
    "flag": ((bool,), "true or false"),
    "whole": ((int,), "a whole number"),
    "number": ((int, float), "a number"),
    "object": ((dict,), "an object"),
}


@dataclass(frozen=True)
class Kinds:
    """The form of an object whose `type` says what else it has.

    Attributes:
        default: The type of one that names none.
    """

    forms: Mapping[str, Form]
    default: str = ""


def _object(more: Mapping[str, Form] | None = None, /, **keys: str) -> dict[str, Form]:
    """Return the form of an object: the keys whose values a word describes, and more."""
    return {key: word for word, each in keys.items() for key in each.split()} | dict(more or {})


_TEXTS, _WHOLES = ("text", ["text"]), ["whole"]
_SAID, _REFUSAL = _object(text="text"), _object(text="refusal")
_THOUGHT = _object(text="thinking signature?")
_CALL = _object(name="name", text="arguments")
_FUNCTION = _object(name="name", text="description?", object="parameters?", flag="strict?")

# OpenAI's chat.
_URL = ("data", _object(data="url", name="detail?"))
_PART = Kinds(
    {
        "text": _SAID,
        "refusal": _REFUSAL,
        "thinking": _THOUGHT,
        "image_url": _object({"image_url": _URL}, name="uuid?"),
        "video_url": _object({"video_url": _URL}, name="uuid?"),
        "audio_url": _object({"audio_url": _URL}, name="uuid?"),
        "input_audio": {"input_audio": _object(text="data", name="format")},
    }
)
# An assistant's may have calls in place of content.
_MESSAGE = _object(
    {
        "content?": ("text", [_PART]),
        "tool_calls?": [_object({"function": _CALL}, name="id? type?")],
        "function_call?": _CALL,
    },
    name="role name? tool_call_id?",
    text="refusal? reasoning? reasoning_content?",
)

# Anthropic's messages.
_IMAGE = {"source": Kinds({"base64": _object(name="media_type", text="data")})}
_RESULT = ("text", [Kinds({"text": _SAID, "image": _IMAGE})])
_BLOCK = Kinds(
    {
        "text": _SAID,
        "image": _IMAGE,
        "tool_use": _object(name="id name", object="input"),
        "tool_result": _object({"content?": _RESULT}, name="tool_use_id", flag="is_error?"),
        "thinking": _THOUGHT,
        "redacted_thinking": _object(text="data"),
    }
)
_CUSTOM_TOOL = _object(name="name", object="input_schema", text="description?")

# OpenAI's responses.
_INPUT = Kinds(
    {
        **dict.fromkeys(("input_text", "output_text", "text"), _SAID),
        "refusal": _REFUSAL,
        "input_image": _object(data="image_url", name="detail?"),
    }
)
_INPUTS = ("text", [_INPUT])
_THOUGHTS = [Kinds({"summary_text": _SAID, "reasoning_text": _SAID})]
_ITEM = Kinds(
    {
        "message": _object({"content": _INPUTS}, name="role id? status?"),
        "function_call": _object(name="call_id name id? status?", text="arguments"),
        "function_call_output": _object({"output": _INPUTS}, name="call_id id? status?"),
        "reasoning": _object(
            {"summary?": _THOUGHTS, "content?": _THOUGHTS}, name="id?", text="encrypted_content?"
        ),
    },
    default="message",
)

# The fields that one path alone has.
_OF_PATH: Mapping[str, Mapping[str, Form]] = {
    "/v1/chat/completions": {
        "messages": [_MESSAGE],
        "tools?": [Kinds({"function": {"function": _FUNCTION}})],
        "functions?": [_FUNCTION],
    },
    "/v1/completions": {"prompt": _TEXTS},
    "/v1/embeddings": {"input": _TEXTS},
    "/v1/messages": {
        "messages": [_object({"content": ("text", [_BLOCK])}, name="role")],
        "tools?": [Kinds({"custom": _CUSTOM_TOOL}, default="custom")],
        "system?": ("text", [Kinds({"text": _SAID})]),
    },
    "/v1/rerank": {"query": "text", "documents": [("text", _SAID)]},
    "/v1/responses": {
        "input": ("text", [_ITEM]),
        "tools?": [Kinds({"function": _FUNCTION})],
        "instructions?": "text",
    },
}
# OpenAI's chat completions, completions, responses and embeddings, Anthropic's messages, Cohere's
# reranking, and what vLLM 0.17 to 0.33 has beside them, but for what joins engines
# (`kv_transfer_params` and its like) and what gives it tensors (`prompt_embeds`, `mm_payload`).
_OF_ALL = _object(
    {
        "logprobs": ("flag", "whole"),
        # A name, or an object that says more of it.
        **dict.fromkeys(("function_call", "tool_choice"), ("name", "object")),
        **dict.fromkeys(("bad_words", "include", "modalities", "stop", "stop_sequences"), _TEXTS),
        **dict.fromkeys(("allowed_token_ids", "logprob_token_ids", "stop_token_ids"), _WHOLES),
    },
    flag="""
    add_generation_prompt add_special_tokens continue_final_message echo ignore_eos
    include_reasoning include_stop_str_in_output parallel_tool_calls return_assistant_tokens_mask
    return_documents return_prompt_text return_token_ids return_token_offsets
    return_tokens_as_token_ids skip_special_tokens spaces_between_special_tokens stream
    use_beam_search
    """,
    whole="""
    dimensions max_completion_tokens max_output_tokens max_tokens max_tokens_per_doc max_tool_calls
    min_tokens n priority prompt_logprobs seed stream_interval thinking_token_budget top_k
    top_logprobs top_n truncate_prompt_tokens
    """,
    number="""
    frequency_penalty length_penalty min_p presence_penalty repetition_penalty temperature top_p
    """,
    name="cache_salt encoding_format reasoning_effort truncation truncation_side user verbosity",
    text="chat_template suffix",
    object="""
    chat_template_kwargs logit_bias media_io_kwargs mm_processor_kwargs output_config output_format
    reasoning repetition_detection response_format stream_options structured_outputs text thinking
    """,
)
_OPTIONAL = {f"{name}?": form for name, form in _OF_ALL.items()}
# Path -> the form of its body.
FIELDS = {path: {**_OPTIONAL, "model": "name", **own} for path, own in _OF_PATH.items()}
# What clients tell OpenAI and Anthropic about themselves, their bills and their caches.
_UNREAD = """
cache_control context_management metadata prompt_cache_key prompt_cache_options
prompt_cache_retention safety_identifier service_tier store
"""
DROPPED = frozenset(_UNREAD.split())
