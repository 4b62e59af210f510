"""`instrument()` in code, entry points, and the variables that govern them: in every order, with whose providers."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import openai
import pytest

import otel_itl
from otel_itl.instrumentor import AnthropicInstrumentor, ITLInstrumentor, OpenAIInstrumentor
from otel_itl.runtime import runtime
from otel_itl.testing import CapturedTelemetry, ScriptedServer, capture_telemetry, chat, messages

if TYPE_CHECKING:
    from conftest import App, Clients, Finished, HookedFunctions, Instrument, Receiver

LAUNCHER: Final = Path(sys.executable).with_name("opentelemetry-instrument")
launched = pytest.mark.skipif(not LAUNCHER.exists(), reason="there is no opentelemetry-instrument beside this Python")


def providers(captured: CapturedTelemetry) -> dict[str, Any]:
    return {name: getattr(captured, name) for name in ("tracer_provider", "meter_provider", "logger_provider")}


def outcomes(captured: CapturedTelemetry) -> float:
    return sum(point.value for point in captured.metrics.get("itl.client.stream.outcomes", ()))


@pytest.fixture(autouse=True)
def uninstrumented() -> Iterator[None]:
    yield
    otel_itl.uninstrument()


@pytest.fixture
def other_telemetry() -> Iterator[CapturedTelemetry]:
    """Providers of somebody else, such as those that were given to an entry point."""
    with capture_telemetry() as captured:
        yield captured


# --- Whose providers count ------------------------------------------------------------------------------------------


@pytest.mark.requirement("R67")
def test_an_entry_point_behind_instrument_keeps_the_providers_that_were_given(
    clients: Clients, server: ScriptedServer, captured_telemetry: CapturedTelemetry
) -> None:
    otel_itl.instrument(**providers(captured_telemetry))
    OpenAIInstrumentor().instrument(skip_dep_check=True)
    server.play(chat.reply(3).cut(2) + chat.error())
    with pytest.raises(openai.APIError):
        clients.chat()
    assert (len(captured_telemetry.spans), outcomes(captured_telemetry), len(captured_telemetry.logs)) == (1, 1, 1)


@pytest.mark.requirement("R67")
def test_an_entry_point_behind_instrument_keeps_the_options_that_were_given(
    clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    otel_itl.instrument(token_events="none", **providers(captured_telemetry))
    OpenAIInstrumentor().instrument(skip_dep_check=True)
    clients.chat()
    assert [len(span.events) for span in captured_telemetry.spans] == [0]


@pytest.mark.requirement("R67")
def test_instrument_behind_an_entry_point_has_the_providers_count_that_it_is_given(
    clients: Clients, captured_telemetry: CapturedTelemetry, other_telemetry: CapturedTelemetry
) -> None:
    OpenAIInstrumentor().instrument(skip_dep_check=True, **providers(other_telemetry))
    clients.chat()
    otel_itl.instrument(**providers(captured_telemetry))
    clients.chat(model="second")
    spans = [[span.name for span in captured.spans] for captured in (other_telemetry, captured_telemetry)]
    assert (spans, outcomes(other_telemetry), outcomes(captured_telemetry)) == (
        [["chat gpt-4o"], ["chat second"]],
        1,
        1,
    )


@pytest.mark.requirement("R67")
def test_instrument_without_providers_behind_an_entry_point_keeps_those_of_the_entry_point(
    clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    OpenAIInstrumentor().instrument(skip_dep_check=True, **providers(captured_telemetry))
    otel_itl.instrument(token_events="none")
    clients.chat()
    assert [len(span.events) for span in captured_telemetry.spans] == [0]


@pytest.mark.requirement("R67")
def test_instrument_behind_an_entry_point_also_measures_what_the_entry_point_did_not(
    clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    OpenAIInstrumentor().instrument(skip_dep_check=True)
    otel_itl.instrument(**providers(captured_telemetry))
    clients.messages()
    assert [span.name for span in captured_telemetry.spans] == ["chat claude-opus"]


# --- `uninstrument()` behind entry points ---------------------------------------------------------------------------


@pytest.mark.requirement("R66")
@pytest.mark.parametrize("remove", [otel_itl.uninstrument, ITLInstrumentor().uninstrument], ids=["function", "class"])
def test_uninstrument_removes_what_entry_points_alone_have_hooked(
    remove: Callable[[], None], captured_telemetry: CapturedTelemetry, hooked_functions: HookedFunctions
) -> None:
    before = hooked_functions.state
    OpenAIInstrumentor().instrument(skip_dep_check=True, **providers(captured_telemetry))
    AnthropicInstrumentor().instrument(skip_dep_check=True)
    hooked = hooked_functions.state
    remove()
    changed = [new != old for new, old in zip(hooked, before, strict=True)]
    assert (changed, hooked_functions.state, runtime.installer.installed) == ([True] * len(before), before, frozenset())


@pytest.mark.requirement("R66")
def test_nothing_is_measured_when_uninstrument_was_called_behind_entry_points_alone(
    clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    OpenAIInstrumentor().instrument(skip_dep_check=True, **providers(captured_telemetry))
    otel_itl.uninstrument()
    assert (len(clients.chat()) > 0, captured_telemetry.spans, captured_telemetry.metrics) == (True, [], {})


@pytest.mark.requirement("R66")
def test_the_last_entry_point_that_is_uninstrumented_stops_everything(captured_telemetry: CapturedTelemetry) -> None:
    OpenAIInstrumentor().instrument(skip_dep_check=True, **providers(captured_telemetry))
    AnthropicInstrumentor().instrument(skip_dep_check=True)
    configured = []
    for instrumentor in (OpenAIInstrumentor(), AnthropicInstrumentor()):
        instrumentor.uninstrument()
        configured.append(runtime.config is not None)
    assert configured == [True, False]


# --- `observe()` and `uninstrument()` -------------------------------------------------------------------------------


OBSERVE: Final = """
import threading
import otel_itl
from opentelemetry import trace

