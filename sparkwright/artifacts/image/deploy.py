"""The engine's image: pulled, built, copied within a pair or sent from a bundle, by a job."""

import json
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from pyinfra import host
from pyinfra.api import Host, QuoteString, StringCommand, deploy, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.artifacts.jobs.deploy import follow, put_manifest, reason, start
from sparkwright.common.errors import PlanError
from sparkwright.common.operations import differs, failing, is_looking, spark_name
from sparkwright.common.part import Ask, Bounded, Part
from sparkwright.common.ports import IMAGE_PORT
from sparkwright.declared.fleet.fabric_plan import neighbors
from sparkwright.declared.recipe.build import build_files
from sparkwright.declared.recipe.values import ImageBuild
from sparkwright.machine.host.operations.bundle import send
from sparkwright.plan.release.bundle import IMAGES, Bundle
from sparkwright.plan.release.lock import image_key
from sparkwright.plan.release.registry_login import RegistryLogin, login_of, mirrored, registry_of
from sparkwright.plan.release.release import Release, repository
from sparkwright.run.state import read
from sparkwright.run.target import Target, seats, target_of

COPY = "image-copy"


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


def reads(own: Target) -> Iterator[Ask[Any]]:
    """Yield what these steps, and those of its group's other Sparks, ask of a Spark."""
    yield from (ask_image(seat.release.images) for seat in own.seats if seat.release)


@deploy("Image")
def apply() -> None:
    """Get the image of the release that the Spark should serve.

    The head of a group pulls or builds it. Then each of the others copies it from the one before
    it, and passes on what comes.
    """
    for own in seats():
        if own.release:
            _image(own, own.release)


def _image(own: Target, served: Release) -> None:
    key, build = image_key(served.recipe), served.recipe.build
    mirrors, locked = own.settings.registry_mirrors, own.lock.images[key]
    about: dict[str, Any] = {"root": served.root, "references": served.images}
    if own.is_head and own.bundle:
        bundled_image(name="Engine image from the bundle", **about, key=key, bundle=own.bundle)
    elif own.is_head and build:
        built_image(
            name="Engine image, built",
            **about,
            base=mirrored(f"{repository(build.base)}@{locked.digest}", mirrors),
            size=locked.size,
            arguments=build.args if isinstance(build, ImageBuild) else {},
            files=build_files(build),
        )
    elif own.is_head:
        name = mirrored(served.images[0], mirrors)
        image(name="Engine image", **about, source=name, size=locked.size)
    if own.fabric is None:
        return
    hosts = {target_of(each).spark: each for each in own.peers}
    source, taker = neighbors(own.ranks, own.spark)
    about |= {"peer": hosts.get(taker), "source": hosts.get(own.ranks[0])}
    # On all Sparks, as an operation of some would not wait for the others'.
    offered_image(name="Engine image for another Spark", **about)
    copied_image(
        name="Engine image from another Spark",
        **about | {"references": served.images if source else ()},
        address=own.fabric.of(source).addresses[0] if source else "",
        given=own.fabric.addresses[0],
    )


@operation()
def image(
    root: str, references: Sequence[str], source: str, size: int
) -> Generator[PyinfraCommand]:
    """Pull an image by a unit on the Spark, which goes on without a connection.

    It gets the login that this machine's Docker has for the registry, for as long as it runs.

    Args:
        references: All names by which Docker may know it; first `repository@sha256:…`.
        source: The first of them, or its name on a mirror.
        size: Compressed bytes of its layers, to show progress.
    """
    registry, _ = registry_of(repository(source))
    orders = {"image": source, "registry": registry, "size": size}
    yield from _have(root, references, f"image@{_short_id(references)}", orders)


@operation()
def built_image(
    root: str,
    references: Sequence[str],
    base: str,
    size: int,
    arguments: Mapping[str, str],
    files: Mapping[str, object],
) -> Generator[PyinfraCommand]:
    """Build an image on the Spark, whose one name is made of all its inputs.

    One unit on the Spark pulls the base image, another builds. Both go on without a connection, and
    continue after an interruption when they are started again.
    """
    pull = image._inner(root, [base], base, size)
    orders = {"image": references[0], "base": base, "args": arguments, "files": files}
    yield from _have(root, references, f"image-build@{_short_id(references)}", orders, pull)


