"""What the hub says: accounts, refusals, and the JSON of its API, as the public hub words them."""

from dataclasses import dataclass, field
from typing import Any

from tests.lab.hub.repositories import Commit, File, Repository


@dataclass(frozen=True)
class Account:
    """Who a token belongs to; a member may read gated repositories."""

    name: str
    member: bool


# Not secrets: constants of the lab, valid nowhere else.
TOKENS = {
    "hf_lab_reader": Account("lab-reader", member=True),
    "hf_lab_guest": Account("lab-guest", member=False),
}


@dataclass
class Refusal(Exception):
    """An answer other than success: `code` is what clients tell cases of one status apart by."""

    status: int
    message: str
    code: str | None = None
    headers: dict[str, str] = field(default_factory=dict)


def account_of(authorization: str | None) -> Account | None:
    """Return who an Authorization header speaks for; None without one; a bad token is refused."""
    if authorization is None:
        return None
    account = TOKENS.get(authorization.removeprefix("Bearer "))
    if account is None:
        raise Refusal(401, "Invalid credentials in Authorization header")
    return account


def missing_repository(account: Account | None) -> Refusal:
    """Return the refusal for a repository that is not there, or not for this account to know of."""
    if account is None:
        return Refusal(401, "Invalid username or password.", "RepoNotFound")
    return Refusal(404, "Repository not found", "RepoNotFound")


def gated_repository(name: str, account: Account | None) -> Refusal:
    message = f"Access to model {name} is restricted"
    if account is None:
        message += ". You must have access to it and be authenticated to access it. Please log in."
        return Refusal(401, message, "GatedRepo")
    message += " and you are not in the authorized list."
    message += f" Visit https://huggingface.co/{name} to ask for access."
    return Refusal(403, message, "GatedRepo")


def staged_refusal(name: str, subject: str, seconds: int) -> Refusal:
    match name:
        case "401":
            return Refusal(401, "Invalid credentials in Authorization header")
        case "403-gated":
            parts = subject.removeprefix("api/models/").split("/")
            return gated_repository("/".join(parts[:2]), Account("anyone", member=False))
        case "404":
            code = "RepoNotFound" if subject.startswith("api/") else "EntryNotFound"
            return Refusal(404, "Not found", code)
        case "416":
            return Refusal(416, "Requested Range Not Satisfiable")
        case "429":
            return Refusal(
                429,
                "We had to rate limit your IP. Sign in or use a token for a higher limit.",
                headers={"Retry-After": str(seconds)},
            )
        case _:
            return Refusal(500, "Internal Error")


def model_info(repository: Repository, commit: Commit, *, blobs: bool) -> dict[str, Any]:
    """Return the answer of /api/models/NAME; `blobs` adds sizes and hashes of the files."""
    return {
        "id": repository.name,
        "sha": commit.id,
        "gated": "manual" if repository.gated else False,
        "siblings": [
            {"rfilename": path, "size": file.size, "blobId": file.blob, **_lfs(file, "sha256")}
            if blobs
            else {"rfilename": path}
            for path, file in commit.files.items()
        ],
    }


def commits(repository: Repository, commit: Commit) -> list[dict[str, Any]]:
    """Return a commit and all before it, the newest first."""
    return [
        {
            "id": each.id,
            "title": each.tag,
            "message": "",
            "authors": [{"user": repository.name.split("/")[0], "avatar": ""}],
            "date": each.date,
        }
        for each in repository.commits[repository.commits.index(commit) :: -1]
    ]


def tree(commit: Commit) -> list[dict[str, Any]]:
    """Return all entries of a commit; snapshot_download looks at its files."""
    return [
        {"type": "file", "path": path, "oid": file.blob, "size": file.size, **_lfs(file, "oid")}
        for path, file in commit.files.items()
    ]


def _lfs(file: File, name: str) -> dict[str, Any]:
    if file.sha256 is None:
        return {}
    pointer = {"size": file.size, "pointerSize": file.pointer_size}
    return {"lfs": {name: file.sha256, **pointer}}
