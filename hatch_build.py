"""The package's metadata that depends on where the project is: its addresses, and README.md.

An index shows README.md without the files beside it. So its links get the address that
`tool.sparkwright` of pyproject.toml has, at the version's tag; without one, their words are left.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

# A link or a picture of Markdown that leads to a file of the project.
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!\w+:)([^)#\s]*)(#[^)\s]*)?\)")


def description(readme: str, repository: str, version: str) -> str:
    """Return README.md as an index shows it."""

    def absolute(link: re.Match[str]) -> str:
        picture, text, path, anchor = link[1], link[2], link[3] or "README.md", link[4] or ""
        if not repository:
            return text
        kind = "raw" if picture else "blob"
        return f"{picture}[{text}]({repository}/{kind}/v{version}/{path}{anchor})"

    return _LINK.sub(absolute, readme)


def urls(repository: str, site: str) -> dict[str, str]:
    """Return the addresses that an index shows beside the package; none while there are none."""
    if not repository:
        return {}
    pages = {"Documentation": site} if site else {}
    return pages | {
        "Source": repository,
        "Changelog": f"{repository}/blob/main/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }


class Addresses(MetadataHookInterface):
    """Fills in `readme` and `urls`, which pyproject.toml lists as dynamic."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Set both."""
        root = Path(self.root)
        project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
        own = project["tool"]["sparkwright"]
        readme = (root / "README.md").read_text(encoding="utf-8")
        text = description(readme, own["repository"], metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = urls(own["repository"], own["site"])