@operation()
def offered_image(
    root: str, references: Sequence[str], peer: Host | None, source: Host | None = None
) -> Generator[PyinfraCommand]:
    """Offer an image to another Spark of a group, if any, while that lacks it.

    What offers it ends by itself: files/host/network/fabric/fabric-image@.service. A worker, whose
    `source` is the head, offers only what it has already.
    """
    lacks_it = source and not _has(host, references, source)
    if peer is None or lacks_it or _has(peer, references, source or host):
        host.noop("nobody lacks it who would copy it from here")
        return
    differs(f"image {references[0]}", f"on {spark_name(peer)} too", "only elsewhere")
    yield StringCommand(
        *("docker image inspect --format '{{.Id}}'", *map(QuoteString, references)),
        *("2>/dev/null | head -n 1 >", QuoteString(f"{root}/manifests/fabric-image")),
        "&& systemctl daemon-reload && systemctl start fabric-image.socket",
    )


@operation()
def copied_image(
    root: str,
    references: Sequence[str],
    address: str,
    source: Host | None,
    peer: Host | None = None,
    given: str = "",
) -> Generator[PyinfraCommand]:
    """Copy the image of a head, its `source`, from a Spark's address; none without references.

    Where Docker has the image already, nothing is copied. A peer that lacks it gets what comes as
    well, by asking at `given`.
    """
    if not references:
        host.noop("others copy it")
        return
    at = given if peer and not _has(peer, references, source) else ""
    orders = {"images": [*references], "source": [address, IMAGE_PORT, at]}
    yield from _have(root, references, COPY, orders, source=source)


@operation()
def bundled_image(
    root: str, references: Sequence[str], key: str, bundle: Bundle
) -> Generator[PyinfraCommand]:
    """Have an image of a bundle, which calls it `key`; it is sent as far as it is not there."""
    found = bundle.index.images[key]
    paths = [f"{IMAGES}/{path}" for path in found.blobs]
    size = sum(bundle.index.files[path].size for path in paths)
    orders = {"images": [*references], "size": size, "bundle": found.model_dump()}
    loaded = yield from _have(root, references, COPY, orders, [send(bundle, paths)])
    if loaded:
        # Docker has it: what it came by takes as much of the disk. An owner's may be read-only.
        folder, parts = QuoteString(f"{root}/bundle/{IMAGES}"), map(QuoteString, found.blobs)
        yield StringCommand("cd", folder, "&& rm -f --", *parts, "2>/dev/null; true")


def _short_id(references: Sequence[str]) -> str:
    """Return the first 12 digits of the digest of an image, or of the name of a built one."""
    return references[0].rpartition(":")[2][:12]


def _have(
    root: str,
    references: Sequence[str],
    job: str,
    orders: dict[str, Any],
    before: Iterable[PyinfraCommand] = (),
    source: Host | None = None,
) -> Generator[PyinfraCommand, None, bool]:
    """Yield the commands that get the image by a job, and return whether that brought it."""
    if _has(host, references, source):
        host.noop(f"Docker has {references[0]}")
        return False
    if fault := read(host, ask_image(references)).fault:
        yield failing(f"{fault}. Start it: sudo systemctl start docker")
        return False
    if source:
        there = _found(source, references)
        # A built image is in no lock, and the cable is not trusted: the id comes by SSH.
        ids = [there.id] if there and _is_built(references) else [*references]
        orders |= {"size": there.size if there else 0, "ids": ids}
    differs(f"image {references[0]}", "known to Docker", "absent")
    try:
        login = login_of(orders["registry"]) if "registry" in orders and not is_looking() else None
    except PlanError as error:
        yield failing(str(error))
        return False
    yield from before
    yield from put_manifest(root, job, job, json.dumps(orders) + "\n")
    yield _start_with(job, login) if login else start(job)
    last = yield from follow(root, [job])
    if not _has(host, references, source):
        yield failing(reason(job, last[job]))
        return False
    return True


def _start_with(job: str, login: RegistryLogin) -> StringCommand:
    """Return the command that starts a job with a login, which comes by standard input.

    The unit takes the file into its own memory, and removes it: image@.service.
    """
    file = QuoteString(f"/run/sparkwright-login-{job.partition('@')[2]}")
    return StringCommand(
        *("umask 077 && rm -f", file, "&& cat >", file, "&&", start(job)),
        *("|| { rm -f", file, "; exit 1; }"),
        _stdin=login.for_docker,
    )


def ask_image(references: Sequence[str]) -> Ask[ImageState]:
    """Return the ask for an image by its names."""
    return ImageState.ask(references=[*references])


def _found(spark: Host, references: Sequence[str]) -> EngineImage | None:
    return read(spark, ask_image(references)).image


def _has(spark: Host, references: Sequence[str], source: Host | None) -> bool:
    """Tell whether a Spark has an image.

    Two builds of the same inputs differ in their bits: a built image counts only if it is the
    source's own.
    """
    found = _found(spark, references)
    if found is None or source is None or not _is_built(references):
        return found is not None
    there = _found(source, references)
    return there is not None and there.content == found.content


def _is_built(references: Sequence[str]) -> bool:
    return "@" not in references[0]
