"""A new site: the folder that an owner keeps in git, with his inventory, settings and recipes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from unicodedata import normalize
from urllib.parse import unquote, urlsplit

from sparkwright import __version__
from sparkwright.common import yaml
from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import unwritable
from sparkwright.common.paths import FILES, PACKAGE
from sparkwright.common.render import render

_TEMPLATES = FILES / "site"
# A site has these from the project itself: in a checkout they lie beside `files`, in an installed
# package among the templates.
_SHARED = ("inventory.py", "config.py", "deploys", "tests/verify")
_HOST = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]*|[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*(%\w+)?")
_USER = re.compile(r"[^@\s:/]+")
# An address with a port; an IPv6 address then needs its brackets.
_WITH_PORT = re.compile(r"(?:\[([^\]]+)\]|([^:\[\]]+))(?::([0-9]{1,5}))?")


@dataclass(frozen=True)
class NewSpark:
    """A Spark as its owner names it.

    Attributes:
        address: Host name or IP address; "local" for the machine that runs this.
        user: Who logs in; None where the SSH configuration says it.
        port: TCP port of sshd; None for 22, or what the SSH configuration says.
        key: Path of a private key; None for the agent's, or the usual ones.
        hardware: Its hardware class.
    """

    address: str
    user: str | None = None
    port: int | None = None
    key: str | None = None
    hardware: str = "gb10"

    @property
    def is_local(self) -> bool:
        """Tell whether it is the machine that runs this."""
        return self.address == "local"

    @property
    def login(self) -> str:
        """USER@ADDRESS, as ssh takes it."""
        return f"{self.user}@{self.address}" if self.user else self.address

    @property
    def connection(self) -> dict[str, str | int]:
        """The keys of the inventory that say how it is reached."""
        if self.is_local:
            return {"local": True}
        values = {
            "ssh_hostname": self.address,
            "ssh_user": self.user,
            "ssh_port": self.port,
            "ssh_key": self.key,
        }
        return {key: value for key, value in values.items() if value is not None}


def parse_spark(text: str, user: str | None = None, key: str | None = None) -> NewSpark:
    """Return the Spark that ``[USER@]ADDRESS[:PORT]`` stands for.

    Args:
        text: What the owner has typed; an IPv6 address with a port is in brackets.
        user: Who logs in where the text does not say it.
        key: Path of a private key.

    Raises:
        PlanError: It is no address.
    """
    login, at, rest = text.strip().rpartition("@")
    match = _WITH_PORT.fullmatch(rest)
    address, port = (match[1] or match[2], match[3]) if match else (rest, None)
    if not _HOST.fullmatch(address) or (at and not _USER.fullmatch(login)):
        raise PlanError(
            f"found {text!r}; expected the address of a Spark, such as 192.168.1.20 or "
            "nvidia@spark-a.local"
        )
    return NewSpark(address, login or user, int(port) if port else None, key)


def replicas_of(names: Sequence[str], recipe: str, pair: bool) -> dict[str, dict[str, object]]:
    """Return the replicas of a new inventory: one for both Sparks of a pair, else one for each."""
    if pair or len(names) == 1:
        return {"chat": {"recipe": recipe, "sparks": [*names]}}
    return {
        f"chat-{name.removeprefix('spark-')}": {"recipe": recipe, "sparks": [name]}
        for name in names
    }


def spark_names(count: int) -> list[str]:
    """Return names for new Sparks: spark-a, spark-b, … up to spark-z, then by number."""
    if count > 26:
        return [f"spark-{number}" for number in range(1, count + 1)]
    return [f"spark-{chr(ord('a') + number)}" for number in range(count)]


def inventory_text(sparks: Sequence[NewSpark], recipe: str, pair: bool) -> str:
    """Return the inventory file of a new site."""
    names = spark_names(len(sparks))
    hosts = {
        name: spark.connection | ({} if spark.hardware == "gb10" else {"hardware": spark.hardware})
        for name, spark in zip(names, sparks, strict=True)
    }
    return render(
        _TEMPLATES / "sparks.yaml.j2",
        sparks={name: _flow(values) for name, values in hosts.items()},
        replicas={name: _flow(values) for name, values in replicas_of(names, recipe, pair).items()},
    )


def _flow(values: Mapping[str, object]) -> str:
    return yaml.dump(dict(values), default_flow_style=True).strip()


@dataclass(frozen=True)
class _Source:
    """Where a site gets Sparkwright from.

    Attributes:
        requirement: As pip takes it.
        uv: What uv's `sources` say of it; "" for an index.
    """

    requirement: str = f"sparkwright[verify]=={__version__}"
    uv: str = ""


def _source() -> _Source:
    """Return where this Sparkwright came from (PEP 610): an index, a clone, a wheel, or git."""
    try:
        text = distribution("sparkwright").read_text("direct_url.json")
    except PackageNotFoundError:
        # A clone that was not installed.
        text = json.dumps({"url": PACKAGE.parent.as_uri(), "dir_info": {}})
    if not text:
        return _Source()
    told = json.loads(text)
    url = told["url"]
    if vcs := told.get("vcs_info"):
        pin = f"{vcs['vcs']}+{url}@{vcs['commit_id']}"
        uv = f'{{ {vcs["vcs"]} = {json.dumps(url)}, rev = "{vcs["commit_id"]}" }}'
    else:
        pin, path = url, unquote(urlsplit(url).path)
        local = url.startswith("file:")
        uv = f"{{ {'path' if local else 'url'} = {json.dumps(path if local else url)} }}"
    return _Source(f"sparkwright[verify] @ {pin}", uv)


def project_name(name: str) -> str:
    """Return a name for the site's project: no package's, and of the letters that one may have."""
    plain = normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return "-".join([*re.findall("[a-z0-9]+", plain), "site"])


def site_files(name: str, inventory: str) -> dict[str, str]:
    """Return the files of a new site: their texts by their paths in it.

    Args:
        inventory: The text of inventory/sparks.yaml.
    """
    project = project_name(name)
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
    """Write the files of a new site.

    Raises:
        PlanError: Some of them are there already, or they cannot be written; nothing is left.
    """
    if there := [name for name in files if (folder / name).exists()]:
        shown = ", ".join(there[:3]) + (", …" if len(there) > 3 else "")
        raise PlanError(
            f"{folder}: found {shown}; expected a new or empty folder, as nothing is overwritten"
        )
    is_new = not folder.exists()
    try:
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        for name in files:
            (folder / name).unlink(missing_ok=True)
        inner = {folder / parent for name in files for parent in Path(name).parents}
        for path in sorted(inner - (set() if is_new else {folder}), reverse=True):
            with suppress(OSError):
                path.rmdir()
        raise unwritable(folder, error) from None