{before}
stream = iter("abc")
observed = otel_itl.observe(stream, provider="test", model="m")
print(observed is stream, "".join(observed))
print(sorted(thread.name for thread in threading.enumerate()), type(trace.get_tracer_provider()).__name__)
"""
NOTHING: Final = "True abc\n['MainThread'] ProxyTracerProvider\n"
"""What `OBSERVE` prints where nothing is measured, and nothing was started."""


@pytest.mark.requirement("R66")
@pytest.mark.parametrize(
    "before",
    [
        "otel_itl.instrument(); otel_itl.uninstrument()",
        "otel_itl.uninstrument()",
        "from otel_itl.instrumentor import OpenAIInstrumentor as I; I().instrument(); otel_itl.uninstrument()",
    ],
    ids=["instrument", "nothing", "an entry point"],
)
def test_observe_behind_uninstrument_measures_nothing_and_starts_nothing(
    before: str, start_app: Callable[..., App], receiver: Receiver
) -> None:
    app = start_app(OBSERVE.format(before=before), receiver=receiver).wait()
    assert (app.stdout, app.stderr, receiver.requests) == (NOTHING, "", [])


def test_observe_without_instrument_measures(start_app: Callable[..., App], receiver: Receiver) -> None:
    app = start_app(OBSERVE.format(before=""), receiver=receiver).wait()
    assert (app.stdout.splitlines()[0], [span.name for span in receiver.spans]) == ("False abc", ["chat m"])


def test_observe_measures_again_when_instrument_is_called_again(
    instrument: Instrument, captured_telemetry: CapturedTelemetry
) -> None:
    instrument()
    otel_itl.uninstrument()
    instrument()
    list(otel_itl.observe(iter("abc"), provider="test", model="m"))
    assert [span.name for span in captured_telemetry.spans] == ["chat m"]


# --- The variables that switch off ----------------------------------------------------------------------------------


@pytest.mark.parametrize("disabled", ["itl_openai", "requests, itl_openai", "*"])
def test_instrument_in_code_is_obeyed_in_spite_of_the_variable_that_disables_entry_points(
    disabled: str,
    monkeypatch: pytest.MonkeyPatch,
    instrument: Instrument,
    clients: Clients,
    captured_telemetry: CapturedTelemetry,
) -> None:
    monkeypatch.setenv("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", disabled)
    instrument()
    clients.chat()
    assert [span.name for span in captured_telemetry.spans] == ["chat gpt-4o"]


@pytest.mark.parametrize("value", ["true", "TRUE", " true "])
@pytest.mark.parametrize("variable", ["OTEL_ITL_DISABLED", "OTEL_SDK_DISABLED"])
@pytest.mark.parametrize("is_set_before", [True, False], ids=["before", "afterwards"])
def test_an_operators_variable_beats_instrument_in_code(
    *,
    is_set_before: bool,
    variable: str,
    value: str,
    monkeypatch: pytest.MonkeyPatch,
    instrument: Instrument,
    clients: Clients,
    captured_telemetry: CapturedTelemetry,
) -> None:
    if is_set_before:
        monkeypatch.setenv(variable, value)
    instrument()
    monkeypatch.setenv(variable, value)
    chunks = clients.chat()
    assert (len(chunks) > 0, captured_telemetry.spans, captured_telemetry.metrics) == (True, [], {})


def test_the_operators_variable_takes_1_as_well(
    monkeypatch: pytest.MonkeyPatch, instrument: Instrument, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    monkeypatch.setenv("OTEL_ITL_DISABLED", "1")
    instrument()
    clients.chat()
    assert captured_telemetry.spans == []


@pytest.mark.parametrize("value", ["", "false", "0", "yes"])
def test_the_operators_variable_disables_nothing_with_any_other_value(
    value: str,
    monkeypatch: pytest.MonkeyPatch,
    instrument: Instrument,
    clients: Clients,
    captured_telemetry: CapturedTelemetry,
) -> None:
    monkeypatch.setenv("OTEL_ITL_DISABLED", value)
    instrument()
    clients.chat()
    assert len(captured_telemetry.spans) == 1


@pytest.mark.parametrize("before", ["", "otel_itl.instrument()"], ids=["alone", "behind instrument"])
def test_an_operators_variable_beats_observe_which_starts_nothing(
    before: str, start_app: Callable[..., App], receiver: Receiver
) -> None:
    app = start_app(OBSERVE.format(before=before), receiver=receiver, OTEL_ITL_DISABLED="true").wait()
    assert (app.stdout, app.stderr, receiver.requests) == (NOTHING, "", [])


# --- With `opentelemetry-instrument` --------------------------------------------------------------------------------


PROGRAM: Final = """
    {before}
    import anthropic, openai

    asked = [{{"role": "user", "content": "hello"}}]
    list(openai.OpenAI().chat.completions.create(model="gpt-4o", messages=asked, stream=True))
    with anthropic.Anthropic().messages.stream(model="claude-opus", max_tokens=9, messages=asked) as stream:
        print("".join(stream.text_stream))
