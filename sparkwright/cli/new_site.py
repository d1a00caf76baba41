"""A new site: the folder that an owner keeps in git, with his inventory, settings and recipes."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from string import ascii_lowercase
from unicodedata import normalize

from pydantic import ValidationError

from sparkwright import __version__
from sparkwright.common import yaml
from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import unwritable
from sparkwright.common.paths import FILES, PACKAGE
from sparkwright.common.render import render
from sparkwright.declared.fleet.fleet import Spark

_TEMPLATES = FILES / "site"
# A site has these from the project itself: in a checkout they lie beside `files`, in an installed
# package among the templates.
_SHARED = ("inventory.py", "config.py", "deploys", "tests/verify")
# An address with a port; an IPv6 address then needs its brackets.
_WITH_PORT = re.compile(r"(?:\[([^\]]+)\]|([^:\[\]]+))(?::([0-9]{1,5}))?")


def parse_spark(text: str, key: str | None = None) -> Spark:
    """Return the Spark of ``[USER@]ADDRESS[:PORT]``, by a private key; "local" is this machine."""
    login, at, rest = text.strip().rpartition("@")
    if rest == "local":
        return Spark(local=True)
    match = _WITH_PORT.fullmatch(rest)
    address, port = (match[1] or match[2], match[3]) if match else (rest, None)
    given = {"ssh_hostname": address, "ssh_user": login if at else None, "ssh_key": key}
    given |= {"ssh_port": int(port) if port else None}
    try:
        return Spark.model_validate({k: each for k, each in given.items() if each is not None})
    except ValidationError:
        raise PlanError(
            f"found {text!r}; expected the address of a Spark, such as 192.168.1.20 or "
            "nvidia@spark-a.local"
        ) from None


def login(spark: Spark) -> str:
    """Return a Spark as ssh names it: USER@ADDRESS."""
    if spark.local:
        return "local"
    return f"{spark.ssh_user}@{spark.ssh_hostname}" if spark.ssh_user else f"{spark.ssh_hostname}"


def inventory_text(sparks: Sequence[Spark], recipe: str, count: int) -> str:
    """Return a new inventory file: each replica has so many Sparks."""
    # a to z, and then by number.
    ends = [*ascii_lowercase, *map(str, range(27, len(sparks) + 1))][: len(sparks)]
    hosts = {
        f"spark-{end}": _flow(spark.model_dump(exclude_unset=True))
        for end, spark in zip(ends, sparks, strict=True)
    }
    groups = {ends[n]: [*hosts][n : n + count] for n in range(0, len(ends), count)}
    served = {f"chat-{end}" if len(groups) > 1 else "chat": each for end, each in groups.items()}
    replicas = {name: _flow({"recipe": recipe, "sparks": own}) for name, own in served.items()}
    return render(_TEMPLATES / "sparks.yaml.j2", sparks=hosts, replicas=replicas)


def _flow(values: Mapping[str, object]) -> str:
    return yaml.dump(dict(values), default_flow_style=True).strip()


def _requirement() -> str:
    """Return what pip and uv call this Sparkwright, by where it came from (PEP 610)."""
    try:
        text = distribution("sparkwright").read_text("direct_url.json")
    except PackageNotFoundError:
        # A clone that was not installed.
        text = json.dumps({"url": PACKAGE.parent.as_uri()})
    if not text:
        return f"sparkwright[verify]>={__version__}"
    url, vcs = (json.loads(text).get(key) for key in ("url", "vcs_info"))
    if vcs:
        # uv.lock pins the commit; a branch or a tag stays what was asked for.
        wanted = vcs.get("requested_revision")
        url = f"{vcs['vcs']}+{url}{f'@{wanted}' if wanted else ''}"
    return f"sparkwright[verify] @ {url}"


def site_files(name: str, inventory: str) -> dict[str, str]:
    """Return the files of a new site: their texts by their paths in it."""
    # The project's name is no package's, and of the letters that one may have.
    plain = normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    project = "-".join([*re.findall("[a-z0-9]+", plain), "site"])
    values = {"name": name, "project": project, "requirement": _requirement()}
    files = {
        path.relative_to(_TEMPLATES).as_posix().removesuffix(".j2"): render(path, **values)
        for path in sorted(_TEMPLATES.rglob("*.j2"))
        if path.name != "sparks.yaml.j2"
    }
    for shared in _SHARED:
        base = _TEMPLATES if (_TEMPLATES / shared).exists() else FILES.parent
        for path in sorted((base / shared).glob("*.py")) or [base / shared]:
            files[path.relative_to(base).as_posix()] = path.read_text("utf-8")
    return files | {"inventory/sparks.yaml": inventory}


def write_site(folder: Path, files: Mapping[str, str]) -> None:
    """Write the files of a new site; nothing is left where they cannot be written."""
    if there := [name for name in files if (folder / name).exists()]:
        raise PlanError(
            f"{folder}: found {there[0]}; expected a new or empty folder, as nothing is overwritten"
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".") as temporary:
            new = Path(temporary, folder.name)
            for name, text in files.items():
                path = new / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            if folder.exists():
                shutil.copytree(new, folder, dirs_exist_ok=True)
            else:
                new.rename(folder)
    except OSError as error:
        raise unwritable(folder, error) from None
