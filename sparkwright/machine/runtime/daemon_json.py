"""Docker's daemon.json: our settings merged into it, and how Docker takes them up."""

import json
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from sparkwright.common.part import read_json
from sparkwright.common.placed import DAEMON_JSON

# Where Docker reads each of the variables of a proxy.
_PROXIES = {"http_proxy": "http-proxy", "https_proxy": "https-proxy", "no_proxy": "no-proxy"}


def proxies(variables: Mapping[str, str]) -> dict[str, str]:
    """Return Docker's `proxies` for the variables of a proxy."""
    return {_PROXIES[name]: value for name, value in variables.items()}


def merged(
    text: str,
    log_options: dict[str, str],
    proxies: Mapping[str, str] = MappingProxyType({}),
    ours: Collection[str] = (),
) -> str:
    """Return daemon.json with bounded container logs and the proxy, everything else kept.

    A log driver or option that is set already stays, as do `proxies` that no run has set.

    Args:
        text: the file as it is; "" without one.
        ours: all `proxies` that runs have set so far, as `recorded`.

    Raises:
        ValueError: the text is not a JSON object.
    """
    found = _object(text)
    wanted = dict(found)
    if found.get("log-driver", "json-file") in ("json-file", "local"):
        wanted["log-opts"] = log_options | found.get("log-opts", {})
    if recorded(found.get("proxies")) in ours:
        wanted.pop("proxies", None)
    if proxies and "proxies" not in wanted:
        wanted["proxies"] = dict(proxies)
    return text if wanted == found else json.dumps(wanted, indent=4) + "\n"


def recorded(proxies: object) -> str:
    """Return the line by which later runs know Docker's `proxies` as set by a run."""
    return json.dumps(proxies, sort_keys=True)


def new_record(found: str, wanted: str, ours: Collection[str]) -> str | None:
    """Return the record to keep before daemon.json changes; None if its proxies need none."""
    before, after = (_object(text).get("proxies") for text in (found, wanted))
    line = recorded(after)
    return line if after and after != before and line not in ours else None


def has_nvidia_runtime(text: str) -> bool:
    """Tell whether daemon.json registers NVIDIA's container runtime."""
    return "nvidia" in _object(text).get("runtimes", {})


def step(
    *, active: bool, log_options: bool, runtime: bool, containers: Sequence[str], wanted: bool
) -> Literal["start", "restart", "reload", ""]:
    """Return the systemctl command by which Docker takes up its settings; "" for none.

    A restart ends containers. Runtimes take effect by a reload, log options only by a start.

    Args:
        log_options: the file has changed since Docker's start, beyond what a reload takes up.
        runtime: Docker does not know the runtime nvidia yet.
        wanted: Docker may end containers.
    """
    if not active:
        return "start"
    if log_options and (wanted or not containers):
        return "restart"
    return "reload" if runtime else ""


def waits(containers: Sequence[str]) -> str:
    """Return the notice that Docker is not restarted, which would end these containers."""
    return (
        f"Docker is not restarted, which would end {', '.join(containers)}. What it reads only "
        f"at a start ({DAEMON_JSON}: the proxy, the bounds for logs of new containers) comes into "
        "force with its next one, or now by --data docker=restart"
    )


def _object(text: str) -> dict[str, Any]:
    found: Any = read_json(text) if text.strip() else {}
    if not isinstance(found, dict):
        raise ValueError(f"expected a JSON object, found {type(found).__name__}")
    for section in ("log-opts", "runtimes", "proxies"):
        if not isinstance(found.get(section, {}), dict):
            raise ValueError(f"{section}: expected a JSON object")
    return found
