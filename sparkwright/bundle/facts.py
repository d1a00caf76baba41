"""The fact of the files that a Spark has of a bundle."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from sparkwright.common.facts import HostFact

# Ends the name of a file that has not come whole.
PART = ".part"


@dataclass(frozen=True)
class CarriedFile:
    """A file in the folder `bundle` of a Spark.

    Attributes:
        size: Bytes; None where there is no such file.
        part: Bytes that have come of one that is on its way.
        sha256: Its hash; None where it was not asked for.
    """

    size: int | None = None
    part: int = 0
    sha256: str | None = None


@dataclass(frozen=True)
class CarriedFiles:
    """The files of a bundle that a Spark has.

    Attributes:
        free: Bytes that are free on the disk of the root folder.
        architecture: As dpkg names it.
        files: By path in the bundle.
    """

    free: int = 0
    architecture: str = ""
    files: dict[str, CarriedFile] = field(default_factory=dict)


class Carried(HostFact[CarriedFiles]):
    """The files of a bundle that are on the Spark, whole or in part."""

    momentary = True
    default = CarriedFiles

    def command(self, root: str, paths: Sequence[str], hashed: bool) -> str:
        digest = 'sha256sum < "$path" | cut -d" " -f1' if hashed else "echo"
        return f"""
disk={shlex.quote(root)}
while [ ! -d "$disk" ]; do disk=$(dirname "$disk"); done
printf 'free\\t%s\\n' "$(df --block-size=1 --output=avail "$disk" | tail -n 1 | tr -d ' ')"
printf 'architecture\\t%s\\n' "$(dpkg --print-architecture 2>/dev/null)"
cd {shlex.quote(root)}/bundle 2>/dev/null || exit 0
for path in {shlex.join(paths)}; do
  [ ! -f "$path" ] || printf 'file\\t%s\\t%s\\t%s\\n' "$(stat -c %s "$path")" "$({digest})" "$path"
  [ ! -f "$path{PART}" ] || printf 'part\\t%s\\t%s\\n' "$(stat -c %s "$path{PART}")" "$path"
done"""

    def parse(self, output: list[str]) -> CarriedFiles:
        free, architecture = 0, ""
        files: dict[str, CarriedFile] = {}
        for line in output:
            match line.split("\t"):
                case ["free", number]:
                    free = int(number)
                case ["architecture", name]:
                    architecture = name
                case ["file", size, digest, path]:
                    files[path] = CarriedFile(size=int(size), sha256=digest or None)
                case ["part", size, path]:
                    known = files.get(path, CarriedFile())
                    files[path] = CarriedFile(known.size, int(size), known.sha256)
                case _:
                    raise ValueError(line)
        return CarriedFiles(free, architecture, files)
