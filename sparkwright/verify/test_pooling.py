"""What a replica answers that embeds texts, or says how well documents answer a query."""

import json
import math

import pytest

from sparkwright.plan.release.release import Release
from sparkwright.run.spark import SparkTarget
from sparkwright.verify.plugin import Api, Proved
from sparkwright.verify.sparks import Client
from sparkwright.verify.tools import ASKED

TEXTS = ASKED["texts"]


def question(release: Release, answers: str, text: object = TEXTS) -> dict[str, object]:
    """Return the body of a request for vectors, or for scores; skip where it answers others."""
    if release.recipe.answers != answers:
        pytest.skip(f"recipe {release.recipe.name} answers {release.recipe.answers}")
    scores = {name: ASKED[name] for name in ("query", "documents")}
    fields = {"input": text} if answers == "embeddings" else scores
    return {"model": release.recipe.served_names[0], **fields}


def near(one: list[float], other: list[float]) -> float:
    """Return the cosine of two vectors."""
    lengths = math.hypot(*one) * math.hypot(*other)
    return math.fsum(a * b for a, b in zip(one, other, strict=True)) / lengths


def test_embeddings(api: Api, release: Release, proved: Proved) -> None:
    """Vectors of finite numbers, all of one length; those of one meaning are near each other.

    Texts that are read together do not change each other.
    """
    answer = json.loads(api("/v1/embeddings", question(release, "embeddings")))
    assert [each["index"] for each in answer["data"]] == [0, 1, 2]
    vectors = [each["embedding"] for each in answer["data"]]
    (size,) = {len(vector) for vector in vectors}
    assert all(math.isfinite(number) for vector in vectors for number in vector)
    one, same, other = vectors
    alike, unlike = near(one, same), near(one, other)
    assert alike > unlike
    proved(f"embeddings: {size} numbers; alike {alike:.2f}, unlike {unlike:.2f}")
    (alone,) = json.loads(api("/v1/embeddings", question(release, "embeddings", TEXTS[2])))["data"]
    found = near(alone["embedding"], other)
    assert found > 0.99
    proved(f"a text alone and among others: {found:.4f}")


def test_ranking(api: Api, target: SparkTarget, release: Release, proved: Proved) -> None:
    """Every document has a score, the best is first, and it is the right one."""
    found = json.loads(api("/v1/rerank", question(release, "scores")))["results"]
    assert sorted(each["index"] for each in found) == [0, 1, 2]
    scores = [each["relevance_score"] for each in found]
    assert all(map(math.isfinite, scores))
    assert scores == sorted(scores, reverse=True)
    # The lab's random model knows no capitals.
    if target.hardware_class != "lab":
        assert found[0]["index"] == 1
        assert scores[0] > scores[1]
    shown = ", ".join(f"{score:.2f}" for score in scores)
    proved(f"scores of three documents: {shown}")


def test_through_the_door(client: Client, release: Release, proved: Proved) -> None:
    answers = "embeddings" if release.recipe.answers == "embeddings" else "scores"
    path = "/v1/embeddings" if answers == "embeddings" else "/v1/rerank"
    assert client("POST", path, question(release, answers, TEXTS[0])).ok
    proved(f"{path} through the door")
