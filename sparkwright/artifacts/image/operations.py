"""Operations of the engine's image: pull it, build it, or copy it within a pair."""

import json
from collections.abc import Generator, Iterable, Mapping, Sequence

from pyinfra import host
from pyinfra.api import Host, QuoteString, StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.artifacts.image.state import EngineImage, ImageState
from sparkwright.artifacts.jobs.operations import follow, put_manifest, reason, start
from sparkwright.artifacts.jobs.state import JobState
from sparkwright.common.errors import PlanError
from sparkwright.common.operations import differs, failing, is_looking
from sparkwright.common.part import Ask
from sparkwright.common.ports import IMAGE_PORT
from sparkwright.machine.host.operations.bundle import send
from sparkwright.plan.release.bundle import IMAGES, Bundle, blob
from sparkwright.plan.release.registry_login import RegistryLogin, login_of, registry_of
from sparkwright.plan.release.release import repository
from sparkwright.run.state import read

COPY = "image-copy"


@operation()
def image(
    root: str,
    references: Sequence[str],
    size: int,
    source: str = "",
    proxy: str | None = None,
) -> Generator[PyinfraCommand]:
    """Pull an image by a unit on the Spark, which goes on without a connection.

    It gets the login that this machine's Docker has for the registry, for as long as it runs.

    Args:
        references: All names by which Docker may know it; first `repository@sha256:…`.
        size: Compressed bytes of its layers, to show progress.
        source: Its name on a mirror; "" for the first of the references.
    """
    yield from _pulled(root, references, source or references[0], size, proxy)


def _pulled(
    root: str, references: Sequence[str], source: str, size: int, proxy: str | None
) -> Generator[PyinfraCommand]:
    orders = {"image": source, "size": size, **({"proxy": proxy} if proxy else {})}
    registry, _ = registry_of(repository(source))
    yield from _have(root, references, f"image@{short_id(references)}", orders, registry=registry)


@operation()
def built_image(
    root: str,
    references: Sequence[str],
    base: str,
    size: int,
    recipe: Mapping[str, object],
    proxy: str | None = None,
) -> Generator[PyinfraCommand]:
    """Build an image on the Spark, whose one name is made of all its inputs.

    One unit on the Spark pulls the base image, another builds. Both go on without a connection, and
    continue after an interruption when they are started again.
    `recipe` has the `args` and `files` of the build.
    """
    pull = _pulled(root, [base], base, size, proxy)
    orders = {"image": references[0], "base": base, **recipe}
    yield from _have(root, references, f"image-build@{short_id(references)}", orders, pull)


@operation()
def offered_image(root: str, references: Sequence[str], peer: Host) -> Generator[PyinfraCommand]:
    """Offer an image to the other Spark of a pair, while that lacks it.

    What offers it ends by itself: files/host/network/fabric/fabric-image@.service.
    """
    if _has(peer, references, host):
        host.noop("the other Spark has the image")
        return
    differs(f"image {references[0]}", "on the other Spark too", "here alone")
    yield StringCommand(
        *("docker image inspect --format '{{.Id}}'", *map(QuoteString, references)),
        *("2>/dev/null | head -n 1 >", QuoteString(f"{root}/manifests/fabric-image")),
        "&& systemctl daemon-reload && systemctl start fabric-image.socket",
    )


@operation()
def copied_image(
    root: str, references: Sequence[str], address: str, head: Host
) -> Generator[PyinfraCommand]:
    """Copy an image that the other Spark of a pair offers at an address; none without references.

    Where Docker has the image already, nothing is copied.
    """
    if not references:
        host.noop("it is copied from here")
        return
    orders = {"images": list(references), "source": [address, IMAGE_PORT]}
    yield from _have(root, references, COPY, orders, head=head)


@operation()
def bundled_image(
    root: str, references: Sequence[str], key: str, bundle: Bundle
) -> Generator[PyinfraCommand]:
    """Have an image of a bundle, which calls it `key`; it is sent as far as it is not there."""
    found = bundle.index.images[key]
    sizes = {path: bundle.index.files[f"{IMAGES}/{path}"].size for path in found.blobs}
    image = found.model_dump(exclude={"manifests"}) | {"size": sizes[blob(found.top)]}
    orders = {
        "images": list(references),
        "size": sum(sizes.values()),
        "bundle": {**image, "blobs": sizes},
    }
    paths = [f"{IMAGES}/{path}" for path in found.blobs]
    loaded = yield from _have(root, references, COPY, orders, [send(bundle, paths)])
    if loaded:
        # Docker has it: what it came by takes as much of the disk. An owner's may be read-only.
        folder, parts = QuoteString(f"{root}/bundle/{IMAGES}"), map(QuoteString, found.blobs)
        yield StringCommand("cd", folder, "&& rm -f --", *parts, "2>/dev/null; true")


def short_id(references: Sequence[str]) -> str:
    """Return the first 12 digits of the digest of an image, or of the name of a built one."""
    return references[0].rpartition(":")[2][:12]


def _have(
    root: str,
    references: Sequence[str],
    job: str,
    orders: Mapping[str, object],
    before: Iterable[PyinfraCommand] = (),
    head: Host | None = None,
    registry: str = "",
) -> Generator[PyinfraCommand, None, bool]:
    """Yield the commands that get the image by a job, and return whether that brought it.

    Args:
        registry: The one whose login the job gets, if there is one.
    """
    if _has(host, references, head):
        host.noop(f"Docker has {references[0]}")
        return False
    if fault := read(host, ask_image(references)).fault:
        yield failing(f"{fault}. Start it: sudo systemctl start docker")
        return False
    if head:
        there = _found(head, references)
        # A built image is in no lock, and the cable is not trusted: the id comes by SSH.
        ids = [there.id] if there and _is_built(references) else references
        orders = {**orders, "size": there.size if there else 0, "ids": list(ids)}
    differs(f"image {references[0]}", "known to Docker", "absent")
    try:
        login = login_of(registry) if registry and not is_looking() else None
    except PlanError as error:
        yield failing(str(error))
        return False
    yield from before
    yield from put_manifest(root, job, job, json.dumps(orders) + "\n")
    yield _start_with(job, login) if login else start(job)
    last: dict[str, JobState] = {}
    yield follow(root, [job], last)
    if not _has(host, references, head):
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
    return ImageState.ask(references=list(references))


def _found(spark: Host, references: Sequence[str]) -> EngineImage | None:
    return read(spark, ask_image(references)).image


def _has(spark: Host, references: Sequence[str], head: Host | None) -> bool:
    """Tell whether a Spark has an image.

    Two builds of the same inputs differ in their bits: a worker's built image counts only if its
    head has the same one.
    """
    found = _found(spark, references)
    if found is None or head is None or not _is_built(references):
        return found is not None
    there = _found(head, references)
    return there is not None and there.content == found.content


def _is_built(references: Sequence[str]) -> bool:
    return "@" not in references[0]
