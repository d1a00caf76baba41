"""What a Spark is, for a look at what has become of it."""

import re
import shlex

from tests.driver.product import Run
from tests.lab.spark import Handle

_FOLDERS = "etc usr opt home root boot srv"
# Left out: what changes by itself, and what the lab's Sparks share of one kernel.
LISTING = {
    "files": f"cd / && (find {_FOLDERS} -printf '%y %m %u %g %l %p\\n'; "
    f"find {_FOLDERS} -type f -print0 | xargs -0 sha256sum) | grep -Ev '"
    "^[^/]* etc/(passwd|group|shadow|gshadow|subuid|subgid)-$|__pycache__|etc/ld.so.cache$|"
    "etc/[.]pwd.lock$|home/[^/]*/[.]'",
    "state": "ls -A /var/lib /var/lib/private /var/spool; true",
    "accounts": "getent passwd; getent group",
    "packages": "dpkg --get-selections; apt-mark showmanual",
    "units": "systemctl list-unit-files --no-legend; systemctl --failed --no-legend; "
    "systemctl list-units --type=service,socket,timer --state=active --plain --no-legend "
    "| awk '{print $1}' "
    "| grep -Ev '^(session|user|run-|apt-|dpkg-|man-db|systemd-|NetworkManager-dispatcher)'",
    "kernel": "sysctl -a 2>/dev/null | grep -E '^(net[.]ipv4[.]conf|net[.]ipv[46][.]ip_forward|"
    "net[.]core|vm[.]overcommit)'",
    # Behind an @ of a link's name stands what the lab's end of the cable is called now.
    # NetworkManager's metrics are 100 and on, in the order in which interfaces came up.
    "network": "ip -o -4 address | awk '{print $2, $4}'; ip -4 route "
    "| sed 's/ metric 1[0-9][0-9] / /'; ip -o link "
    "| awk '{sub(/@.*/, \"\", $2); print $2, $4, $5}'",
    "rules": "iptables-save | grep -E '^[-:*]' | sed 's/ \\[.*//'; ip6tables-save "
    "| grep -E '^[-:*]' | sed 's/ \\[.*//'; LC_ALL=C ufw status; ufw show added",
    "docker": "docker image ls; docker ps --all --quiet; docker info --format "
    "'{{json .Runtimes}} {{.LoggingDriver}}'",
}


# What Debian's packages leave behind, as docs/leaving.md says.
_LEFT_BY_PACKAGES = "userdel prometheus; groupdel prometheus; rm -rf /var/lib/haproxy; true"


def listing(spark: Handle) -> dict[str, set[str]]:
    return {
        what: set(spark.run(f"sudo sh -c {shlex.quote(command)}").stdout.splitlines())
        for what, command in LISTING.items()
    }


def from_factory(spark: Handle, variant: str) -> dict[str, set[str]]:
    spark.reset(variant)
    # A first rule, ours or another's, makes the tables for good.
    rule = "INPUT -i lo -j ACCEPT"
    spark.run(f"sudo sh -c 'ip6tables -w -A {rule} && ip6tables -w -D {rule}'")
    return listing(spark)


def purge(run: Run, spark: Handle) -> None:
    """Enter on a Spark the line that its removal has printed."""
    said = rf"\[{spark.name}\] stays: packages that runs have installed: sudo (apt-get purge .*)"
    line = re.search(said, run.output)
    assert line, run.output
    spark.run(f"sudo DEBIAN_FRONTEND=noninteractive {line[1]} --yes")
    spark.run(f"sudo sh -c '{_LEFT_BY_PACKAGES}'")


def changes(before: dict[str, set[str]], after: dict[str, set[str]]) -> dict[str, list[str]]:
    return {
        what: sorted(
            [f"+ {line}" for line in after[what] - before[what]]
            + [f"- {line}" for line in before[what] - after[what]]
        )
        for what in before
        if before[what] != after[what]
    }


# Each search finds the pattern's words; the pattern does not match itself.
PLACES = {
    # It holds every command line that sudo ran.
    "journal": 'journalctl --no-pager --output=export | grep -a "$pattern"',
    "containers": 'docker inspect $(docker ps --all --quiet) | grep "$pattern"',
    "units": "systemctl show '*' | grep \"$pattern\"",
    "processes": 'grep -la "$pattern" /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null',
    # Each may be a file system of its own, or a part of another one.
    "files": "find / /opt /run /tmp -xdev -type f -size -4M "
    '-exec grep -la "$pattern" {} + 2>/dev/null | sort -u',
}


def places(spark: Handle, *words: str) -> dict[str, list[str]]:
    """Return the places of a Spark where one of these words is, with the lines that show it."""
    pattern = r"\|".join(f"{word[:-1]}[{word[-1]}]" for word in words)
    found = {
        name: spark.run(
            "sudo sh -s", stdin=f"pattern='{pattern}'; {search}; true"
        ).stdout.splitlines()
        for name, search in PLACES.items()
    }
    return {name: lines for name, lines in found.items() if lines}
