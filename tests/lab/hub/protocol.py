"""What the hub says: accounts, refusals, and the JSON of its API, as the public hub words them."""

from dataclasses import dataclass, field
from typing import Any

from tests.lab.hub.repositories import Commit, File, Repository


@dataclass(frozen=True)
class Account:
    """Who a token belongs to; a member may read gated and private repositories."""

    name: str
    member: bool


# The public hub's, for a client that asks for no `limit`.
COMMITS_PER_PAGE = 50

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
    """Return the refusal for files of a gated repository."""
    restricted = f"Access to model {name} is restricted"
    if account is None:
        return Refusal(
            401,
            f"{restricted}. You must have access to it and be authenticated to access it."
            " Please log in.",
            "GatedRepo",
        )
    return Refusal(
        403,
        f"{restricted} and you are not in the authorized list."
        f" Visit https://huggingface.co/{name} to ask for access.",
        "GatedRepo",
    )


def staged_refusal(name: str, subject: str, seconds: int) -> Refusal:
    """Return the refusal that a fault of this name stands for."""
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


def whoami(account: Account) -> dict[str, Any]:
    """Return the answer of /api/whoami-v2."""
    token = {"displayName": "lab", "role": "read", "createdAt": "2026-01-01T00:00:00.000Z"}
    return {
        "type": "user",
        "id": account.name,
        "name": account.name,
        "fullname": account.name,
        "isPro": False,
        "orgs": [],
        "auth": {"type": "access_token", "accessToken": token},
    }


def model_info(repository: Repository, commit: Commit, *, blobs: bool) -> dict[str, Any]:
    """Return the answer of /api/models/NAME; `blobs` adds sizes and hashes of the files."""
    return {
        "_id": commit.id[:24],
        "id": repository.name,
        "modelId": repository.name,
        "author": repository.name.split("/")[0],
        "sha": commit.id,
        "lastModified": commit.date,
        "createdAt": repository.commits[0].date,
        "private": repository.private,
        "gated": "manual" if repository.gated else False,
        "disabled": False,
        "downloads": 0,
        "likes": 0,
        "tags": [],
        "siblings": [
            {"rfilename": path} | (_blob(file) if blobs else {})
            for path, file in commit.files.items()
        ],
    }


def refs(repository: Repository) -> dict[str, Any]:
    """Return the answer of /api/models/NAME/refs."""
    main = {"name": "main", "ref": "refs/heads/main", "targetCommit": repository.commits[-1].id}
    tags = [
        {"name": commit.tag, "ref": f"refs/tags/{commit.tag}", "targetCommit": commit.id}
        for commit in repository.commits
    ]
    return {"branches": [main], "converts": [], "tags": tags, "pullRequests": []}


def commits(repository: Repository, commit: Commit, page: int) -> tuple[list[dict[str, Any]], bool]:
    """Return one page of a commit and all before it, the newest first, and whether more follow."""
    newest_first = repository.commits[repository.commits.index(commit) :: -1]
    shown = newest_first[page * COMMITS_PER_PAGE : (page + 1) * COMMITS_PER_PAGE]
    listing = [
        {
            "id": each.id,
            "title": each.tag,
            "message": "",
            "authors": [{"user": repository.name.split("/")[0], "avatar": ""}],
            "date": each.date,
        }
        for each in shown
    ]
    return listing, len(newest_first) > (page + 1) * COMMITS_PER_PAGE


def tree(commit: Commit, folder: str, *, recursive: bool, expand: bool) -> list[dict[str, Any]]:
    """Return the entries below a folder (empty: the root), folders included."""
    prefix = f"{folder}/" if folder else ""
    entries: dict[str, dict[str, Any]] = {}
    for path in commit.files:
        if not path.startswith(prefix):
            continue
        parts = path.removeprefix(prefix).split("/")
        depth = len(parts) if recursive else 1
        for end in range(1, depth + 1):
            shown = prefix + "/".join(parts[:end])
            entries.setdefault(shown, entry(commit, shown, expand=expand))
    if folder and not entries:
        raise Refusal(404, f"{folder} does not exist on this revision", "EntryNotFound")
    return list(entries.values())


def entry(commit: Commit, path: str, *, expand: bool) -> dict[str, Any]:
    """Return one entry of a tree; what is no file of the commit is a folder in it."""
    shown: dict[str, Any]
    file = commit.files.get(path)
    if file is None:
        shown = {"type": "directory", "path": path, "oid": commit.id, "size": 0}
    else:
        shown = {"type": "file", "path": path, "oid": file.blob, "size": file.size}
        if file.sha256:
            shown["lfs"] = {
                "oid": file.sha256,
                "size": file.size,
                "pointerSize": file.pointer_size,
            }
    if expand:
        shown["lastCommit"] = {"id": commit.id, "title": commit.tag, "date": commit.date}
    return shown


def _blob(file: File) -> dict[str, Any]:
    shown: dict[str, Any] = {"size": file.size, "blobId": file.blob}
    if file.sha256:
        shown["lfs"] = {
            "sha256": file.sha256,
            "size": file.size,
            "pointerSize": file.pointer_size,
        }
    return shown
