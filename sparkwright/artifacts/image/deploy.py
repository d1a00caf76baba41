"""The deploy of the engine's image."""

from collections.abc import Iterator
from typing import Any

from pyinfra.api import deploy

from sparkwright.artifacts.image.operations import (
    ask_image,
    built_image,
    bundled_image,
    copied_image,
    image,
    offered_image,
)
from sparkwright.common.part import Ask
from sparkwright.declared.recipe.build import build_files
from sparkwright.declared.recipe.values import ImageBuild
from sparkwright.plan.release.lock import image_key
from sparkwright.plan.release.registry_login import mirrored
from sparkwright.plan.release.release import repository
from sparkwright.run.target import Target, seats


def reads(own: Target) -> Iterator[Ask[Any]]:
    """Yield what these steps, and those of the other Spark of a pair, ask of a Spark."""
    yield from (ask_image(seat.release.images) for seat in own.seats if seat.release)


@deploy("Image")
def apply() -> None:
    """Get the image of the release that the Spark should serve.

    The head of a pair pulls or builds it, and offers it to its worker over the fabric.
    """
    for own in seats():
        _image(own)


def _image(own: Target) -> None:
    served = own.release
    if served is None:
        return
    plan, other, head = own.fabric, own.peer, own.is_head
    mirrors, proxy = own.settings.registry_mirrors, own.settings.proxy
    locked, build = own.lock.images[image_key(served.recipe)], served.recipe.build
    if head and own.bundle:
        bundled_image(
            name="Engine image from the bundle",
            root=served.root,
            references=served.images,
            key=image_key(served.recipe),
            bundle=own.bundle,
        )
    elif head and build:
        built_image(
            name="Engine image, built",
            root=served.root,
            references=served.images,
            base=mirrored(f"{repository(build.base)}@{locked.digest}", mirrors),
            size=locked.size,
            recipe={
                "args": build.args if isinstance(build, ImageBuild) else {},
                "files": build_files(build),
            },
            proxy=proxy,
        )
    elif head:
        image(
            name="Engine image",
            root=served.root,
            references=served.images,
            size=locked.size,
            source=mirrored(served.images[0], mirrors),
            proxy=proxy,
        )
    if plan is None or other is None:
        return
    if head:
        offered_image(
            name="Engine image for the worker",
            root=served.root,
            references=served.images,
            peer=other,
        )
    # On both Sparks, as an operation of the worker alone would not wait for the head's.
    copied_image(
        name="Engine image from the head",
        root=served.root,
        references=() if head else served.images,
        address=plan.peer_addresses[0],
        head=other,
    )
