"""The driver: calls of every shape, requests sent at once or with the first pull, and one record for one HTTP call."""

from __future__ import annotations

import asyncio
import gc
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import pytest
from opentelemetry import context

from otel_itl.core.request import Request
from otel_itl.sdks.driver import Call, Driver, StreamingCall
from otel_itl.sdks.open_call import Description, current_recorder
from otel_itl.sdks.patching import PackagePatches

if TYPE_CHECKING:
    from conftest import Machinery

    from otel_itl.core.stream import FinishedStream
    from otel_itl.recording.recorder import StreamRecorder

CHUNKS = ["a", "b", "c"]
SPAN: Final = "span of the test"
"""The key of a context that stands in for the current span."""


def current_span() -> object:
    return context.get_value(SPAN)


class Opener:
    """Opens recordings with the machinery of a test; the name of the model stands in for the current span."""

    session_from: Callable[[Any, Any], object] | None = None

    def __init__(self, machinery: Machinery) -> None:
        self.machinery = machinery
        self.errors = machinery.errors
        self.finished: list[FinishedStream] = []
        self.is_suppressed = False

    def open(self, request: Request, classify: Any, *, sent: Any = None, sdk_span: Any = None) -> StreamRecorder | None:
        if self.is_suppressed:
            return None
        recorder = self.machinery.open(classify=classify, request=request)
        recorder.report_to(
            self.finished.append, lambda: None, SimpleNamespace(context=context.set_value(SPAN, request.model))
        )
        return recorder

    def redescribe(self, recorder: StreamRecorder, request: Request, classify: Any) -> None:
        recorder.redescribe(request, classify)

    def read_clocks(self) -> Any:
        raise NotImplementedError

    def move(self, recorder: StreamRecorder, sdk_span: Any) -> None:
        raise NotImplementedError

    @property
    def outcomes(self) -> list[tuple[str | None, str, int]]:
        """The model, the outcome and the number of chunks of each stream that was reported."""
        self.machinery.finalizer.finalize_pending()
        return [(stream.request.model, stream.timeline.outcome.value, len(stream.timeline)) for stream in self.finished]


@pytest.fixture
def opener(machinery: Machinery) -> Opener:
    return Opener(machinery)


def classify(chunk: Any, response: Any) -> int:
    response.is_terminated = True
    return 2


def describe(call: Call) -> Description | None:
    """Describe a call whose argument `model` is the model; of no model, none."""
    model = call.arguments.get("model")
    if model is None:
        return None
    request = Request(operation="chat", provider="p", model=model)
    return Description(request, classify, body=call.arguments, read_headers=lambda: {"x-session": "h"})


