"""How an operation says no: a command that fails, so that only its own host drops out."""

from pyinfra.api import QuoteString, StringCommand


def failing(message: str) -> StringCommand:
    """Return a command that prints `message` as its error and exits with status 1.

    Raising inside an operation would end the run for every host, and `--dry` would show nothing.
    """
    return StringCommand("printf '%s\\n'", QuoteString(message), ">&2; exit 1")
