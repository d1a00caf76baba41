"""Files of a stranger: no recipe opens what its owner did not allow, and none grows without end."""

import argparse
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparkwright.common.errors import PlanError
from sparkwright.declared.fleet.file import load_fleet, unsupported
from sparkwright.declared.fleet.settings import read_settings
from sparkwright.declared.recipe import vllm_names
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.declared.recipe.recipe import Recipe
from sparkwright.declared.recipe.trust import needs
from sparkwright.declared.recipe.values import OWN_ARGUMENTS, OWN_ENVIRONMENT
from sparkwright.plan.release.command import Ranks, environment, serve_arguments
from tests.makers.recipe import loaded
from tests.published import published

RELEASES = [".".join(map(str, release)) for release in vllm_names.releases()]
SECRETS = ("api-key", "hf-token")
FOREIGN = """\
recipe_version: "2"
container: example.org/vllm:1
command: vllm serve owner/model --host 0.0.0.0 --port 9999 {words}
"""
many = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def load(folder: Path, **changes: object) -> Recipe:
    return loaded(folder, **{"vllm": "0.28.0", "args": {}, **changes})


def refusal(folder: Path, **changes: object) -> str:
    with pytest.raises(PlanError) as raised:
        load(folder, **changes)
    assert all(str(folder / "try.yaml") in problem for problem in raised.value.problems)
    return str(raised.value)


def names(release: str) -> frozenset[str]:
    return vllm_names.options(vllm_names.number(release))


