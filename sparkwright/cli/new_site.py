"""A new site: the folder that an owner keeps in git, with his inventory, settings and recipes."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from unicodedata import normalize
from urllib.parse import unquote, urlsplit

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
    given = {
        "ssh_hostname": address,
        "ssh_user": login if at else None,
        "ssh_port": int(port) if port else None,
        "ssh_key": key,
    }
    try:
        return Spark.model_validate(
            {name: each for name, each in given.items() if each is not None}
        )
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


def spark_names(count: int) -> list[str]:
    """Return names for new Sparks: spark-a, spark-b, … up to spark-z; of more, by number."""
    if count > 26:
        return [f"spark-{number}" for number in range(1, count + 1)]
    return [f"spark-{chr(ord('a') + number)}" for number in range(count)]


def inventory_text(sparks: Sequence[Spark], recipe: str, pair: bool) -> str:
    """Return a new inventory file: one replica for both Sparks of a pair, else one for each."""
    names = spark_names(len(sparks))
    if pair or len(names) == 1:
        replicas = {"chat": names}
    else:
        replicas = {f"chat-{name.removeprefix('spark-')}": [name] for name in names}
    hosts = (spark.model_dump(exclude_unset=True) for spark in sparks)
    return render(
        _TEMPLATES / "sparks.yaml.j2",
        sparks=dict(zip(names, map(_flow, hosts), strict=True)),
        replicas={
            name: _flow({"recipe": recipe, "sparks": served}) for name, served in replicas.items()
        },
    )


def _flow(values: Mapping[str, object]) -> str:
    return yaml.dump(dict(values), default_flow_style=True).strip()


def _source() -> dict[str, str]:
    """Return where this Sparkwright came from (PEP 610), for pip, and for uv's table of sources."""
    try:
        text = distribution("sparkwright").read_text("direct_url.json")
    except PackageNotFoundError:
        # A clone that was not installed.
        text = json.dumps({"url": PACKAGE.parent.as_uri(), "dir_info": {}})
    if not text:
        return {"requirement": f"sparkwright[verify]=={__version__}", "uv": ""}
    told = json.loads(text)
    url = told["url"]
    if vcs := told.get("vcs_info"):
        pin = f"{vcs['vcs']}+{url}@{vcs['commit_id']}"
        uv = f'{{ {vcs["vcs"]} = {json.dumps(url)}, rev = "{vcs["commit_id"]}" }}'
    else:
        pin, path = url, unquote(urlsplit(url).path)
        local = url.startswith("file:")
        uv = f"{{ {'path' if local else 'url'} = {json.dumps(path if local else url)} }}"
    return {"requirement": f"sparkwright[verify] @ {pin}", "uv": uv}


def site_files(name: str, inventory: str) -> dict[str, str]:
    """Return the files of a new site: their texts by their paths in it."""
    # The project's name is no package's, and of the letters that one may have.
    plain = normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    project = "-".join([*re.findall("[a-z0-9]+", plain), "site"])
    values = {"name": name, "project": project, "version": __version__, "source": _source()}
    files = {
        path.relative_to(_TEMPLATES).as_posix().removesuffix(".j2"): render(path, **values)
        for path in sorted(_TEMPLATES.rglob("*.j2"))
        if path.name != "sparks.yaml.j2"
    }
    files[".gitignore"] = files.pop("gitignore")
    for shared in _SHARED:
        path = _TEMPLATES / shared if (_TEMPLATES / shared).exists() else FILES.parent / shared
        for each in [path] if path.is_file() else sorted(path.glob("*.py")):
            inner = each.relative_to(path).as_posix()
            files[shared if path.is_file() else f"{shared}/{inner}"] = each.read_text("utf-8")
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
