"""Recipes of sparkrun and spark-vllm-docker: what of them becomes a recipe, and what cannot."""

from pathlib import Path

import pytest

from sparkwright.common.errors import PlanError
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.declared.recipe.published.document import NotForUs
from sparkwright.declared.recipe.values import ImageMods
from sparkwright.run.inventory.groups import load
from tests.makers.models import replaced
from tests.makers.refused import refused, unplaced
from tests.published import published

SPARKRUN = """\
recipe_version: "2"
model: owner/Model-35B
runtime: vllm
container: ghcr.io/somebody/vllm:nightly
metadata: {description: A model for tests, model_params: 35B}
defaults:
  port: 8000
  host: 0.0.0.0
  tensor_parallel: 1
  pipeline_parallel: 1
  gpu_memory_utilization: 0.8
  max_model_len: 262144
  spec: '{"method": "dflash", "model": "z-lab/Qwen3.6-35B-A3B-DFlash"}'
  unused: 1
env:
  VLLM_MARLIN_USE_ATOMIC_ADD: 1
  NCCL_IB_DISABLE: "0"
  VLLM_LOGGING_LEVEL: WARNING
command: |
  vllm serve {model} \\
    --host {host} \\
    --port {port} \\
    --max-model-len {max_model_len} \\
    --gpu-memory-utilization {gpu_memory_utilization} \\
    --trust-remote-code --no-async-scheduling \\
    --mamba_ssm_cache_dtype float32 \\
    --speculative-config '{spec}' \\
    --tokenizer owner/Model-35B \\
    -tp {tensor_parallel} \\
    -pp {pipeline_parallel}
"""
DOCKER = """\
recipe_version: "1"
name: Model-122B
description: Serves a larger model on two Sparks
model: owner/Model-122B
container: docker.io/somebody/spark-vllm
solo_only: false
cluster_only: false
build_args:
mods: []
defaults: {port: 8000, host: 0.0.0.0, tensor_parallel: 2, served_model_name: large}
env:
command: |
  vllm serve owner/Model-122B \\
    --served-model-name {served_model_name} \\
    --compilation-config '{{"cudagraph_mode":"none","custom_ops":["all"]}}' \\
    --host {host} --port {port} \\
    --tensor-parallel-size {tensor_parallel} --distributed-executor-backend ray
"""

TWO = ("tensor_parallel: 1", "tensor_parallel: 2")


@pytest.fixture
def put(tmp_path):
    """Write a recipe's file, changed in places; return its path."""

    def write(text=SPARKRUN, *changes, name="My Model_v2.yaml"):
        path = tmp_path / "theirs" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(replaced(text, *changes))
        return str(path)

    return write


def theirs(path):
    return published(path).recipe


def problems(path):
    return unplaced(refused(published, path), path)


def test_sparkrun(put):
    recipe = theirs(put(SPARKRUN, ("model: owner", "model_revision: v1.2\nmodel: owner")))
    assert recipe.checkpoints["model"].revision == "v1.2"
    assert recipe.name == "my-model-v2"
    assert recipe.description == "A model for tests"
    assert recipe.image == "ghcr.io/somebody/vllm:nightly"
    assert recipe.sparks == [1]
    assert recipe.hardware == ["gb10"]
    assert recipe.served_names == ["owner/Model-35B"]
    assert recipe.checkpoints["model"].folder == "owner--Model-35B"
    assert recipe.checkpoints["drafter"].repo == "z-lab/Qwen3.6-35B-A3B-DFlash"
    # Older ones are refused of any recipe.
    assert recipe.checkpoints["drafter"].not_before
    # The level of the log is left to the owner.
    assert recipe.env == {"VLLM_MARLIN_USE_ATOMIC_ADD": "1"}
    assert recipe.args == {
        "max-model-len": 262144,
        "gpu-memory-utilization": 0.8,
        "trust-remote-code": True,
        "async-scheduling": False,
        "mamba-ssm-cache-dtype": "float32",
        "speculative-config": {"method": "dflash", "model": "${drafter}"},
        "tokenizer": "${model}",
    }


def test_spark_vllm_docker(put):
    recipe = theirs(put(DOCKER))
    assert recipe.description == "Serves a larger model on two Sparks"
    assert recipe.image == "docker.io/somebody/spark-vllm:latest"
    assert recipe.sparks == [1, 2]
    assert recipe.served_names == ["large"]
    assert recipe.args == {"compilation-config": {"cudagraph_mode": "none", "custom_ops": ["all"]}}


