"""A `vllm serve` line for a shell, taken apart word by word."""

import pytest

from sparkwright.declared.recipe.published.serve_line import OURS, ShellError, fill, parse_line
from tests.makers.refused import refusal


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("", {}),
        ("--port 8000 --dtype=auto", {"port": 8000, "dtype": "auto"}),
        ("--trust-remote-code --no-async-scheduling", {"trust-remote-code": True,
                                                       "async-scheduling": False}),
        ("-tp 2 -pp=1 -O3 -q fp8", {"tensor-parallel-size": 2, "pipeline-parallel-size": 1,
                                    "optimization-level": 3, "quantization": "fp8"}),
        ("-O 2 -ep", {"optimization-level": 2, "enable-expert-parallel": True}),
        ("--max-model-len -1 --seed 0", {"max-model-len": -1, "seed": 0}),
        ("--gpu-memory-utilization 0.80", {"gpu-memory-utilization": 0.8}),
        ("--max-model-len 256k --x 007 --y 1e3", {"max-model-len": "256k", "x": "007", "y": "1e3"}),
        ("--served-model-name a b", {"served-model-name": ["a", "b"]}),
        ("--seed 1 --seed 2", {"seed": 2}),
        ("--dtype ''", {"dtype": ""}),
        ("""-sc '{"method": "mtp", "n": 2}'""", {"speculative-config": {"method": "mtp", "n": 2}}),
        ('''-cc "{\\"mode\\": 3}"''', {"compilation-config": {"mode": 3}}),
        ("""--middleware '["a"]'""", {"middleware": '["a"]'}),
        ("--chat-template 'a; b | c'", {"chat-template": "a; b | c"}),
        (
            "--compilation-config.cudagraph_mode none --compilation_config.pass.fuse=True",
            {"compilation-config": {"cudagraph_mode": "none", "pass": {"fuse": True}}},
        ),
        ("-cc '{\"mode\": 3}' -cc.x 1", {"compilation-config": {"mode": 3, "x": 1}}),
    ],
)  # fmt: skip
def test_options(words, options):
    line = parse_line(f"vllm serve owner/name {words}")
    assert (line.model, line.options) == ("owner/name", options)


def test_what_stands_before_it():
    text = "\nvllm serve owner/name \\\n  --seed 1 \\  \n\t--port 2 \\\n"
    assert parse_line(text).options == {"seed": 1, "port": 2}
    assert parse_line("vllm serve --model owner/name --seed 1").model == "owner/name"
    first = "# why\nexport A=1 B='x y'  # too\n"
    line = parse_line(first + "C=$X \\\nvllm serve m --seed 1\n# z\n")
    assert (line.model, line.options) == ("m", {"seed": 1})
    assert line.variables == {"A": "1", "B": "x y", "C": "$"}
    assert line.lines == {
        "env.A": 1, "env.B": 1, "env.C": 2, "checkpoints": 3, "args.seed": 3,
    }  # fmt: skip


def test_what_the_inventory_sets_may_name_machines_of_the_author():
    options = parse_line('vllm serve m --master-addr "$HEAD_IP" --node-rank 0 --seed 1').options
    assert options == {"master-addr": True, "node-rank": 0, "seed": 1}
    copies = "--data-parallel-size-local 1 --data-parallel-address $HEAD_IP --seed 1"
    assert {*parse_line(f"vllm serve m {copies}").options} - {*OURS} == {"seed"}


def test_lines_of_problems():
    with pytest.raises(ShellError) as error:
        parse_line("vllm serve m \\\n  --seed $S \\\n  -zz 1")
    assert [line for line, _ in error.value.found] == [1, 2]
    with pytest.raises(ShellError) as error:
        fill("a\n{b}\n{c}", {})
    assert [line for line, _ in error.value.found] == [1, 2]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "found nothing; expected vllm serve"),
        ("python3 -m pip install x && vllm serve m", "found python3 -m; expected vllm serve"),
        ("export A=1 | tee x; vllm serve m", "found |; expected one vllm serve line"),
        ("vllm serve $MODEL", "found $MODEL, which a shell expands"),
        ("vllm serve m 2>/dev/null", "found >; expected one vllm serve line"),
        ("vllm serve m\n--seed 1", "found a line break without a backslash"),
        ("vllm serve m \\\n# why\n --seed 1", "expected one vllm serve line and nothing else"),
        ("vllm serve m --seed $SEED", "found $SEED, which a shell expands"),
        ("vllm serve m x", "found x; expected options after the model"),
        ("vllm serve --seed 1", "found no model"),
        ("vllm serve m -zz 1", "found -zz; expected vLLM's long option"),
        ("vllm serve m -sc '{method: mtp}'", "after -sc; expected JSON"),
        ("vllm serve m --a.b 1 2", "found --a.b 1 2; expected --option '{JSON}'"),
        ("vllm serve m --a.b 1 --a.b.c 2", "found --a.b.c 2; expected --option '{JSON}'"),
        ("vllm serve m --a.b+ 2", "found --a.b+ 2; expected --option '{JSON}'"),
        ("vllm serve m --a" + ".b" * 9 + " 2", "expected --option '{JSON}'"),
    ],
)
def test_what_is_no_serve_line(text, problem):
    assert problem in refusal(parse_line, text)