"""
IN_CODE: Final = "import otel_itl; otel_itl.instrument()"
OF_ITS_OWN: Final = """
    import otel_itl
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
    own = TracerProvider()
    own.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(formatter=lambda span: f"own: {span.name}\\n")))
    otel_itl.instrument(tracer_provider=own)
"""
OTHERS: Final = {
    point.name
    for point in importlib.metadata.entry_points(group="opentelemetry_instrumentor")
    if not point.name.startswith("itl_")
}
"""Instrumentations that happen to be installed beside ours, and are not the subject here."""
RUNS: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "disabled": ("", {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": ",".join({"itl_openai", *OTHERS})}),
    "all disabled, and in code": (IN_CODE, {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "*"}),
    "switched off, and in code": (
        IN_CODE,
        {"OTEL_ITL_DISABLED": "true", "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": ",".join(OTHERS)},
    ),
    "with providers in code": (OF_ITS_OWN, {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": ",".join(OTHERS)}),
}
"""What the program does first, and the variables that it is launched with."""


@pytest.fixture(scope="module")
def runs(
    start_app: Callable[..., App], receivers: Callable[..., Receiver]
) -> Iterator[Callable[[str], tuple[Finished, list[str]]]]:
    """What a program prints that is launched by `opentelemetry-instrument`, and the models of the measured spans."""
    with ScriptedServer() as server:
        server.always(chat.reply(3), model="gpt-4o")
        server.always(messages.reply(["Hel", "lo"]), model="claude-opus")
        done: dict[str, tuple[Finished, list[str]]] = {}

        def run(name: str) -> tuple[Finished, list[str]]:
            if name not in done:
                before, variables = RUNS[name]
                receiver = receivers()
                program = PROGRAM.format(before=before.strip())
                app = start_app(program, server, receiver, (str(LAUNCHER), sys.executable), **variables).wait()
                done[name] = app, measured_models(receiver)
            return done[name]

        yield run


def measured_models(receiver: Receiver) -> list[str]:
    """The models of the measured spans: ours, or those that the anthropic SDK starts itself."""
    sent = [receiver.plain(span.attributes) for span in receiver.spans]
    return sorted(each["gen_ai.request.model"] for each in sent if "itl.stream.outcome" in each)


@launched
@pytest.mark.parametrize(
    ("name", "models"),
    [
        ("disabled", ["claude-opus"]),
        ("all disabled, and in code", ["claude-opus", "gpt-4o"]),
        ("switched off, and in code", []),
    ],
)
def test_a_launched_program_is_measured_as_variables_and_code_have_it(
    name: str, models: list[str], runs: Callable[[str], tuple[Finished, list[str]]]
) -> None:
    app, measured = runs(name)
    assert (app.stdout, measured) == ("Hello\n", models)


@launched
@pytest.mark.requirement("R67")
def test_providers_that_a_launched_program_gives_in_code_get_all_of_its_streams(
    runs: Callable[[str], tuple[Finished, list[str]]],
) -> None:
    app, measured = runs("with providers in code")
    assert (sorted(app.stdout.splitlines()), measured) == (["Hello", "own: chat claude-opus", "own: chat gpt-4o"], [])
