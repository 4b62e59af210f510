"""Whatever of ours fails, the application goes on as if nothing were measured, and the failure is counted and logged.

Which functions are called is found out by watching, so that those to come are found as well. Each is made to fail as it
is called, and again as it returns, every time that the caller takes a step: by one way from each of its callers, and in
the slow tests by every way that leads to it.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

import pytest
from aftermath import badly_reported, done_to_the_next_stream, left_behind, logged, read_to_its_end, settle, silence
from callers import described, seen_by_caller
from measuring import SHARED, bare, instrument
from planting import PACKAGE, Place, Planted, Watcher
from replies import broken, denied, garbled, refused, whole
from surfaces import CREATED, OTHER_STREAMS, SURFACES, Surface

from otel_itl import observe
from otel_itl.core.encoding import encode
from otel_itl.core.request import Request
from otel_itl.core.timeline import Timeline
from otel_itl.runtime import runtime
from otel_itl.sdks.driver import Call, StreamingCall
from otel_itl.sdks.duck_typing import classify_by_shape
from otel_itl.sdks.open_call import Description

if TYPE_CHECKING:
    from faces import Face
    from wires import Wire

pytestmark = [pytest.mark.requirement("R16"), pytest.mark.timeout(240)]

SEAMS: Final = {
    "recording/internal_errors.py:guarded",  # the guard itself
    "recording/recorder.py:__del__",
    *("sdks/code_patch.py:request", "sdks/code_patch.py:__call__", "sdks/patching.py:__call__"),
    *(f"sdks/driver.py:{name}" for name in ("wrap", "_begin_and_await", "_await", "_await_attempt")),
    *(f"sdks/fern.py:{name}" for name in ("__next__", "__anext__", "throw", "athrow", "_leave", "_aleave")),
    *(
        "sdks/grpc_calls.py:__iter__",
        "sdks/grpc_calls.py:__aiter__",
        "sdks/xai.py:_make_channel",
        "sdks/own_spans.py:enter",
    ),
    *("sdks/line_streams.py:parse_lines", "sdks/first_pull.py:append_targets", "sdks/anthropic.py:see"),
    *(f"sdks/open_call.py:{name}" for name in ("call", "acall", "send", "asend")),
    *(f"recording/stream_iterators.py:{name}" for name in ("record_iterator", "record_async_iterator", "__anext__")),
    *(f"recording/stream_iterators.py:{name}" for name in ("_resume_with", "resume")),
    *(f"recording/evidence/pulls.py:{name}" for name in ("pull", "_await", "_awaited")),
    *(f"recording/response_body.py:{name}" for name in ("__iter__", "__aiter__", "close", "aclose", "_read", "_aread")),
    *(f"recording/response_body.py:{name}" for name in ("__deepcopy__", "__reduce_ex__")),
    *(f"recording/stream_proxy.py:{name}" for name in ("__getattr__", "__iter__", "__aiter__", "__next__")),
    *(f"recording/stream_proxy.py:{name}" for name in ("__anext__", "close")),
    "observing.py:observe",
}
"""Functions that nothing can be put around: an SDK, the application or Python calls them, and they call the SDK's."""

Act = Callable[[Callable[[], None], Callable[[], None]], object]
"""What an application does, and sees of it. Calls the first before each step, and the second after the last."""


@dataclass(frozen=True, slots=True)
class Ending:
    """One way in which a stream is read and left."""

    steps: tuple[str, ...]
    wire: Callable[[str], Wire] = whole
    faces: tuple[Face, ...] = ("sync", "async")


READ: Final = Ending(("read",))
ENDINGS: Final[dict[str, Ending]] = {
    "closed": Ending(("look at the attributes", "pull", "pull", "close")),
    "closed unread": Ending(("close",)),
    "closed by its response": Ending(("pull", "close the response")),
    "left by a with block": Ending(("within",)),
    "read in two loops": Ending(("pull", "loop", "iterate again")),
    "dropped": Ending(("pull", "pull")),
    "dropped unread": Ending(()),
    "thrown into": Ending(("pull", "pull", "throw")),
    "cancelled": Ending(("pull", "cancel"), faces=("async",)),
    "broken": Ending(("loop",), broken),
    "garbled": Ending(("loop",), garbled),
    "refused": Ending((), refused),
    "denied": Ending((), denied),
}
BRISK: Final = {("sync", "read")}
"""What every environment of the matrix tries, with one surface: most of what is passed is passed here."""

