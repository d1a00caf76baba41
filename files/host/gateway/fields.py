"""The fields that the body of a request may have.

LiteLLM takes orders by the others: where to ask, with which key and headers, what to log where.
"""

from typing import Any

# OpenAI's chat completions, completions, responses and embeddings, Anthropic's messages, and
# Cohere's reranking.
_OPENAI = """
dimensions encoding_format
frequency_penalty function_call functions include input instructions logit_bias logprobs
max_completion_tokens max_output_tokens max_tokens max_tool_calls messages modalities model n
parallel_tool_calls presence_penalty prompt reasoning reasoning_effort response_format seed stop
stream stream_options suffix temperature text tool_choice tools top_logprobs top_p truncation user
verbosity
"""
_ANTHROPIC = "output_config output_format stop_sequences system thinking top_k"
_COHERE = "documents max_tokens_per_doc query return_documents top_n"
# What vLLM 0.17 to 0.33 has beside them, but for what joins engines (`kv_transfer_params` and its
# like) and what gives it tensors (`prompt_embeds`, `mm_payload`).
_VLLM = """
add_generation_prompt add_special_tokens allowed_token_ids bad_words cache_salt chat_template
chat_template_kwargs continue_final_message echo ignore_eos include_reasoning
include_stop_str_in_output length_penalty logprob_token_ids media_io_kwargs min_p min_tokens
mm_processor_kwargs priority prompt_logprobs repetition_detection repetition_penalty
return_assistant_tokens_mask return_prompt_text return_token_ids return_token_offsets
return_tokens_as_token_ids skip_special_tokens spaces_between_special_tokens stop_token_ids
stream_interval structured_outputs thinking_token_budget truncate_prompt_tokens truncation_side
use_beam_search
"""
KNOWN = frozenset(f"{_OPENAI} {_ANTHROPIC} {_COHERE} {_VLLM}".split())
# What clients tell OpenAI and Anthropic about themselves, their bills and their caches.
_UNREAD = """
cache_control context_management metadata prompt_cache_key prompt_cache_options
prompt_cache_retention safety_identifier service_tier store
"""
DROPPED = frozenset(_UNREAD.split())


class Unknown(Exception):
    """A field that no request has; its name."""


def checked(body: Any) -> dict[str, Any]:
    """Return a body without what says nothing to an engine.

    Raises:
        Unknown: it has a field that is none of a request.
        TypeError: it is no JSON object.
    """
    if not isinstance(body, dict):
        raise TypeError
    for name, value in body.items():
        if value is not None and name not in KNOWN | DROPPED:
            raise Unknown(name)
    return {name: value for name, value in body.items() if name in KNOWN}
