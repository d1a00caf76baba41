"""Operations that delete what no rollback needs, or all that Sparkwright has placed."""

from collections.abc import Collection, Generator, Mapping
from pathlib import Path

from pyinfra import host
from pyinfra.api import QuoteString, StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.cleanup.clean import superfluous
from sparkwright.cleanup.facts import OurFootprint, StoredArtifacts
from sparkwright.cleanup.footprint import SET_ASIDE, Footprint
from sparkwright.cleanup.remove import report
from sparkwright.common.operations import failing, notice, spark_name
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.placed import BUNDLE, DAEMON_JSON, PACKAGES, deleted_files
from sparkwright.firewall.operations import delete_rule
from sparkwright.host.operations.packages import purge
from sparkwright.run.report import conclude
from sparkwright.runtime.operations import put_daemon_json


@operation()
def clean(
    root: str,
    keep: int,
    wanted: Collection[str],
    folders: Collection[str],
    images: Collection[str],
) -> Generator[StringCommand]:
    """Remove releases beyond those that are kept, then images and weights that only they named.

    Each is shown with its bytes before. What we have not brought stays.

    Args:
        keep: how many releases that have served stay beside the one that serves.
        wanted: the releases that the inventory asks for; none on an idle Spark.
        folders, images: their checkpoint folders and the names of their images.
    """
    found = host.get_fact(StoredArtifacts, root=root)
    if work := (*(f"switch@{release}" for release in found.engines.switches), *found.jobs):
        yield failing(f"{' and '.join(work)} is running: wait until it ends, and run again.")
        return
    gone = superfluous(found, keep, wanted, folders, images)
    for line in gone.lines():
        notice(line)
    if not gone.size:
        host.noop("nothing to delete")
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
    conclude(spark_name(host), f": {gone.result}")


def _job_files(job: str) -> tuple[str, str]:
    return f"manifests/{job}.json", f"jobs/{job}.json"


def _remove(root: str, *names: str) -> StringCommand:
    return StringCommand("rm -rf", *(QuoteString(f"{root}/{name}") for name in names))


_WITHDRAW = HOST_FILES / "fabric" / "withdraw.sh"


@operation()
def announce_removal(
    root: str, weights: bool, earlyoom: str, log_options: Mapping[str, str]
) -> Generator[StringCommand, None, None]:
    """Show what goes and what stays, before anything does.

    Args:
        earlyoom: text of the settings that we give to earlyoom.
        log_options: those that we set for Docker.
    """
    found = _footprint(root)
    for line in report(found, root, weights=weights, earlyoom=earlyoom, log_options=log_options):
        notice(line, "yellow" if line.startswith("goes") else "cyan")
    host.noop("looked at, and left as it is")
    yield from ()


@operation()
def stop_units(root: str) -> Generator[StringCommand, None, None]:
    """Stop and disable every unit of ours: first what would start another, then the engines.

    The fabric's firewall thus outlives what it guards.
    """
    found = _footprint(root)
    if not (found.units or found.containers or found.networks):
        host.noop("nothing of ours runs, or would after a boot")
        return
    switches = [unit for unit in found.units if unit.startswith("switch@")]
    engines = [unit for unit in found.units if unit.startswith("vllm@")]
    others = [unit for unit in found.units if unit not in {*switches, *engines}]
    for units in filter(None, (switches, engines, others)):
        yield StringCommand("systemctl disable --quiet --now", *map(QuoteString, units))
    if found.containers:
        yield StringCommand("docker rm --force", *found.containers)
    if found.networks:
        yield StringCommand("docker network rm", *found.networks)


@operation()
def close_firewall(root: str) -> Generator[StringCommand, None, None]:
    """Take our rules out of ufw; turn it off if it was us who turned it on."""
    found = _footprint(root)
    firewall = found.firewall
    if not (found.rules or (firewall.turned_on and firewall.used)):
        host.noop("ufw has no rule of ours")
        return
    if firewall.turned_on:
        yield StringCommand("ufw disable")
    for rule in found.rules:
        yield delete_rule(rule)


@operation()
def remove_fabric(root: str) -> Generator[StringCommand, None, None]:
    """Take the fabric's settings out of force; the LAN's interface is left alone."""
    found = _footprint(root)
    if not found.netplan:
        host.noop("netplan has no file of ours")
        return
    yield StringCommand(
        "systemd-run --quiet --collect --pipe --wait --expand-environment=no",
        "--unit sparkwright-fabric /bin/sh -c",
        QuoteString(_WITHDRAW.read_text("utf-8")),
        "withdraw",
        *map(QuoteString, found.twins),
    )


