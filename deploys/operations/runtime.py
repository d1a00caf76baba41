"""Docker that runs containers with the GPU in them."""

import shlex
from collections.abc import Generator, Mapping
from io import StringIO

from pyinfra import host
from pyinfra.api import QuoteString, StringCommand, operation
from pyinfra.api.command import PyinfraCommand
from pyinfra.operations import files

from deploys.facts.runtime import ContainerRuntime
from deploys.facts.services import Service
from deploys.operations.differences import differs, unit_differs
from deploys.operations.host_data import settings
from deploys.operations.messages import failing, notice
from deploys.operations.packages import install
from deploys.plan.daemon_json import has_nvidia_runtime, merged, step, waits
from deploys.plan.placed import DAEMON_JSON, TOOLKIT_KEYRING, TOOLKIT_SOURCES
from deploys.plan.settings import Repository

_REGISTER = "nvidia-ctk runtime configure --runtime=docker"
# systemd does not wait for Docker's end of a reload.
_RELOADED = """
for _ in $(seq 30); do
  case $(docker info --format '{{json .Runtimes}}') in *'"nvidia"'*) exit 0 ;; esac
  sleep 1
done
echo "Docker has not taken up the runtime nvidia: see journalctl -u docker" >&2
exit 1"""


@operation()
def docker(
    repository: Repository, log_options: Mapping[str, str], restart: bool = False
) -> Generator[PyinfraCommand, None, None]:
    """Run Docker with NVIDIA's runtime and bounded logs; every other setting stays as it is.

    The container toolkit is installed where it is missing; what DGX OS ships is kept. The runtime
    comes into force by a reload. Log options take a start of Docker, and wait for its next one
    where containers run: engines keep no log there.

    Args:
        repository: `url` of the toolkit's apt repository (flat, `$(ARCH)` allowed), `key_url` of
            its signing key, and the key's `fingerprint`, which decides whether it is trusted.
        log_options: Docker's `log-opts` for containers that set none.
        restart: containers may end for it.
    """
    address = repository.url.split("/$(ARCH)")[0]
    state = host.get_fact(ContainerRuntime, repository=address)
    found = state.daemon_json
    service = host.get_fact(Service, unit="docker.service", files=[DAEMON_JSON])
    try:
        wanted, registered = merged(found, dict(log_options)), has_nvidia_runtime(found)
        # A runtime by an option of dockerd's own would contradict one in the file.
        registered = registered or ("nvidia" in state.runtimes and not service.outdated)
    except ValueError as error:
        yield failing(f"{DAEMON_JSON} is not what Docker can read: {error}. Mend it by hand.")
        return
    if not state.toolkit:
        differs("NVIDIA container toolkit", "installed", "not installed")
    if wanted != found:
        differs(DAEMON_JSON, f"log-opts that hold {dict(log_options)}", "others")
    if not registered:
        differs(DAEMON_JSON, "a runtime nvidia", "none of that name")
    unit_differs(
        "docker.service",
        active=service.active,
        enabled=service.enabled,
        outdated=service.outdated,
    )
    late = wanted != found or service.outdated
    if service.active and late and state.containers and not restart:
        notice(waits(state.containers))
    changes = [
        *(() if wanted == found and registered else [keep_former(settings(host).root)]),
        *(() if wanted == found else put_daemon_json(wanted)),
        *(() if registered else [StringCommand(_REGISTER)]),
        *(() if service.enabled else [StringCommand("systemctl enable --quiet docker.service")]),
    ]
    if not state.toolkit:
        yield from _install_toolkit(repository, known=state.repository)
    yield from changes
    if changes or not state.toolkit:
        # That took its time: whoever started a container meanwhile is not to lose it.
        state = host.get_fact(ContainerRuntime, repository=address)
    how = step(
        active=service.active,
        log_options=late,
        runtime="nvidia" not in state.runtimes,
        containers=state.containers,
        wanted=restart,
    )
    if how:
        yield StringCommand("dockerd --validate --config-file", DAEMON_JSON)
        yield StringCommand(f"systemctl {how} docker.service")
    if how == "reload":
        yield StringCommand(_RELOADED)


def put_daemon_json(text: str) -> Generator[PyinfraCommand, None, None]:
    """Yield what writes Docker's settings in one step: with half of them it would not start."""
    new = f"{DAEMON_JSON}.new"
    yield from files.put._inner(src=StringIO(text), dest=new, mode="644", create_remote_dir=True)
    yield StringCommand("mv -f", new, DAEMON_JSON)


def keep_former(root: str) -> StringCommand:
    """Return the command that keeps daemon.json as it was before our first change; empty if none.

    deploys/remove.py tells by it which keys are ours: half of it would be a lie.

    Args:
        root: the folder of everything on the Spark.
    """
    backups, former = f"{root}/backups", f"{root}/backups/daemon.json"
    new = QuoteString(f"{former}.new")
    return StringCommand(
        *("install -d -m 700", QuoteString(backups), "&& { [ -e", QuoteString(former), "] ||"),
        *("{ if [ -e", DAEMON_JSON, "]; then cat", DAEMON_JSON, "; fi >", new),
        *("&& mv", new, QuoteString(former), "; }; }"),
    )


def _install_toolkit(repository: Repository, *, known: bool) -> Generator[PyinfraCommand]:
    """Install the toolkit from its repository; `known` says that apt has that already."""
    if not known:
        yield StringCommand(_trust_key(repository.key_url, repository.fingerprint))
        yield from files.put._inner(
            src=StringIO(
                f"Types: deb\nURIs: {repository.url}\nSuites: /\nSigned-By: {TOOLKIT_KEYRING}\n"
            ),
            dest=TOOLKIT_SOURCES,
            mode="644",
            create_remote_dir=False,
        )
    yield install("nvidia-container-toolkit", new_source=not known)


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
install -D --mode=644 "$new" {TOOLKIT_KEYRING}"""