TABLES: Final = frozenset({"groq", "together", "fireworks", "cerebras"})
"""SDKs whose file holds nothing but a table: what is passed in one of them is passed in all."""
SLOW: Final = pytest.mark.slow
IN_EACH_SDK: Final = os.environ.get("ITL_FAULTS_IN_EACH_SDK") == "1"
"""A place is made to fail in each SDK that passes it by the same way, as `.ci/nightly` does; else in one of them."""
PROVEN: Final[set[tuple[str, Place]]] = set()
"""Places that were made to fail already, by the same way, or by the same caller."""
WAYS: Final = pytest.mark.parametrize(
    "by_every_way", [pytest.param(False, id="by each caller"), pytest.param(True, id="by every way", marks=SLOW)]
)
"""Whether a place is made to fail by every way that leads there, or by one way from each function that calls it."""


def cases() -> list[Any]:
    params = []
    for surface in SURFACES:
        endings = {"read": READ, **(ENDINGS if surface in CREATED else {})}
        if surface in OTHER_STREAMS:  # the ways that differ from those of the SDKs above
            endings |= {name: ENDINGS[name] for name in ("closed", "dropped", "cancelled", "broken")}
        for name, ending in endings.items():
            for face in ending.faces:
                case = f"{surface}-{face}-{name}"
                if surface is CREATED[0] and (face, name) in BRISK:
                    params.append(pytest.param(surface, face, ending, False, id=f"{case}-by each caller"))
                params.append(pytest.param(surface, face, ending, True, id=f"{case}-by every way", marks=SLOW))
    return params


@pytest.fixture(autouse=True)
def _nothing_else() -> Iterator[None]:
    with silence():
        yield


@pytest.fixture(autouse=True)
def _no_kept_tracebacks() -> Iterator[None]:
    """Drop what the xai-sdk logs of its own spans: pytest keeps the records, and they keep tracebacks and streams."""
    logger = logging.getLogger("opentelemetry.context")
    logger.addFilter(_drop)
    yield
    logger.removeFilter(_drop)


def _drop(_: logging.LogRecord) -> bool:
    return False


def nothing() -> None:
    """Between two steps of an application in which nothing is to fail."""


def harm(place: Place, act: Act, expected: object) -> Iterator[str]:
    """What a fault does to others than us."""
    settle()
    planted = Planted(place)
    with logged() as lines:
        seen = act(planted.arm, planted.disarm)
        gc.collect()
        runtime.finalizer.finalize_pending()
    if not planted.fired:
        return
    if seen != expected:
        yield f"the application sees {seen} for {expected}"
    yield from badly_reported(lines)
    yield from left_behind()
    if place.event == "call":
        yield from done_to_the_next_stream()


def holes(act: Act, sdk: str = "", *, by_every_way: bool, **options: Any) -> dict[str, list[str]]:
    """The places whose failure does harm, and what it does."""
    bare()
    with pytest.MonkeyPatch.context() as environ:
        environ.setenv("OTEL_SDK_DISABLED", "true")
        act(nothing, nothing)  # what is done once is done
        expected = act(nothing, nothing)
    bare()
    instrument(SHARED, **options)
    act(nothing, nothing)
    watcher = Watcher()
    watcher.arm()
    seen = act(nothing, nothing)
    watcher.disarm()
    assert seen == expected
    found: dict[str, list[str]] = {}
    for place in watcher.places:
        within = ("a table" if sdk in TABLES else sdk) if IN_EACH_SDK else ""
        by_way, by_caller = (within, place), (within, place._replace(callers=place.callers[-1:]))
        if place.function not in SEAMS and (by_way if by_every_way else by_caller) not in PROVEN:
            PROVEN.update({by_way, by_caller})
            # A context of its own: what a fault leaves there is not left to the next one.
            harms = copy_context().run(lambda place: list(harm(place, act, expected)), place)
            if harms:
                found.setdefault(str(place), []).extend(harms)
    assert PROVEN
    return found