@pytest.mark.parametrize(
    ("model", "words", "answers"),
    [
        ("owner/Model-35B", "", "chat"),
        ("owner/Model-35B", "--runner pooling", "embeddings"),
        ("owner/Model-Reranker", "--runner pooling", "scores"),
        ("owner/Model-35B", "--runner pooling --convert classify", "scores"),
    ],
)
def test_what_it_answers(put, model, words, answers):
    changes = [("owner/Model-35B", model), ("    -tp {", f"    {words} -tp {{")]
    assert theirs(put(SPARKRUN, *changes)).answers == answers


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ([("runtime: vllm", "mods: [mods/fix]")], "mods[0]: found mods/fix, a mod that is not at"),
        ([("runtime: vllm", "mods: x")], 'mods: found "x"; expected a list'),
        ([("runtime: vllm", "builder: mine")], 'builder: found "mine"; expected eugr or docker'),
        ([("runtime: vllm", "builder_config: {branch: x}")], "builder_config: found"),
        ([("runtime: vllm", "pre_exec: [ls]")], 'pre_exec[0]: found "ls"; expected it'),
        ([("runtime: vllm", "build_args: [--tf5, --x]")], 'build_args[1]: found "--x"; expected'),
        ([("runtime: vllm", "volumes: [/a:/b]")], "which cannot be converted; remove it"),
        ([("runtime: vllm", "executor_config: x")], 'executor_config: found "x"; expected a map'),
        ([("runtime: vllm", "runtime: sglang")], 'runtime: found "sglang"; expected vllm or'),
        ([("runtime: vllm", "min_nodes: 4")], "size 1; expected the number of Sparks with stages"),
        ([TWO, ("runtime: vllm", "max_nodes: 1")], "--tensor-parallel-size 2; expected the number"),
        ([("ghcr.io/somebody/vllm:nightly", "vllm-node-mxfp4")], "found vllm-node-mxfp4, which"),
        ([("container: ghcr.io/somebody/vllm:nightly", "name: x")], "container: found null"),
        ([("serve {model}", "serve other/Model")], "expected owner/Model-35B, which `model` names"),
        ([("-tp {", "--chat-template fixed.jinja -tp {")], "--chat-template fixed.jinja, a file"),
        ([("-tp {tensor", "-tp {tensors")], "command: found {tensors_parallel}; expected it among"),
        ([("  VLLM_M", "  HF_TOKEN: abc\n  VLLM_M")], "env.HF_TOKEN: found a secret's name"),
        ([("ATOMIC_ADD: 1", "ATOMIC_ADD: $HOME")], 'found "$HOME"; expected the value itself'),
        ([("ATOMIC_ADD: 1", "ATOMIC_ADD:")], "found nothing; expected the value itself"),
        ([("defaults:\n", "defaults: x\nother:\n")], 'defaults: found "x"; expected a mapping'),
        ([("z-lab/Qwen3.6-35B-A3B-DFlash", "/d")], "found /d, a folder of its author's"),
        *(
            ([("params: 35B", f"solo_only: {word}")], f"found {word}, which programs read diff")
            for word in ("0731", "no", "20:22")
        ),
        # An image that a launcher builds.
        ([("ghcr.io/somebody/vllm:nightly", "vllm-node\nbuild_args: [--exp-b12x, --rebuild-vllm]")],
         'build_args[1]: found "--rebuild-vllm"'),
    ],
)  # fmt: skip
def test_what_cannot_be_carried_over(put, changes, problem):
    assert any(problem in found for found in problems(put(SPARKRUN, *changes)))


@pytest.mark.parametrize(
    ("container", "arguments", "image"),
    [
        ("vllm-node", "", "eugr/spark-vllm:latest"),
        ("vllm-node:latest", "[--tf5]", "eugr/spark-vllm:latest"),
        ("vllm-node", "[--exp-b12x]", "eugr/spark-vllm-b12x:latest"),
        ("mine", "[--experimental-b12x, --full-log]", "eugr/spark-vllm-b12x:latest"),
        ("vllm-node-b12x:latest", "[-t, vllm-node-b12x, -j, 8]", "eugr/spark-vllm-b12x:latest"),
        ("a/b:1", "[--exp-b12x]", "a/b:1"),
        ("sparkrun-eugr-vllm-tf5", "", "ghcr.io/spark-arena/dgx-vllm-eugr-nightly-tf5:latest"),
    ],
)
def test_images_that_a_launcher_pulls(put, container, arguments, image):
    changes = [("docker.io/somebody/spark-vllm", container), ("args:", f"args: {arguments}")]
    assert theirs(put(DOCKER, *changes)).image == image