def patched(opener: Opener, function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """A function as the driver makes it, in a module of its own."""
    module = SimpleNamespace(call=function)
    driver, hook = Driver(opener), StreamingCall("m", "call", describe, **options)  # type: ignore[arg-type]

    def call(*args: Any, **kwargs: Any) -> Any:
        return hook.wrap(driver, module.call, None, args, kwargs)

    return call


def generator(model: str | None) -> Iterator[str]:
    yield from CHUNKS


async def async_generator(model: str | None) -> AsyncIterator[str]:
    for chunk in CHUNKS:
        yield chunk


def call_for_iterator(model: str | None) -> Iterator[str]:
    return iter(CHUNKS)


def call_for_generator(model: str | None) -> Iterator[str]:
    return generator(model)


async def await_for_iterator(model: str | None) -> AsyncIterator[str]:
    return async_generator(model)


def call_for_coroutine(model: str | None) -> Any:
    """As a function that another one decorates."""
    return await_for_iterator(model)


def read(result: Any) -> list[Any]:
    """Everything that a call of whatever shape streams."""

    async def drained() -> list[Any]:
        stream = await result if inspect.iscoroutine(result) else result
        if hasattr(stream, "__aiter__"):
            return [chunk async for chunk in stream]
        return list(stream)

    return asyncio.run(drained())


SHAPES = [
    generator,
    async_generator,
    call_for_iterator,
    call_for_generator,
    await_for_iterator,
    call_for_coroutine,
]


# --- Calls of every shape --------------------------------------------------------------------------------------------


@pytest.mark.requirement("R9")
@pytest.mark.parametrize("function", SHAPES)
def test_chunks_pass_unchanged(opener: Opener, function: Callable[..., Any]) -> None:
    assert read(patched(opener, function)("m")) == CHUNKS


@pytest.mark.parametrize("function", SHAPES)
def test_a_call_is_one_record(opener: Opener, function: Callable[..., Any]) -> None:
    read(patched(opener, function)("m"))
    assert opener.outcomes == [("m", "completed", 3)]


@pytest.mark.parametrize("function", SHAPES)
def test_a_call_that_is_no_inference_is_no_record(opener: Opener, function: Callable[..., Any]) -> None:
    chunks = read(patched(opener, function)(None))
    assert (chunks, opener.outcomes) == (CHUNKS, [])


@pytest.mark.parametrize("function", SHAPES)
def test_a_call_that_is_suppressed_is_no_record(opener: Opener, function: Callable[..., Any]) -> None:
    opener.is_suppressed = True
    chunks = read(patched(opener, function)("m"))
    assert (chunks, opener.outcomes) == (CHUNKS, [])


@pytest.mark.parametrize("function", [generator, call_for_generator])
def test_a_generator_stays_one(opener: Opener, function: Callable[..., Any]) -> None:
    stream = patched(opener, function)("m")
    assert (type(stream), list(stream)) == (type(generator("m")), CHUNKS)


def test_an_async_generator_stays_one(opener: Opener) -> None:
    stream = patched(opener, async_generator)("m")
    assert (type(stream), read(stream)) == (type(async_generator("m")), CHUNKS)


def test_what_is_no_stream_is_handed_out_as_it_is(opener: Opener) -> None:
    assert patched(opener, lambda model: 7)("m") == 7


def test_what_is_no_stream_ends_its_record(opener: Opener) -> None:
    patched(opener, lambda model: 7)("m")
    assert opener.outcomes == [("m", "completed", 0)]


@pytest.mark.requirement("R17")
def test_a_call_that_raises_raises_the_same_and_is_an_error(opener: Opener) -> None:
    error = ConnectionError()

    def fail(model: str) -> Any:
        raise error

    with pytest.raises(ConnectionError) as raised:
        patched(opener, fail)("m")
    assert (raised.value is error, opener.outcomes) == (True, [("m", "error", 0)])


@pytest.mark.requirement("R16")
def test_a_description_that_fails_leaves_the_call_alone(opener: Opener) -> None:
    def fail(call: Call) -> Description | None:
        raise LookupError

    hook = StreamingCall("m", "call", fail)
    assert (list(hook.wrap(Driver(opener), generator, None, ("m",), {})), opener.errors.counts) == (
        CHUNKS,
        {"stream.open": 1},
    )


@pytest.mark.requirement("R71")
def test_a_request_names_its_session(opener: Opener) -> None:
    opener.session_from = lambda body, headers: f"{body['model']}-{headers['x-session']}"
    read(patched(opener, generator)("m"))
    assert opener.finished[0].request.session_id == "m-h"


# --- When the request is sent ----------------------------------------------------------------------------------------


@pytest.mark.requirement("R30")
def test_a_generator_that_is_never_pulled_made_no_request(opener: Opener) -> None:
    stream = patched(opener, generator)("m")
    del stream
    gc.collect()
    assert (opener.outcomes, len(opener.machinery.open_streams)) == ([], 0)


def test_the_clock_of_a_generator_starts_with_the_first_pull(opener: Opener) -> None:
    clock = opener.machinery.clock

    def slow(model: str) -> Iterator[str]:
        clock.advance(0.5)
        yield "a"

    stream = patched(opener, slow)("m")
    clock.advance(10)
    list(stream)
    assert opener.finished[0].timeline.arrived[0] == 500_000_000


def test_the_clock_of_a_call_starts_with_the_call(opener: Opener) -> None:
    clock = opener.machinery.clock
    stream = patched(opener, call_for_iterator)("m")
    clock.advance(10)
    list(stream)
    assert opener.finished[0].timeline.arrived[0] == 10_000_000_000


def test_a_call_whose_iterator_sends_the_request_starts_with_the_first_pull(opener: Opener) -> None:
    clock = opener.machinery.clock
    stream = patched(opener, call_for_iterator, sent="first_pull")("m")
    clock.advance(10)
    list(stream)
    assert opener.finished[0].timeline.arrived[0] == 0


@pytest.mark.requirement("R24")
@pytest.mark.parametrize("is_async", [False, True])
def test_the_span_is_current_while_a_generator_sends_its_request(opener: Opener, is_async: bool) -> None:
    seen: list[str | None] = []

    def sending(model: str) -> Iterator[str]:
        seen.append(current_span())
        yield "a"
        seen.append(current_span())

    async def async_sending(model: str) -> AsyncIterator[str]:
        for chunk in sending(model):
            yield chunk

    read(patched(opener, async_sending if is_async else sending)("m"))
    assert seen == ["m", None]


@pytest.mark.requirement("R24")
@pytest.mark.parametrize("is_decorated", [False, True])
def test_the_span_is_current_while_a_coroutine_sends_its_request(opener: Opener, is_decorated: bool) -> None:
    seen: list[str | None] = []

    async def sending(model: str) -> Iterator[str]:
        seen.append(current_span())
        return iter(CHUNKS)

    def decorated(model: str) -> Any:
        return sending(model)

    read(patched(opener, decorated if is_decorated else sending)("m"))
    assert (seen, current_span()) == (["m"], None)


@pytest.mark.requirement("R23")
def test_the_callers_span_is_current_between_chunks(opener: Opener) -> None:
    assert [current_span() for _ in patched(opener, generator)("m")] == [None, None, None]


@pytest.mark.parametrize("function", [generator, call_for_generator])
def test_a_generator_that_fails_with_its_first_pull_gives_the_context_back(
    opener: Opener, function: Callable[..., Any]
) -> None:
    def fail(model: str) -> Iterator[str]:
        raise ConnectionError
        yield

    with pytest.raises(ConnectionError):
        list(patched(opener, fail)("m"))
    assert (current_span(), current_recorder(), opener.outcomes) == (None, None, [("m", "error", 0)])


# --- How it is left --------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R19")
def test_a_generator_that_is_left_early_is_one_record(opener: Opener) -> None:
    for _ in patched(opener, generator)("m"):
        break
    gc.collect()
    assert opener.outcomes == [("m", "abandoned", 1)]


@pytest.mark.requirement("R19")
def test_an_async_generator_that_is_left_early_is_one_record(opener: Opener) -> None:
    async def leave() -> None:
        async for _ in patched(opener, async_generator)("m"):
            break
        await asyncio.sleep(0.01)  # the loop closes what was left

    asyncio.run(leave())
    gc.collect()
    assert opener.outcomes == [("m", "abandoned", 1)]


def test_what_a_caller_throws_into_a_generator_reaches_it(opener: Opener) -> None:
    caught: list[BaseException] = []

    def catching(model: str) -> Iterator[str]:
        try:
            yield "a"
        except ValueError as error:
            caught.append(error)
            yield "b"

    stream = patched(opener, catching)("m")
    next(stream)
    error = ValueError()
    assert (stream.throw(error), caught) == ("b", [error])


# --- One HTTP call, one record ---------------------------------------------------------------------------------------


def layered(opener: Opener, outer: Callable[..., Any]) -> Callable[..., Any]:
    """A function above the patched ones, itself patched."""
    return patched(opener, outer, has_inner_layer=True)


@pytest.mark.parametrize("function", [generator, call_for_iterator, call_for_generator])
def test_the_layer_nearer_to_the_wire_takes_over_the_record_of_a_call(
    opener: Opener, function: Callable[..., Any]
) -> None:
    inner = patched(opener, call_for_iterator)
    chunks = read(layered(opener, lambda model: inner("inner"))("outer"))
    assert (chunks, opener.outcomes) == (CHUNKS, [("inner", "completed", 3)])


def test_the_layer_nearer_to_the_wire_takes_over_the_record_of_a_generator(opener: Opener) -> None:
    inner = patched(opener, call_for_iterator)

    def outer(model: str) -> Iterator[str]:
        yield from inner("inner")

    chunks = read(layered(opener, outer)("outer"))
    assert (chunks, opener.outcomes) == (CHUNKS, [("inner", "completed", 3)])


def test_a_generator_within_a_generator_is_one_record(opener: Opener) -> None:
    inner = patched(opener, generator)

    def outer(model: str) -> Iterator[str]:
        yield from inner("inner")

    chunks = read(layered(opener, outer)("outer"))
    assert (chunks, opener.outcomes) == (CHUNKS, [("inner", "completed", 3)])


def test_an_async_generator_within_another_is_one_record(opener: Opener) -> None:
    inner = patched(opener, async_generator)

    async def outer(model: str) -> AsyncIterator[str]:
        async for chunk in inner("inner"):
            yield chunk

    chunks = read(layered(opener, outer)("outer"))
    assert (chunks, opener.outcomes) == (CHUNKS, [("inner", "completed", 3)])


def test_a_layer_whose_call_goes_through_no_other_records_it_itself(opener: Opener) -> None:
    read(layered(opener, generator)("outer"))
    assert opener.outcomes == [("outer", "completed", 3)]


def test_a_second_call_within_an_outer_one_is_a_record_of_its_own(opener: Opener) -> None:
    inner = patched(opener, call_for_iterator)

    def outer(model: str) -> Iterator[str]:
        yield from inner("first")
        yield from inner("second")

    read(layered(opener, outer)("outer"))
    assert [model for model, _, _ in opener.outcomes] == ["first", "second"]


def test_a_call_of_the_nearest_layer_is_not_taken_over_by_one_that_it_makes(opener: Opener) -> None:
    inner = patched(opener, call_for_iterator)

    def middleware(model: str) -> Iterator[str]:
        read(inner("inner"))
        return iter(CHUNKS)

    read(patched(opener, middleware)("outer"))
    assert sorted(model or "" for model, _, _ in opener.outcomes) == ["inner", "outer"]


# --- Installed in a module -------------------------------------------------------------------------------------------


def test_targets_are_patched_and_restored(opener: Opener, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sdk_of_driver_test.py").write_text(
        "class Client:\n    def stream(self, model):\n        yield from 'abc'\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import sdk_of_driver_test as sdk  # type: ignore[import-not-found]

    original = sdk.Client.stream
    hook = StreamingCall("sdk_of_driver_test", "Client.stream", describe)
    patches = PackagePatches("sdk_of_driver_test", (hook,), Driver(opener))
    patches.install()
    measured = list(sdk.Client().stream("m"))
    patches.remove()
    assert (measured, opener.outcomes, sdk.Client.stream is original) == (CHUNKS, [("m", "completed", 3)], True)
