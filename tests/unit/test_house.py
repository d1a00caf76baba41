"""The library is easy to enter: small folders that the docs name, and names of one meaning."""

import ast
import re
from collections import Counter
from pathlib import Path

PROJECT = Path(__file__).parents[2]
LIBRARY = PROJECT / "sparkwright"
HOST = PROJECT / "files/host"


def test_no_folder_has_more_than_18_modules() -> None:
    modules = [path for path in _modules() if path.stem != "__init__"]
    assert max(Counter(path.parent for path in modules).values()) <= 18


def test_each_wing_and_subject_has_a_line_in_the_docs() -> None:
    text = (PROJECT / "docs/architecture.md").read_text()
    rows = [row for row in text.splitlines() if row.startswith("| `")]
    wings = [path.parent.name for path in LIBRARY.glob("*/__init__.py")]
    assert len(wings) == 13
    subjects = [*wings, *(path.parent.name for path in LIBRARY.glob("*/*/__init__.py"))]
    assert [each for each in subjects if not any(f"`{each}`" in row for row in rows)] == []


def test_no_class_name_stands_for_two_things() -> None:
    names = Counter(
        node.name
        for path in _modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_what_texts_name_is_there() -> None:
    """A file that moves leaves its name in comments, sources of causes, and pages."""
    # What a site's `.venv/share` has is installed there.
    named = re.compile(
        r"(?<!/share/)\b(?:files|sparkwright)/[\w@./-]+\.(?:py|service|timer|cfg|yml|json|sh)\b"
    )
    pages = [*(PROJECT / "docs").rglob("*.md"), PROJECT / "README.md", PROJECT / "CONTRIBUTING.md"]
    names = {
        name: str(path.relative_to(PROJECT))
        for path in (*_modules(), *pages, *HOST.rglob("*.service"))
        for name in named.findall(path.read_text())
    }
    assert len(names) > 20
    assert {name: by for name, by in names.items() if not (PROJECT / name).exists()} == {}


def test_each_text_file_is_read_and_written_as_utf_8() -> None:
    """By default Python takes the locale's encoding, which may be ASCII."""
    product = [
        *_modules(),
        *(PROJECT / "deploys").rglob("*.py"),
        *(PROJECT / "files").glob("images/**/*.py"),
    ]
    calls = [
        (path, node)
        for path in product
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    ]
    assert sum(_is_of_text(node) for _, node in calls) > 40
    assert [
        f"{path}:{node.lineno}"
        for path, node in calls
        if _is_of_text(node) and not _names_encoding(node)
    ] == []


def _is_of_text(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    if name.endswith((".read_text", ".write_text")):
        return True
    if name in ("os.open", "tarfile.open", "self._report.open", "opener.open"):
        return False
    modes = [
        *call.args[name in ("open", "os.fdopen") :],
        *(each.value for each in call.keywords if each.arg == "mode"),
    ]
    is_binary = any(isinstance(each, ast.Constant) and "b" in str(each.value) for each in modes)
    return (name in ("open", "os.fdopen") or name.endswith(".open")) and not is_binary


def _names_encoding(call: ast.Call) -> bool:
    place = {"read_text": 0, "write_text": 1}.get(ast.unparse(call.func).rpartition(".")[2])
    return any(each.arg == "encoding" for each in call.keywords) or (
        place is not None and len(call.args) > place
    )


def _modules() -> list[Path]:
    return [*LIBRARY.rglob("*.py"), *HOST.rglob("*.py")]
