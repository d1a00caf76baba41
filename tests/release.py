"""Prints the changelog's section for a tag, unless the tag is not of this version or place.

python -m tests.release v0.1.0            as the workflow does
python -m tests.release v0.1.0 --ready    says what is missing for the tag to be made here
"""

import argparse
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import sparkwright

PROJECT = Path(__file__).parents[1]
CHANGELOG = PROJECT / "CHANGELOG.md"
_KEY = "pyproject.toml: tool.sparkwright"
# Where tests/tiers.py notes the commit that a run has passed at.
_PASSED = "test-results/{}.passed"
# What a workflow says of where it runs.
_PLACE = ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY")
_NEXT = """
{tag} is tagged here, and built in dist/, sbom/ and site/. Nothing is published. What remains:
  git push origin main {tag}
The workflow runs all checks again, and waits at the environment pypi for its reviewer; then the
package, the docs site and the GitHub release are there. Not yet? git tag --delete {tag}"""


def notes(tag: str, changelog: str, version: str) -> str:
    """Return the text of the changelog about a version, without its heading.

    Args:
        tag: as in git, such as v0.1.0.
        changelog: the whole file.
        version: of the package.

    Raises:
        ValueError: the tag is of another version, or the changelog says nothing about this one.
    """
    if tag != f"v{version}":
        raise ValueError(f"found the tag {tag}; expected v{version}, by sparkwright/__init__.py")
    heading = rf"## {re.escape(version)} - \d{{4}}-\d\d-\d\d\n"
    _, *found = re.split(f"^{heading}", changelog, maxsplit=1, flags=re.MULTILINE)
    text = re.split(r"^## ", found[0], maxsplit=1, flags=re.MULTILINE)[0].strip() if found else ""
    if not text:
        raise ValueError(
            f"CHANGELOG.md: found nothing about {version}; expected a section "
            f"`## {version} - YYYY-MM-DD`"
        )
    return text


def address_problem(own: Mapping[str, str], environment: Mapping[str, str]) -> str | None:
    """Return why the addresses of pyproject.toml are not those of a release, or None."""
    for name in ("repository", "site"):
        if not re.fullmatch(r"https://[\w.-]+/\S*", own[name]):
            return f'{_KEY}.{name}: found "{own[name]}"; expected https://…'
    where = "/".join(environment.get(name, "") for name in _PLACE)
    if where != "/" and own["repository"] != where:
        return f"{_KEY}.repository: found {own['repository']}; expected {where}"
    return None


def unready(project: Path, tag: str) -> Iterator[str]:
    """Yield what a clone lacks for a tag to be made in it."""
    if _git(project, "status", "--porcelain"):
        yield "git status: found changes; expected all committed"
    if _git(project, "tag", "--list", tag):
        yield f"found the tag {tag} already; expected a new version"
    if (branch := _git(project, "branch", "--show-current")) != "main":
        yield f"found the branch {branch or 'of no name'}; expected main"
    head = _git(project, "rev-parse", "HEAD")
    for run in ("test", "rest"):
        passed = project / _PASSED.format(run)
        if not passed.exists() or passed.read_text().strip() != head:
            yield f"{_PASSED.format(run)}: found no run at this commit; expected: make test-all"


def _git(project: Path, *words: str) -> str:
    command = ["git", "-C", str(project), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    """Print the notes; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.release",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("tag", help="such as v0.1.0")
    parser.add_argument("--ready", action="store_true", help="look at this clone as well")
    parser.add_argument("--next", action="store_true", help="print what remains after the tag")
    options = parser.parse_args()
    if options.next:
        print(_NEXT.format(tag=options.tag))
        return 0
    own = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["sparkwright"]
    problems = [*(unready(PROJECT, options.tag) if options.ready else ())]
    problems += filter(None, [address_problem(own, os.environ)])
    try:
        print(notes(options.tag, CHANGELOG.read_text(), sparkwright.__version__))
    except ValueError as error:
        problems.append(str(error))
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
