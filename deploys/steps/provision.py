"""All that an engine's start needs on a Spark, but what may disturb one that serves."""

from deploys.steps import (
    door,
    hf_auth,
    hf_tools,
    host,
    image,
    layout,
    link,
    node_exporter,
    weights,
)


def apply() -> None:
    """Call the steps in their order; pyinfra orders operations by the line of each call."""
    host.apply()
    layout.apply()
    link.apply()
    hf_tools.apply()
    hf_auth.apply()
    weights.apply()
    image.apply()
    door.apply()
    node_exporter.apply()
