"""The engine's image as a Spark's Docker has it."""

from typing import ClassVar

from sparkwright.common.part import Bounded, Part


class EngineImage(Bounded):
    """An image.

    Attributes:
        id: In Docker's store.
        size: Bytes, about.
        content: Hash of its layers and of the configuration that its containers take over.
    """

    id: str
    size: int
    content: str


class ImageState(Part):
    """The image that has one of the names that were asked for; None without one.

    Attributes:
        fault: Why Docker does not answer; "" if it does.
    """

    part: ClassVar = "image"

    image: EngineImage | None
    fault: str
