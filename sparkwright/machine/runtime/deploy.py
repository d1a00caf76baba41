"""Containers with the GPU in them: what DGX OS ships, completed where something is missing."""

import shlex
from collections.abc import Generator, Iterator, Mapping, Sequence
from io import StringIO
from types import MappingProxyType
from typing import Any

from pyinfra import host, logger
from pyinfra.api import FunctionCommand, Host, QuoteString, State, StringCommand, deploy, operation
from pyinfra.api.command import PyinfraCommand
from pyinfra.operations import files

from sparkwright.common.operations import differs, failing, notice, run_now, unit_differs
from sparkwright.common.part import Ask
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.placed import DAEMON_JSON, FIRST_USER, TOOLKIT_KEYRING, TOOLKIT_SOURCES
from sparkwright.common.terminal import plain, plain_lines
from sparkwright.declared.fleet.settings import AptRepository
from sparkwright.machine.host.deploy import users
from sparkwright.machine.host.facts import unit_state
from sparkwright.machine.host.operations.packages import install
from sparkwright.machine.runtime.daemon_json import (
    has_nvidia_runtime,
    merged,
    new_record,
    proxies,
    step,
    waits,
)
from sparkwright.machine.runtime.gpu_obstacles import refusal
from sparkwright.machine.runtime.state import ContainerRuntime, GpuProof
from sparkwright.plan.release.container import CONTAINER_OPTIONS
from sparkwright.run.state import read
from sparkwright.run.target import Target, target

_PROOF = HOST_FILES / "machine" / "runtime" / "gpu_proof.py"
_REGISTER = "nvidia-ctk runtime configure --runtime=docker"
# systemd does not wait for Docker's end of a reload.
_RELOADED = """
for _ in $(seq 30); do
  case $(docker info --format '{{json .Runtimes}}') in *'"nvidia"'*) exit 0 ;; esac
  sleep 1
done
echo "Docker has not taken up the runtime nvidia: see journalctl -u docker" >&2
exit 1"""


def reads(own: Target) -> Iterator[Ask[Any]]:
    """Yield what these steps ask of a Spark."""
    yield ask_runtime(own.root, own.settings.toolkit_repository)
    yield GpuProof.ask(root=own.root)


def ask_runtime(root: str, repository: AptRepository) -> Ask[ContainerRuntime]:
    """Return the ask for the container runtime; apt may know the repository already."""
    return ContainerRuntime.ask(root=root, repository=repository.url.split("/$(ARCH)")[0])


@deploy("Container runtime")
def apply() -> None:
    """Have the NVIDIA container toolkit, Docker that uses it, and a container with the GPU.

    `--data docker=restart` lets Docker end containers, for settings that take its start.
    """
    own = target()
    # The GPU is tried as the user of an engine.
    users()
    docker(
        name="Docker with the NVIDIA runtime",
        root=own.root,
        repository=own.settings.toolkit_repository,
        log_options=own.settings.docker_log_options,
        restart=own.options.docker == "restart",
        proxy=own.settings.proxy_variables,
    )
    gpu_in_container(name="GPU in a container", root=own.root, program=_PROOF.read_text("utf-8"))


