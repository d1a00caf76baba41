"""How long two Sparks take to serve again, whatever befalls them."""

from tests.driver.events import EVENTS, plain_start, recovery
from tests.driver.pairs import Pair


def recovery_table(pair: Pair) -> None:
    """Print each event's seconds and their ratio to a plain start.

    Args:
        pair: two Sparks that serve.
    """
    start = plain_start(pair)
    print("\nUntil a pair serves again (detection, then the start of both engines)")
    print(f"  {start:5.0f} s         a plain start of both engines")
    for name, event in EVENTS.items():
        seconds = recovery(pair, event.strike)
        print(f"  {seconds:5.0f} s  {seconds / start:4.1f} x  {name}", flush=True)
