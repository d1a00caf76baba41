"""Where on a Spark a word stands that is for nobody to read."""

from tests.lab.spark import Handle

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
