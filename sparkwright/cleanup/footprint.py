"""The footprint on a Spark: what is ours, and what of that can go."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sparkwright.common.placed import PROOF, USERS, folder_names
from sparkwright.firewall.firewall import FirewallState, UfwRule
from sparkwright.runtime.daemon_json import without_ours

# Where fetching puts what somebody put into a checkpoint's folder: host/weights/checkpoint.py.
SET_ASIDE = ".sparkwright-set-aside"


@dataclass(frozen=True)
class Entry:
    """A file or folder directly in the root folder.

    Attributes:
        size: bytes.
        weights: it is a checkpoint that we fetched, or found right.
        set_aside: files of others are in it, which somebody had put among the weights.
    """

    name: str
    size: int
    weights: bool
    set_aside: bool


@dataclass(frozen=True)
class OurImage:
    """An image that a job of ours brought.

    Attributes:
        id: Docker's.
        name: one of its names.
        size: bytes, unpacked.
        users: containers of others that were made of it.
    """

    id: str
    name: str
    size: int
    users: tuple[str, ...]


@dataclass(frozen=True)
class Footprint:
    """The parts of a Spark that are ours.

    Attributes:
        units: instances and units of ours that systemd has loaded or enabled.
        unit_files: their files.
        foreign: files and drop-ins with the name of a unit of ours, and another's content.
        containers: ids of our engines' containers.
        networks: ids of the network of those that fetch media.
        is_ours: the root folder is.
        entries: all that stands in it.
        settings: those files of ours outside of it that `remove` deletes.
        earlyoom: text of its settings; "" without.
        sysctl: kernel parameters as they were before our first change.
        daemon_json, previous: Docker's configuration, and as it was before our first change; None
            where nothing says what it was.
        proxies: those of Docker's configuration that runs have set, as `daemon_json.recorded`.
        netplan: text of the fabric's netplan file; "" without one.
        images: what we brought.
        others_run: containers of others are running.
        packages: installed by us, and still here.
        needed: those of them that others have come to need, and by whom.
        accounts: of users and groups, that we made or that came with them, and are still here.
        firewall: ufw, with our rules.
    """

    units: tuple[str, ...]
    unit_files: tuple[str, ...]
    foreign: tuple[str, ...]
    containers: tuple[str, ...]
    networks: tuple[str, ...]
    is_ours: bool
    entries: tuple[Entry, ...]
    settings: tuple[str, ...]
    earlyoom: str
    sysctl: dict[str, str]
    daemon_json: str
    previous: str | None
    proxies: tuple[str, ...]
    netplan: str
    images: tuple[OurImage, ...]
    others_run: bool
    packages: tuple[str, ...]
    needed: dict[str, tuple[str, ...]]
    accounts: tuple[str, ...]
    firewall: FirewallState

    @property
    def weights(self) -> tuple[Entry, ...]:
        """The checkpoints."""
        return tuple(entry for entry in self.entries if entry.weights)

    @property
    def folders(self) -> tuple[Entry, ...]:
        """Our entries of the root folder beside checkpoints; the proof of it comes last."""
        names = folder_names() if self.is_ours else []
        found = [entry for entry in self.entries if entry.name in names and not entry.weights]
        return tuple(sorted(found, key=lambda entry: entry.name in PROOF))

    @property
    def strange(self) -> tuple[Entry, ...]:
        """The entries of the root folder that are not ours."""
        known = {*self.folders, *self.weights}
        return tuple(entry for entry in self.entries if entry not in known)

    @property
    def removable_images(self) -> tuple[OurImage, ...]:
        """Those that no container of others was made of; what was built here comes first."""
        free = [image for image in self.images if not image.users]
        return tuple(sorted(free, key=lambda image: "@" in image.name))

    @property
    def removable_packages(self) -> tuple[str, ...]:
        """Those that nothing else needs."""
        return tuple(package for package in self.packages if package not in self.needed)

    @property
    def removable_accounts(self) -> tuple[str, ...]:
        """Those of engines; of the others all or none: nothing tells whose package made which."""
        return tuple(each for each in self.accounts if not self.needed or each in USERS)

    @property
    def rules(self) -> tuple[UfwRule, ...]:
        """Our rules of ufw that can go: those for SSH only where ufw goes off again."""
        ours = [rule for rule in self.firewall.rules if rule.purpose]
        return tuple(rule for rule in ours if rule.purpose != "ssh" or self.firewall.turned_on)

    @property
    def twins(self) -> tuple[str, ...]:
        """The interfaces that the fabric's netplan file sets."""
        return tuple(re.findall(r"^    (\S+):$", self.netplan, re.MULTILINE))

    def docker_settings(self, log_options: Mapping[str, str]) -> str:
        """Return what daemon.json is without our keys; as it is where nobody can tell them."""
        if self.previous is None:
            return self.daemon_json
        try:
            return without_ours(self.daemon_json, self.previous, log_options, self.proxies)
        except ValueError:
            # Docker does not start with such a file: its owner is at work on it.
            return self.daemon_json