def parsed(release: str, words: list[str]) -> argparse.Namespace:
    """Read a line as vLLM's parser does: by argparse, abbreviations and all."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    parser.add_argument("model")
    one_word = {"tensor-parallel-size", "uds"}
    for name in names(release) | {*OWN_ARGUMENTS}:
        parser.add_argument(f"--{name}", nargs=None if name in one_word else "*")
        parser.add_argument(f"--no-{name}", nargs="*")
    return parser.parse_args(words[1:])


@pytest.mark.parametrize("release", [*RELEASES, "a build of somebody's"])
def test_no_part_of_an_option_passes(tmp_path: Path, release: str) -> None:
    known = vllm_names.options(load(tmp_path, vllm=release).release)
    for whole in (*OWN_ARGUMENTS, *SECRETS, "trust-remote-code", "middleware", "kv-events-config"):
        parts = [whole[:end] for end in range(1, len(whole)) if whole[end - 1] != "-"]
        args = {part: "0.0.0.0" for part in parts if part not in {*known, *OWN_ARGUMENTS}}
        told = refusal(tmp_path, vllm=release, args=args)
        for part in args:
            assert f"args.{part}: found " in told


def test_a_release_has_the_options_that_begin_or_end_with_it() -> None:
    for name, known in vllm_names.table().items():
        for release in (known.first, known.last):
            assert name.isupper() or name in vllm_names.options(release)


@pytest.mark.parametrize("word", ["--hos 0.0.0.0", "--HOST 0.0.0.0", "--api_k x", "--ssl-certf /x"])
def test_nor_does_one_in_another_projects_line(tmp_path: Path, word: str) -> None:
    file = tmp_path / "theirs.yaml"
    file.write_text(FOREIGN.format(words=word))
    name = word.split()[0].strip("-").replace("_", "-")
    with pytest.raises(PlanError, match=rf"{file}:3: args\.{name}: found "):
        published(file)


@many
@given(
    release=st.sampled_from(RELEASES),
    option=st.from_regex(r"[a-z0-9]+(-[a-z0-9]+){0,3}", fullmatch=True)
    | st.sampled_from(sorted(vllm_names.options(None))).flatmap(
        lambda name: st.integers(1, len(name)).map(lambda end: name[:end].rstrip("-"))
    ),
)
def test_whatever_passes_the_engine_listens_where_we_say(
    tmp_path: Path, release: str, option: str
) -> None:
    try:
        recipe = load(tmp_path, vllm=release, args={option: "0.0.0.0"})
    except PlanError:
        return
    line = serve_arguments(recipe, Ranks())
    try:
        read = parsed(release, line)
    except argparse.ArgumentError:
        return  # vLLM has no such option and does not start
    except SystemExit:
        return
    assert read.uds == "/run/vllm/api.sock"
    assert (read.tensor_parallel_size, read.served_model_name) == ("1", ["model"])
    assert (read.host, read.port) == (None, None)
    assert (read.api_key, read.config) == (None, None)


def fleet_problems(folder: Path, recipe: Recipe, trusts: str = "[]") -> list[str]:
    file = folder / "sparks.yaml"
    file.write_text(
        "sparks: {spark-a: {}}\n"
        f"replicas: {{chat: {{recipe: lab-tiny, sparks: [spark-a], trusts: {trusts}}}}}\n"
    )
    fleet = load_fleet(file)
    return unsupported(fleet, {"lab-tiny": recipe})


# What has an engine write prompts, and what of the same kind does not.
WRITING = """\
VLLM_LOGGING_LEVEL=DEBUG VLLM_LOGGING_LEVEL=debug VLLM_LOGGING_LEVEL=TRACE TORCH_LOGS=+all
VLLM_LOGGING_CONFIG_PATH=/x.json VLLM_LOGGING_STREAM=ext://antigravity.x VLLM_DEBUG_DUMP_PATH=/x
VLLM_REQUEST_BODY_LOG_LEVEL=info VLLM_DEBUG_LOG_API_SERVER_RESPONSE=1 VLLM_TRACE_FUNCTION=1
NCCL_DEBUG_FILE=/x uvicorn-log-level=trace log-error-stack=true log-level=debug log-config-file=/x
enable-log-requests=true enable-log-outputs=true disable-log-requests=false
disable-trace-replay=false otlp-traces-endpoint=http://x collect-detailed-traces=all
profiler-config={"profiler":"torch","torch_profiler_dir":"/x"}
"""
SILENT = """\
VLLM_LOGGING_LEVEL=info VLLM_LOGGING_STREAM=ext://sys.stdout uvicorn-log-level=info
log-error-stack=false disable-log-requests=true log-level=info
"""


@pytest.mark.parametrize(("words", "needed"), [(WRITING, True), (SILENT, False)])
def test_what_writes_prompts_needs_trust(tmp_path: Path, words: str, needed: bool) -> None:
    for word in words.split():
        name, _, text = word.partition("=")
        said = {"env": {name: text}} if name.isupper() else {"args": {name: yaml.safe_load(text)}}
        told = needs(load(tmp_path, vllm="0.33.0", **said))
        assert (name in {need.name for need in told}) is needed, word


OPENING = [name for name, known in vllm_names.table().items() if known.danger]


@pytest.mark.parametrize("name", [*OPENING, "an-option-of-tomorrow", "A_VARIABLE"])
def test_what_opens_something_needs_a_word_in_the_inventory(tmp_path: Path, name: str) -> None:
    known = vllm_names.table().get(name)
    release = ".".join(map(str, known.last)) if known else "0.28.0"
    kind = "env" if name.isupper() else "args"
    recipe = load(tmp_path, vllm=release).model_copy(update={kind: {name: "evil.Thing"}})
    (told,) = fleet_problems(tmp_path, recipe)
    assert told.startswith(f"{tmp_path}/sparks.yaml: replicas.chat.trusts: found []; expected ")
    assert f"{kind}.{name} " in told
    assert told.endswith(f"trusts: [{name}]")
    assert fleet_problems(tmp_path, recipe, f"[{name}]") == []
    assert fleet_problems(tmp_path, recipe, "[seed]")


@pytest.mark.parametrize(
    "args",
    [
        {"kv-events-config": {"endpoint": "tcp://*:5557", "enable_kv_cache_events": True}},
        {"middleware": ["evil.Middleware"]},
        {"worker-extension-cls": "evil.Worker"},
        {"allowed-local-media-path": "/"},
        {"enable-log-requests": True},
        {"otlp-traces-endpoint": "http://192.0.2.9"},
        {"chat-template": "/etc/passwd"},
        {"chat-template": "${model}/../../etc/passwd"},
        {"chat-template": "/etc/{passwd}"},
        {"load-format": "tensorizer"},
        {"tokenizer-mode": "evil"},
        {"distributed-executor-backend": "evil.Executor"},
        {"compilation-config": {"backend": "evil.backend"}},
        {"compilation-config": '{"inductor_passes": {"a": "evil.pass"}}'},
        {"speculative-config": {"model": "evil.Proposer", "num_speculative_tokens": 1}},
        {"speculative-config": {"method": "custom_class", "num_speculative_tokens": 1}},
        {"speculative-config": '{"method": "custom_class", "num-speculative-tokens": 1}'},
        {"structured-outputs-config": {"reasoning_parser_plugin": "/tmp/evil.py"}},
        {"structured-outputs-config": '{"reasoning-parser-plugin": "/tmp/evil.py"}'},
        {"mm-processor-kwargs": {"deep": [{"trust_remote_code": True}]}},
        {"hf-overrides": {"text_config": {"trust_remote_code": True}}},
    ],
    ids=lambda args: f"{next(iter(args))}-{next(iter(args.values()))}"[:50],
)
def test_ways_to_open_something_with_values(tmp_path: Path, args: dict[str, object]) -> None:
    recipe = load(tmp_path, args=args)
    (told,) = fleet_problems(tmp_path, recipe)
    assert f"args.{next(iter(args))}" in told


@pytest.mark.parametrize(
    "args",
    [
        {"trust-remote-code": False},
        {"load-format": "fastsafetensors"},
        {"chat-template": "${model}/chat_template.jinja"},
        {"chat-template": "{{ messages[0].content }}"},
        {"compilation-config": {"cudagraph_mode": "none", "custom_ops": ["all"]}},
        {"speculative-config": {"method": "mtp", "num_speculative_tokens": 2}},
        {"distributed-executor-backend": "mp"},
    ],
)
def test_the_same_options_with_values_that_open_nothing(
    tmp_path: Path, args: dict[str, object]
) -> None:
    assert fleet_problems(tmp_path, load(tmp_path, args=args)) == []


@pytest.mark.parametrize(
    "name",
    [
        *("LD_PRELOAD", "PYTHONPATH", "PYTHONSTARTUP", "PATH", "BASH_ENV", "NCCL_NET_PLUGIN", "CC"),
        *("VLLM_PLUGINS", "VLLM_ALLOW_INSECURE_SERIALIZATION", "VLLM_SERVER_DEV_MODE"),
        *("https_proxy", "HF_ENDPOINT", "SSL_CERT_FILE", "TRITON_PTXAS_PATH", "ld_preload"),
    ],
)
def test_variables_that_run_code_need_a_word_as_well(tmp_path: Path, name: str) -> None:
    recipe = load(tmp_path, env={name: "1"})
    assert [need.key for need in needs(recipe)] == [f"env.{name}"]
    assert fleet_problems(tmp_path, recipe)


@pytest.mark.parametrize(
    "name", ["DB_PASSWD", "HF_TOKEN", "hf_token", "MY_SECRET_FILE", "AWS_SECRET_ACCESS_KEY"]
)
def test_a_secret_is_never_taken(tmp_path: Path, name: str) -> None:
    assert f"env.{name}: found a secret's name" in refusal(tmp_path, env={name: "x"})


@pytest.mark.parametrize("name", ["hf_hub_offline", "Vllm_Host_Ip", *OWN_ENVIRONMENT])
def test_our_variables_are_ours(tmp_path: Path, name: str) -> None:
    assert f"env.{name}: found it set; expected it left out" in refusal(tmp_path, env={name: "0"})
    ours = load(tmp_path).model_copy(update={"env": {"HF_HUB_OFFLINE": "0"}})
    assert environment(ours)["HF_HUB_OFFLINE"] == "1"


def test_a_recipe_cannot_give_itself_the_word(tmp_path: Path) -> None:
    told = refusal(tmp_path, args={"trust-remote-code": True}, trusts=["trust-remote-code"])
    assert "trusts: found an unknown key" in told


def test_what_differs_with_two_sparks_is_judged_too(tmp_path: Path) -> None:
    recipe = load(tmp_path, sparks=[1, 2], by_sparks={2: {"args": {"middleware": "evil"}}})
    assert fleet_problems(tmp_path, recipe) == []
    assert [need.name for need in needs(recipe.for_sparks(2))] == ["middleware"]
    told = refusal(tmp_path, sparks=[1, 2], by_sparks={2: {"args": {"hos": "0.0.0.0"}}})
    assert "by_sparks.2.args.hos: found an abbreviated option" in told


def test_an_engine_fetches_no_url_unless_the_group_data_name_its_host(tmp_path: Path) -> None:
    recipe = load(tmp_path)
    read = parsed("0.28.0", serve_arguments(recipe, Ranks()))
    assert read.allowed_media_domains == ["media.invalid"]
    opened = recipe.from_domains(("images.example.org", "192.168.1.5"))
    read = parsed("0.28.0", serve_arguments(opened, Ranks()))
    assert read.allowed_media_domains == ["images.example.org", "192.168.1.5"]
    assert environment(opened)["VLLM_MEDIA_URL_ALLOW_REDIRECTS"] == "0"
    told = refusal(tmp_path, args={"allowed-media-domains": ["evil.example.org"]})
    assert "args.allowed-media-domains: found it set; expected it left out" in told


@pytest.mark.parametrize(
    "domains",
    [
        *("a.org", 7, {"a.org": 1}, ("*.a.org",), ("http://a.org",), ("a.org:80",), ("A.org",)),
        *(("--host",), ("",), ("a.org", "b c"), (7,), ("a..org",), ("x" * 300,), ("[::1]",)),
    ],
)
def test_what_is_no_host_is_refused(domains: Any) -> None:
    with pytest.raises(PlanError, match=r"^chat.py: media_domains(\[\d\])?: found .*; expected "):
        read_settings({"media_domains": domains}, "chat.py")


def bomb(levels: int) -> str:
    lines = ["b0: &b0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"b{n}: &b{n} [{', '.join([f'*b{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        (bomb(9), 1, "found the anchor &b0; expected the value itself: aliases are not supported"),
        ("a: 1\nhf-overrides: *b", 2, "found the alias *b; expected"),
        ("a: &a {b: 1}\nc: {<<: [*a, *a]}", 1, "found the anchor &a; expected"),
        ("a: &a [*a]", 1, "found the anchor &a; expected"),
        ("\n".join(f"{' ' * n}k:" for n in range(40)), 32, "expected at most 32 levels"),
        ("a: " + "[" * 200_000, 1, "expected at most 32 levels"),
        ("a: " + "{a: " * 100_000, 1, "expected at most 32 levels"),
        ("? " * 100_000, 1, "found a list or a mapping as a key; expected a name"),
        ("- " * 100_000, 1, "expected at most 32 levels"),
        ("a: 1\nb: " + "9" * 300_000, 2, "a number of 300000 characters; expected at most 100"),
        ("a: 1\nb: 0." + "1" * 300_000, 2, "a number of 300002 characters; expected at most 100"),
        ("a: 0x" + "f" * 100_000, 1, "a number of 100002 characters"),
        ("a: " + "x" * 2**20, None, "found more than 1,048,576 bytes"),
        ("é" * 2**20, None, "found more than 1,048,576 bytes"),
    ],
    ids=lambda value: str(value)[:24],
)
@pytest.mark.parametrize("read", ["recipe", "inventory"])
def test_a_file_that_grows_is_refused_with_its_line(
    tmp_path: Path, text: str, line: int | None, told: str, read: str
) -> None:
    file = tmp_path / "grows.yaml"
    file.write_text(text)
    with pytest.raises(PlanError) as raised:
        load_recipe(str(file)) if read == "recipe" else load_fleet(file)
    (problem,) = raised.value.problems
    assert problem.startswith(f"{file}:{line}: found " if line else f"{file}: found ")
    assert told in problem


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(alphabet="ab:-?[]{}&*!<>,'\"|#%@0159.\n \t", max_size=200))
def test_no_text_ends_otherwise_than_with_a_problem(tmp_path: Path, text: str) -> None:
    file = tmp_path / "any.yaml"
    file.write_text(text)
    with pytest.raises(PlanError) as raised:
        load_recipe(str(file))
    assert all(problem.startswith(str(file)) for problem in raised.value.problems)
