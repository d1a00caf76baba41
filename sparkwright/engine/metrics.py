"""Questions to an engine, by curl."""

import shlex

from sparkwright.common.placed import SOCKET


def ask(folder: str, path: str, options: str, root: str = "") -> str:
    """Return the shell command that asks an engine by curl.

    The path of its socket may be too long for an address: curl runs in the socket's folder.
    """
    asked = f'cd "$0" && exec curl --unix-socket {SOCKET} "$@"'
    return f"{root} sh -c {shlex.quote(asked)} {folder} {options} http://localhost{path}".lstrip()
