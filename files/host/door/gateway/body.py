"""Requests: a bound on the bytes of those in flight, and the model that a body asks."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

# Bytes of all requests in flight, and of those of one key.
ALL, EACH = 128 << 20, 32 << 20
# Values of a body, about: these take a tenth of a second, while nobody else is served. A prompt of
# token ids that fills a context of 262,144 tokens has as many.
VALUES = 300_000
# Characters of a model's name that are said back.
_NAME = 256


class RefusedRequest(Exception):
    """A request that no replica gets, or that none answers."""

    def __init__(self, why: str, status: int = 400, field: str | None = None) -> None:
        super().__init__(why)
        self.status, self.field = status, field


class Intake:
    """The bytes of requests in flight, by the name of their key."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()

    @contextmanager
    def taken(self, name: str, size: int) -> Iterator[None]:
        """Count so many bytes of a key while the request is in flight, if there is room."""
        if self._held[name] + size > EACH:
            why = "Too many bytes of this key's requests are in flight: wait for answers."
            raise RefusedRequest(why, 429)
        if self._held.total() + size > ALL:
            raise RefusedRequest("Too many bytes of requests are in flight.", 503)
        self._held[name] += size
        try:
            yield
        finally:
            self._held[name] -= size


def parsed(body: bytes) -> tuple[str, dict[str, Any]]:
    """Return the model that a body names, and its fields but for those that are null."""
    try:
        text = body.decode()
        bare = text.replace(r"\\", "").replace(r"\"", "")
        # Each value has two quotes at most, and its key two.
        many = bare.count('"') > 4 * VALUES
        outside = "" if many else "".join(bare.split('"')[::2])
        if many or sum(map(outside.count, ",[{")) > VALUES:
            raise RefusedRequest(f"found more than {VALUES} values; expected {VALUES} at most")
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise RefusedRequest("the body is no JSON object")
    name = found.get("model")
    if not isinstance(name, str):
        raise RefusedRequest("model: expected the name of a model", field="model")
    return name[:_NAME], {key: value for key, value in found.items() if value is not None}


def rewritten(fields: Mapping[str, Any]) -> bytes:
    """Return a body as a replica gets it."""
    try:
        return json.dumps(fields, allow_nan=False, ensure_ascii=False).encode()
    except ValueError:
        # JSON has no words for a number without end, or half a character.
        raise RefusedRequest("the body is no JSON object") from None
