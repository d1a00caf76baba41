"""Containers with the GPU in them: what DGX OS ships, completed where something is missing."""

import shlex
from collections.abc import Generator, Iterator, Mapping, Sequence
from io import StringIO
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
from sparkwright.machine.host.operations.files import unit_state
from sparkwright.machine.host.operations.packages import install
from sparkwright.machine.runtime.runtime import (
    ContainerRuntime,
    GpuProof,
    has_nvidia_runtime,
    merged,
    new_record,
    proxies,
    refusal,
)
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
    yield _ask_runtime(own)
    yield GpuProof.ask(root=own.root)


def _ask_runtime(own: Target) -> Ask[ContainerRuntime]:
    """Return the ask for the container runtime; apt may know the toolkit's repository already."""
    repository = own.settings.toolkit_repository.url.split("/$(ARCH)")[0]
    return ContainerRuntime.ask(root=own.root, repository=repository)


@deploy("Container runtime")
def apply() -> None:
    """Have the NVIDIA container toolkit, Docker that uses it, and a container with the GPU.

    `--data docker=restart` lets Docker end containers, for settings that take its start.
    """
    # The GPU is tried as the user of an engine.
    users()
    docker(name="Docker with the NVIDIA runtime")
    gpu_in_container(name="GPU in a container")


@operation()
def docker() -> Generator[PyinfraCommand]:
    """Run Docker with NVIDIA's runtime, bounded logs and the proxy; keep every other setting.

    The container toolkit is installed if it is missing; DGX OS ships one. A reload makes the
    runtime known. Log options and the proxy take effect only when Docker starts: while containers
    run, they wait for its next start. Engines use neither; a pull that fails meanwhile says so.
    """
    own, ask = target(), _ask_runtime(target())
    proxy, log_options = own.settings.proxy_variables, dict(own.settings.docker_log_options)
    restart = own.options.docker == "restart"
    state = read(host, ask)
    found = state.daemon_json
    service = unit_state("docker.service", [DAEMON_JSON])
    try:
        wanted = merged(found, log_options, proxies(proxy), state.proxies)
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
        differs(DAEMON_JSON, f"log-opts that hold {log_options}{by}", "others")
    if not registered:
        differs(DAEMON_JSON, "a runtime nvidia", "none of that name")
    unit_differs(
        "docker.service", active=service.active, enabled=service.enabled, outdated=service.outdated
    )
    late = wanted != found or service.outdated
    if service.active and late and state.containers and not restart:
        notice(
            f"Docker is not restarted, which would end {', '.join(state.containers)}. What it reads"
            f" only at a start ({DAEMON_JSON}: the proxy, the bounds for logs of new containers) "
            "comes into force with its next one, or now by --data docker=restart"
        )
    record = new_record(found, wanted, state.proxies)
    changes = [
        *(() if wanted == found and registered else [keep_previous(own.root)]),
        *([_append(own.root, "docker-proxies", [record])] if record else ()),
        *(() if wanted == found else _put_daemon_json(wanted)),
        *(() if registered else [StringCommand(_REGISTER)]),
        *(() if service.enabled else [StringCommand("systemctl enable --quiet docker.service")]),
    ]
    if not state.toolkit:
        yield from _install_toolkit(known=state.repository or own.bundle is not None)
    yield from changes
    if changes or not state.toolkit:
        # A container may have been started meanwhile; it must not be ended.
        state = read(host, ask)
    if not service.active:
        how = "start"
    elif late and (restart or not state.containers):
        how = "restart"
    else:
        # Runtimes take effect by a reload, log options and proxies only by a start.
        how = "" if "nvidia" in state.runtimes else "reload"
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


def _install_toolkit(*, known: bool) -> Generator[PyinfraCommand]:
    """Install the toolkit from its repository, which is added unless apt knows it already."""
    settings = target().settings
    repository = settings.toolkit_repository
    if not known:
        text = f"Types: deb\nURIs: {repository.url}\nSuites: /\nSigned-By: {TOOLKIT_KEYRING}\n"
        yield StringCommand(_trust_key(repository, settings.proxy_variables))
        yield from files.put._inner(
            src=StringIO(text), dest=TOOLKIT_SOURCES, mode="644", create_remote_dir=False
        )
    yield install("nvidia-container-toolkit", new_source=not known)


def _trust_key(repository: AptRepository, proxy: Mapping[str, str]) -> str:
    """Return a command that trusts a repository's key if it has the expected fingerprint."""
    url, fingerprint = repository.key_url, repository.fingerprint
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
def gpu_in_container() -> Generator[PyinfraCommand]:
    """Prove that a container gets the GPU, once for each driver, toolkit, Docker and kernel."""
    root = target().root
    proof = read(host, GpuProof.ask(root=root))
    if proof.holds:
        host.noop("a container gets the GPU: proved with this driver, toolkit, Docker and kernel")
        return
    now, proved = (", ".join(each[:-1]) or "not proved" for each in (proof.now, proof.proved))
    differs("GPU in a container", f"proved with {now}", proved)
    yield FunctionCommand(_prove, (root,), {})


def _prove(state: State, host: Host, root: str) -> bool:
    command = StringCommand("python3 -", FIRST_USER, *map(QuoteString, CONTAINER_OPTIONS))
    done, output = run_now(host, command, _stdin=_PROOF.read_text("utf-8"))
    if not done:
        host.log_styled(plain_lines(refusal(output.stderr)), fg="red", log_func=logger.error)
        return False
    # Read anew: this run may have installed the toolkit, or started Docker.
    proof = read(host, GpuProof.ask(root=root))
    kept, _ = run_now(host, _append(root, "gpu", proof.now, ">"))
    host.log(plain(f"a container gets {output.stdout.strip()}"))
    return kept
