"""How much an engine logs, and that a start is never hidden."""

import json
from pathlib import Path

import pytest

from sparkwright.engine.phases import phase
from sparkwright.run.spark import SparkTarget
from tests.makers.recipe import problems
from tests.makers.release import lock, recipe, release
from tests.published import published


def test_what_each_level_makes_of_an_engine() -> None:
    assert recipe().at_level("INFO") == recipe()
    assert recipe().at_level("DEBUG").env["VLLM_LOGGING_LEVEL"] == "DEBUG"
    quiet = recipe().at_level("WARNING")
    assert quiet.args["disable-uvicorn-access-log"] is True
    assert quiet.env["VLLM_LOG_STATS_INTERVAL"] == "3600"
    assert quiet.env.get("VLLM_LOGGING_LEVEL") == recipe().env.get("VLLM_LOGGING_LEVEL")
    assert release(quiet).id != release().id


def test_a_quiet_engine_says_all_that_a_start_says() -> None:
    """Nothing that its two settings leave out is among what phases are read of."""
    noise = [
        'INFO:     127.0.0.1:40000 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
        "(APIServer pid=1) INFO 11-21 07:49:40 [loggers.py:257] Engine 000: Avg prompt throughput: "
        "1.2 tokens/s, Avg generation throughput: 3.4 tokens/s, Running: 1 reqs, Waiting: 0 reqs",
    ]
    assert phase(noise) is None


def test_the_group_data_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparkwright.run.spark.recipe_of", lambda name: recipe())
    data = {"recipe": "try", "ranks": ["a"], "rank": 0, "log_level": "WARNING"}
    served = SparkTarget.of(data).release_by(lock())
    assert served
    files = served.files
    assert "VLLM_LOG_STATS_INTERVAL=3600\n" in files["engine.env"]
    assert "--disable-uvicorn-access-log" in files["run"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"env": {"VLLM_LOGGING_LEVEL": "WARNING"}}, "env.VLLM_LOGGING_LEVEL: found WARNING; rem"),
        ({"env": {"VLLM_LOGGING_LEVEL": "error"}}, "env.VLLM_LOGGING_LEVEL: found error; rem"),
        ({"env": {"VLLM_CONFIGURE_LOGGING": "0"}}, "env.VLLM_CONFIGURE_LOGGING: found 0; rem"),
        ({"args": {"uvicorn-log-level": "error"}}, 'args.uvicorn-log-level: found "error"; rem'),
        (
            {"by_sparks": {1: {"env": {"VLLM_LOGGING_LEVEL": "ERROR"}}}},
            "by_sparks.1.env.VLLM_LOGGING_LEVEL: found ERROR; remove it",
        ),
    ],
)
def test_no_recipe_hides_a_start(tmp_path: Path, settings: dict[str, object], said: str) -> None:
    (problem,) = problems(tmp_path, **settings)
    assert problem.startswith(said)
    assert 'log_level = "WARNING" in the group data' in problem


def test_another_projects_level_is_left_to_the_owner(tmp_path: Path) -> None:
    data = {
        "model": "owner/model",
        "container": "example.org/vllm:1",
        "env": {"VLLM_LOGGING_LEVEL": "WARNING", "OTHER": "1"},
        "command": "vllm serve {model}",
    }
    path = tmp_path / "x.yaml"
    path.write_text(json.dumps(data))
    assert published(path).data["env"] == {"OTHER": "1"}
