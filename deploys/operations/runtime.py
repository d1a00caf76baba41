"""Docker that runs containers with the GPU in them."""

import shlex
from collections.abc import Generator, Mapping
from io import StringIO

from pyinfra import host
from pyinfra.api import StringCommand, operation
from pyinfra.api.command import PyinfraCommand
from pyinfra.operations import files

from deploys.facts.runtime import DAEMON_JSON, ContainerRuntime, RuntimeState
from deploys.facts.services import Service
from deploys.operations.messages import failing
from deploys.operations.services import install
from deploys.plan.daemon_json import has_nvidia_runtime, merged

_KEYRING = "/etc/apt/keyrings/nvidia-container-toolkit.asc"
_SOURCES = "/etc/apt/sources.list.d/nvidia-container-toolkit.sources"


@operation()
def toolkit(repository: Mapping[str, str]) -> Generator[StringCommand, None, None]:
    """Install the NVIDIA container toolkit where it is missing; keep what DGX OS ships.

    Args:
        repository: `url` of the apt repository (flat, `$(ARCH)` allowed), `key_url` of its signing
            key, and the key's `fingerprint`, which decides whether the key is trusted.
    """
    state = _state(repository)
    if state.toolkit:
        host.noop(f"{state.toolkit} is installed")
        return
    if not state.repository:
        yield StringCommand(_trust_key(repository["key_url"], repository["fingerprint"]))
        yield from files.put._inner(
            src=StringIO(
                f"Types: deb\nURIs: {repository['url']}\nSuites: /\nSigned-By: {_KEYRING}\n"
            ),
            dest=_SOURCES,
            mode="644",
            create_remote_dir=False,
        )
    yield install("nvidia-container-toolkit")


@operation()
def docker(
    repository: Mapping[str, str], log_options: Mapping[str, str]
) -> Generator[PyinfraCommand, None, None]:
    """Run Docker with NVIDIA's runtime and bounded logs; every other setting stays as it is.

    Docker restarts only when its configuration is newer than its start: that ends containers.

    Args:
        repository: as for `toolkit`.
        log_options: Docker's `log-opts` for containers that set none.
    """
    found = _state(repository).daemon_json
    service = host.get_fact(Service, unit="docker.service", files=[DAEMON_JSON])
    try:
        wanted, registered = merged(found, dict(log_options)), has_nvidia_runtime(found)
    except ValueError as error:
        yield failing(f"{DAEMON_JSON} is not what Docker can read: {error}. Mend it by hand.")
        return
    if wanted != found:
        yield from files.put._inner(
            src=StringIO(wanted), dest=DAEMON_JSON, mode="644", create_remote_dir=True
        )
    if not registered:
        yield StringCommand("nvidia-ctk runtime configure --runtime=docker")
    if not service.enabled:
        yield StringCommand("systemctl enable --quiet docker.service")
    if wanted != found or not registered or service.outdated:
        yield StringCommand("dockerd --validate --config-file", DAEMON_JSON)
        yield StringCommand("systemctl restart docker.service")
    elif not service.active:
        yield StringCommand("systemctl start docker.service")


def _state(repository: Mapping[str, str]) -> RuntimeState:
    return host.get_fact(ContainerRuntime, repository=repository["url"].split("/$(ARCH)")[0])


def _trust_key(url: str, fingerprint: str) -> str:
    """Return a command that stores a key as trusted only if it is the one that is expected."""
    return f"""
new=$(mktemp) && trap 'rm -f "$new"' EXIT && curl --fail --silent --show-error --location \
  --output "$new" {shlex.quote(url)} || exit 1
found=$(gpg --batch --quiet --with-colons --show-keys "$new" |
  awk -F: '$1 == "fpr" && last == "pub" {{print $10}} {{last = $1}}')
if [ "$found" != {shlex.quote(fingerprint)} ]; then
  echo "not trusted: the key of {url} has the fingerprint $found, expected {fingerprint}" >&2
  exit 1
fi
install -D --mode=644 "$new" {_KEYRING}"""