@pytest.mark.parametrize(("surface", "face", "ending", "by_every_way"), cases())
def test_a_fault_of_ours_does_not_harm_the_caller_of_an_sdk(
    surface: Surface, face: Face, ending: Ending, *, by_every_way: bool
) -> None:
    def act(before_step: Callable[[], None], after_steps: Callable[[], None]) -> object:
        return seen_by_caller(
            surface,
            face,
            ending.wire(surface.wire),
            ending.steps,
            before_step=before_step,
            after_steps=after_steps,
        )

    assert holes(act, surface.sdk, by_every_way=by_every_way) == {}


@WAYS
@pytest.mark.parametrize("form", ["each", "log", "none"])
def test_a_fault_of_ours_does_no_harm_in_any_form_of_token_events(form: str, *, by_every_way: bool) -> None:
    surface = CREATED[0]

    def act(before_step: Callable[[], None], after_steps: Callable[[], None]) -> object:
        return seen_by_caller(
            surface, "sync", whole(surface.wire), ["loop"], before_step=before_step, after_steps=after_steps
        )

    assert holes(act, surface.sdk, by_every_way=by_every_way, token_events=form) == {}


# --- streams of the application's own, spans, flushes, collections ---------------------------------------------------


def steps_taken(steps: Sequence[Callable[[], object]], before_step: Callable[[], None]) -> list[object]:
    """What comes of each step."""
    results: list[object] = []
    for step in steps:
        before_step()
        try:
            results.append(step())
        except Exception as error:
            results.append(described(error))
    return results


def observed(before_step: Callable[[], None], after_steps: Callable[[], None]) -> object:
    streams: list[Any] = []

    def begin() -> None:
        streams.append(observe((word for word in ["one", "two"]), provider="p", model="m"))

    results = steps_taken([begin, *[lambda: next(streams[-1], None)] * 3, lambda: streams.pop().close()], before_step)
    after_steps()
    return results


def aobserved(before_step: Callable[[], None], after_steps: Callable[[], None]) -> object:
    async def reading() -> list[object]:
        before_step()
        stream: Any = observe(awords(), provider="p", model="m")
        results = await read_async_words(stream, before_step)
        before_step()
        try:
            results.append(await stream.aclose())
        except Exception as error:
            results.append(described(error))
        return results

    results = asyncio.run(reading())
    after_steps()
    return results


def describe(_: Call) -> Description:
    return Description(Request(operation="chat", provider="p", model="m"), classify_by_shape)


def called(function: Callable[..., Any], **options: Any) -> Callable[[], Any]:
    """A function of an SDK that makes a stream of two words, as it is patched."""
    hook = StreamingCall("sdk", "call", describe, **options)
    return lambda: hook.wrap(runtime.installer.driver, function, None, (), {})


def words() -> Iterator[str]:
    yield "one"
    yield "two"


async def awords() -> AsyncIterator[str]:
    yield "one"
    yield "two"


def called_for_a_generator(before_step: Callable[[], None], after_steps: Callable[[], None]) -> object:
    return read_words(called(words), before_step, after_steps)


def called_for_an_iterator(before_step: Callable[[], None], after_steps: Callable[[], None]) -> object:
    return read_words(called(lambda: iter(["one", "two"])), before_step, after_steps)


def called_for_what_sends_the_request_later(before_step: Callable[[], None], after_steps: Callable[[], None]) -> object:
    return read_words(called(lambda: iter(["one", "two"]), sent="first_pull"), before_step, after_steps)


def read_words(call: Callable[[], Any], before_step: Callable[[], None], after_steps: Callable[[], None]) -> object:
    streams: list[Any] = []
    results = steps_taken([lambda: streams.append(call()), *[lambda: next(streams[-1], None)] * 3], before_step)
    streams.clear()
    after_steps()
    return results


