"""Secrets go to a host by stdin only: not by arguments, environment, diffs or temporary files."""

from collections.abc import Generator, Mapping
from types import MappingProxyType

from pyinfra import host
from pyinfra.api import HiddenValue, QuoteString, StringCommand, operation

from sparkwright.common.files import ABSENT, secret_difference
from sparkwright.common.operations import differs, failing, notice
from sparkwright.machine.host.facts import path_states


@operation()
def secret_file(
    path: str, content: HiddenValue | None, proof: StringCommand | None = None
) -> Generator[StringCommand]:
    """Have a file of mode 0600 that root owns, with this content, or with None no file.

    Args:
        path: in a folder that only root can enter.
        content: ends with a newline, which pyinfra would add. Hidden, as pyinfra prints the
            arguments of an operation without a name.
        proof: a command that fails where the content at `path`.new is no good.
    """
    found = path_states([path]).get(path, ABSENT)
    text = content.unmask() if content else None
    if (difference := secret_difference(path, text, found)) is None:
        host.noop(f"{path} is current")
        return
    if found.kind not in ("file", "absent"):
        yield failing(f"{path} is no file ({found.kind}) {found.detail}: move it away.")
        return
    differs(*difference)
    new = QuoteString(f"{path}.new")
    if text is None:
        yield StringCommand("rm -f", QuoteString(path), new)
        return
    proved = ["&& { (", proof, ") || { rm -f", new, "; exit 1; }; }"] if proof else []
    # An old .new would keep its own mode.
    put = ("umask 077 && rm -f", new, "&& cat >", new)
    yield StringCommand(*put, *proved, "&& mv -f", new, QuoteString(path), _stdin=text)


@operation()
def hub_token(
    root: str,
    endpoint: str,
    token: HiddenValue | None,
    keep: bool = True,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Generator[StringCommand]:
    """Have the Hugging Face token on the host, proved by the hub's whoami from there.

    A token that the hub refuses fails the host, and the previous one stays. Without one, downloads
    are anonymous, unless the host has a token already, and it is to keep it.

    Args:
        variables: the environment of what asks the hub, such as the proxy's.
    """
    path = f"{root}/secrets/hf-token"
    if token is None:
        found = path_states([path]).get(path, ABSENT)
        if found.kind == "absent" or not keep:
            notice("No Hugging Face token: downloads are anonymous, and limited in rate.")
        if found.kind != "absent" and not keep:
            yield from secret_file._inner(path=path, content=None)
            return
        host.noop(f"no new token for {path}")
        return
    text = token.unmask().strip()
    proof = StringCommand(
        # A token of the host's own would win over the file. A hub may answer without end.
        "timeout 120 env -u HF_TOKEN -u HUGGING_FACE_HUB_TOKEN",
        StringCommand("HF_ENDPOINT=", QuoteString(endpoint), _separator=""),
        StringCommand("HF_TOKEN_PATH=", QuoteString(f"{path}.new"), _separator=""),
        "HF_HUB_DISABLE_TELEMETRY=1 HF_HUB_DISABLE_UPDATE_CHECK=1",
        *(QuoteString(f"{name}={value}") for name, value in variables.items()),
        QuoteString(f"{root}/hf/bin/python"),
        "-B",
        QuoteString(f"{root}/bin/sparkwright-host"),
        "check-token",
    )
    yield from secret_file._inner(path=path, content=HiddenValue(f"{text}\n"), proof=proof)
