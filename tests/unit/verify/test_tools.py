"""What counts as a tool call, on answers of vLLM 0.32.0 to the first questions, all HTTP 200."""

import copy
import json

import pytest

from sparkwright.verify import tools

ONE, PARALLEL = tools.STORIES[0], tools.STORIES[1]
MESSAGE = tools.STORIES[2].steps[1]


def call(name, arguments, number=0):
    function = {"name": name, "arguments": arguments}
    return {"id": f"chatcmpl-tool-{number}", "type": "function", "function": function}


def choice(*calls, content=None, reason="tool_calls"):
    message = {"role": "assistant", "content": content, "tool_calls": list(calls)}
    return {"index": 0, "message": message, "finish_reason": reason}


OSLO = call("get_weather", '{"city": "Oslo", "unit": "celsius"}', 1)
LISBON = call("get_weather", '{"city": "Lisbon", "unit": "celsius"}', 2)
SZEGED = call("get_weather", '{"city": "Szeged", "unit": "celsius"}', 3)
SENT = '{"to": ["ak.7291@example.org"], "subject": "Meeting at 9", "urgent": true, "order": 4711}'
# Of the parser hermes, to which this is no call; and of glm45, which drops what it does not know.
LEFT_IN_TEXT = {
    "role": "assistant",
    "content": "<tool_call>\n<function=get_weather>\n<parameter=city>\nSzeged\n</parameter>\n"
    "<parameter=unit>\ncelsius\n</parameter>\n</function>\n</tool_call>",
}
DROPPED = {"role": "assistant", "content": None, "reasoning": None}


def test_right_calls():
    assert tools.problems(choice(SZEGED), ONE.steps[0]) == []
    for answer in (choice(OSLO, LISBON), choice(LISBON, OSLO)):
        assert tools.problems(answer, PARALLEL.steps[0]) == []
    assert tools.problems(choice(call("send_message", SENT)), MESSAGE) == []


@pytest.mark.parametrize(
    ("message", "problem"),
    [(LEFT_IN_TEXT, "no tool call, but the text '<tool_call>"), (DROPPED, "but the text None")],
)
def test_answers_of_a_wrong_parser(message, problem):
    (found,) = tools.problems({"message": message, "finish_reason": "stop"}, ONE.steps[0])
    assert problem in found


@pytest.mark.parametrize(
    "arguments",
    [
        None,
        '{"city": "Szeged", "unit": "cel',
        '{"city": "Szeged", "unit": "celsius"}{"city": "Lisbon"}',
        '"Szeged"',
        '{"city": ["Szeged"], "unit": "celsius"}',
        '{"city": "Szeged", "unit": "kelvin"}',
        '{"city": "Szeged", "unit": "celsius", "day": 1}',
        '{"city": "Oslo", "unit": "celsius"}',
        # Values of a wrong type.
        *(
            SENT.replace(old, new)
            for old, new in (
                *(("true", '"true"'), ("true", "1"), ("[", '"['), ("4711", '"4711"')),
                *(("4711", "4711.0"), ('["ak.7291@example.org"]', '"ak.7291@example.org"')),
            )
        ),
    ],
)
def test_wrong_arguments(arguments):
    sends = "order" in (arguments or "")
    name, step = ("send_message", MESSAGE) if sends else ("get_weather", ONE.steps[0])
    (found,) = tools.problems(choice(call(name, arguments)), step)
    assert found.startswith((f"calls ['{name}(", f'calls ["{name}('))
    wanted = (
        "send_message(" if sends else """get_weather({"city": "Szeged", "unit": "celsius"})']"""
    )
    assert f"expected ['{wanted}" in found


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        pytest.param(choice(call("weather", "{}")), "calls ['weather({})']", id="name"),
        pytest.param(choice(OSLO), "calls [", id="one of two"),
        pytest.param(choice(OSLO, LISBON, SZEGED), "calls [", id="one too many"),
        pytest.param(choice(OSLO, OSLO | {"id": "other"}), "calls [", id="one of two, twice"),
        pytest.param(choice(OSLO, LISBON | {"id": OSLO["id"]}), "id of their own", id="same id"),
        pytest.param(choice(OSLO, LISBON | {"id": None}), "id of their own", id="no id"),
        pytest.param(choice(OSLO, LISBON, reason="length"), "is length", id="cut short"),
    ],
)
def test_wrong_calls(answer, problem):
    assert problem in tools.problems(answer, PARALLEL.steps[0])[0]


def chunk(delta, reason=None):
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


def part(index, **function):
    return chunk({"tool_calls": [{"index": index, "function": function}]})


def begin(index, identity):
    head = {"id": identity, "type": "function", "index": index, "function": {"name": "get_weather"}}
    return chunk({"tool_calls": [head]})


# In the order in which vLLM sends them: the name first, then the arguments in pieces.
STREAM = [
    chunk({"role": "assistant", "content": ""}),
    begin(0, "chatcmpl-tool-b375"),
    part(0, arguments='{"city": "'),
    part(0, arguments="O"),
    part(0, arguments='slo", "unit": "'),
    part(0, arguments="celsius"),
    part(0, arguments='"}'),
    begin(1, "chatcmpl-tool-ab68"),
    part(1, arguments='{"city": "'),
    part(1, arguments='Lisbon", "unit": "celsius"}'),
    chunk({}, "tool_calls"),
    {"choices": [], "usage": {"completion_tokens": 211}},
]


def test_a_stream_is_assembled():
    answer = tools.assemble(STREAM)
    assert tools.problems(answer, PARALLEL.steps[0]) == []
    assert answer["message"]["tool_calls"][1]["id"] == "chatcmpl-tool-ab68"


def test_a_stream_that_merges_its_calls_or_breaks_off():
    merged = copy.deepcopy(STREAM)
    for piece in merged[7:10]:
        piece["choices"][0]["delta"]["tool_calls"][0]["index"] = 0
    for stream, said in ((merged, "get_weatherget_weather("), (STREAM[:9], "which is no JSON")):
        assert said in tools.problems(tools.assemble(stream), PARALLEL.steps[0])[0]


def test_a_stream_of_text():
    answer = tools.assemble([chunk({"content": "It is "}), chunk({"content": "31."}, "stop")])
    assert answer["message"] == {"role": "assistant", "content": "It is 31."}
    assert tools.answer_problems(answer, ONE) == []


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (choice(SZEGED), "one more tool call"),
        (choice(content="It is warm.", reason="stop"), "no 31 in the answer 'It is warm.'"),
        (choice(reason="stop"), "no 31 in the answer ''"),
    ],
)
def test_answers_that_do_not_hold_the_result(answer, problem):
    assert tools.answer_problems(answer, ONE) == [problem]


def test_stories_fit_the_tools():
    for story in tools.STORIES:
        for step in story.steps:
            words = [(each.name, json.dumps(each.arguments)) for each in step]
            calls = [call(*each, number) for number, each in enumerate(words)]
            assert tools.problems(choice(*calls), step) == []
        results = json.dumps([each.result for each in story.steps[-1]])
        assert all(word in results and word not in story.question for word in story.answer)
