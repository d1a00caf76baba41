"""Leaving: what goes of a Spark, and what stays."""

from collections.abc import Iterator, Mapping

from sparkwright.cleanup.footprint import SET_ASIDE, Footprint
from sparkwright.common.command_line import next_line
from sparkwright.common.placed import DAEMON_JSON, EARLYOOM, NETPLAN
from sparkwright.common.progress import size_text


def report(
    found: Footprint, root: str, *, weights: bool, earlyoom: str, log_options: Mapping[str, str]
) -> list[str]:
    """Return what goes and what stays, one line each; nothing where nothing is ours.

    Args:
        weights: whether they go.
        earlyoom: text of the settings that we give to it.
        log_options: those that we set for Docker.
    """
    goes = dict(_goes(found, root, log_options))
    stays = [*_stays(found, root, earlyoom)]
    checkpoints = [f"{root}/{entry.name} ({size_text(entry.size)})" for entry in found.weights]
    if weights and checkpoints:
        goes["weights"] = checkpoints
    elif checkpoints:
        more = next_line("remove", "--data weights=remove")
        stays.append(f"weights: {', '.join(checkpoints)}; {more} takes them as well")
    return [
        *(f"goes: {what}: {', '.join(names)}" for what, names in goes.items() if names),
        *(f"stays: {line}" for line in stays),
    ]


def _goes(
    found: Footprint, root: str, log_options: Mapping[str, str]
) -> Iterator[tuple[str, list[str]]]:
    yield "units", list(found.units)
    yield "unit files", list(found.unit_files)
    yield "rules of ufw", [rule.text for rule in found.rules]
    if found.firewall.turned_on:
        yield "ufw", ["turned off, as it was"]
    if found.netplan:
        yield "network", [f"{NETPLAN} ({', '.join(found.twins)})"]
    yield "settings", list(found.settings)
    if found.docker_settings(log_options) != found.daemon_json:
        after = "at its next start: containers run" if found.others_run else "it restarts"
        yield "settings of Docker", [f"our keys of {DAEMON_JSON} ({after})"]
    yield "images", [f"{image.name} ({size_text(image.size)})" for image in found.removable_images]
    yield "packages", list(found.removable_packages)
    yield "accounts", list(found.removable_accounts)
    yield (
        "folders",
        [f"{root}/{entry.name} ({size_text(entry.size)})" for entry in found.folders],
    )


def _stays(found: Footprint, root: str, earlyoom: str) -> Iterator[str]:
    for path in found.foreign:
        yield f"{path}, which is not ours"
    for entry in found.strange:
        yield f"{root}/{entry.name} ({size_text(entry.size)}), which is not ours"
    for entry in found.weights:
        if entry.set_aside:
            yield f"{root}/{entry.name}/{SET_ASIDE}: files of others"
    for image in found.images:
        if image.users:
            yield f"image {image.name}: {', '.join(image.users)} was made of it"
    for package, by in found.needed.items():
        yield f"package {package}: {', '.join(by)} needs it"
    if kept := [each for each in found.accounts if each not in found.removable_accounts]:
        yield f"accounts that came with our packages: {', '.join(kept)}"
    if found.earlyoom == earlyoom and "earlyoom" not in found.packages:
        yield f"{EARLYOOM}: earlyoom was here before us, and what it said then is not known"
    if found.folders and found.previous is None and found.daemon_json:
        yield f"{DAEMON_JSON}: nothing in it is known to be ours"