@operation()
def restore_settings(
    root: str, log_options: Mapping[str, str]
) -> Generator[PyinfraCommand, None, None]:
    """Take our files out of /etc, and our keys out of Docker's configuration.

    Kernel parameters get the values that they had before our first change. Docker restarts only
    where that ends no container.
    """
    found = _footprint(root)
    docker = found.docker_settings(log_options)
    if not found.settings and docker == found.daemon_json:
        host.noop("no setting of ours is there")
        return
    files = [file for file in deleted_files() if file.path in found.settings]
    if any(file.parameters for file in files):
        for key, value in found.sysctl.items():
            # The interface may be gone.
            yield StringCommand("sysctl --quiet --write", QuoteString(f"{key}={value}"), "|| true")
    if found.settings:
        yield StringCommand("rm -f", *map(QuoteString, found.settings))
    for file in files:
        if file.reader:
            folder = QuoteString(str(Path(file.path).parent))
            yield StringCommand("rmdir --ignore-fail-on-non-empty", folder)
            yield StringCommand("systemctl restart", file.reader)
    if docker != found.daemon_json:
        yield from _docker(found, docker, root)


@operation()
def remove_images(root: str) -> Generator[StringCommand, None, None]:
    """Remove the images that our jobs brought, unless containers of others were made of them."""
    found = _footprint(root)
    if not found.removable_images:
        host.noop("Docker has no image that we fetched")
    for image in found.removable_images:
        yield StringCommand("docker image rm --force", image.id)


@operation()
def remove_packages(root: str) -> Generator[PyinfraCommand, None, None]:
    """Purge the packages that our runs brought, unless others have come to need them.

    Debian's packages leave their accounts behind: those go as well.
    """
    found = _footprint(root)
    if not (found.removable_packages or found.removable_accounts):
        host.noop("no package of ours is installed")
    if found.removable_packages:
        yield purge(found.removable_packages)
    for package in found.removable_packages:
        if rest := PACKAGES.get(package):
            yield StringCommand(rest)
    for account in found.removable_accounts:
        name = QuoteString(account)
        # The package may have taken one of the two, or both.
        yield StringCommand("userdel", name, "2>/dev/null; groupdel", name, "2>/dev/null; true")


@operation()
def remove_files(root: str, weights: bool) -> Generator[StringCommand, None, None]:
    """Remove our unit files and folders, last: they tell what else is ours.

    Args:
        root: the folder of everything on the Spark; it goes once it is empty.
    """
    found = _footprint(root)
    doomed = [*found.folders, *(found.weights if weights else ())]
    if not (found.unit_files or doomed):
        host.noop("no file of ours is left")
        conclude(spark_name(host), ": nothing of Sparkwright is left.")
        return
    if found.unit_files:
        yield StringCommand("rm -f", *map(QuoteString, found.unit_files))
        yield StringCommand("systemctl daemon-reload")
    if found.units:
        names = map(QuoteString, found.units)
        yield StringCommand("systemctl reset-failed", *names, "2>/dev/null || true")
    for entry in doomed:
        path = QuoteString(f"{root}/{entry.name}")
        if entry.name == BUNDLE:
            # Its owner may have brought it on a disk, which keeps what is on it.
            yield StringCommand(
                *("if [ -L", path, "]; then rm", path, "; elif ! mountpoint --quiet", path),
                *("; then rm -rf --one-file-system", path, "; fi"),
            )
            continue
        kept = f"! -path '*/{SET_ASIDE}*'" if entry.set_aside else ""
        # It may be a link to another disk.
        yield StringCommand("[ ! -d", path, "] || find -H", path, f"-mindepth 1 {kept} -delete")
        if not entry.set_aside:
            yield StringCommand("rm -rf", path)
    yield StringCommand("rmdir", QuoteString(root), "2>/dev/null || true")
    stays = [] if weights else [f"{root}/{entry.name}" for entry in found.weights]
    left = f"; {', '.join(stays)} stays" if stays else ""
    conclude(spark_name(host), f": Sparkwright is removed{left}.")


def _docker(found: Footprint, text: str, root: str) -> Generator[PyinfraCommand, None, None]:
    """Put daemon.json back: byte for byte where only our keys have changed."""
    if text == found.previous and not text.strip():
        yield StringCommand("rm -f", DAEMON_JSON)
    elif text == found.previous:
        backup, new = QuoteString(f"{root}/backups/daemon.json"), f"{DAEMON_JSON}.new"
        yield StringCommand("cat", backup, ">", new, "&& mv", new, DAEMON_JSON)
    else:
        yield from put_daemon_json(text)
    if not found.others_run:
        yield StringCommand("systemctl restart docker.service")


def _footprint(root: str) -> Footprint:
    return host.get_fact(OurFootprint, root=root)
