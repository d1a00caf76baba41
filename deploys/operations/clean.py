"""Remove what nobody goes back to."""

from collections.abc import Collection, Generator

from pyinfra import host
from pyinfra.api import QuoteString, StringCommand, operation

from deploys.facts.clean import OnSpark
from deploys.operations.messages import failing, notice
from deploys.plan.clean import superfluous


@operation()
def clean(
    root: str,
    keep: int,
    wanted: str | None,
    folders: Collection[str],
    images: Collection[str],
) -> Generator[StringCommand]:
    """Remove releases beyond those that are kept, then images and weights that only they named.

    Each is shown with its bytes before. What we have not brought stays.

    Args:
        root: the folder of everything on the Spark.
        keep: how many releases that have served stay beside the one that serves.
        wanted: the release that the inventory asks for; None on an idle Spark.
        folders, images: its checkpoint folders and the names of its image.
    """
    found = host.get_fact(OnSpark, root=root)
    if work := (*(f"switch@{release}" for release in found.engines.switches), *found.jobs):
        yield failing(f"{' and '.join(work)} is at work: wait for its end, and run again.")
        return
    gone = superfluous(found, keep, wanted, folders, images)
    for line in gone.lines():
        notice(line)
    if not (gone.releases or gone.images or gone.weights or gone.caches):
        host.noop("nothing is there that nobody needs")
    for release in gone.releases:
        unit = QuoteString(f"vllm@{release}.service")
        yield StringCommand("systemctl reset-failed", unit, "2>/dev/null; true")
        yield _remove(root, f"releases/{release}", *_job_files(f"switch@{release}"))
    for image, jobs in gone.images:
        names = image.tags or (image.id,)
        yield StringCommand("docker image rm", *map(QuoteString, names))
        yield _remove(root, *(file for job in jobs for file in _job_files(job)))
    for folder in gone.weights:
        path = QuoteString(f"{root}/{folder}")
        # It may be a link to another disk.
        yield StringCommand("find -H", path, "-mindepth 1 -delete && rm -d", path)
        yield _remove(root, f"manifests/{folder}.json", f"jobs/weights@{folder}.json")
    for cache in gone.caches:
        yield _remove(root, f"cache/{cache.name}")


def _job_files(job: str) -> tuple[str, str]:
    return f"manifests/{job}.json", f"jobs/{job}.json"


def _remove(root: str, *names: str) -> StringCommand:
    return StringCommand("rm -rf", *(QuoteString(f"{root}/{name}") for name in names))
