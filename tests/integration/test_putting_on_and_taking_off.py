"""Hooks go on once and come off in any order, beside other people's; one that finds no target is skipped alone."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any
from weakref import ref

import openai
import openai._base_client
import openai._streaming
import pytest
import wrapt
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider

import otel_itl
from otel_itl.export.metrics import StreamMetrics
from otel_itl.runtime import runtime
from otel_itl.sdks.driver import Around
from otel_itl.sdks.patching import PackagePatches
from otel_itl.testing import CapturedTelemetry, ScriptedServer, capture_telemetry, chat

if TYPE_CHECKING:
    from conftest import Clients, HookedFunctions, Instrument

pytestmark = pytest.mark.requirement("R66")


class Other:
    """Another instrumentation, which wraps a function that we hook and counts its calls."""

    owner, name = openai._base_client.SyncAPIClient, "request"

    def __init__(self) -> None:
        self.calls = 0
        self._found: Any = None

    def install(self) -> None:
        def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
            self.calls += 1
            return wrapped(*args, **kwargs)

        self._found = vars(self.owner)[self.name]
        wrapt.wrap_function_wrapper(self.owner, self.name, wrapper)

    def unwrap(self) -> None:
        """Take off the outermost wrapper, whosever it is, as `opentelemetry.instrumentation.utils.unwrap` does."""
        setattr(self.owner, self.name, vars(self.owner)[self.name].__wrapped__)

    def restore(self) -> None:
        """Put back what was found, as monkey patches do."""
        setattr(self.owner, self.name, self._found)


@pytest.fixture(autouse=True)
def genuine(hooked_functions: HookedFunctions) -> Iterator[None]:
    """What was there before is there again afterwards, whatever a test left behind."""
    yield
    hooked_functions.put_back()


def test_taking_the_hooks_off_leaves_the_sdks_own_functions(
    instrument: Instrument, hooked_functions: HookedFunctions
) -> None:
    before = hooked_functions.state
    instrument()
    put_on = hooked_functions.state
    otel_itl.uninstrument()
    assert [new == old for new, old in zip(put_on, before, strict=True)] == [False] * len(before)
    assert hooked_functions.state == before


def test_instrumenting_twice_is_once(
    instrument: Instrument, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    instrument()
    instrument()
    clients.chat()
    points = captured_telemetry.metrics["itl.client.stream.outcomes"]
    assert (len(captured_telemetry.spans), [point.value for point in points]) == (1, [1])


def test_instrumenting_twice_by_different_instrumentors_is_once(
    instrument: Instrument, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    from otel_itl.instrumentor import OpenAIInstrumentor

    instrument()
    OpenAIInstrumentor().instrument(
        tracer_provider=captured_telemetry.tracer_provider, meter_provider=captured_telemetry.meter_provider
    )
    try:
        clients.chat()
    finally:
        OpenAIInstrumentor().uninstrument()
    points = captured_telemetry.metrics["itl.client.stream.outcomes"]
    assert (len(captured_telemetry.spans), [point.value for point in points]) == (1, [1])


def test_one_instrumentor_that_goes_leaves_what_another_has_put_on(
    instrument: Instrument, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    from otel_itl.instrumentor import AnthropicInstrumentor, OpenAIInstrumentor

    providers = {
        "tracer_provider": captured_telemetry.tracer_provider,
        "meter_provider": captured_telemetry.meter_provider,
    }
    OpenAIInstrumentor().instrument(**providers)
    AnthropicInstrumentor().instrument(**providers)
    AnthropicInstrumentor().uninstrument()
    try:
        clients.chat()
        clients.messages()
    finally:
        OpenAIInstrumentor().uninstrument()
    assert [span.name for span in captured_telemetry.spans] == ["chat gpt-4o"]


def test_nothing_is_recorded_after_uninstrument(
    instrument: Instrument, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    instrument()
    otel_itl.uninstrument()
    assert (len(clients.chat()) > 0, captured_telemetry.spans) == (True, [])


def test_instrumenting_again_records_again(
    instrument: Instrument, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    instrument()
    clients.chat()
    otel_itl.uninstrument()
    clients.chat()
    instrument()
    clients.chat()
    points = captured_telemetry.metrics["itl.client.stream.outcomes"]
    assert (len(captured_telemetry.spans), [point.value for point in points]) == (2, [2])


def test_instrumenting_again_with_other_providers_records_there(
    instrument: Instrument, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    instrument()
    clients.chat()
    otel_itl.uninstrument()
    with capture_telemetry() as second:
        otel_itl.instrument(tracer_provider=second.tracer_provider, meter_provider=second.meter_provider)
        clients.chat()
        assert (len(captured_telemetry.spans), len(second.spans)) == (1, 1)


def test_instrumenting_again_and_again_leaves_one_processor_at_work(
    instrument: Instrument, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    for _ in range(3):
        otel_itl.uninstrument()
        instrument(chunk_events=["chunk"])
        clients.chat()
    captured_telemetry.clear()
    span = captured_telemetry.tracer_provider.get_tracer("other").start_span("chat other")
    for _ in range(3):
        span.add_event("chunk")
    span.end()
    points = captured_telemetry.metrics["itl.client.inter_token_latency"]
    others = [point for point in points if "gen_ai.request.model" not in point.attributes]
    assert [point.count for point in others] == [2]


def test_after_uninstrument_the_processor_measures_nobody_elses_spans(
    instrument: Instrument, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    instrument(chunk_events=["chunk"])
    clients.chat()
    otel_itl.uninstrument()
    span = captured_telemetry.tracer_provider.get_tracer("other").start_span("chat other")
    for _ in range(3):
        span.add_event("chunk")
    span.end()
    # Of our own stream there may be none: on a busy machine its latencies are not known.
    points = captured_telemetry.metrics.get("itl.client.inter_token_latency", ())
    assert [point for point in points if "gen_ai.request.model" not in point.attributes] == []


@pytest.mark.parametrize("removal", ["unwrap", "restore"])
@pytest.mark.parametrize("removed", [("ours", "theirs"), ("theirs", "ours")], ids="-then-".join)
@pytest.mark.parametrize("put_on", [("ours", "theirs"), ("theirs", "ours")], ids="-then-".join)
def test_nothing_of_ours_is_left_whatever_the_order_beside_another_wrapper(
    put_on: tuple[str, str],
    removed: tuple[str, str],
    removal: str,
    instrument: Instrument,
    clients: Clients,
    captured_telemetry: CapturedTelemetry,
) -> None:
    other = Other()
    install: dict[str, Callable[[], None]] = {"ours": instrument, "theirs": other.install}
    remove: dict[str, Callable[[], None]] = {"ours": otel_itl.uninstrument, "theirs": getattr(other, removal)}
    for whose in put_on:
        install[whose]()
    measured = clients.chat()
    for whose in removed:
        remove[whose]()
    bare = clients.chat()
    assert (len(measured), len(bare), len(captured_telemetry.spans)) == (6, 6, 1)


@pytest.mark.parametrize("put_on", [("ours", "theirs"), ("theirs", "ours")], ids="-then-".join)
def test_another_wrapper_stays_when_ours_goes(
    put_on: tuple[str, str], instrument: Instrument, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    other = Other()
    install: dict[str, Callable[[], None]] = {"ours": instrument, "theirs": other.install}
    for whose in put_on:
        install[whose]()
    otel_itl.uninstrument()
    clients.chat()
    assert (captured_telemetry.spans, other.calls) == ([], 1)


@pytest.mark.parametrize("removal", ["unwrap", "restore"])
def test_ours_stays_when_another_wrapper_around_it_goes(
    removal: str, instrument: Instrument, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    other = Other()
    instrument()
    other.install()
    getattr(other, removal)()
    clients.chat()
    assert (len(captured_telemetry.spans), other.calls) == (1, 0)


def test_ours_put_on_again_under_a_wrapper_that_stayed_is_there_once(
    instrument: Instrument, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    other = Other()
    instrument()
    other.install()
    otel_itl.uninstrument()
    instrument()
    clients.chat()
    assert (len(captured_telemetry.spans), other.calls) == (1, 1)


@pytest.mark.parametrize("name", ["create", "request"])
def test_a_method_bound_while_instrumented_passes_through_afterwards(
    name: str, instrument: Instrument, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    client = clients.openai()
    instrument()
    bound = client.chat.completions.create if name == "create" else client.request
    otel_itl.uninstrument()
    if name == "request":
        client.request = bound
        bound = client.chat.completions.create
    stream = bound(model="m", messages=[{"role": "user", "content": "hello"}], stream=True)
    assert (len(list(stream)) > 0, captured_telemetry.spans) == (True, [])


def test_a_method_bound_before_instrument_is_measured_after_it(
    instrument: Instrument, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    create = clients.openai().chat.completions.create
    instrument()
    list(create(model="m", messages=[{"role": "user", "content": "hello"}], stream=True))
    assert len(captured_telemetry.spans) == 1


def test_a_method_bound_while_instrumented_is_measured_when_instrumented_again(
    instrument: Instrument, clients: Clients, captured_telemetry: CapturedTelemetry
) -> None:
    instrument()
    create = clients.openai().chat.completions.create
    otel_itl.uninstrument()
    instrument()
    list(create(model="m", messages=[{"role": "user", "content": "hello"}], stream=True))
    assert len(captured_telemetry.spans) == 1


def test_a_stream_that_is_open_at_uninstrument_goes_on_and_its_recording_ends_as_abandoned(
    instrument: Instrument, clients: Clients, server: ScriptedServer, captured_telemetry: CapturedTelemetry
) -> None:
    server.play(chat.reply(5))
    instrument()
    stream = clients.openai().chat.completions.create(
        model="m", messages=[{"role": "user", "content": "hello"}], stream=True
    )
    next(stream)
    otel_itl.uninstrument()
    rest = list(stream)
    outcomes = [(span.attributes or {})["itl.stream.outcome"] for span in captured_telemetry.spans]
    assert (len(rest), outcomes) == (7, ["abandoned"])


def test_uninstrumenting_what_is_not_instrumented_is_harmless(caplog: pytest.LogCaptureFixture) -> None:
    otel_itl.uninstrument()
    otel_itl.uninstrument()
    assert [record for record in caplog.records if record.name.startswith("otel_itl")] == []


# --- targets that are missing ---------------------------------------------------------------------------------------


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "otel_itl"]


@pytest.mark.requirement("R64")
@pytest.mark.parametrize("face", ["Stream", "AsyncStream"])
def test_a_target_that_the_sdk_lacks_is_one_warning(
    face: str, instrument: Instrument, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delattr(getattr(openai._streaming, face), "_iter_events")
    instrument()
    assert warnings(caplog) == [
        f"otel_itl does not find {face}._iter_events in openai._streaming: what passes there is not measured."
    ]


@pytest.mark.requirement("R64")
def test_what_another_target_serves_is_measured_all_the_same(
    instrument: Instrument,
    clients: Clients,
    monkeypatch: pytest.MonkeyPatch,
    captured_telemetry: CapturedTelemetry,
) -> None:
    monkeypatch.delattr(openai._streaming.AsyncStream, "_iter_events")
    monkeypatch.delattr(openai._streaming.AsyncStream, "__stream__")
    instrument()
    clients.chat()
    assert [(span.attributes or {})["itl.output_chunk.count"] for span in captured_telemetry.spans] == [3]


@pytest.fixture
def package() -> Iterator[ModuleType]:
    """A package `acme_llm` with a module `acme_llm.streams` and one class."""
    root, streams = ModuleType("acme_llm"), ModuleType("acme_llm.streams")
    exec("class Stream:\n    def pull(self):\n        return 'chunk'\n", streams.__dict__)  # noqa: S102
    sys.modules |= {"acme_llm": root, "acme_llm.streams": streams}
    # Older wrapt remembers for good that the package was imported, by an earlier test.
    getattr(wrapt.importer, "_post_import_hooks", {}).pop("acme_llm", None)
    yield streams
    del sys.modules["acme_llm"], sys.modules["acme_llm.streams"]


def shout(_: object, wrapped: Callable[..., str], instance: object, args: Any, kwargs: Any) -> str:
    return wrapped(*args, **kwargs).upper()


MISSING = [
    Around("acme_llm.nowhere", "Stream.pull", shout),
    Around("acme_llm.streams", "Nothing.pull", shout),
    Around("acme_llm.streams", "Stream.push", shout),
]


@pytest.mark.requirement("R64")
@pytest.mark.parametrize("missing", MISSING, ids=["module", "class", "method"])
def test_a_missing_module_class_or_method_is_skipped_alone(
    missing: Around, package: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    hooks = PackagePatches("acme_llm", (missing, Around("acme_llm.streams", "Stream.pull", shout)), None)
    hooks.install()
    assert (package.Stream().pull(), len(warnings(caplog))) == ("CHUNK", 1)


@pytest.mark.requirement("R64")
def test_one_warning_names_all_missing_targets_by_module(package: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    PackagePatches("acme_llm", tuple(MISSING), None).install()
    named = "Stream.pull in acme_llm.nowhere; Nothing.pull, Stream.push in acme_llm.streams"
    assert warnings(caplog) == [f"otel_itl does not find {named}: what passes there is not measured."]


def test_a_missing_target_that_is_optional_is_no_warning(package: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    PackagePatches("acme_llm", [replace(missing, is_optional=True) for missing in MISSING], None).install()
    assert warnings(caplog) == []


@pytest.mark.requirement("R64")
@pytest.mark.parametrize("missing", MISSING, ids=["module", "class", "method"])
def test_a_missing_target_is_skipped_when_the_hooks_come_off(missing: Around, package: ModuleType) -> None:
    pull = package.Stream.pull
    hooks = PackagePatches("acme_llm", (missing, Around("acme_llm.streams", "Stream.pull", shout)), None)
    hooks.install()
    hooks.remove()
    assert package.Stream.pull is pull


@pytest.mark.requirement("R64")
def test_a_target_that_went_away_meanwhile_is_skipped_when_the_hooks_come_off(package: ModuleType) -> None:
    hooks = PackagePatches("acme_llm", (Around("acme_llm.streams", "Stream.pull", shout),), None)
    hooks.install()
    del package.Stream
    hooks.remove()
    assert not hasattr(package, "Stream")


def test_hooks_wait_for_a_package_that_is_imported_later(package: ModuleType) -> None:
    root = sys.modules.pop("acme_llm")
    PackagePatches("acme_llm", (Around("acme_llm.streams", "Stream.pull", shout),), None).install()
    before = package.Stream().pull()
    wrapt.notify_module_loaded(root)
    sys.modules["acme_llm"] = root
    assert (before, package.Stream().pull()) == ("chunk", "CHUNK")


def test_hooks_that_were_taken_off_before_the_package_came_do_not_go_on(package: ModuleType) -> None:
    root = sys.modules.pop("acme_llm")
    hooks = PackagePatches("acme_llm", (Around("acme_llm.streams", "Stream.pull", shout),), None)
    hooks.install()
    hooks.remove()
    wrapt.notify_module_loaded(root)
    sys.modules["acme_llm"] = root
    assert package.Stream().pull() == "chunk"


def test_metrics_that_another_has_taken_over_from_are_let_go() -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    made: list[ref[StreamMetrics]] = []
    for _ in range(4):
        otel_itl.instrument(meter_provider=provider, tracer_provider=TracerProvider(shutdown_on_exit=False))
        for _ in otel_itl.observe(iter("abc"), provider="x", model="m"):
            pass
        made.append(ref(runtime._pipeline.metrics))
        otel_itl.uninstrument()
    gc.collect()
    assert [metrics() is None for metrics in made] == [True, True, True, False]


def test_options_that_come_too_late_are_said_to(caplog: pytest.LogCaptureFixture) -> None:
    otel_itl.instrument()
    try:
        otel_itl.instrument(stall="off")
    finally:
        otel_itl.uninstrument()
    assert caplog.messages == ["instrument() was called before: stall will not count until uninstrument()."]


def test_options_that_come_too_late_are_checked() -> None:
    otel_itl.instrument()
    try:
        with pytest.raises(ValueError, match="stall='bogus'"):
            otel_itl.instrument(stall="bogus")
    finally:
        otel_itl.uninstrument()
