"""The gateway's files: LiteLLM's configuration and key, and the configuration of its door."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import yaml

from sparkwright.door.gateway.gateway import ModelAlias, Upstream, served

# The settings of a profile that OpenAI's API has as well.
_OPENAI = ("temperature", "top_p", "presence_penalty")
# What LiteLLM calls what an engine answers.
_MODES = {"embeddings": "embedding", "scores": "rerank"}
# The backend to which the gateway's door sends requests.
BEHIND = "gateway"
# MiB of a request at most: LiteLLM keeps several copies of what is in flight.
LARGEST = 8
# Files beside the configuration of the door's HAProxy, whose checks know whether a replica serves.
# Requests go to the gateway in any case: its answer says why none does.
DOOR_FILES = {
    "choice.map": "hold no\n",
    "engines.cfg": f"""\
backend engines from door
    server gateway unix@/gateway.sock check inter 2s downinter 500ms fall 3 rise 1
# Nothing waits here.
backend patient from door
backend {BEHIND} from door
    http-request set-header x-sparkwright-client %[var(txn.name)]
    server gateway unix@/gateway.sock
""",
}
# Seconds. Longer than any answer: 82,000 tokens at 25 a second.
_REQUEST_TIMEOUT = 3600


class _Dumper(yaml.SafeDumper):
    """Writes no aliases: people read the file."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def configuration(replicas: Sequence[Upstream], urls: Mapping[str, str]) -> str:
    """Return LiteLLM's configuration, by what `upstreams` and `doors` return; it has no secret."""
    content = {
        "model_list": [
            _model(alias, upstream, urls[upstream.replica])
            for alias in served(replicas)
            for upstream in alias.upstreams
        ],
        "router_settings": {
            # LiteLLM would wait for as long as the door's Retry-After asks.
            "retry_policy": {"ServiceUnavailableErrorRetries": 0},
            "disable_cooldowns": True,
        },
        "litellm_settings": {"telemetry": False, "request_timeout": _REQUEST_TIMEOUT},
        "general_settings": {"disable_spend_logs": True},
    }
    return "# Made by Sparkwright from the inventory; changes here do not last.\n" + yaml.dump(
        content, Dumper=_Dumper, sort_keys=False
    )


def _model(alias: ModelAlias, upstream: Upstream, url: str) -> dict[str, Any]:
    params = {
        "model": f"hosted_vllm/{upstream.names[0]}",
        "api_base": f"{url}/v1",
        "api_key": "os.environ/DOOR_KEY" if upstream.keyed else "none",
        # gateway.py chooses the replica at each try, and retries requests that failed with a
        # status of their own. This is for what only LiteLLM sees: a stream of /v1/messages or
        # /v1/responses that ends before its first token.
        "num_retries": max(1, len(alias.upstreams) - 1),
    }
    info = {"id": f"{upstream.replica}/{alias.name}", "replica": upstream.replica}
    if alias.answers == "chat":
        params |= _chat(alias)
    else:
        info["mode"] = _MODES[alias.answers]
    return {"model_name": alias.name, "litellm_params": params, "model_info": info}


def _chat(alias: ModelAlias) -> dict[str, Any]:
    sampling = alias.sampling.items()
    return {
        # vLLM's /v1/responses takes neither top_k nor chat_template_kwargs.
        "use_chat_completions_api": True,
        **{key: value for key, value in sampling if key in _OPENAI},
        # Anywhere else /v1/responses would lose them.
        "extra_body": {key: value for key, value in sampling if key not in _OPENAI},
    }


def environment(key: str) -> str:
    """Return the gateway's environment file, which holds its own key at the doors."""
    return f"DOOR_KEY={key}\n"


# Where the names of doors can lead: no public address. 100.64.0.0/10 has Tailscale's.
_PRIVATE = (
    *("localhost", "link-local", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"),
    *("100.64.0.0/10", "fc00::/7"),
)


def reachable(urls: Iterable[str]) -> list[str]:
    """Return the addresses that the gateway may exchange packets with, for IPAddressAllow.

    These are the doors' addresses. If a door has a name, which a name server must tell and which
    may change, all private addresses are allowed as well.
    """
    hosts = {str(urlsplit(url).hostname).partition("%")[0] for url in urls}
    addresses = sorted(filter(_is_address, hosts))
    return addresses if len(addresses) == len(hosts) else [*_PRIVATE, *addresses]


def _is_address(host: str) -> bool:
    try:
        return bool(ip_address(host))
    except ValueError:
        return False
