"""A tool parser of vLLM's for a model that cannot call tools: it is told each word.

`--tool-parser-plugin` loads this file, which lies beside the tiny model's weights. To a question of
sparkwright/verify/tools.py it has the engine generate exactly the text that a Qwen model would say,
by vLLM's own constraint on what may come next; a question that it does not know is left alone. All
else is real: HTTP, chat template, sampling, streaming, and the parser that finds the calls in the
text, which is one of vLLM's. So this proves that calls come through whole, from the tokens to the
client and from a tool's result to the next call. It does not prove that a model knows when to call
what.
"""

import json

from vllm.sampling_params import StructuredOutputsParams
from vllm.tool_parsers import ToolParserManager


def _calls(*calls):
    """Return calls as Qwen3.5 writes them."""
    return "\n".join(
        f"<tool_call>\n<function={name}>\n"
        + "".join(
            f"<parameter={key}>\n{value if isinstance(value, str) else json.dumps(value)}\n"
            "</parameter>\n"
            for key, value in arguments.items()
        )
        + "</function>\n</tool_call>"
        for name, arguments in calls
    )


def _weather(*cities):
    def say(results):
        if results:
            return f"It is {' and '.join(str(result['temperature']) for result in results)}."
        return _calls(*(("get_weather", {"city": city, "unit": "celsius"}) for city in cities))

    return say


def _message(results):
    match results:
        case []:
            return _calls(("find_person", {"name": "Anna Kovacs"}))
        case [person]:
            arguments = {"to": [person["email"]], "subject": "Meeting at 9", "urgent": True}
            arguments["order"] = 4711
            return _calls(("send_message", arguments))
        case [_, receipt]:
            return f"It is sent: {receipt['receipt']}."


# What is said to a question that holds the word, by the results of the calls so far.
_ANSWERS = {
    "Szeged": _weather("Szeged"),
    "Lisbon": _weather("Oslo", "Lisbon"),
    "Kovacs": _message,
}


def _script(messages):
    question = " ".join(str(each["content"]) for each in messages if each["role"] == "user")
    results = [json.loads(each["content"]) for each in messages if each["role"] == "tool"]
    return next((say(results) for word, say in _ANSWERS.items() if word in question), None)


@ToolParserManager.register_module("lab_scripted")
class ScriptedParser(ToolParserManager.get_tool_parser("qwen3_coder")):
    """The parser of Qwen's tool calls, for a model that has been told what to say."""

    def adjust_request(self, request):
        """Have the engine say what the conversation has come to."""
        request = super().adjust_request(request)
        if request.tools and (text := _script(request.messages)):
            form = {"type": "const_string", "value": text}
            tag = json.dumps({"type": "structural_tag", "format": form})
            request.structured_outputs = StructuredOutputsParams(structural_tag=tag)
            # One token each, as a Qwen model says them; the tiny one would spell them.
            marks = (self.vocab["<tool_call>"], self.vocab["</tool_call>"])
            request.logit_bias = {str(mark): 100.0 for mark in marks}
        return request
