"""What an engine answers: vLLM's ways on which the product relies."""

import asyncio
import json
from pathlib import Path

import pytest

from host.common import probe
from host.state.engine_api import speed
from sparkwright.declared.recipe import questions
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.engine.state import phase
from sparkwright.verify import tools
from tests.contract import facts
from tests.contract.engines import (
    CHAT,
    COMPLETIONS,
    JSON,
    MODEL,
    PATIENCE,
    RELEASE,
    TOO_LONG,
    URL,
    Connection,
    Running,
    chat,
    check_refused,
    choice,
    events,
)


def test_health(served: Running) -> None:
    answer = served.ask("/health")
    assert (answer.status_code, answer.text) == (200, "")


def test_endpoints(served: Running, recipe: str) -> None:
    """Those that embed or score do not chat."""
    found = facts.endpoints(served.ask("/openapi.json").json())
    assert found == facts.CAPTURED[facts.endpoints_of(recipe)]
    assert served.ask("/version").json() == {"version": "0.32.0"}
    wrong = (None, 405, "Method Not Allowed") if recipe == CHAT else (chat(), 404, "Not Found")
    for path, body, status, detail in (
        ("/readyz", None, 404, "Not Found"),
        ("/sleep", {}, 404, "Not Found"),
        ("/v1/models", {}, 405, "Method Not Allowed"),
        (COMPLETIONS, *wrong),
    ):
        answer = served.ask(path, body)
        assert (answer.status_code, answer.json()) == (status, {"detail": detail})


def test_models(served: Running, recipe: str) -> None:
    (model,) = served.ask("/v1/models").json()["data"]
    name = load_recipe(recipe).served_names[0]
    assert (model["id"], model["root"], model["max_model_len"]) == (name, MODEL, 4096)


def test_the_product_is_satisfied(served: Running, watched: probe.Engine, recipe: str) -> None:
    """By the questions of a run, and by those of the supervisor.

    It speaks HTTP/1.0, in which an answer ends with its connection.
    """
    found = load_recipe(recipe)
    # The lab's model would write as much as there is room for.
    for ask in (questions.shortest, questions.example)[: 1 if recipe == CHAT else 2]:
        question = ask(found.answers, found.served_names[0])
        answer = served.ask(question.path, question.body)
        assert questions.problem(found.answers, answer.text) is None

    async def look() -> None:
        assert await watched.healthy()
        await watched.token()

    asyncio.run(look())


def test_chat(serving: Running) -> None:
    """Greedy text follows from the prompt, whatever was asked before."""
    answers = [choice(serving, text=text) for text in ("Say hello.", "Count.", "Say hello.")]
    first, other, again = (answer["message"]["content"] for answer in answers)
    assert first == again != other
    assert first
    usage = {"prompt_tokens": 29, "completion_tokens": 8, "total_tokens": 37}
    assert usage.items() <= answers[0]["usage"].items()
    assert answers[0]["finish_reason"] == "length"
    assert answers[0]["message"]["reasoning"] is None


def test_sampled_text_differs(serving: Running) -> None:
    texts = {choice(serving, temperature=1)["message"]["content"] for _ in range(4)}
    assert len(texts) > 1


def test_thinking(serving: Running) -> None:
    """Thoughts come apart, and leave no room for an answer when the tokens are few."""
    message = choice(serving, chat_template_kwargs={})["message"]
    assert message["reasoning"]
    assert message["content"] is None
    (thought,) = events(
        serving.ask(COMPLETIONS, chat(chat_template_kwargs={}, stream=True, max_tokens=1)).text
    )[1:]
    assert thought["choices"][0]["delta"]["reasoning"]


def test_logprobs(serving: Running) -> None:
    found = choice(serving, logprobs=True)
    tokens = [entry["token"] for entry in found["logprobs"]["content"]]
    assert "".join(tokens) == found["message"]["content"]
    assert len(tokens) == 8


def test_completion(serving: Running) -> None:
    body = {"model": "tiny", "prompt": "Hello", "max_tokens": 5, "temperature": 0}
    answer = serving.ask("/v1/completions", body).json()
    assert answer["object"] == "text_completion"
    assert answer["usage"]["completion_tokens"] == 5
    found = events(serving.ask("/v1/completions", {**body, "stream": True}).text)
    texts = [chunk["choices"][0]["text"] for chunk in found]
    assert "".join(texts) == answer["choices"][0]["text"]
    default = serving.ask("/v1/completions", {**body, "max_tokens": None, "ignore_eos": True})
    assert default.json()["usage"]["completion_tokens"] == 16


def test_stream(serving: Running) -> None:
    answer = serving.ask(COMPLETIONS, chat(stream=True, stream_options={"include_usage": True}))
    assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    role, *words, usage = events(answer.text)
    assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    text = "".join(word["choices"][0]["delta"]["content"] for word in words)
    assert text == choice(serving)["message"]["content"]
    reasons = [word["choices"][0]["finish_reason"] for word in words]
    assert reasons == [*[None] * (len(words) - 1), "length"]
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 8
    assert {chunk["object"] for chunk in (role, *words, usage)} == {"chat.completion.chunk"}


def test_the_speed_of_an_answer_is_measured(serving: Running) -> None:
    found = speed(str(serving.root), RELEASE, "tiny")["speed"]
    assert 5 < found < 2000


