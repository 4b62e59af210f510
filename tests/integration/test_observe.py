"""`observe()`: streams that no SDK's hook sees, in whatever shape they come."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import aclosing
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import trace

import otel_itl
from otel_itl import Kind
from otel_itl.runtime import runtime
from otel_itl.testing import CapturedTelemetry, ScriptedServer, chat

if TYPE_CHECKING:
    from conftest import App, Clients, Instrument, Receiver

WHO: dict[str, Any] = {"provider": "mistral_ai", "model": "small"}


def spoken() -> Iterator[str]:
    yield from ("Hel", "", "lo")


async def aspoken() -> AsyncIterator[str]:
    for text in spoken():
        yield text


async def gathered(stream: Any) -> list[Any]:
    return [chunk async for chunk in stream]


@pytest.fixture
def attributes(instrument: Instrument, captured_telemetry: CapturedTelemetry) -> Callable[[], dict[str, Any]]:
    """The attributes of the one span that came of a test."""
    instrument()

    def of_the_span() -> dict[str, Any]:
        gc.collect()
        captured_telemetry.tracer_provider.force_flush()
        (span,) = captured_telemetry.spans
        return dict(span.attributes or {})

    return of_the_span


Attributes = Callable[[], dict[str, Any]]


def test_chunks_pass_through_untouched_and_in_order(attributes: Attributes) -> None:
    chunks = [object(), object(), object()]
    observed = list(otel_itl.observe(iter(chunks), **WHO))
    assert [passed is chunk for passed, chunk in zip(observed, chunks, strict=True)] == [True] * 3


def test_chunks_of_an_async_iterator_pass_through_untouched_and_in_order(attributes: Attributes) -> None:
    assert asyncio.run(gathered(otel_itl.observe(aspoken(), **WHO))) == ["Hel", "", "lo"]


def test_a_list_of_chunks_is_a_stream_too(attributes: Attributes) -> None:
    assert (list(otel_itl.observe(["a", "b"], **WHO)), attributes()["itl.output_chunk.count"]) == (["a", "b"], 2)


def test_the_span_is_named_by_what_the_caller_says(
    attributes: Attributes, captured_telemetry: CapturedTelemetry
) -> None:
    list(
        otel_itl.observe(spoken(), **WHO, operation="generate_content", server_address="llm.example", server_port=8443)
    )
    expected = {
        "gen_ai.operation.name": "generate_content",
        "gen_ai.provider.name": "mistral_ai",
        "gen_ai.request.model": "small",
        "gen_ai.request.stream": True,
        "server.address": "llm.example",
        "server.port": 8443,
    }
    actual = attributes()
    assert {name: actual.get(name) for name in expected} == expected
    assert captured_telemetry.spans[0].name == "generate_content small"


def test_the_operation_is_a_chat_unless_said_otherwise(attributes: Attributes) -> None:
    list(otel_itl.observe(spoken(), **WHO))
    assert attributes()["gen_ai.operation.name"] == "chat"


def test_the_request_is_made_when_observe_is_called(attributes: Attributes) -> None:
    def late() -> Iterator[str]:
        time.sleep(0.05)
        yield "a"

    list(otel_itl.observe(late(), **WHO))
    assert attributes()["itl.time_to_first_token"] >= 0.05


def test_metrics_are_recorded(attributes: Attributes, captured_telemetry: CapturedTelemetry) -> None:
    list(otel_itl.observe(spoken(), **WHO))
    attributes()
    (point,) = captured_telemetry.metrics["itl.client.stream.outcomes"]
    assert (point.attributes["gen_ai.provider.name"], point.value) == ("mistral_ai", 1)


# --- what a chunk carries -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunks", [["Hel", "", "lo"], [b"Hel", b"", b"lo"]], ids=["text", "bytes"])
def test_empty_text_is_no_token(chunks: list[Any], attributes: Attributes) -> None:
    list(otel_itl.observe(iter(chunks), **WHO))
    actual = attributes()
    assert (actual["itl.chunk.count"], actual["itl.output_chunk.count"]) == (3, 2)


def test_any_other_object_is_an_answer(attributes: Attributes) -> None:
    list(otel_itl.observe(iter([SimpleNamespace(piece="a"), 7]), **WHO))
    assert attributes()["itl.output_chunk.count"] == 2


def test_text_that_ends_is_completed(attributes: Attributes) -> None:
    list(otel_itl.observe(spoken(), **WHO))
    assert attributes()["itl.stream.outcome"] == "completed"


OPENAI_SHAPE = [
    {"id": "c1", "model": "small-2", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]},
    {"choices": [{"index": 0, "delta": {"content": "Hel"}}]},
    {"choices": [{"index": 0, "delta": {"content": "lo"}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}},
]
ANTHROPIC_SHAPE = [
    {"type": "message_start", "message": {"id": "c1", "model": "small-2", "usage": {"input_tokens": 7}}},
    {"type": "content_block_start", "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hel"}},
    {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "lo"}},
    {"type": "message_delta", "delta": {"stop_reason": "stop"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
]


def as_objects(value: Any) -> Any:
    if isinstance(value, dict):
        return SimpleNamespace(**{name: as_objects(member) for name, member in value.items()})
    return [as_objects(member) for member in value] if isinstance(value, list) else value


@pytest.mark.parametrize("make", [list, as_objects], ids=["dicts", "objects"])
@pytest.mark.parametrize("shape", [OPENAI_SHAPE, ANTHROPIC_SHAPE], ids=["openai", "anthropic"])
def test_chunks_in_a_known_shape_are_read_as_such(
    shape: list[Any], make: Callable[[Any], Any], attributes: Attributes
) -> None:
    list(otel_itl.observe(iter(make(shape)), **WHO))
    expected = {
        "itl.output_chunk.count": 2,
        "itl.stream.outcome": "completed",
        "gen_ai.response.id": "c1",
        "gen_ai.response.model": "small-2",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 2,
    }
    actual = attributes()
    assert {name: actual.get(name) for name in expected} == expected


@pytest.mark.requirement("R52")
def test_chunks_in_a_known_shape_that_stop_without_an_end_are_truncated(attributes: Attributes) -> None:
    list(otel_itl.observe(iter(OPENAI_SHAPE[:2]), **WHO))
    assert attributes()["itl.stream.outcome"] == "truncated"


def test_classify_says_what_a_chunk_carries(attributes: Attributes) -> None:
    kinds = {"hm": Kind.REASONING, "yes": Kind.ANSWER, "-": Kind.EMPTY}

    def thinking() -> Iterator[str]:
        for text in ("-", "hm", "hm", "yes"):
            time.sleep(0.01)
            yield text

    list(otel_itl.observe(thinking(), **WHO, classify=kinds.__getitem__))
    actual = attributes()
    assert (actual["itl.chunk.count"], actual["itl.output_chunk.count"]) == (4, 3)
    assert actual["gen_ai.response.time_to_first_chunk"] < actual["itl.time_to_first_token"]
    assert actual["itl.time_to_first_token"] < actual["itl.time_to_first_answer_token"]


@pytest.mark.requirement("R16")
@pytest.mark.parametrize("classify", [lambda _: 1 / 0, lambda _: "answer", lambda _: -1, lambda _: 1 << 80])
def test_a_classify_that_fails_does_not_reach_the_caller(
    classify: Callable[[Any], Any], attributes: Attributes, captured_telemetry: CapturedTelemetry
) -> None:
    assert list(otel_itl.observe(spoken(), **WHO, classify=classify)) == ["Hel", "", "lo"]
    assert attributes()["itl.chunk.count"] == 3


# --- how a stream ends ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("R17")
def test_an_error_of_the_stream_reaches_the_caller_as_the_same_object(attributes: Attributes) -> None:
    error = ConnectionError("gone")

    def failing() -> Iterator[str]:
        yield "a"
        raise error

    with pytest.raises(ConnectionError) as caught:
        list(otel_itl.observe(failing(), **WHO))
    actual = attributes()
    assert (caught.value is error, actual["itl.stream.outcome"], actual["error.type"]) == (
        True,
        "error",
        "ConnectionError",
    )


def test_an_error_of_an_async_stream_is_an_error(attributes: Attributes) -> None:
    async def failing() -> AsyncIterator[str]:
        yield "a"
        raise ConnectionError

    with pytest.raises(ConnectionError):
        asyncio.run(gathered(otel_itl.observe(failing(), **WHO)))
    assert attributes()["itl.stream.outcome"] == "error"


@pytest.mark.requirement("R20")
def test_a_stream_that_is_closed_early_is_closed(attributes: Attributes) -> None:
    stream = otel_itl.observe(spoken(), **WHO)
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    actual = attributes()
    assert (actual["itl.stream.outcome"], actual.get("error.type")) == ("closed", None)


@pytest.mark.requirement("R20")
def test_an_async_stream_that_is_closed_early_is_closed(attributes: Attributes) -> None:
    async def leave() -> None:
        stream = otel_itl.observe(aspoken(), **WHO)
        await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]

    asyncio.run(leave())
    assert attributes()["itl.stream.outcome"] == "closed"


def test_an_event_loop_that_ends_finds_nothing_to_close_of_a_stream_that_was_closed_early(
    attributes: Attributes, caplog: pytest.LogCaptureFixture
) -> None:
    async def leave() -> None:
        async with aclosing(otel_itl.observe(aspoken(), **WHO)) as stream:  # type: ignore[type-var]
            async for _ in stream:
                break

    asyncio.run(leave())
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []


@pytest.mark.requirement("R20")
def test_a_stream_that_is_left_and_dropped_is_abandoned(attributes: Attributes) -> None:
    for _ in otel_itl.observe(spoken(), **WHO):
        break
    assert attributes()["itl.stream.outcome"] == "abandoned"


def test_leaving_a_generator_finishes_it_as_without_us(attributes: Attributes) -> None:
    finished = []

    def careful() -> Iterator[str]:
        try:
            yield "a"
            yield "b"
        finally:
            finished.append(True)

    for _ in otel_itl.observe(careful(), **WHO):
        break
    gc.collect()
    assert finished == [True]


@pytest.mark.requirement("R20")
def test_a_stream_whose_waiting_task_is_cancelled_is_cancelled(attributes: Attributes) -> None:
    async def endless() -> AsyncIterator[str]:
        yield "a"
        await asyncio.sleep(30)

    async def cancel() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(gathered(otel_itl.observe(endless(), **WHO)), 0.02)

    asyncio.run(cancel())
    assert attributes()["itl.stream.outcome"] == "cancelled"


class Response:
    """A stream as clients make them: an iterator with attributes, a context manager, closable."""

    def __init__(self) -> None:
        self.request_id = "r-1"
        self.closed = False
        self._chunks = spoken()

    def __iter__(self) -> Iterator[str]:
        return self._chunks

    def __enter__(self) -> Response:  # noqa: PYI034 - `Self` is in typing from 3.11 on
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.closed = True


class AsyncResponse(Response):
    """Its async face."""

    def __aiter__(self) -> AsyncIterator[str]:
        return aspoken()

    async def __aenter__(self) -> AsyncResponse:  # noqa: PYI034 - as above
        return self

    async def __aexit__(self, *_: object) -> None:
        self.closed = True


def test_the_streams_own_attributes_stay_reachable(attributes: Attributes) -> None:
    stream: Any = otel_itl.observe(Response(), **WHO)
    assert (stream.request_id, isinstance(stream, Response)) == ("r-1", True)


@pytest.mark.requirement("R3")
def test_what_a_with_block_binds_is_measured(attributes: Attributes) -> None:
    response = Response()
    observed: Any = otel_itl.observe(response, **WHO)
    with observed as stream:
        chunks = list(stream)
    assert (chunks, response.closed, attributes()["itl.output_chunk.count"]) == (["Hel", "", "lo"], True, 2)


@pytest.mark.requirement("R3")
def test_what_an_async_with_block_binds_is_measured(attributes: Attributes) -> None:
    response = AsyncResponse()

    async def read() -> list[str]:
        observed: Any = otel_itl.observe(response, **WHO)
        async with observed as stream:
            return await gathered(stream)

    assert (asyncio.run(read()), response.closed) == (["Hel", "", "lo"], True)
    assert attributes()["itl.output_chunk.count"] == 2


def test_leaving_a_with_block_early_is_closing(attributes: Attributes) -> None:
    observed: Any = otel_itl.observe(Response(), **WHO)
    with observed as stream:
        next(stream)
    assert attributes()["itl.stream.outcome"] == "closed"


@pytest.mark.requirement("R4")
@pytest.mark.parametrize(
    ("stream", "has_close"), [(iter(["a"]), False), (spoken(), True)], ids=["iterator", "generator"]
)
def test_there_is_a_close_exactly_where_the_bare_stream_has_one(
    stream: Any, has_close: bool, attributes: Attributes
) -> None:
    assert hasattr(otel_itl.observe(stream, **WHO), "close") == has_close


# --- generators that are sent to, thrown into, and return -----------------------------------------------------------


def talking() -> Generator[str, str | None, int]:
    """Yield in upper case what is sent, and return how often that was."""
    count = 0
    sent = yield "ready"
    while sent is not None:
        count += 1
        try:
            sent = yield sent.upper()
        except KeyError:
            sent = yield "caught"
    return count


async def atalking() -> AsyncGenerator[str, str | None]:
    sent = yield "ready"
    while sent is not None:
        try:
            sent = yield sent.upper()
        except KeyError:
            sent = yield "caught"


def test_the_value_that_a_generator_returns_reaches_yield_from(attributes: Attributes) -> None:
    def returned() -> Generator[Any, Any, None]:
        values.append((yield from otel_itl.observe(answering(), **WHO)))

    def answering() -> Generator[str, None, int]:
        yield "a"
        return 7

    values: list[int] = []
    assert (list(returned()), values, attributes()["itl.stream.outcome"]) == (["a"], [7], "completed")


def test_chunks_that_a_generator_yields_when_it_is_sent_to_are_counted(attributes: Attributes) -> None:
    stream = otel_itl.observe(talking(), **WHO)
    chunks = [stream.send(None), stream.send("a"), stream.send("b")]
    with pytest.raises(StopIteration) as stopped:
        next(stream)
    facts = attributes()
    assert (chunks, stopped.value.value) == (["ready", "A", "B"], 2)
    assert (facts["itl.output_chunk.count"], facts["itl.stream.outcome"]) == (3, "completed")


def test_chunks_that_an_async_generator_yields_when_it_is_sent_to_are_counted(attributes: Attributes) -> None:
    async def run() -> list[str]:
        stream = otel_itl.observe(atalking(), **WHO)
        chunks = [await anext(stream), await stream.asend("a"), await stream.asend("b")]
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        return chunks

    assert asyncio.run(run()) == ["ready", "A", "B"]
    assert attributes()["itl.output_chunk.count"] == 3


def test_a_generator_that_catches_what_is_thrown_goes_on(attributes: Attributes) -> None:
    stream = otel_itl.observe(talking(), **WHO)
    assert [next(stream), stream.send("a"), stream.throw(KeyError()), stream.send("b")] == ["ready", "A", "caught", "B"]


def test_an_async_generator_that_catches_what_is_thrown_goes_on(attributes: Attributes) -> None:
    async def run() -> list[str]:
        stream = otel_itl.observe(atalking(), **WHO)
        return [await anext(stream), await stream.asend("a"), await stream.athrow(KeyError()), await stream.asend("b")]

    assert asyncio.run(run()) == ["ready", "A", "caught", "B"]


@pytest.mark.parametrize("pulls", [0, 1])
def test_an_exception_that_is_thrown_into_a_generator_is_the_same_object_without_us(
    pulls: int, attributes: Attributes
) -> None:
    error = ValueError("x")
    stream = otel_itl.observe(talking(), **WHO)
    for _ in range(pulls):
        next(stream)
    with pytest.raises(ValueError, match="x") as raised:
        stream.throw(error)
    assert (raised.value, list(stream)) == (error, [])


def test_the_send_of_a_stream_that_is_no_generator_is_its_own(attributes: Attributes) -> None:
    class Socket:
        def __iter__(self) -> Iterator[str]:
            return iter(["a"])

        def send(self, message: str) -> None:
            sent.append(message)

    sent: list[str] = []
    stream: Any = otel_itl.observe(Socket(), **WHO)
    stream.send("hello")
    assert (list(stream), sent) == (["a"], ["hello"])


# --- without instrument() -------------------------------------------------------------------------------------------


def test_without_instrument_a_stream_is_measured_through_the_global_providers(start_app: Callable[..., App]) -> None:
    app = start_app("""
        import otel_itl
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        trace.set_tracer_provider(provider)
        list(otel_itl.observe(iter(["Hel", "lo"]), provider="test", model="m"))
        print([span.attributes["itl.output_chunk.count"] for span in exporter.get_finished_spans()])
    """).wait()
    assert (app.stdout, app.stderr) == ("[2]\n", "")


def test_without_instrument_and_providers_a_stream_is_exported_and_no_provider_is_global(
    start_app: Callable[..., App], receiver: Receiver
) -> None:
    app = start_app(
        """
        import otel_itl
        from opentelemetry import trace

        list(otel_itl.observe(iter(["Hel", "lo"]), provider="test", model="m"))
        print(type(trace.get_tracer_provider()).__name__)
        """,
        receiver=receiver,
    ).wait()
    assert (app.stdout, app.stderr) == ("ProxyTracerProvider\n", receiver.setup_notice)
    assert [span.name for span in receiver.spans] == ["chat m"]


def test_without_any_sdk_of_a_provider_installed_a_stream_is_measured(start_app: Callable[..., App]) -> None:
    app = start_app("""
        import sys
        sys.modules.update(openai=None, anthropic=None)
        import otel_itl
        from otel_itl.testing import capture_telemetry
        with capture_telemetry() as captured:
            otel_itl.instrument(tracer_provider=captured.tracer_provider, sdks=["openai"])
            list(otel_itl.observe(iter(["Hel", "lo"]), provider="test", model="m"))
            print(len(captured.spans))
    """).wait()
    assert app.stdout == "1\n"


# --- when the request is sent ----------------------------------------------------------------------------------------


def test_the_request_of_a_generator_is_sent_with_the_first_pull(attributes: Attributes) -> None:
    stream = otel_itl.observe(spoken(), **WHO)
    time.sleep(0.05)
    list(stream)
    assert attributes()["itl.time_to_first_token"] < 0.05


def test_the_request_of_an_async_generator_is_sent_with_the_first_pull(attributes: Attributes) -> None:
    async def read() -> list[Any]:
        stream = otel_itl.observe(aspoken(), **WHO)
        await asyncio.sleep(0.05)
        return await gathered(stream)

    asyncio.run(read())
    assert attributes()["itl.time_to_first_token"] < 0.05


@pytest.mark.parametrize(
    ("make", "sent"),
    [
        (lambda: iter(["a", "b"]), None),
        (lambda: (text for text in ["a", "b"]), None),
        (spoken, "call"),
    ],
    ids=["an iterator", "a generator expression", "a generator whose request is sent already"],
)
def test_any_other_request_is_sent_with_the_call(make: Callable[[], Any], sent: Any, attributes: Attributes) -> None:
    stream = otel_itl.observe(make(), **WHO, sent=sent)
    time.sleep(0.05)
    list(stream)
    assert attributes()["itl.consumer.duration"] >= 0.04


def test_an_iterator_may_send_its_request_with_the_first_pull(attributes: Attributes) -> None:
    stream = otel_itl.observe(iter(["a", "b"]), **WHO, sent="first_pull")
    time.sleep(0.05)
    list(stream)
    assert attributes()["itl.time_to_first_token"] < 0.05


def test_a_generator_that_is_never_pulled_leaves_no_record(
    instrument: Instrument, captured_telemetry: CapturedTelemetry
) -> None:
    instrument()
    otel_itl.observe(spoken(), **WHO).close()  # type: ignore[attr-defined]
    gc.collect()
    captured_telemetry.tracer_provider.force_flush()
    assert captured_telemetry.spans == []


def test_the_span_is_current_while_a_generator_sends_its_request(
    instrument: Instrument, captured_telemetry: CapturedTelemetry
) -> None:
    instrument()
    seen = []

    def sending() -> Iterator[str]:
        seen.append(trace.get_current_span().get_span_context().span_id)
        yield "a"
        seen.append(trace.get_current_span().get_span_context().span_id)

    list(otel_itl.observe(sending(), **WHO))
    (span,) = captured_telemetry.spans
    assert seen == [span.context.span_id, 0]


# --- what the caller knows of the request and the response -----------------------------------------------------------


def test_the_parameters_of_the_request_are_on_the_span_and_nothing_else_of_it(attributes: Attributes) -> None:
    body = {"temperature": 0.2, "max_tokens": 100, "stop": "END", "messages": ["secret"], "top_p": "odd"}
    list(otel_itl.observe(spoken(), **WHO, parameters=body))
    prefix = "gen_ai.request."
    given = {name: value for name, value in attributes().items() if name.startswith(prefix)}
    assert given == {
        f"{prefix}model": "small",
        f"{prefix}stream": True,
        f"{prefix}temperature": 0.2,
        f"{prefix}max_tokens": 100,
        f"{prefix}stop_sequences": ("END",),
    }


def test_a_stream_may_name_its_session(attributes: Attributes) -> None:
    list(otel_itl.observe(spoken(), **WHO, session_id="s-1"))
    assert attributes()["session.id"] == "s-1"


def test_an_enclosing_session_comes_first(attributes: Attributes) -> None:
    with otel_itl.session("outer"):
        list(otel_itl.observe(spoken(), **WHO, session_id="s-1"))
    assert attributes()["session.id"] == "outer"


def test_the_session_may_be_named_by_a_parameter(instrument: Instrument, captured_telemetry: CapturedTelemetry) -> None:
    instrument(session_from=lambda body, headers: body.get("thread"))
    list(otel_itl.observe(spoken(), **WHO, parameters={"thread": "t-1"}))
    (span,) = captured_telemetry.spans
    assert span.attributes["session.id"] == "t-1"


def test_classify_may_report_facts_of_the_response(attributes: Attributes) -> None:
    def classify(chunk: dict[str, Any], response: otel_itl.ResponseFacts) -> Kind:
        response.update(**chunk.get("facts", {}))
        return Kind.ANSWER if "text" in chunk else Kind.USAGE

    chunks = [
        {"text": "Hel", "facts": {"response_id": "r-1", "model": "small-2"}},
        {"text": "lo"},
        {"facts": {"finish_reason": "stop", "input_tokens": 9, "output_tokens": 5, "reasoning_tokens": 2}},
        {"facts": {"finish_reason": 7, "model": b"", "output_tokens": "many", "cache_read_tokens": -1}},
    ]
    list(otel_itl.observe(iter(chunks), **WHO, classify=classify))
    expected = {
        "gen_ai.response.id": "r-1",
        "gen_ai.response.model": "small-2",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 9,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.reasoning.output_tokens": 2,
        "itl.stream.outcome": "completed",
    }
    actual = attributes()
    assert {name: actual.get(name) for name in expected} == expected
    assert "gen_ai.usage.cache_read.input_tokens" not in actual


def test_counts_from_the_first_chunk_on_are_the_tokens_of_each_chunk(attributes: Attributes) -> None:
    def classify(total: int, response: otel_itl.ResponseFacts) -> Kind:
        response.update(output_tokens=total)
        return Kind.ANSWER

    list(otel_itl.observe(iter([3, 5, 9]), **WHO, classify=classify))
    actual = attributes()
    assert (actual["itl.tokens_per_chunk"], actual["gen_ai.usage.output_tokens"]) == (3.0, 9)


@pytest.mark.parametrize(("reasoning", "per_chunk"), [(1_000, 1.0), (None, None)])
def test_a_summary_of_reasoning_that_classify_reports_is_in_no_pace(
    reasoning: int | None, per_chunk: float | None, attributes: Attributes
) -> None:
    def classify(kind: Kind, response: otel_itl.ResponseFacts) -> Kind:
        response.update(is_reasoning_partial=True)
        if kind is Kind.USAGE:
            response.update(output_tokens=1_003, reasoning_tokens=reasoning)
        return kind

    kinds = [Kind.REASONING, Kind.ANSWER, Kind.ANSWER, Kind.ANSWER, Kind.USAGE]
    list(otel_itl.observe(iter(kinds), **WHO, classify=classify))
    actual = attributes()
    assert (actual.get("itl.tokens_per_chunk"), actual["itl.pace.answer_only"]) == (per_chunk, True)


def test_a_failure_that_classify_reports_ends_the_stream_as_an_error(attributes: Attributes) -> None:
    def classify(chunk: str, response: otel_itl.ResponseFacts) -> Kind:
        response.update(error_type=chunk or None)
        return Kind.EMPTY

    list(otel_itl.observe(iter(["", "overloaded"]), **WHO, classify=classify))
    actual = attributes()
    assert (actual["itl.stream.outcome"], actual["error.type"]) == ("error", "overloaded")


# --- abort -----------------------------------------------------------------------------------------------------------

ABORTED: Any = otel_itl.StallPolicy(next_token=0.05, first_token=2.0, abort_after=0.1)


def test_a_stream_is_aborted_by_the_callers_function(
    instrument: Instrument, captured_telemetry: CapturedTelemetry
) -> None:
    instrument(stall=ABORTED)
    left = threading.Event()

    def hanging() -> Iterator[str]:
        yield "a"
        left.wait(5.0)

    with pytest.raises(TimeoutError, match="The stream was aborted after"):
        list(otel_itl.observe(hanging(), **WHO, classify=lambda _: Kind.ANSWER, abort=left.set, sent="call"))
    (span,) = captured_telemetry.spans
    assert (span.attributes["itl.stream.outcome"], span.attributes["error.type"]) == ("error", "TimeoutError")


async def hanging_after_a_token(gate: asyncio.Future[None]) -> AsyncIterator[str]:
    yield "a"
    await gate


def test_an_async_stream_is_aborted_by_cancelling_what_it_awaits(
    instrument: Instrument, captured_telemetry: CapturedTelemetry
) -> None:
    instrument(stall=ABORTED)

    async def read() -> None:
        loop = asyncio.get_running_loop()
        gate = loop.create_future()

        def abort() -> None:
            loop.call_soon_threadsafe(gate.cancel)

        await gathered(otel_itl.observe(hanging_after_a_token(gate), **WHO, abort=abort))

    with pytest.raises(TimeoutError, match="The stream was aborted after"):
        asyncio.run(read())
    (span,) = captured_telemetry.spans
    assert span.attributes["itl.stream.outcome"] == "error"


def test_a_function_that_cannot_abort_leaves_the_stream_as_it_is(attributes: Attributes) -> None:
    stream = otel_itl.observe(iter("ab"), **WHO, abort=lambda: False)
    next(stream)
    (recorder,) = runtime.open_streams.recorders()
    assert (recorder.abort(), list(stream), attributes()["itl.stream.outcome"]) == (False, ["b"], "completed")


# --- beside the hook of an SDK ---------------------------------------------------------------------------------------


def test_a_generator_that_streams_by_a_hooked_sdk_is_one_record(
    clients: Clients, server: ScriptedServer, instrument: Instrument, captured_telemetry: CapturedTelemetry
) -> None:
    instrument()
    server.play(chat.reply(3))
    client = clients.openai()

    def words() -> Iterator[str]:
        for chunk in client.chat.completions.create(model="m", messages=[], stream=True):
            yield chunk.choices[0].delta.content or "" if chunk.choices else ""

    list(otel_itl.observe(words(), **WHO))
    assert [(span.attributes["gen_ai.provider.name"], span.name) for span in captured_telemetry.spans] == [
        ("openai", "chat m")
    ]
