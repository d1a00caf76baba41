"""The share: what the head of a pair lends to its worker, and where."""

from collections.abc import Mapping

from deploys.plan.fabric import FabricPlan
from deploys.plan.ports import SHARE_PORT


def share_url(address: str) -> str:
    """Return where a Spark lends files.

    Args:
        address: its address on the fabric's first subnet.
    """
    return f"http://{address}:{SHARE_PORT}"


def share_texts(templates: Mapping[str, str], root: str, plan: FabricPlan) -> dict[str, str]:
    """Fill in the units of the share: name -> text.

    Args:
        templates: the units as they are in `files/share`.
        plan: the fabric as the lending Spark has it.
    """
    values = {
        "ROOT": root,
        "ADDRESS": plan.addresses[0],
        "PORT": str(SHARE_PORT),
        "CLIENTS": " ".join(plan.peer_addresses),
    }
    texts = dict(templates)
    for name in texts:
        for word, value in values.items():
            texts[name] = texts[name].replace(word, value)
    return texts
