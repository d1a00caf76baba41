"""The engine's image as a Spark's Docker has it."""

from typing import ClassVar

from sparkwright.common.part import Bounded, Part


class EngineImage(Bounded):
    """An image: its id in Docker's store, its bytes (about), and a hash of its content."""

    id: str
    size: int
    content: str


class ImageState(Part):
    """The image with one of the names that were asked for, if any; and why Docker is silent."""

    part: ClassVar = "docker.image"

    image: EngineImage | None
    fault: str