@pytest.mark.parametrize(
    "changes",
    [
        [('"2"', '"3"')],
        [("runtime: vllm", "builder: eugr"), ("ghcr.io/somebody/vllm:nightly", "vllm-node")],
        [("runtime: vllm", "distribution_config: {models: {entries: [{name: a/b}]}}")],
        [("runtime: vllm", "executor_config: {restart_policy: always, user: root}")],
    ],
)
def test_what_changes_nothing_that_runs_is_taken(put, changes):
    translated = published(put(SPARKRUN, *changes))
    assert translated.recipe.args == theirs(put()).args
    told = "executor_config: left out: restart_policy" in "".join(translated.remarks)
    assert told is ("executor_config" in changes[0][1])


SIZES = """\
recipe_version: "1"
name: sizes
model: owner/Model
container: vllm-node
defaults:
  tensor_parallel: 2
  spec: '{"method": "dflash", "model": "a/b", "draft_tensor_parallel_size": {tensor_parallel}}'
env: {VLLM_A: "{tensor_parallel}", VLLM_B: "1"}
command: |
  export VLLM_C={tensor_parallel}
  vllm serve {model} --host {host} -tp {tensor_parallel} \
    --speculative-config '{spec}' --additional-config '{"a": {"b": {tensor_parallel}}}' \
    --compilation-config.x {tensor_parallel} --seed 7
"""


def test_the_number_of_sparks_is_filled_in_for_each(put):
    recipe = theirs(put(SIZES))
    assert recipe.sparks == [1, 2]
    for count in recipe.sparks:
        own = recipe.for_sparks(count)
        assert own.env == {"VLLM_A": str(count), "VLLM_B": "1", "VLLM_C": str(count)}
        assert own.args == {
            "speculative-config": {
                "method": "dflash",
                "model": "${drafter}",
                "draft_tensor_parallel_size": count,
            },
            "additional-config": {"a": {"b": count}},
            "compilation-config": {"x": count},
            "seed": 7,
        }
    # What does not differ is there once.
    assert "seed" not in recipe.by_sparks["1"].args


@pytest.mark.parametrize(
    ("changes", "sparks"),
    [
        ([("-tp {tensor_parallel}", "-tp 2")], [2]),
        ([("tensor_parallel: 2", "tensor_parallel: 1")], [1]),
        ([("name: sizes", "cluster_only: true")], [2]),
        ([("name: sizes", "solo_only: true")], [1]),
        ([('"1"\n', '"2"\n')], [2]),
        ([("tensor_parallel: 2", "tensor_parallel: 4")], [4]),
        ([("tensor_parallel: 2", "tensor_parallel: 8")], [8]),
        ([("-tp {", "-pp 2 -tp {")], [4]),
        ([("tensor_parallel: 2", "tensor_parallel: 1"), ("-tp {", "-pp 3 -tp {")], [3]),
    ],
)
def test_the_numbers_of_sparks_that_the_size_allows(put, changes, sparks):
    recipe = theirs(put(SIZES, *changes))
    assert (recipe.sparks, recipe.by_sparks) == (sparks, {})
    speculative = recipe.for_sparks(sparks[0]).args["speculative-config"]
    assert speculative["draft_tensor_parallel_size"] == recipe.tensor_parallel(sparks[0])


def test_a_drafter_on_neither_one_gpu_nor_all(put):
    changes = [("{tensor_parallel}}'", "2}'"), ("tensor_parallel: 2", "tensor_parallel: 1")]
    (problem,) = problems(put(SIZES, *changes))
    assert "found draft_tensor_parallel_size 2 with sparks: 1; expected 1, as" in problem


