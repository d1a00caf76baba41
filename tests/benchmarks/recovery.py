"""How long two Sparks take to serve again, whatever befalls them."""

from tests.e2e.events import EVENTS, MIRRORED, plain_start, recovery
from tests.e2e.pairs import Pair


def recovery_table(pair: Pair) -> None:
    """Print each event's seconds and their ratio to a plain start.

    Args:
        pair: two Sparks that serve.
    """
    start = plain_start(pair)
    print("\nUntil a pair serves again (detection, then the start of both engines)")
    print(f"  {start:5.0f} s         a plain start of both engines")
    for name, (event, _) in (EVENTS | MIRRORED).items():
        seconds = recovery(pair, event)
        print(f"  {seconds:5.0f} s  {seconds / start:4.1f} x  {name}", flush=True)