def test_length(serving: Running) -> None:
    """`ignore_eos` writes all that may be."""
    found = choice(serving, max_tokens=200, ignore_eos=True)
    assert (found["usage"]["completion_tokens"], found["finish_reason"]) == (200, "length")


REFUSED = {
    "no messages": ({"model": "tiny"}, 400, "'loc': 'body.messages', 'msg': 'Field required'"),
    "empty messages": (chat(messages=[]), 400, "Cannot apply chat template to an empty"),
    "messages of text": (chat(messages="Hi"), 400, "Input should be a valid list"),
    "no JSON": ("Hello", 400, "'msg': 'JSON decode error'"),
    "a list": ("[]", 400, "Input should be a valid dictionary or object"),
    "no token": (chat(max_tokens=0), 400, "max_tokens must be at least 1, got 0."),
    "words for tokens": (chat(max_tokens="few"), 400, "Input should be a valid integer"),
    "more tokens than there are": (
        chat(max_tokens=9999),
        400,
        "max_tokens=9999 cannot be greater than max_model_len=4096",
    ),
    "temperature": (chat(temperature=-1), 400, "temperature must be non-negative, got -1.0."),
    "another model": (
        chat(model="nope"),
        404,
        "The model `nope` does not exist. Valid aliases: tiny.",
    ),
    "a prompt that is too long": (chat("word " * 5000), 400, TOO_LONG),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(serving: Running, case: str) -> None:
    body, status, words = REFUSED[case]
    check_refused(serving.ask(COMPLETIONS, body), status, words)


def test_only_json(serving: Running) -> None:
    answer = serving.client.post(URL + COMPLETIONS, data=json.dumps(chat()), timeout=PATIENCE)
    assert answer.status_code == 400
    assert "Only 'application/json' is allowed" in answer.json()["error"]["message"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_tool_calls(serving: Running, stream: bool) -> None:
    """The calls that the checkpoint's plugin has the engine make."""
    for story in tools.STORIES:
        messages = tools.opening(story)
        for step in (*story.steps, None):
            body = chat(messages=messages, tools=tools.TOOLS, max_tokens=1024, stream=stream)
            answer = serving.ask(COMPLETIONS, body)
            found = tools.assemble(events(answer.text)) if stream else answer.json()["choices"][0]
            if step is None:
                assert not tools.answer_problems(found, story)
                assert found["finish_reason"] == "stop"
            else:
                assert not tools.problems(found, step)
                messages += tools.results(found, step)


def test_tokens(serving: Running) -> None:
    """Prompts have the same tokens: the chat template shows tools, calls and results."""
    body = {"model": "tiny", "prompt": "Hello world, a b", "add_special_tokens": False}
    counted = serving.ask("/tokenize", body).json()
    assert counted["tokens"] == [80, 109, 297, 119, 302, 116, 108, 52, 266, 294]
    assert (counted["count"], counted["max_model_len"]) == (10, 4096)
    back = serving.ask("/detokenize", {"model": "tiny", "tokens": counted["tokens"]})
    assert back.json()["prompt"] == body["prompt"]
    story = tools.STORIES[0]
    (call,) = story.steps[0]
    function = {"name": call.name, "arguments": json.dumps(call.arguments)}
    made = {"message": {"tool_calls": [{"id": "a", "type": "function", "function": function}]}}
    messages = tools.opening(story) + tools.results(made, story.steps[0])
    asked = {"model": "tiny", "messages": messages, "tools": tools.TOOLS}
    tokens = serving.ask("/tokenize", asked).json()["tokens"]
    prompt = serving.ask("/detokenize", {"model": "tiny", "tokens": tokens}).json()["prompt"]
    assert prompt == Path(__file__).with_name("prompt.txt").read_text()


def test_a_connection_is_kept(serving: Running) -> None:
    """The door sends requests of several clients over one."""
    connection = Connection(serving.root)
    connection.connect()
    socket = connection.sock
    for stream in (True, False, True):
        connection.request("POST", COMPLETIONS, json.dumps(chat(stream=stream)), JSON)
        answer = connection.getresponse()
        assert answer.status == 200
        assert answer.read()
        assert connection.sock is socket
    connection.close()


def test_processes(serving: Running) -> None:
    """Under the names by which tests and people kill and stop them."""
    (core,), (worker,) = serving.pids("VLLM::EngineCor"), serving.pids("VLLM::Worker")
    parents = [
        int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        for pid in (worker, core)
    ]
    assert parents == [core, serving.server]


def test_phases_of_a_start(serving: Running) -> None:
    """The log tells what a deploy shows of a start."""
    lines = serving.log.read_text().splitlines()
    shown = [phase(lines[:end]) for end in range(len(lines))]
    order = [
        text for text, previous in zip(shown, [None, *shown], strict=False) if text != previous
    ]
    wanted = [
        *("starting the engine", "loading weights", "loading weights 0%", "loading weights 100%"),
        *("sizing the KV cache: 516,096 tokens", "ready"),
    ]
    assert [text for text in order if text in wanted] == wanted
    assert set(filter(None, order)) <= {*wanted, *(f"loading weights {n}%" for n in (25, 50, 75))}
