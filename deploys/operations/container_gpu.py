"""A container gets the GPU: proved before anything large is fetched for it."""

from collections.abc import Generator

from paramiko import SSHException
from pyinfra import host, logger
from pyinfra.api import FunctionCommand, Host, QuoteString, State, StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from deploys.facts.runtime import GpuProof
from deploys.operations.differences import differs
from deploys.operations.shell import run_now
from deploys.plan.container import CONTAINER_OPTIONS
from deploys.plan.container_gpu import Proof
from deploys.plan.gpu_obstacles import refusal
from deploys.plan.terminal import plain, plain_lines

_LOST = "No more word from the Spark, while a container was to show the GPU."


@operation()
def gpu_in_container(root: str, program: str) -> Generator[PyinfraCommand]:
    """Have it proved that a container gets the GPU, with this driver, toolkit, Docker and kernel.

    Args:
        root: the folder of everything on the Spark.
        program: the text of files/runtime/gpu_proof.py.
    """
    proof = host.get_fact(GpuProof, root=root)
    if proof.holds:
        host.noop("a container gets the GPU: proved with this driver, toolkit, Docker and kernel")
        return
    differs("GPU in a container", f"proved with {_words(proof.now)}", _words(proof.proved))
    yield FunctionCommand(_prove, (root, program), {})


def _words(proved: tuple[str, ...]) -> str:
    return ", ".join(proved[:-1]) or "not proved"


def _prove(state: State, host: Host, root: str, program: str) -> bool:
    try:
        shown = StringCommand("python3 -", *map(QuoteString, CONTAINER_OPTIONS))
        done, output = run_now(host, shown, _stdin=program)
        if not done:
            host.log_styled(plain_lines(refusal(output.stderr)), fg="red", log_func=logger.error)
            return False
        # What Docker is by now: it may have been started, and the toolkit installed, in this run.
        proof: Proof = host.get_fact(GpuProof, root=root)
        kept, _ = run_now(host, _keep(root, proof))
    except (OSError, EOFError, SSHException):
        host.log_styled(_LOST, fg="red", log_func=logger.error)
        return False
    host.log(plain(f"a container gets {output.stdout.strip()}"))
    return kept


def _keep(root: str, proof: Proof) -> StringCommand:
    folder, file = QuoteString(f"{root}/state"), QuoteString(f"{root}/state/gpu")
    lines = map(QuoteString, proof.now)
    return StringCommand("mkdir -p", folder, "&& printf '%s\\n'", *lines, ">", file)