def called_for_an_async_generator(before_step: Callable[[], None], after_steps: Callable[[], None]) -> object:
    async def reading() -> list[object]:
        before_step()
        return await read_async_words(called(awords)(), before_step)

    results = asyncio.run(reading())
    after_steps()
    return results


def awaited_for_an_async_generator(before_step: Callable[[], None], after_steps: Callable[[], None]) -> object:
    async def call() -> AsyncIterator[str]:
        return awords()

    async def reading() -> list[object]:
        before_step()
        return await read_async_words(await called(call)(), before_step)

    results = asyncio.run(reading())
    after_steps()
    return results


async def read_async_words(stream: Any, before_step: Callable[[], None]) -> list[object]:
    results: list[object] = []
    for _ in range(3):
        before_step()
        try:
            results.append(await anext(stream, None))
        except Exception as error:
            results.append(described(error))
    return results


def stalled(before_step: Callable[[], None], after_steps: Callable[[], None]) -> object:
    def words_with_a_stall() -> Iterator[str]:
        yield "one"
        before_step()
        runtime.watchdog._due = now = perf_counter_ns() + 100 * 10**9
        runtime.watchdog.make_round(now)
        before_step()
        yield "two"

    stream: Any = observe(words_with_a_stall(), provider="p", model="m")
    results = steps_taken([lambda: next(stream, None)] * 3, before_step)
    after_steps()
    return results


def span_of_another(before_step: Callable[[], None], after_steps: Callable[[], None]) -> object:
    span = SHARED.tracer_provider.get_tracer("another").start_span("stream")
    for event in encode(Timeline(request_unix_ns=1, end=5_000)):
        span.add_event(event.name, event.attributes, event.unix_ns)
    results = steps_taken([span.end], before_step)
    after_steps()
    return results


def flush_and_collection(before_step: Callable[[], None], after_steps: Callable[[], None]) -> object:
    read_to_its_end()
    results = steps_taken(
        [
            lambda: SHARED.tracer_provider.force_flush() in {True, False},
            lambda: sorted(name for name in SHARED.metrics if name.startswith("app.")),
        ],
        before_step,
    )
    after_steps()
    return results


@WAYS
@pytest.mark.parametrize(
    "act",
    [
        observed,
        aobserved,
        called_for_a_generator,
        called_for_an_iterator,
        called_for_what_sends_the_request_later,
        called_for_an_async_generator,
        awaited_for_an_async_generator,
        stalled,
        span_of_another,
        flush_and_collection,
    ],
)
def test_a_fault_of_ours_does_not_harm_an_application(act: Act, *, by_every_way: bool) -> None:
    assert holes(act, by_every_way=by_every_way) == {}


def test_every_seam_is_a_function_of_ours() -> None:
    found = {seam: Path(PACKAGE, seam.partition(":")[0]).read_text(encoding="utf-8") for seam in SEAMS}
    missing = [seam for seam, source in found.items() if f"def {seam.partition(':')[2]}(" not in source]
    assert missing == ["sdks/code_patch.py:request"]  # the stub, which gets the name of the function that it replaces


# --- the guard itself ------------------------------------------------------------------------------------------------


def test_a_failure_is_contained_where_the_applications_logging_fails() -> None:
    def refuse(_: logging.LogRecord) -> bool:
        raise RuntimeError("a filter of the application's")

    logger = logging.getLogger("otel_itl")
    logger.addFilter(refuse)
    try:
        runtime.errors.report("a test", ValueError("x"))
    finally:
        logger.removeFilter(refuse)
    assert runtime.errors.counts["a test"] == 1


def test_what_fails_in_the_garbage_collector_is_logged_by_the_next_sweep() -> None:
    with logged() as lines:
        runtime.errors.note("a test", ValueError("x"))
        before = list(lines)
        runtime.finalizer.finalize_pending()
    assert (before, len(lines)) == ([], 1)
