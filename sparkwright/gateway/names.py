"""The names that clients may ask the gateway for: models, their profiles, presets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkwright.gateway.gateway import Upstream
from sparkwright.recipe.recipe import Answers

# What Qwen advises for each mode, as the proxy of ig1 has it
# (github.com/iguanesolutions/qwen35-rp, transform.go at 1950199). The cards of some sizes of
# Qwen3.5 have 1.0, 40 and 2.0 for the last one's top_p, top_k and presence_penalty.
_COMMON = {"top_k": 20, "min_p": 0.0, "repetition_penalty": 1.0}
_PROFILES: dict[str, dict[str, Any]] = {
    "thinking-general": {"temperature": 1.0, "top_p": 0.95, "presence_penalty": 1.5},
    "thinking-coding": {"temperature": 0.6, "top_p": 0.95, "presence_penalty": 0.0},
    "instruct-general": {"temperature": 0.7, "top_p": 0.8, "presence_penalty": 1.5},
    "instruct-reasoning": {"temperature": 1.0, "top_p": 0.95, "presence_penalty": 1.5},
}
# The names that AEON-7's engine serves, and their sampling: greedy, which its drafter guesses best,
# and sampled (github.com/AEON-7/Qwen3.6-NVFP4-DFlash, docs/openclaw.md at ca64651).
_PRESETS: dict[str, dict[str, Any]] = {
    "qwen36-fast": {"temperature": 0.0, "top_p": 1.0},
    "qwen36-deep": {"temperature": 0.7, "top_p": 0.95, "top_k": 64, "repetition_penalty": 1.05},
}
# The short names of presets.
ALIASES = {"qwen36-fast": "fast", "qwen36-deep": "deep"}


@dataclass(frozen=True)
class ModelAlias:
    """A name that clients may ask for.

    Attributes:
        upstreams: The replicas that serve it.
        sampling: Defaults for what a request leaves out.
        both_modes: The client decides whether the model thinks.
        thinks: Its answers have a thinking part.
    """

    name: str
    upstreams: tuple[Upstream, ...]
    sampling: Mapping[str, Any]
    both_modes: bool
    thinks: bool

    @property
    def answers(self) -> Answers:
        """What clients ask it for."""
        return self.upstreams[0].answers

    @property
    def context(self) -> int | None:
        """Tokens that every replica of the name accepts; None if one of them leaves it open."""
        known = [each.context for each in self.upstreams if each.context is not None]
        return min(known) if len(known) == len(self.upstreams) else None


def served(replicas: Sequence[Upstream], *, by_gateway: bool = True) -> list[ModelAlias]:
    """Return all names that clients may ask for, in the order of the inventory.

    Args:
        by_gateway: Clients ask the gateway, which alone has the profiles; else a door.
    """
    names: dict[str, list[Upstream]] = {}
    for replica in replicas:
        for name in replica.names:
            names.setdefault(name, []).append(replica)
    aliases: dict[str, ModelAlias] = {}
    for name, serving in names.items():
        for each in _variants(name, tuple(serving), by_gateway):
            # A recipe's own served name takes precedence over a profile of the same name.
            if each.name == name or each.name not in names:
                aliases[each.name] = each
    return list(aliases.values())


def _variants(name: str, serving: tuple[Upstream, ...], by_gateway: bool) -> Iterator[ModelAlias]:
    both = serving[0].both_modes
    yield ModelAlias(name, serving, _PRESETS.get(name, {}), both_modes=both, thinks=both)
    # Only a model's first name has profiles.
    if by_gateway and serving[0].has_profiles and name == serving[0].names[0]:
        for profile, own in _PROFILES.items():
            thinks = profile.startswith("thinking")
            template = {"chat_template_kwargs": {"enable_thinking": thinks}}
            sampling = {**own, **_COMMON, **template}
            yield ModelAlias(
                f"{name}-{profile}", serving, sampling, both_modes=False, thinks=thinks
            )


def listing(names: Iterable[ModelAlias]) -> str:
    """Return the names in one line, each with the replicas that serve it."""
    replicas = {each.name: ", ".join(one.replica for one in each.upstreams) for each in names}
    return ", ".join(f"{name} ({own})" for name, own in replicas.items())
