"""The fact of the weights on a Spark."""

import shlex
from collections.abc import Sequence

from sparkwright.artifacts.weights.weights import CheckpointFolder, parse_folders
from sparkwright.common.facts import HostFact

# Seconds for the names in a folder, whose disk may hang; and bytes of a record.
_PATIENCE, _RECORD = 60, 4 * 1024 * 1024


class WeightFolders(HostFact[dict[str, CheckpointFolder]]):
    """The contents of checkpoint folders, without reading weights; it fails on unreadable ones.

    Record and names are by whoever fetches: neither can make a line of another kind.
    """

    default = dict

    def command(self, root: str, folders: Sequence[str]) -> str:
        return f"""
LC_ALL=C; export LC_ALL
for folder in {shlex.join(folders)}; do
  printf 'folder\\t%s\\n' "$folder"
  cd {shlex.quote(root)} 2>/dev/null || continue
  if [ -e "manifests/$folder.json" ]; then
    printf 'manifest\\t%s\\n' "$(sha256sum < "manifests/$folder.json")"
  fi
  [ -d "$folder" ] || continue
  cd "$folder" || exit 1
  if [ -f .sparkwright.json ] && [ ! -L .sparkwright.json ]; then
    printf 'record\\t%s\\n' "$(head -c {_RECORD} .sparkwright.json | tr -d '\\n')"
  fi
  timeout -s KILL {_PATIENCE} find . \\( -path ./.cache -o -path './.sparkwright*' \\) -prune -o \\
    -type f \\( -path '*[[:cntrl:]]*' -printf 'file\\t%s\\t%T@\\t%i\\t?\\n' -o \\
    -printf 'file\\t%s\\t%T@\\t%i\\t%P\\n' \\) || exit 1
done"""

    parse = staticmethod(parse_folders)
