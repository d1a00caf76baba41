"""Hooks of mkdocs: the pages of the repository's root join the site, which loads nothing else.

mkdocs loads this file by its path in an environment of its own: it has nothing of the project.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

# Files of the root, and their pages.
ROOT = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
}
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!\w+:|#)([^)#]*)(#[^)]*)?\)")
_LOADS = re.compile(r"""<(?:script|img|link|iframe)\b[^>]*\b(?:src|href)=["']?(?:https?:)?//""")


def on_files(files: Files, config: Any) -> Files:
    for name, page in ROOT.items():
        text = Path(config.config_file_path).with_name(name).read_text(encoding="utf-8")
        text = text.replace("](docs/", "](")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Point links at pages of the site, by their titles; of other files only the name is left."""
    of_root = page.file.src_uri in ROOT.values()
    if page.file.src_uri == "index.md":
        page.meta["hide"] = ["navigation"]

    def pointed(link: re.Match[str]) -> str:
        text, path, anchor = link[1], link[2], link[3] or ""
        name = path.removeprefix("../")
        if name in ROOT and (of_root or name != path):
            return f"[{text}]({ROOT[name]}{anchor})"
        target = files.get_file_from_path(path)
        if not target and (of_root or name != path):
            return text
        if target and text.removeprefix("docs/") == path:
            text = target.content_string.partition("\n")[0].removeprefix("# ")
        return f"[{text}]({path}{anchor})"

    return _LINK.sub(pointed, markdown)


def on_post_page(output: str, page: Any, config: Any) -> str:
    if found := _LOADS.search(output):
        raise PluginError(f"{page.file.src_uri}: loads from elsewhere: {found[0]}")
    return output
