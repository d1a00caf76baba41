"""Docker and its daemon.json, and whether containers get the GPU, or why they do not."""

import json
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from sparkwright.common.part import Part, read_json
from sparkwright.plan.causes.log_causes import Journal, KnownCause, table
from sparkwright.plan.release.container import CONTAINER_OPTIONS

# Where Docker reads each of the variables of a proxy.
_PROXIES = {"http_proxy": "http-proxy", "https_proxy": "https-proxy", "no_proxy": "no-proxy"}


class ContainerRuntime(Part):
    """Docker, NVIDIA's container toolkit, and whether a package source for it is already there.

    Attributes:
        toolkit: version of `nvidia-ctk`.
        runtimes: of Docker; none where it does not run.
        containers: names of the running ones.
        daemon_json: its text; "" without one.
        proxies: the values that runs have set there so far, as `recorded`.
    """

    part: ClassVar = "machine.runtime"
    patience: ClassVar = 60

    toolkit: str | None
    repository: bool
    runtimes: tuple[str, ...]
    containers: tuple[str, ...]
    daemon_json: str
    proxies: tuple[str, ...]


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


def _object(text: str) -> dict[str, Any]:
    found: Any = read_json(text) if text.strip() else {}
    if not isinstance(found, dict):
        raise ValueError(f"expected a JSON object, found {type(found).__name__}")
    for section in ("log-opts", "runtimes", "proxies"):
        if not isinstance(found.get(section, {}), dict):
            raise ValueError(f"{section}: expected a JSON object")
    return found


class GpuProof(Part):
    """Versions of driver, toolkit, Docker and kernel, and what was proved to get the GPU."""

    part: ClassVar = "machine.gpu_proof"

    versions: tuple[str, ...]
    proved: tuple[str, ...]

    @property
    def now(self) -> tuple[str, ...]:
        """The versions, and the options of the container."""
        return (*self.versions, " ".join(CONTAINER_OPTIONS))

    @property
    def holds(self) -> bool:
        """Tell whether nothing has changed since the proof."""
        return self.now == self.proved


def obstacle(output: str) -> KnownCause | None:
    """Return the cause of an error of nvidia-smi, Docker or CUDA; None for an unknown one."""
    journal = Journal(output.splitlines())
    known = (*table("gpu_proof"), *table("platform"))
    return next((each for each in known if each.evidence(journal)), None)


def refusal(output: str) -> str:
    """Return the message that a container gets no GPU."""
    words = " ".join(output.split())
    known = obstacle(output)
    if known is None:
        return f"no container gets the GPU: {words}. `nvidia-smi` and `docker info` may tell more"
    return f"no container gets the GPU. {known.cause}. {known.remedy}. It was said: {words}"
