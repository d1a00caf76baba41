"""The domains from which an engine may fetch images, sounds and videos that a request names by URL.

vLLM fetches any address by default: a client with a key could make the Spark query its own
loopback, machines of the LAN and a pair's fabric. Media inside a request (`data:`) need no address.
"""

from __future__ import annotations

from collections.abc import Sequence

from sparkwright.declared.recipe.recipe import Recipe

DOMAINS = "allowed-media-domains"
# An empty list means all domains to vLLM; this name never resolves (RFC 2606, section 2).
NOWHERE = "media.invalid"
# vLLM does not compare the target of a redirect with the list.
NO_REDIRECTS = {"VLLM_MEDIA_URL_ALLOW_REDIRECTS": "0"}


def from_domains(recipe: Recipe, domains: Sequence[str]) -> Recipe:
    """Return a recipe whose engine fetches media from these hosts only; without any, from none."""
    if not domains:
        return recipe
    return recipe.model_copy(update={"args": recipe.args | {DOMAINS: list(domains)}})
