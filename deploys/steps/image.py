"""The engine's image."""

from pyinfra.api import deploy

from deploys.operations.image import image
from deploys.steps.context import lock, release


@deploy("Image")
def apply() -> None:
    """Have the image of the release that the Spark should serve, by digest."""
    served = release()
    if served is None:
        return
    image(
        name="Engine image",
        root=served.root,
        image=served.image,
        size=lock().images[served.recipe.image].size,
    )
