"""From where an engine may fetch the images, sounds and videos that a request names by URL.

vLLM fetches any address by default: a client with a key could have the Spark ask its own loopback,
the LAN's machines and a pair's fabric. Media inside a request (`data:`) need no address.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from deploys.plan.errors import PlanError
from deploys.plan.recipe import Recipe
from deploys.plan.schema import shown

DOMAINS = "allowed-media-domains"
# An empty list means all domains to vLLM; this name never resolves (RFC 2606, section 2).
NOWHERE = "media.invalid"
# A redirect leads to where its server says, which vLLM does not compare with the list.
NO_REDIRECTS = {"VLLM_MEDIA_URL_ALLOW_REDIRECTS": "0"}

# vLLM compares whole names, as a URL has them, in small letters.
_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_DOMAIN = re.compile(rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*")


def from_domains(recipe: Recipe, domains: Sequence[str]) -> Recipe:
    """Return a recipe whose engine fetches media from these domains only.

    Args:
        recipe: As it is for its number of Sparks, or for any.
        domains: Host names or IPv4 addresses; none: no URL is fetched.

    Raises:
        PlanError: One of them is no host's name.
    """
    where = "group data: media_domains"
    if isinstance(domains, str) or not isinstance(domains, Sequence):
        raise PlanError(f'{where}: found {shown(domains)}; expected a tuple, such as ("a.org",)')
    problems = [
        f"{where}: found {shown(domain)}; expected the whole name of a host as a URL has it, in "
        "small letters, without scheme, port or wildcard, such as images.example.org"
        for domain in domains
        if not isinstance(domain, str) or not _DOMAIN.fullmatch(domain)
    ]
    if problems:
        raise PlanError(*problems)
    if not domains:
        return recipe
    return recipe.model_copy(update={"args": recipe.args | {DOMAINS: list(domains)}})