@operation()
def docker(
    root: str,
    repository: AptRepository,
    log_options: Mapping[str, str],
    restart: bool = False,
    proxy: Mapping[str, str] = MappingProxyType({}),
) -> Generator[PyinfraCommand]:
    """Run Docker with NVIDIA's runtime, bounded logs and the proxy; keep every other setting.

    The container toolkit is installed if it is missing; DGX OS ships one. A reload makes the
    runtime known. Log options and the proxy take effect only when Docker starts: while containers
    run, they wait for its next start. Engines use neither; a pull that fails meanwhile says so.

    Args:
        log_options: Docker's `log-opts` for containers that set none.
        restart: Docker may be restarted, which ends containers.
        proxy: the variables of the proxy by which Docker is to reach registries; empty for none.
    """
    ask = ask_runtime(root, repository)
    state = read(host, ask)
    found = state.daemon_json
    service = unit_state("docker.service", [DAEMON_JSON])
    try:
        wanted = merged(found, dict(log_options), proxies(proxy), state.proxies)
        registered = has_nvidia_runtime(found)
        # A runtime by an option of dockerd's own would contradict one in the file.
        registered = registered or ("nvidia" in state.runtimes and not service.outdated)
    except ValueError as error:
        yield failing(f"{DAEMON_JSON} is invalid: {error}. Correct it by hand.")
        return
    if not state.toolkit:
        differs("NVIDIA container toolkit", "installed", "not installed")
    if wanted != found:
        by = f", and proxies by {proxy['http_proxy']}" if proxy else ""
        differs(DAEMON_JSON, f"log-opts that hold {dict(log_options)}{by}", "others")
    if not registered:
        differs(DAEMON_JSON, "a runtime nvidia", "none of that name")
    is_running, is_old = service.active, service.outdated
    unit_differs("docker.service", active=is_running, enabled=service.enabled, outdated=is_old)
    late = wanted != found or service.outdated
    if service.active and late and state.containers and not restart:
        notice(waits(state.containers))
    record = new_record(found, wanted, state.proxies)
    changes = [
        *(() if wanted == found and registered else [keep_previous(root)]),
        *([_append(root, "docker-proxies", [record])] if record else ()),
        *(() if wanted == found else _put_daemon_json(wanted)),
        *(() if registered else [StringCommand(_REGISTER)]),
        *(() if service.enabled else [StringCommand("systemctl enable --quiet docker.service")]),
    ]
    if not state.toolkit:
        yield from _install_toolkit(repository, known=state.repository, proxy=proxy)
    yield from changes
    if changes or not state.toolkit:
        # A container may have been started meanwhile; it must not be ended.
        state = read(host, ask)
    how = step(
        active=is_running,
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


def _append(folder: str, name: str, lines: Sequence[str], how: str = ">>") -> StringCommand:
    """Return the command that adds lines to a file of the Spark's state."""
    state, file = QuoteString(f"{folder}/state"), QuoteString(f"{folder}/state/{name}")
    words = map(QuoteString, lines)
    return StringCommand("mkdir -p", state, "&& printf '%s\\n'", *words, how, file)


def _put_daemon_json(text: str) -> Generator[PyinfraCommand]:
    """Yield the commands that replace daemon.json in one step: half of it would stop Docker."""
    new = f"{DAEMON_JSON}.new"
    yield from files.put._inner(src=StringIO(text), dest=new, mode="644", create_remote_dir=True)
    yield StringCommand("mv -f", new, DAEMON_JSON)


def keep_previous(root: str) -> StringCommand:
    """Return the command that backs up daemon.json before our first change; empty without one.

    A removal learns from it which keys are ours, so it is written in one step.
    """
    backups, previous = f"{root}/backups", f"{root}/backups/daemon.json"
    new = QuoteString(f"{previous}.new")
    return StringCommand(
        *("install -d -m 700", QuoteString(backups), "&& { [ -e", QuoteString(previous), "] ||"),
        *("{ if [ -e", DAEMON_JSON, "]; then cat", DAEMON_JSON, "; fi >", new),
        *("&& mv", new, QuoteString(previous), "; }; }"),
    )


def _install_toolkit(
    repository: AptRepository, *, known: bool, proxy: Mapping[str, str]
) -> Generator[PyinfraCommand]:
    """Install the toolkit from its repository, which is added unless apt knows it already."""
    known = known or target().bundle is not None
    if not known:
        text = f"Types: deb\nURIs: {repository.url}\nSuites: /\nSigned-By: {TOOLKIT_KEYRING}\n"
        yield StringCommand(_trust_key(repository.key_url, repository.fingerprint, proxy))
        yield from files.put._inner(
            src=StringIO(text), dest=TOOLKIT_SOURCES, mode="644", create_remote_dir=False
        )
    yield install("nvidia-container-toolkit", new_source=not known)


def _trust_key(url: str, fingerprint: str, proxy: Mapping[str, str]) -> str:
    """Return a command that trusts the key at a URL if it has the expected fingerprint."""
    variables = "".join(f"export {key}={shlex.quote(value)}\n" for key, value in proxy.items())
    return f"""
{variables}new=$(mktemp) && export GNUPGHOME=$(mktemp -d) || exit 1
trap 'rm -rf "$new" "$GNUPGHOME"' EXIT
curl --fail --silent --show-error --location --output "$new" {shlex.quote(url)} || exit 1
found=$(gpg --batch --quiet --with-colons --show-keys "$new" |
  awk -F: '$1 == "fpr" && last == "pub" {{print $10}} {{last = $1}}')
if [ "$found" != {shlex.quote(fingerprint)} ]; then
  echo "not trusted: the key of {url} has the fingerprint $found, expected {fingerprint}" >&2
  exit 1
fi
install -D --mode=644 "$new" {TOOLKIT_KEYRING}"""


@operation()
def gpu_in_container(root: str, program: str) -> Generator[PyinfraCommand]:
    """Prove that a container gets the GPU, once for each driver, toolkit, Docker and kernel."""
    proof = read(host, GpuProof.ask(root=root))
    if proof.holds:
        host.noop("a container gets the GPU: proved with this driver, toolkit, Docker and kernel")
        return
    differs("GPU in a container", f"proved with {_words(proof.now)}", _words(proof.proved))
    yield FunctionCommand(_prove, (root, program), {})


def _words(proved: tuple[str, ...]) -> str:
    return ", ".join(proved[:-1]) or "not proved"


def _prove(state: State, host: Host, root: str, program: str) -> bool:
    command = StringCommand("python3 -", FIRST_USER, *map(QuoteString, CONTAINER_OPTIONS))
    done, output = run_now(host, command, _stdin=program)
    if not done:
        host.log_styled(plain_lines(refusal(output.stderr)), fg="red", log_func=logger.error)
        return False
    # Read anew: this run may have installed the toolkit, or started Docker.
    proof = read(host, GpuProof.ask(root=root))
    kept, _ = run_now(host, _append(root, "gpu", proof.now, ">"))
    host.log(plain(f"a container gets {output.stdout.strip()}"))
    return kept
