"""Without a line of code: `opentelemetry-instrument` finds the entry points, and the variables that steer it hold."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from otel_itl.testing import ScriptedServer, chat, messages

if TYPE_CHECKING:
    from conftest import App, Finished, Receiver

LAUNCHER = Path(sys.executable).with_name("opentelemetry-instrument")
APP = """
    import anthropic, openai

    asked = [{"role": "user", "content": "hello"}]
    for chunk in openai.OpenAI().chat.completions.create(model="gpt-4o", messages=asked, stream=True):
        pass
    with anthropic.Anthropic().messages.stream(model="claude-opus", max_tokens=9, messages=asked) as stream:
        print("".join(stream.text_stream))
"""
OTHERS = {
    entry_point.name
    for entry_point in importlib.metadata.entry_points(group="opentelemetry_instrumentor")
    if not entry_point.name.startswith("itl_")
}
"""Instrumentations that happen to be installed beside ours, and are not the subject here."""

pytestmark = pytest.mark.skipif(not LAUNCHER.exists(), reason="there is no opentelemetry-instrument beside this Python")


class Run(NamedTuple):
    """What an application printed, and what arrived from it."""

    app: Finished
    receiver: Receiver

    @property
    def measured(self) -> list[str]:
        """The models of the measured spans: ours, or those that the anthropic SDK starts itself."""
        attributes = [
            {attribute.key: attribute.value.string_value for attribute in span.attributes}
            for request in self.receiver.requests
            for part in getattr(request, "resource_spans", ())
            for scope in part.scope_spans
            for span in scope.spans
        ]
        return sorted(each["gen_ai.request.model"] for each in attributes if "itl.stream.outcome" in each)


@pytest.fixture(scope="module")
def runs(start_app: Callable[..., App], receivers: Callable[..., Receiver]) -> Iterator[dict[str, Run]]:
    """The same application with all of it, and with openai left alone; both at a time."""
    with ScriptedServer() as server:
        server.always(chat.reply(5), model="gpt-4o")
        server.always(messages.reply(["Hel", "lo"]), model="claude-opus")
        variables = {
            "all": {"OTEL_ITL_TOKEN_EVENTS": "every", "OTEL_ITL_FOO": "1"},
            "without openai": {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": ",".join({"itl_openai", *OTHERS})},
        }
        variables["all"]["OTEL_PYTHON_DISABLED_INSTRUMENTATIONS"] = ",".join(OTHERS)
        started = {}
        for name, chosen in variables.items():
            receiver = receivers()
            app = start_app(APP, server, receiver, (str(LAUNCHER), sys.executable), **chosen)
            started[name] = app, receiver
        yield {name: Run(app.wait(), receiver) for name, (app, receiver) in started.items()}


def test_the_entry_points_are_those_of_the_documentation(distribution_path: str) -> None:
    path = [distribution_path] if distribution_path else sys.path
    distribution = next(iter(importlib.metadata.distributions(name="otel-itl", path=path)))
    actual = {point.name: point.value for point in distribution.entry_points if point.group.startswith("opentelemetry")}
    assert actual == {
        "itl_openai": "otel_itl.instrumentor:OpenAIInstrumentor",
        "itl_anthropic": "otel_itl.instrumentor:AnthropicInstrumentor",
        "itl_groq": "otel_itl.instrumentor:GroqInstrumentor",
        "itl_together": "otel_itl.instrumentor:TogetherInstrumentor",
        "itl_fireworks": "otel_itl.instrumentor:FireworksInstrumentor",
        "itl_cerebras": "otel_itl.instrumentor:CerebrasInstrumentor",
        "itl_google_genai": "otel_itl.instrumentor:GoogleGenAIInstrumentor",
        "itl_bedrock": "otel_itl.instrumentor:BedrockInstrumentor",
        "itl_litellm": "otel_itl.instrumentor:LiteLLMInstrumentor",
        "itl_ollama": "otel_itl.instrumentor:OllamaInstrumentor",
        "itl_cohere": "otel_itl.instrumentor:CohereInstrumentor",
        "itl_xai": "otel_itl.instrumentor:XAIInstrumentor",
        "itl_mistralai": "otel_itl.instrumentor:MistralAIInstrumentor",
        "itl_huggingface_hub": "otel_itl.instrumentor:HuggingFaceHubInstrumentor",
        "itl": "otel_itl.launched:start_if_launched",
    }


@pytest.mark.requirement("R62")
def test_the_distribution_depends_on_opentelemetry_and_wrapt_alone(distribution_path: str) -> None:
    path = [distribution_path] if distribution_path else sys.path
    distribution = next(iter(importlib.metadata.distributions(name="otel-itl", path=path)))
    core = [requirement for requirement in distribution.requires or () if "extra ==" not in requirement]
    names = {requirement.replace(">", "<").replace("=", "<").partition("<")[0].strip() for requirement in core}
    assert names == {
        "opentelemetry-api",
        "opentelemetry-exporter-otlp",
        "opentelemetry-instrumentation",
        "opentelemetry-sdk",
        "opentelemetry-semantic-conventions",
        "wrapt",
    }


def test_streams_of_every_sdk_are_measured_without_a_line_of_code(runs: dict[str, Run]) -> None:
    assert runs["all"].measured == ["claude-opus", "gpt-4o"]


def test_an_application_without_a_line_of_code_gives_what_it_gave(runs: dict[str, Run]) -> None:
    assert {run.app.stdout for run in runs.values()} == {"Hello\n"}


def test_an_sdk_that_is_disabled_is_left_alone(runs: dict[str, Run]) -> None:
    assert runs["without openai"].measured == ["claude-opus"]


@pytest.mark.parametrize("variable", ["OTEL_ITL_TOKEN_EVENTS", "OTEL_ITL_FOO"])
def test_a_wrong_variable_is_one_warning_however_many_sdks_are_instrumented(
    runs: dict[str, Run], variable: str
) -> None:
    lines = runs["all"].app.stderr.splitlines()
    assert [line.partition(" ")[0] for line in lines].count(variable) == 1


def test_without_wrong_variables_nothing_but_where_the_telemetry_goes_is_printed(runs: dict[str, Run]) -> None:
    app, receiver = runs["without openai"]
    assert app.stderr == receiver.setup_notice