@pytest.mark.parametrize(
    "changes",
    [
        [("tensor_parallel: 1", "tensor_parallel: 6"), ("-tp {", "-cc.mode 3 -zz -tp {")],
        [("tensor_parallel: 1", "tensor_parallel: 16"), ("'{spec}'", "'{\\\\'")],
        [("pipeline_parallel: 1", "pipeline_parallel: 3"), TWO, ("runtime: vllm", "mods: [a]")],
        [("-pp {pipeline_parallel}", "--nnodes 5"), ("ghcr.io/somebody/vllm:nightly", "x")],
        [("runtime: vllm", "min_nodes: 9\nbuild_args: [--x]")],
    ],
)
def test_a_number_of_sparks_that_no_replica_has_is_said_first(put, changes):
    with pytest.raises(NotForUs) as error:
        theirs(put(SPARKRUN, *changes))
    assert error.value.reason == "another number of Sparks"
    assert len(error.value.problems) == 1


def test_a_key_twice(put):
    path = put(SPARKRUN, ("runtime: vllm", "runtime: vllm\nruntime: 'vllm'"))
    line = Path(path).read_text().splitlines().index("runtime: 'vllm'") + 1
    assert theirs(path).sparks == [1]
    assert f"{path}:{line}: runtime: found twice; expected once" in published(path).remarks
    (problem,) = problems(put(SPARKRUN, ("runtime: vllm", "runtime: vllm\nruntime: sglang")))
    assert "runtime: found twice; expected once" in problem
    # A recipe of ours has each key once.
    own = "description: Mine.\nsource: Me.\nsource: Me.\nproven: No.\nextends: lab-tiny\n"
    with pytest.raises(PlanError, match="source: found twice"):
        load_recipe(put(own))


def test_mods_of_a_published_recipe(put, tmp_path):
    """One that empties the page cache is left out; one that changes a checkpoint is refused."""
    for name, script in (
        ("drop-caches", "nohup sh -c 'while :; do echo 3 > /proc/sys/vm/drop_caches; done' &"),
        ("fix-config", 'python3 fix.py "${HF_HOME:-x}"/hub'),
        ("template", "cp x.jinja $WORKSPACE_DIR/"),
    ):
        folder = tmp_path / "theirs/mods" / name
        folder.mkdir(parents=True)
        (folder / "run.sh").write_text(f"#!/bin/sh\n{script}\n")
    path = put(DOCKER, ("mods: []", "mods: [mods/drop-caches, mods/template]"))
    recipe = theirs(path)
    assert isinstance(recipe.image, ImageMods)
    assert [Path(each).name for each in recipe.image.mods] == ["template"]
    assert any(
        "mods[0]: left out: mods/drop-caches empties the page" in r for r in published(path).remarks
    )
    assert theirs(put(DOCKER, ("mods: []", "mods: [mods/drop-caches]"))).build is None
    (problem,) = problems(put(DOCKER, ("mods: []", "mods: [mods/fix-config]")))
    assert "mods/fix-config/run.sh:2: found python3 fix.py" in problem


def test_all_problems_come_together(put):
    changes = [
        ("runtime: vllm", "mods: [mods/a]\nbuilder: x\nrecipe_version: 3"),
        ('recipe_version: "2"\n', ""),
        ("ghcr.io/somebody/vllm:nightly", "vllm-node-mxfp4"),
        ("ATOMIC_ADD: 1", "ATOMIC_ADD: []"),
        ("--port {port}", "--port {port} -zz"),
    ]
    keys = sorted(found.partition(":")[0] for found in problems(put(SPARKRUN, *changes)))
    variable = "env.VLLM_MARLIN_USE_ATOMIC_ADD"
    assert keys == ["builder", "command", "container", variable, "mods[0]"]


@pytest.mark.parametrize("text", [SPARKRUN, DOCKER, "schema_version: 3\n", "runtime: vllm\n"])
def test_a_recipe_of_others_is_none_of_ours(put, text):
    path = put(text)
    with pytest.raises(PlanError, match=r"recipes import .*/theirs My Model_v2` makes it one"):
        load_recipe(path)


def test_a_recipe_in_the_inventory(put, tmp_path):
    put("extends: qwen3.5-35b\ndescription: x\nsource: x\nproven: x\n", name="foo.yaml")
    inventory = tmp_path / "inventory" / "sparks.yaml"
    inventory.parent.mkdir()
    text = "sparks: {a: {}}\nreplicas: {x: {recipe: ../theirs/%s.yaml, sparks: [a]}}\n"
    inventory.write_text(text % "foo")
    ((_, data),) = load(inventory)["x"]
    assert data["recipe"] == str(tmp_path / "theirs/foo.yaml")
    inventory.write_text(text % "bar")
    with pytest.raises(PlanError, match=r"replicas.x.recipe: found .*bar.yaml, which is no file"):
        load(inventory)
