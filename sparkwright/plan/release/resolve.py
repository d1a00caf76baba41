"""Resolves names: asks the hub for commits and files, and the registry for digests."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from huggingface_hub import constants

from sparkwright.common.schema import parse
from sparkwright.plan.release.lock import CheckpointLock, ImageLock
from sparkwright.plan.release.model_config import shape_of
from sparkwright.plan.release.needed_files import Choice, needed
from sparkwright.plan.release.registry import RegistryImage, registry_architecture
from sparkwright.plan.release.registry_login import mirrored
from sparkwright.plan.release.web import NO_HEADERS, WebAnswer, WebClient, look_up, unexpected

CONFIG = "config.json"
# Bytes of an index of shards that is read: what it names then has to be there. Of a larger one, as
# models of trillions of parameters have them, the names of the shards tell how many there are.
_LARGEST_INDEX = 8 << 20
BY_RULES = Choice()


def resolve_checkpoint(
    repo: str,
    revision: str,
    endpoint: str | None = None,
    token: str | None = None,
    choice: Choice = BY_RULES,
) -> CheckpointLock:
    """Ask the hub for what a lock has of a repository; without a token, anonymously."""
    hub = endpoint or constants.ENDPOINT
    where = f"{hub}: {repo}@{revision}"

    def ask(client: WebClient) -> dict[str, Any]:
        return HubRepository(client, hub, repo, token, where).checkpoint(revision, choice)

    data = look_up(ask, where, "Hub", "hub's", "hf_endpoint")
    return parse(CheckpointLock, data | {"repo": repo, "revision": revision}, where)


@dataclass(frozen=True)
class HubRepository:
    """A repository on a hub, read by the API that huggingface_hub uses.

    That library's own client bounds no answer.
    """

    client: WebClient
    hub: str
    repo: str
    token: str | None
    where: str

    def checkpoint(self, revision: str, choice: Choice) -> dict[str, Any]:
        """Return commit, day, shape and files of a revision."""
        info = self._api(f"revision/{quote(revision, safe='')}?blobs=true")
        if info["gated"]:
            # The metadata of a gated repository are public, its files are not.
            self._api("auth-check")
        commit = str(info["sha"])
        every = {entry["rfilename"]: _file(entry) for entry in info["siblings"]}
        sizes = {path: int(file["size"]) for path, file in every.items()}

        def shards(index: str) -> Collection[str]:
            if sizes[index] > _LARGEST_INDEX:
                return ()
            return {*map(str, self.content(commit, index)["weight_map"].values())}

        found = needed(sizes, choice, shards, f"{self.repo}@{commit[:12]}")
        config = self.content(commit, CONFIG) if CONFIG in every else {}
        return {
            "commit": commit,
            # The list of a commit and all before it has the commit itself first.
            "date": self._api(f"commits/{commit}")[0]["date"][:10],
            "shape": shape_of(config),
            "files": {path: file for path, file in every.items() if path in found},
        }

    def content(self, commit: str, path: str) -> dict[str, Any]:
        """Return the object in a file; an empty one if it holds something else."""
        answer = self._get(f"{self.repo}/resolve/{commit}/{quote(path)}")
        try:
            content = answer.json()
        except (ValueError, RecursionError) as error:
            where = f"{self.repo}@{commit}: {path}"
            raise unexpected(where, str(error), "JSON") from None
        return content if isinstance(content, dict) else {}

    def _api(self, path: str) -> Any:
        return self._get(f"api/models/{self.repo}/{path}").json()

    def _get(self, path: str) -> WebAnswer:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else NO_HEADERS
        answer = self.client.get(f"{self.hub}/{path}", headers)
        message = answer.headers.get("X-Error-Message", "")
        is_wrong = message == "Invalid credentials in Authorization header"
        # The hub hides what one may not see.
        match answer.status, answer.headers.get("X-Error-Code"):
            case 200, _:
                return answer
            case _, "GatedRepo":
                found = "a token that has no access" if self.token else "no token"
                found = f"a gated repository and {found}"
                expected = "a token of an account that was granted access"
            case _, "RevisionNotFound":
                found, expected = "no such revision", "a branch, tag or commit of it"
            case (_, "RepoNotFound") | (401, _) if not is_wrong:
                found, expected = "no such repository", "another name, or a token that may see it"
            case status, _:
                found = f"HTTP status {status}"
                expected = "a valid token" if status == 401 else "an answer; try again later"
        raise unexpected(self.where, found, expected)


def _file(entry: dict[str, Any]) -> dict[str, Any]:
    if lfs := entry.get("lfs"):
        return {"size": lfs["size"], "sha256": lfs["sha256"]}
    return {"size": entry["size"], "git": entry["blobId"]}


def resolve_image(
    reference: str, arch: str, mirrors: Mapping[str, str] = MappingProxyType({})
) -> ImageLock:
    """Ask a registry, or its mirror, for an image's digest, and for its size on one platform."""

    def ask(client: WebClient) -> ImageLock:
        image = RegistryImage(reference, client, mirrored(reference, mirrors))
        return image.lock(registry_architecture(arch))

    return look_up(ask, reference, "registry", "manifest", "the image's name")
