"""The lines that run an engine, and their way through a shell."""

import random
from pathlib import Path
from typing import Any

import pytest

from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.declared.recipe.recipe import Recipe
from sparkwright.machine.host.operations.services import guarded
from sparkwright.plan.release.command import (
    Ranks,
    environment,
    serve_arguments,
    shell_lines,
)
from sparkwright.plan.release.container import ALONE as SLICE
from sparkwright.plan.release.container import PAIR, guard_files
from tests.commands import sparkwright
from tests.makers.recipe import good, put
from tests.makers.release import recipe as release_recipe
from tests.programs import ended
from tests.unit.driven import fake_host, file_of, placed

# What an engine of one Spark has whatever its recipe says.
ALONE = {
    "TRITON_CACHE_DIR": "/home/engine/.triton/cache",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_MEDIA_URL_ALLOW_REDIRECTS": "0",
    "VLLM_HOST_IP": "127.0.0.1",
    "GLOO_SOCKET_IFNAME": "lo",
    "NCCL_SOCKET_IFNAME": "lo",
}


def through_shell(text: str, folder: Path) -> list[str]:
    """The words that a real shell makes of a text."""
    shell = ended(["sh", "-c", f"printf '%s\\0' {text}"], cwd=folder)
    assert list(folder.iterdir()) == []
    return shell.stdout.split("\0")[:-1]


def recipe_with(folder: Path, **changes: object) -> Recipe:
    folder.mkdir()
    put(folder, {**good(), **changes})
    return load_recipe(str(folder / "try.yaml"))


def test_random_words_come_out_of_a_shell_as_they_went_in(tmp_path: Path) -> None:
    chance = random.Random(20261121)
    alphabet = "ab01 \t'\"\\$`;&|<>()[]{}*?!#~=%^,.:/-_@+\u00e9\n"
    for _ in range(200):
        words = [
            "".join(chance.choices(alphabet, k=chance.randrange(12)))
            for _ in range(chance.randrange(1, 8))
        ]
        breaks = chance.sample(range(1, 9), 2)
        assert through_shell(shell_lines(words, breaks), tmp_path) == words


def test_how_values_become_options_and_variables(tmp_path: Path) -> None:
    recipe = recipe_with(
        tmp_path / "recipes",
        env={"DRAFTER": "${drafter}/x"},
        args={
            "on": True,
            "dark": False,
            "several": ["a", 1],
            "whole": 8192,
            "part": 0.85,
            "text": "auto",
            "json": {"model": "${drafter}", "deep": [{"x": None}, "${model}/x"]},
        },
    )
    words = serve_arguments(recipe, Ranks())
    assert words == [
        *("serve", "/models/model", "--on", "--no-dark", "--several", "a", "1"),
        *("--whole", "8192", "--part", "0.85", "--text", "auto", "--json"),
        '{"model":"/models/drafter","deep":[{"x":null},"/models/model/x"]}',
        *("--allowed-media-domains", "media.invalid"),
        *("--served-model-name", "model", "--tensor-parallel-size", "1"),
        *("--uds", "/run/vllm/api.sock"),
    ]
    assert environment(recipe) == {"DRAFTER": "/models/drafter/x", **ALONE}


@pytest.mark.parametrize(
    ("tokens", "env", "seconds"),
    [
        (8192, {}, "180"),
        ("64K", {}, "510"),
        (262_144, {}, "2037"),
        (8192, {"VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS": "900"}, "900"),
    ],
)
def test_a_head_waits_for_its_worker_longer_than_a_step_takes(
    tmp_path: Path, tokens: object, env: dict[str, str], seconds: str
) -> None:
    args = {"max-num-batched-tokens": tokens}
    recipe = recipe_with(tmp_path / "recipes", args=args, env=env, sparks=[1, 2])
    timeout = "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS"
    assert environment(recipe, 2)[timeout] == seconds
    assert int(seconds) > recipe.longest_step
    assert environment(recipe).get(timeout) == env.get(timeout)


