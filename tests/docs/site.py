"""Hooks of mkdocs: the pages of the repository's root join the site, which loads nothing else.

mkdocs loads this file by its path in an environment of its own: it has nothing of the project. Its
addresses are those of pyproject.toml; llms.txt lists the pages for a program that reads them.
"""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

# Files of the root, and GitHub's map of the pages, by their pages here.
_MAP = {"docs/README.md": "pages.md"}
ROOT = _MAP | {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
}
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!\w+:|#)([^)#]*)(#[^)]*)?\)")
# A page's own address is no load.
_LOADS = re.compile(
    r"""<(?:script|img|link(?! rel="?canonical)|iframe)\b[^>]*\b(?:src|href)=["']?(?:https?:)?//"""
)
# The pages as a reader of Markdown gets them.
_texts: dict[str, str] = {}


def on_config(config: Any) -> Any:
    project = Path(config.config_file_path).with_name("pyproject.toml")
    own = tomllib.loads(project.read_text(encoding="utf-8"))["tool"]["sparkwright"]
    config.site_url, config.repo_url = own["site"], own["repository"]
    config.repo_name = "/".join(own["repository"].split("/")[-2:])
    return config


def on_files(files: Files, config: Any) -> Files:
    for name, page in ROOT.items():
        text = (Path(config.config_file_path).parent / name).read_text(encoding="utf-8")
        text = text.replace("](docs/README.md)", "](pages.md)").replace("](docs/", "](")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Point links at pages of the site, by their titles; of other files only the name is left."""
    of_root = page.file.src_uri in ROOT.values()
    if config.repo_url:
        source = next((name for name, own in ROOT.items() if own == page.file.src_uri), None)
        page.edit_url = f"{config.repo_url}/edit/main/{source or f'docs/{page.file.src_uri}'}"
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

    _texts[page.file.src_uri] = text = _LINK.sub(pointed, markdown)
    return text


def on_post_build(config: Any) -> None:
    """Add each page as Markdown, and llms.txt with their addresses."""
    lines = [f"# {config.site_name}", f"> {config.site_description}"]
    for title, below in (each for entry in config.nav for each in entry.items()):
        pages = [{title: below}] if isinstance(below, str) else below
        lines.append("\n".join([f"## {title}\n", *map(_listed(config.site_url), pages)]))
    folder = Path(config.site_dir)
    for name, text in _texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "llms.txt").write_text("\n\n".join(lines) + "\n", encoding="utf-8")


def _listed(site: str) -> Callable[[dict[str, str]], str]:
    return lambda page: "\n".join(f"- [{title}]({site}{path})" for title, path in page.items())


def on_post_page(output: str, page: Any, config: Any) -> str:
    if found := _LOADS.search(output):
        raise PluginError(f"{page.file.src_uri}: loads from elsewhere: {found[0]}")
    return output
