"""The faces of a timed stream, sync and async: the same moments, the same endings, and the stream itself untouched."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any

import pytest

from otel_itl.core.timeline import Kind
from otel_itl.recording import chunk_log
from otel_itl.recording.response_body import WatchedBody
from otel_itl.recording.stream_iterators import AsyncEventTap, record_async_iterator, record_iterator, tap_events

MS = 1_000_000


class Failed(Exception):  # noqa: N818 - an SDK's own
    """Raised by the upstream."""


class Refused(Exception):  # noqa: N818 - an application's own
    """Thrown into the stream by the caller."""


class Mode:
    """One face, driven step by step. Sources are written once, as sync generators of the steps of an upstream.

    A step is a chunk to hand out, an exception to raise, or milliseconds in which the upstream is silent.
    """

    def source(self, clock: Any, *steps: Any) -> Any:
        """The iterator of an SDK that plays these steps."""
        raise NotImplementedError

    def face(self, source: Any, recorder: Any) -> Any:
        raise NotImplementedError

    def pull(self, stream: Any) -> Any:
        """The next chunk."""
        raise NotImplementedError

    def throw(self, stream: Any, error: BaseException) -> Any:
        raise NotImplementedError

    def close(self, stream: Any) -> None:
        raise NotImplementedError

    exhausted: type[Exception]

    def drain(self, stream: Any) -> list[Any]:
        """Every chunk that is left."""
        chunks = []
        while True:
            try:
                chunks.append(self.pull(stream))
            except self.exhausted:
                return chunks


def play(clock: Any, steps: tuple[Any, ...]) -> Generator[Any, Any, None]:
    for step in steps:
        if isinstance(step, (int, float)):
            clock.advance(step / 1e3)
        elif isinstance(step, BaseException):
            raise step
        else:
            yield step


class Sync(Mode):
    exhausted = StopIteration

    def source(self, clock: Any, *steps: Any) -> Any:
        return play(clock, steps)

    def face(self, source: Any, recorder: Any) -> Any:
        return record_iterator(source, recorder)

    def pull(self, stream: Any) -> Any:
        return next(stream)

    def throw(self, stream: Any, error: BaseException) -> Any:
        return stream.throw(error)

    def close(self, stream: Any) -> None:
        stream.close()


def driven(awaitable: Any) -> Any:
    """The result of something that never has to wait: driven by hand, so that no event loop has a part in it."""
    steps = awaitable.__await__()
    try:
        next(steps)
    except StopIteration as result:
        return result.value
    message = "it waits"
    raise AssertionError(message)


class Async(Mode):
    exhausted = StopAsyncIteration

    def source(self, clock: Any, *steps: Any) -> Any:
        async def played() -> AsyncIterator[Any]:
            for chunk in play(clock, steps):
                yield chunk

        return played()

    def face(self, source: Any, recorder: Any) -> Any:
        return record_async_iterator(source, recorder)

    def pull(self, stream: Any) -> Any:
        return driven(stream.__anext__())

    def throw(self, stream: Any, error: BaseException) -> Any:
        return driven(stream.athrow(error))

    def close(self, stream: Any) -> None:
        driven(stream.aclose())


@pytest.fixture(params=[Sync, Async], ids=["sync", "async"])
def mode(request: pytest.FixtureRequest) -> Mode:
    made: Mode = request.param()
    return made


# --- Nothing is changed --------------------------------------------------------------------------------------------


@pytest.mark.requirement("R9")
def test_chunks_are_the_same_objects_in_the_same_order(mode: Mode, record: Any, chunk: Any) -> None:
    recording = record()
    chunks = [chunk(), chunk(), chunk()]
    passed = mode.drain(mode.face(mode.source(recording.clock, *chunks), recording.recorder))
    assert [id(passed_on) for passed_on in passed] == [id(given) for given in chunks]


@pytest.mark.requirement("R11")
def test_nothing_is_read_before_the_first_pull(mode: Mode, record: Any, chunk: Any) -> None:
    recording = record()
    stream = mode.face(mode.source(recording.clock, 100, chunk()), recording.recorder)
    read_before = recording.clock()
    mode.pull(stream)
    assert (read_before, recording.clock()) == (1_000 * MS, 1_100 * MS)


@pytest.mark.requirement("R11")
def test_nothing_is_read_ahead(mode: Mode, record: Any, chunk: Any) -> None:
    recording = record()
    stream = mode.face(mode.source(recording.clock, 100, chunk(), 100, chunk()), recording.recorder)
    mode.pull(stream)
    assert recording.clock() == 1_100 * MS


@pytest.mark.requirement("R17")
@pytest.mark.parametrize("error", [Failed("no"), KeyboardInterrupt(), asyncio.CancelledError(), SystemExit(3)])
def test_what_the_upstream_raises_is_the_same_object(mode: Mode, record: Any, error: BaseException) -> None:
    recording = record()
    stream = mode.face(mode.source(recording.clock, error), recording.recorder)
    with pytest.raises(type(error)) as raised:
        mode.pull(stream)
    assert raised.value is error


def test_a_stream_that_is_exhausted_stays_so(mode: Mode, record: Any, chunk: Any) -> None:
    recording = record()
    stream = mode.face(mode.source(recording.clock, chunk()), recording.recorder)
    assert (len(mode.drain(stream)), mode.drain(stream)) == (1, [])


# --- Moments -------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R30")
def test_each_chunk_has_the_moments_at_which_it_was_asked_for_and_came(mode: Mode, record: Any, chunk: Any) -> None:
    # Headers at 190 ms, the first pull at 250. The upstream takes 100 and 40 ms, the consumer works 30 ms between.
    recording = record()
    recording.clock.advance(0.19)
    recording.recorder.record_headers(1)
    recording.clock.advance(0.06)
    stream = mode.face(mode.source(recording.clock, 100, chunk(), 40, chunk(), 5), recording.recorder)
    mode.pull(stream)
    recording.clock.advance(0.03)
    mode.drain(stream)
    timeline = recording.timeline
    assert (timeline.headers, list(timeline.asked), list(timeline.arrived), timeline.end) == (
        190 * MS,
        [250 * MS, 380 * MS],
        [350 * MS, 420 * MS],
        425 * MS,
    )


@pytest.mark.requirement("R34")
def test_the_consumer_s_work_is_in_no_wait(mode: Mode, record: Any, chunk: Any) -> None:
    recording = record()
    stream = mode.face(mode.source(recording.clock, 10, chunk(), 10, chunk(), 10, chunk()), recording.recorder)
    for _ in range(3):
        mode.pull(stream)
        recording.clock.advance(0.2)
    assert recording.timeline_so_far.waits == array("q", [10 * MS] * 3)


def test_the_work_of_classifying_is_in_no_wait(mode: Mode, record: Any, chunk: Any) -> None:
    recording = record(classify=lambda given, answer: recording.clock.advance(1) or 2)
    mode.drain(mode.face(mode.source(recording.clock, 10, chunk(), 10, chunk()), recording.recorder))
    assert recording.timeline.waits == array("q", [10 * MS] * 2)


def test_each_chunk_has_what_it_carried(mode: Mode, record: Any, chunk: Any) -> None:
    recording = record()
    kinds = [Kind.ROLE, Kind.REASONING, Kind.ANSWER | Kind.FINISH]
    mode.drain(mode.face(mode.source(recording.clock, *[chunk(int(kind)) for kind in kinds]), recording.recorder))
    assert recording.timeline.kinds == bytes(kinds)


@pytest.mark.requirement("R53")
def test_a_chunk_costs_two_readings_of_the_clock(mode: Mode, record: Any, chunk: Any) -> None:
    recording = record()
    readings = []
    recording.recorder.clock = lambda: readings.append(0) or recording.clock()
    stream = mode.face(mode.source(recording.clock, *[chunk()] * 10), recording.recorder)
    for _ in range(10):
        mode.pull(stream)
    assert len(readings) == 20


# --- Endings -------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R19")
def test_an_exhausted_stream_is_reported_once(mode: Mode, record: Any, chunk: Any) -> None:
    recording = record()
    mode.drain(mode.face(mode.source(recording.clock, chunk(text="done")), recording.recorder))
    assert (recording.outcome, len(recording.finished)) == ("completed", 1)


@pytest.mark.requirement("R52")
def test_an_exhausted_stream_that_never_said_that_it_was_done_is_truncated(mode: Mode, record: Any, chunk: Any) -> None:
    recording = record()
    mode.drain(mode.face(mode.source(recording.clock, chunk()), recording.recorder))
    assert recording.outcome == "truncated"


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(Failed(), "error"), (KeyboardInterrupt(), "cancelled"), (asyncio.CancelledError(), "cancelled")],
)
@pytest.mark.requirement("R42")
def test_a_stream_that_fails_keeps_the_chunks_before(
    mode: Mode, record: Any, chunk: Any, error: BaseException, outcome: str
) -> None:
    recording = record()
    stream = mode.face(mode.source(recording.clock, 10, chunk(), 20, error), recording.recorder)
    mode.pull(stream)
    with pytest.raises(type(error)):
        mode.pull(stream)
    assert (recording.outcome, list(recording.timeline.arrived), recording.timeline.end) == (
        outcome,
        [10 * MS],
        30 * MS,
    )


def test_a_stream_that_is_left_open_is_not_reported(mode: Mode, record: Any, chunk: Any) -> None:
    recording = record()
    stream = mode.face(mode.source(recording.clock, chunk(), chunk()), recording.recorder)
    mode.pull(stream)
    assert recording.outcome == "open"


@pytest.mark.requirement("R19")
def test_an_iterator_that_is_closed_is_abandoned(mode: Mode, record: Any, chunk: Any) -> None:
    # Closing a stream closes its response; its iterator is closed by the garbage collector.
    recording = record()
    stream = mode.face(mode.source(recording.clock, chunk(), chunk()), recording.recorder)
    mode.pull(stream)
    mode.close(stream)
    assert recording.outcome == "abandoned"


@pytest.mark.requirement("R25")
def test_closing_an_iterator_reports_nothing_on_the_spot(mode: Mode, record: Any, chunk: Any) -> None:
    recording = record()
    stream = mode.face(mode.source(recording.clock, chunk(), chunk()), recording.recorder)
    mode.pull(stream)
    mode.close(stream)
    assert recording.finished == []


def test_closing_an_iterator_closes_that_of_the_sdk(mode: Mode, record: Any, chunk: Any) -> None:
    recording = record()
    source = mode.source(recording.clock, chunk(), chunk())
    stream = mode.face(source, recording.recorder)
    mode.pull(stream)
    mode.close(stream)
    assert mode.drain(source) == []


def test_an_iterator_that_is_closed_before_the_first_pull_stays_open(mode: Mode, record: Any, chunk: Any) -> None:
    # A generator that never ran has nothing to close: the response is closed by its owner.
    recording = record()
    mode.close(mode.face(mode.source(recording.clock, chunk()), recording.recorder))
    assert recording.outcome == "open"


@pytest.mark.requirement("R19")
def test_a_dropped_iterator_is_abandoned(mode: Mode, record: Any, chunk: Any, unraisable: list[Any]) -> None:
    recording = record()
    stream = mode.face(mode.source(recording.clock, chunk(), chunk()), recording.recorder)
    mode.pull(stream)
    del stream
    assert (recording.outcome, unraisable) == ("abandoned", [])


@pytest.mark.requirement("R19")
def test_a_dropped_iterator_that_was_never_pulled_is_abandoned(
    mode: Mode, record: Any, chunk: Any, unraisable: list[Any]
) -> None:
    recording = record()
    stream = mode.face(mode.source(recording.clock, chunk()), recording.recorder)
    del stream, recording.recorder
    assert (recording.outcome, unraisable) == ("abandoned", [])


@pytest.mark.requirement("R20")
def test_a_task_that_is_cancelled_while_it_waits_is_cancelled(record: Any) -> None:
    recording = record()

    async def silent() -> AsyncIterator[Any]:
        await asyncio.Event().wait()
        yield

    async def consume() -> None:
        stream = record_async_iterator(silent(), recording.recorder)
        task = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(consume())
    assert recording.outcome == "cancelled"


@pytest.mark.requirement("R22")
def test_one_task_for_each_pull_is_fine(record: Any, chunk: Any) -> None:
    recording = record()

    async def upstream() -> AsyncIterator[Any]:
        for _ in range(3):
            await asyncio.sleep(0)
            yield chunk(text="done")

    async def consume() -> int:
        stream = record_async_iterator(upstream(), recording.recorder)
        return len([await asyncio.ensure_future(anext(stream)) for _ in range(3)])

    assert asyncio.run(consume()) == 3


# --- Thrown into ---------------------------------------------------------------------------------------------------


def catching(mode: Mode, *after: Any) -> Any:
    """The iterator of an SDK that catches what is thrown into it, and goes on with these chunks."""

    def caught() -> Generator[Any, Any, None]:
        try:
            yield "first"
        except Failed:
            yield from after

    async def acaught() -> AsyncIterator[Any]:
        try:
            yield "first"
        except Failed:
            for chunk in after:
                yield chunk

    return caught() if isinstance(mode, Sync) else acaught()


def caught_face(mode: Mode, recording: Any, *after: Any) -> Any:
    stream = mode.face(catching(mode, *after), recording.recorder)
    mode.pull(stream)
    return stream


@pytest.fixture
def quiet(record: Any) -> Any:
    """A recording that finds an answer in everything."""
    return record(classify=lambda given, answer: 2)


@pytest.mark.requirement("R17")
def test_an_exception_that_is_thrown_in_comes_out_as_the_same_object(mode: Mode, record: Any, chunk: Any) -> None:
    recording = record()
    stream = mode.face(mode.source(recording.clock, chunk(), chunk()), recording.recorder)
    mode.pull(stream)
    error = Refused()
    with pytest.raises(Refused) as raised:
        mode.throw(stream, error)
    assert raised.value is error


@pytest.mark.requirement("R20")
def test_an_exception_that_is_thrown_in_ends_the_recording_as_closed(mode: Mode, record: Any, chunk: Any) -> None:
    recording = record()
    stream = mode.face(mode.source(recording.clock, chunk(), chunk()), recording.recorder)
    mode.pull(stream)
    with pytest.raises(Refused):
        mode.throw(stream, Refused())
    assert recording.outcome == "closed"


def test_an_exception_that_is_thrown_in_reaches_the_sdk(mode: Mode, quiet: Any) -> None:
    assert mode.throw(caught_face(mode, quiet, "second"), Failed()) == "second"


def test_a_stream_goes_on_after_the_sdk_caught_what_was_thrown_in(mode: Mode, quiet: Any) -> None:
    stream = caught_face(mode, quiet, "second", "third")
    mode.throw(stream, Failed())
    assert mode.drain(stream) == ["third"]


@pytest.mark.requirement("R17")
def test_a_stream_that_the_sdk_ends_when_it_catches_what_was_thrown_in_is_exhausted(mode: Mode, quiet: Any) -> None:
    with pytest.raises(mode.exhausted):
        mode.throw(caught_face(mode, quiet), Failed())


@pytest.mark.requirement("R17")
def test_a_second_exception_that_is_thrown_in_comes_out_as_well(mode: Mode, quiet: Any) -> None:
    stream = caught_face(mode, quiet, "second", "third")
    mode.throw(stream, Failed())
    error = Refused()
    with pytest.raises(Refused) as raised:
        mode.throw(stream, error)
    assert raised.value is error


def test_closing_after_something_was_thrown_in_closes_that_of_the_sdk(mode: Mode, quiet: Any) -> None:
    source = catching(mode, "second", "third")
    stream = mode.face(source, quiet.recorder)
    mode.pull(stream)
    mode.throw(stream, Failed())
    mode.close(stream)
    assert mode.drain(source) == []


class Bare:
    """An iterator, sync and async, with nothing but its next."""

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        return "chunk"

    def __aiter__(self) -> AsyncIterator[str]:
        return self

    async def __anext__(self) -> str:
        return "chunk"


def test_an_exception_that_is_thrown_into_an_iterator_without_throw_comes_out(mode: Mode, quiet: Any) -> None:
    stream = mode.face(Bare(), quiet.recorder)
    mode.pull(stream)
    with pytest.raises(Failed):
        mode.throw(stream, Failed())


def test_an_iterator_without_close_is_closed_without_a_word(mode: Mode, quiet: Any) -> None:
    stream = mode.face(Bare(), quiet.recorder)
    mode.pull(stream)
    mode.close(stream)
    assert quiet.outcome == "abandoned"


# --- A classify that fails -----------------------------------------------------------------------------------------


def raising(given: Any, answer: Any) -> int:
    message = f"cannot read {given.text}"
    raise LookupError(message)


@pytest.mark.requirement("R16")
def test_a_chunk_that_cannot_be_classified_passes(mode: Mode, record: Any, chunk: Any) -> None:
    recording = record(classify=raising)
    chunks = [chunk(), chunk(), chunk()]
    assert mode.drain(mode.face(mode.source(recording.clock, *chunks), recording.recorder)) == chunks


@pytest.mark.requirement("R16")
def test_a_chunk_that_cannot_be_classified_is_timed_as_empty(mode: Mode, record: Any, chunk: Any) -> None:
    recording = record(classify=raising)
    mode.drain(mode.face(mode.source(recording.clock, 10, chunk(), 10, chunk()), recording.recorder))
    assert (recording.timeline.kinds, list(recording.timeline.arrived)) == (b"\0\0", [10 * MS, 20 * MS])


@pytest.mark.requirement("R16")
def test_each_chunk_that_cannot_be_classified_is_counted(mode: Mode, record: Any, chunk: Any) -> None:
    recording = record(classify=raising)
    mode.drain(mode.face(mode.source(recording.clock, chunk(), chunk(), chunk()), recording.recorder))
    assert recording.machinery.errors.counts == {"chunk.classify": 3}


@pytest.mark.requirement("R16")
@pytest.mark.requirement("R68")
def test_chunks_that_cannot_be_classified_are_one_line_in_the_log_that_quotes_nothing(
    mode: Mode, record: Any, chunk: Any, caplog: pytest.LogCaptureFixture
) -> None:
    recording = record(classify=raising)
    mode.drain(mode.face(mode.source(recording.clock, chunk(text="secret"), chunk(text="secret")), recording.recorder))
    (said,) = caplog.messages
    assert ("LookupError" in said, "secret" in said) == (True, False)


@pytest.mark.requirement("R16")
@pytest.mark.parametrize("code", [-1, None, "answer", 2.5, 1 << 64, 1 << 50])
def test_a_chunk_with_a_code_that_is_none_passes(mode: Mode, record: Any, chunk: Any, code: Any) -> None:
    recording = record(classify=lambda given, answer: code)
    chunks = [chunk(), chunk()]
    assert mode.drain(mode.face(mode.source(recording.clock, *chunks), recording.recorder)) == chunks


@pytest.mark.requirement("R19")
@pytest.mark.parametrize("code", [-1, None, "answer", 2.5, 1 << 64, 1 << 50])
def test_a_stream_with_a_code_that_is_none_is_reported(mode: Mode, record: Any, chunk: Any, code: Any) -> None:
    recording = record(classify=lambda given, answer: code if given.text == "odd" else 2)
    chunks = [chunk(), chunk(text="odd"), chunk()]
    mode.drain(mode.face(mode.source(recording.clock, *chunks), recording.recorder))
    assert len(recording.finished) == 1


# --- More chunks than are timed ------------------------------------------------------------------------------------


@pytest.fixture
def three_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_log, "MAX_CHUNKS", 3)


@pytest.mark.requirement("R54")
@pytest.mark.usefixtures("three_at_most")
def test_chunks_beyond_the_limit_are_counted_and_not_timed(mode: Mode, record: Any, chunk: Any) -> None:
    recording = record()
    mode.drain(mode.face(mode.source(recording.clock, *[chunk()] * 10), recording.recorder))
    assert (len(recording.timeline), recording.timeline.unrecorded) == (3, 7)


@pytest.mark.requirement("R9")
@pytest.mark.usefixtures("three_at_most")
def test_chunks_beyond_the_limit_pass(mode: Mode, record: Any, chunk: Any) -> None:
    recording = record()
    chunks = [chunk(text=str(number)) for number in range(10)]
    assert mode.drain(mode.face(mode.source(recording.clock, *chunks), recording.recorder)) == chunks


@pytest.mark.requirement("R52")
@pytest.mark.usefixtures("three_at_most")
def test_a_terminator_beyond_the_limit_is_seen(mode: Mode, record: Any, chunk: Any) -> None:
    recording = record()
    chunks = [*[chunk()] * 9, chunk(text="done")]
    mode.drain(mode.face(mode.source(recording.clock, *chunks), recording.recorder))
    assert recording.outcome == "completed"


@pytest.mark.usefixtures("three_at_most")
def test_a_close_while_a_chunk_beyond_the_limit_is_awaited_waits_for_the_end_of_the_wait(
    mode: Mode, record: Any, chunk: Any
) -> None:
    recording = record()

    class Closing:
        """Where the fifth chunk should come from, the response is closed and the wait fails."""

        def __init__(self) -> None:
            self.left = 4

        def __next__(self) -> Any:
            self.left -= 1
            if self.left < 0:
                recording.recorder.end_closed()
                raise Failed
            return chunk()

        async def __anext__(self) -> Any:
            return next(self)

    stream = mode.face(Closing(), recording.recorder)
    with pytest.raises(Failed):
        mode.drain(stream)
    assert recording.outcome == "error"


@pytest.mark.usefixtures("three_at_most")
def test_a_close_between_chunks_beyond_the_limit_is_the_caller_s(mode: Mode, record: Any, chunk: Any) -> None:
    recording = record()
    stream = mode.face(mode.source(recording.clock, *[chunk()] * 10), recording.recorder)
    for _ in range(6):
        mode.pull(stream)
    recording.recorder.end_closed()
    assert recording.outcome == "closed"


# --- What the SDK swallows -----------------------------------------------------------------------------------------


def test_events_pass_as_the_same_objects(chunk: Any) -> None:
    events = [chunk(), chunk()]
    assert [id(event) for event in tap_events(iter(events), lambda event: None)] == [id(event) for event in events]


def test_events_of_an_async_stream_pass_as_the_same_objects(chunk: Any) -> None:
    events = [chunk(), chunk()]

    async def read() -> list[int]:
        async def source() -> AsyncIterator[Any]:
            for event in events:
                yield event

        return [id(event) async for event in AsyncEventTap(source(), lambda event: None)]

    assert asyncio.run(read()) == [id(event) for event in events]


@pytest.mark.requirement("R31")
def test_a_ping_that_is_swallowed_is_in_the_timeline(mode: Mode, record: Any, chunk: Any) -> None:
    # 50 ms to the ping, 60 more to the chunk; the SDK's iterator reads on when it meets a ping.
    recording = record()
    ping, answer = chunk(text="ping"), chunk()

    def see(event: Any) -> None:
        if event is ping:
            recording.recorder.record_swallowed(Kind.PING)

    def unpinged() -> Iterator[Any]:
        return (event for event in tap_events(play(recording.clock, (50, ping, 60, answer)), see) if event is not ping)

    async def aunpinged() -> AsyncIterator[Any]:
        async for event in AsyncEventTap(Async().source(recording.clock, 50, ping, 60, answer), see):
            if event is not ping:
                yield event

    mode.drain(mode.face(unpinged() if isinstance(mode, Sync) else aunpinged(), recording.recorder))
    assert (recording.timeline.kinds, list(recording.timeline.arrived)) == (
        bytes([Kind.PING, Kind.ANSWER]),
        [50 * MS, 110 * MS],
    )


# --- The body of the response --------------------------------------------------------------------------------------


class Bytes:
    """The body of a response: blocks, an exception, or a call to make while a block is awaited."""

    def __init__(self, *steps: Any) -> None:
        self.steps: tuple[Any, ...] = steps
        self.closed = 0
        self.encoding = "utf-8"

    def __iter__(self) -> Iterator[bytes]:
        for step in self.steps:
            if isinstance(step, BaseException):
                raise step
            if callable(step):
                step()
            else:
                yield step

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for block in self:
            yield block

    def close(self) -> None:
        self.closed += 1

    async def aclose(self) -> None:
        self.closed += 1


def blocks(mode: Mode, body: Any) -> list[bytes]:
    """Everything that is read from a body."""
    return list(body) if isinstance(mode, Sync) else mode.drain(aiter(body))


def close(mode: Mode, body: Any) -> None:
    """Close a body."""
    if isinstance(mode, Sync):
        body.close()
    else:
        driven(body.aclose())


def test_a_body_is_the_sdk_s_own_to_isinstance(record: Any) -> None:
    assert isinstance(WatchedBody(Bytes(), record().recorder), Bytes)


def test_the_attributes_of_a_body_are_its_own(record: Any) -> None:
    assert WatchedBody(Bytes(), record().recorder).encoding == "utf-8"


@pytest.mark.requirement("R6")
def test_the_bytes_of_a_body_pass(mode: Mode, record: Any) -> None:
    assert blocks(mode, WatchedBody(Bytes(b"a", b"b"), record().recorder)) == [b"a", b"b"]


@pytest.mark.requirement("R6")
def test_a_body_that_was_read_to_its_end_is_completed(mode: Mode, record: Any) -> None:
    recording = record()
    blocks(mode, WatchedBody(Bytes(b"a", b"b"), recording.recorder))
    assert recording.outcome == "completed"


@pytest.mark.requirement("R6")
@pytest.mark.requirement("R17")
def test_a_body_that_fails_is_an_error_and_the_same_object(mode: Mode, record: Any) -> None:
    recording = record()
    error = Failed()
    with pytest.raises(Failed) as raised:
        blocks(mode, WatchedBody(Bytes(b"a", error), recording.recorder))
    assert (raised.value is error, recording.outcome) == (True, "error")


@pytest.mark.requirement("R6")
def test_a_body_that_is_closed_is_closed(mode: Mode, record: Any) -> None:
    recording = record()
    bare = Bytes(b"a")
    close(mode, WatchedBody(bare, recording.recorder))
    assert (recording.outcome, bare.closed) == ("closed", 1)


@pytest.mark.requirement("R4")
def test_a_body_that_is_closed_twice_is_closed_twice_and_reported_once(mode: Mode, record: Any) -> None:
    recording = record()
    bare = Bytes(b"a")
    body = WatchedBody(bare, recording.recorder)
    close(mode, body)
    close(mode, body)
    assert (len(recording.finished), bare.closed) == (1, 2)


def test_a_body_that_is_closed_when_it_was_read_stays_completed(mode: Mode, record: Any) -> None:
    recording = record()
    body = WatchedBody(Bytes(b"a"), recording.recorder)
    blocks(mode, body)
    close(mode, body)
    assert recording.outcome == "completed"


def test_a_body_that_is_closed_between_two_blocks_is_closed(mode: Mode, record: Any) -> None:
    recording = record()
    body = WatchedBody(Bytes(b"a", b"b"), recording.recorder)
    if isinstance(mode, Sync):
        next(iter(body))
    else:
        mode.pull(aiter(body))
    close(mode, body)
    assert recording.outcome == "closed"


def test_a_body_that_is_closed_while_a_block_is_awaited_ends_as_the_wait_does(mode: Mode, record: Any) -> None:
    recording = record()
    bare = Bytes(b"a")
    body = WatchedBody(bare, recording.recorder)
    bare.steps = (b"a", lambda: close(mode, body), Failed())
    with pytest.raises(Failed):
        blocks(mode, body)
    assert recording.outcome == "error"


class Unclosable(Bytes):
    """A body whose connection is gone already."""

    def close(self) -> None:
        raise Failed

    async def aclose(self) -> None:
        raise Failed


@pytest.mark.requirement("R17")
def test_a_body_that_fails_to_close_says_so_and_is_closed(mode: Mode, record: Any) -> None:
    recording = record()
    with pytest.raises(Failed):
        close(mode, WatchedBody(Unclosable(), recording.recorder))
    assert recording.outcome == "closed"


def test_a_body_under_a_timed_iterator_does_not_end_the_recording_when_it_is_read(mode: Mode, record: Any) -> None:
    # The chunks end it: the bytes of `[DONE]` are still to be read as one.
    recording = record()
    recording.recorder.has_reader = True
    blocks(mode, WatchedBody(Bytes(b"a"), recording.recorder))
    assert recording.outcome == "open"


@pytest.mark.requirement("R26")
def test_a_body_that_is_dropped_half_read_is_abandoned(mode: Mode, record: Any, unraisable: list[Any]) -> None:
    recording = record()
    body = WatchedBody(Bytes(b"a", b"b"), recording.recorder)
    reading = iter(body) if isinstance(mode, Sync) else aiter(body)
    next(reading) if isinstance(mode, Sync) else mode.pull(reading)
    del body, reading, recording.recorder
    assert (recording.outcome, unraisable) == ("abandoned", [])
