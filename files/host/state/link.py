"""A Spark's key and certificate, by which the other Spark of its pair authenticates it."""

import os
from typing import Any

from host.state.readers import run


def read(root: str) -> dict[str, Any]:
    """Return the state of key and certificate, and the certificate in PEM where they are fit."""
    key, certificate = f"{root}/secrets/link.key", f"{root}/link/own.crt"
    for path in (key, certificate):
        try:
            with open(path, "rb") as file:
                file.read(1)
        except FileNotFoundError:
            return {"state": "absent"}
        except OSError as error:
            return {"state": "unreadable", "detail": f"{path}: {error.strerror}"}
    pem = _openssl("x509", "-in", certificate)
    public = _openssl("pkey", "-in", key, "-passin", "pass:", "-pubout")
    found = os.stat(key)
    is_safe = found.st_uid == os.geteuid() and found.st_mode & 0o7777 == 0o600
    if is_safe and public and public == _openssl("x509", "-in", certificate, "-noout", "-pubkey"):
        return {"state": "fit", "certificate": pem}
    return {"state": "unfit"}


def _openssl(*words: str) -> str:
    done = run("openssl", *words)
    return done.stdout if done.returncode == 0 else ""
