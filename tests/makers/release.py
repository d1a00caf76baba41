"""Recipes, locks and releases for tests, and what may stand in their fields."""

from sparkwright.common.placed import Place
from sparkwright.declared.recipe.recipe import Recipe
from sparkwright.plan.release.command import Ranks
from sparkwright.plan.release.lock import CheckpointLock, ImageLock, Lock, LockedFile
from sparkwright.plan.release.release import Release, make_release
from tests.makers.recipe import good

COMMIT, DIGEST = "c" * 40, "sha256:" + "d" * 64
CONFIG = "sha256:" + "f" * 64
PAIR = (("192.168.100.11", "192.168.101.11"), ("192.168.100.12", "192.168.101.12"))
NASTY = [
    "$(touch pwned)",
    "`touch pwned`",
    "; touch pwned",
    "| touch pwned",
    "&& touch pwned #",
    "> pwned",
    "'; touch pwned; '",
    '"; touch pwned; "',
    "$HOME ${HOME} $1 $$",
    "* ? [a-z] ~ {a,b} !!",
    "back\\slash \\",
    "  two  spaces  ",
    "%s %d %n",
    "größe 模型 🙂",
    "",
    "it's",
]
ALONE = Ranks(("a",))
# A small transformer, with no more than what its shape is made of.
MODEL_CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "dtype": "bfloat16",
    "head_dim": 128,
    "hidden_size": 1024,
    "max_position_embeddings": 40960,
    "num_attention_heads": 16,
    "num_hidden_layers": 6,
    "num_key_value_heads": 8,
    "vocab_size": 151936,
}


def checkpoint(commit: str = COMMIT) -> CheckpointLock:
    files = {
        "model.safetensors": LockedFile(size=5, sha256="a" * 64),
        "config.json": LockedFile(size=1, git="b" * 40),
    }
    return CheckpointLock(repo="o/n", revision="main", commit=commit, files=files)


def recipe(**changes: object) -> Recipe:
    return Recipe.model_validate({"name": "try", **good(), **changes})


def lock(commit: str = COMMIT, digest: str = DIGEST) -> Lock:
    checkpoints = {
        f"owner/{name}@main": CheckpointLock(
            repo=f"owner/{name}",
            revision="main",
            commit=commit,
            files={"config.json": LockedFile(size=1, git="b" * 40)},
        )
        for name in ("model", "drafter")
    }
    image = ImageLock(digest=digest, config=CONFIG, size=1)
    return Lock(images={"example.org/vllm:1": image}, checkpoints=checkpoints)


def release(
    recipe_: Recipe | None = None,
    lock_: Lock | None = None,
    root: str = "/opt/x",
    seat: str = "",
    ranks: Ranks = ALONE,
) -> Release:
    return make_release(recipe_ or recipe(), lock_ or lock(), Place(root, seat), ranks)


def numbered(nodes: int, rank: int = 0, master: str = "192.0.2.1") -> Ranks:
    """Ranks whose Sparks have no names."""
    return Ranks(("",) * nodes, ((master, ""),) if nodes > 1 else (), rank)


def pair(rank: int, fabric: tuple[tuple[str, str], ...] = PAIR, names: str = "ab") -> Release:
    """One rank's view of a release that two Sparks serve."""
    return release(recipe(sparks=[1, 2]), ranks=Ranks((names[0], names[1]), fabric, rank))
