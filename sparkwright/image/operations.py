"""Have an image: from its registry, built here, or from the other Spark of a pair."""

import json
from collections.abc import Generator, Iterable, Mapping, Sequence

from pyinfra import host
from pyinfra.api import Host, QuoteString, StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.common.operations import differs, failing
from sparkwright.jobs.facts import ImageContent, ImageId, ImageState, JobState
from sparkwright.jobs.operations import follow, put_manifest, reason, start

COPY = "image-copy"


@operation()
def image(root: str, references: Sequence[str], size: int) -> Generator[PyinfraCommand]:
    """Have Docker hold an image; a unit on the Spark pulls it, and goes on without a connection.

    Args:
        references: all names by which Docker may know it; first `repository@sha256:…`.
        size: compressed bytes of its layers, to show how far the pull is.
    """
    job = f"image@{short_id(references)}"
    yield from _have(root, references, job, {"image": references[0], "size": size})


@operation()
def built_image(
    root: str, references: Sequence[str], base: str, size: int, recipe: Mapping[str, object]
) -> Generator[PyinfraCommand]:
    """Have Docker hold an image that the Spark builds itself, named by all that it is made of.

    One unit on the Spark pulls what it is built on, another builds. Both go on without a
    connection; one that was interrupted goes on where it was when it is started again.

    Args:
        references: the one name of the result.
        base: what it is built on, `repository@sha256:…`.
        size: compressed bytes of the base's layers.
        recipe: `args` and `files` of the build.
    """
    pull = _have(root, [base], f"image@{short_id([base])}", {"image": base, "size": size})
    orders = {"image": references[0], "base": base, **recipe}
    yield from _have(root, references, f"image-build@{short_id(references)}", orders, pull)


@operation()
def exported_image(root: str, references: Sequence[str], peer: Host) -> Generator[PyinfraCommand]:
    """Have an image in files that the other Spark of a pair can copy, while it lacks the image.

    Args:
        references: all names by which Docker may know it.
        peer: the other Spark.
    """
    if _state(peer, references, host) == "present":
        host.noop("the other Spark has the image")
        return
    job = f"image-export@{short_id(references)}"
    differs(f"image {references[0]}", "on the other Spark too", "here alone")
    last: dict[str, JobState] = {}
    yield from _run(root, job, {"image": references[0], "images": list(references)}, last)
    progress = last[job].progress
    if not progress or progress.phase != "done":
        yield failing(reason(job, last[job]))


@operation()
def copied_image(
    root: str, references: Sequence[str], share: str, head: Host
) -> Generator[PyinfraCommand]:
    """Have Docker hold an image that the other Spark of a pair has exported.

    Args:
        references: all names by which Docker may know it; none where nothing is to be copied.
        share: URL of what the other Spark lends.
        head: the other Spark.
    """
    if not references:
        host.noop("it is copied from here")
        return
    source = f"{share}/images/{short_id(references)}"
    # The unit may write in this folder only, so it cannot make it.
    folder = StringCommand("install -d -m 755", QuoteString(f"{root}/imports"))
    orders = {"images": list(references), "source": source}
    yield from _have(root, references, COPY, orders, [folder], head)


def short_id(references: Sequence[str]) -> str:
    """Return the first digits of the digest by which an image is pulled, or of a built one's."""
    return references[0].rpartition(":")[2][:12]


def _have(
    root: str,
    references: Sequence[str],
    job: str,
    orders: Mapping[str, object],
    before: Iterable[PyinfraCommand] = (),
    head: Host | None = None,
) -> Generator[PyinfraCommand]:
    """Yield what has a job bring the image; nothing if Docker has it."""
    found = _state(host, references, head)
    if found == "present":
        host.noop(f"Docker has {references[0]}")
        return
    if found != "absent":
        yield failing(f"Docker does not answer: {found}. Start it: sudo systemctl start docker")
        return
    last: dict[str, JobState] = {}
    if head and "@" not in references[0]:
        # It is in no lock; SSH is trusted where the share's word is not.
        orders = {**orders, "ids": [head.get_fact(ImageId, image=references[0])]}
    differs(f"image {references[0]}", "known to Docker", "absent")
    yield from before
    yield from _run(root, job, orders, last)
    if _state(host, references, head) != "present":
        yield failing(reason(job, last[job]))


def _state(spark: Host, references: Sequence[str], head: Host | None) -> str:
    """Return what a Spark's Docker says of an image.

    Two builds of the same inputs are not the same bits: what a worker has under the name of a build
    counts only if its head has the same.
    """
    found: str = spark.get_fact(ImageState, references=references)
    if found != "present" or head is None or "@" in references[0]:
        return found
    contents = [each.get_fact(ImageContent, image=references[0]) for each in (spark, head)]
    return "present" if contents[0] == contents[1] else "absent"


def _run(
    root: str, job: str, orders: Mapping[str, object], last: dict[str, JobState]
) -> Generator[PyinfraCommand]:
    yield from put_manifest(root, job, job, json.dumps(orders) + "\n")
    yield start(job)
    yield follow(root, [job], last)