def test_the_program_prints_what_will_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sparkwright("recipes", "command", "qwen3.6-35b-nvfp4-dflash") == 0
    report = capsys.readouterr().out
    docker, serve = (
        through_shell(block.split("\n", 1)[1], tmp_path)
        for block in report.split("\n\n")
        if block.startswith("# rank 0")
    )
    assert docker[:2] == ["docker", "run"]
    assert "ghcr.io/aeon-7/vllm-spark-omni-q36:v1.2" in docker
    assert serve[0] == "vllm"
    assert docker[-len(serve) + 1 :] == serve[1:]
    assert "by the digest in the lock" in report
    assert sparkwright("recipes", "command", "lab-tiny", "--sparks", "2") == 0
    report = capsys.readouterr().out
    assert report.count("# rank 0 (head)") == report.count("# rank 1 (worker)") == 2
    assert "--master-addr HEAD-FABRIC-ADDRESS" in report
    assert "$RDMA_OPTIONS" in report


FILES = guard_files("/r", ("192.168.100.11",), internet=False)
THERE = {file.path: file_of(str(file.text)) for file in FILES}


def commands(there: dict[str, dict[str, Any]], unread: list[str]) -> list[str]:
    """Return what is done on a Spark with such files, of which systemd has not read some."""
    units = {unit: f"loaded {'unread' if unit in unread else ''}" for unit in (SLICE, PAIR)}
    spark = fake_host(state={"placed": placed(there, units)}, root="/r")
    assert spark.run(guarded, entries=FILES).did_succeed()
    return spark.scripts()


def test_what_is_in_force_is_left_alone() -> None:
    assert commands(THERE, []) == []


def test_a_change_is_read_by_systemd() -> None:
    # A run that died after the file is finished by the next.
    assert commands(THERE, [SLICE]) == ["systemctl daemon-reload"]
    done = commands({FILES[0].path: THERE[FILES[0].path]}, [])
    assert any(PAIR in line for line in done[:-1])
    assert done[-1] == "systemctl daemon-reload"


def test_four_sparks_in_two_stages() -> None:
    own = release_recipe(
        sparks=[4], args={"pipeline-parallel-size": 2, "enable-expert-parallel": True}
    )
    words = serve_arguments(own, Ranks(tuple("abcd"), tuple((f"10.0.0.{n}",) for n in range(4)), 3))
    said = " ".join(words)
    assert "--pipeline-parallel-size 2 --enable-expert-parallel" in said
    assert "--tensor-parallel-size 2 --nnodes 4 --node-rank 3 --master-addr 10.0.0.0 " in said
    assert words[-1] == "--headless"


def test_copies_meet_at_a_port_that_is_guarded() -> None:
    args = {"data-parallel-size": 2, "enable-expert-parallel": True}
    own = release_recipe(sparks=[4], args=args)
    words = serve_arguments(own, Ranks(tuple("abcd"), tuple((f"10.0.0.{n}",) for n in range(4))))
    said = " ".join(words)
    assert "--data-parallel-size 2 --enable-expert-parallel" in said
    assert "--tensor-parallel-size 2 --nnodes 4 --node-rank 0 --master-addr 10.0.0.0 " in said
    assert said.endswith(" --api-server-count 1 --uds /run/vllm/api.sock")
    port = words[words.index("--data-parallel-rpc-port") + 1]
    assert f"\nSocketBindAllow=tcp:{port}\nSocketBindDeny=1-32767\n" in FILES[1].text
    # A worker serves no API, and vLLM refuses the option there.
    two = release_recipe(sparks=[2], args={"api-server-count": 2})
    head, worker = (serve_arguments(two, Ranks(("a", "b"), (("10.0.0.1",),), n)) for n in (0, 1))
    assert head[head.index("--api-server-count") + 1] == "2"
    assert not {"--api-server-count", "--data-parallel-rpc-port"} & {*worker}
