"""The queue before output that may block: bounded, in order, and flushed without waiting for what blocks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from otel_itl.recording.batch_queue import BatchQueue
from otel_itl.recording.critical_sections import CriticalSections
from otel_itl.recording.internal_errors import InternalErrors


class Output:
    """Takes batches; blocks while it is told to."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.open = threading.Event()
        self.open.set()
        self.entered = threading.Event()

    def process(self, batch: Sequence[int]) -> None:
        self.entered.set()
        self.open.wait(20)
        self.batches.append(list(batch))
        if -1 in batch:
            raise ValueError


@pytest.fixture
def output() -> Iterator[Output]:
    made = Output()
    yield made
    made.open.set()


@pytest.fixture
def errors() -> InternalErrors:
    return InternalErrors()


MakeQueue = Callable[..., BatchQueue[int]]


@pytest.fixture
def make(output: Output, errors: InternalErrors) -> MakeQueue:
    def make(max_waiting: int = 100, max_batch: int = 10, interval: float = 0.001) -> BatchQueue[int]:
        return BatchQueue(
            "test",
            errors,
            output.process,
            CriticalSections(),
            where="test.process",
            interval=interval,
            max_waiting=max_waiting,
            max_batch=max_batch,
        )

    return make


def test_what_is_added_is_processed_in_order_and_in_bounded_batches(make: MakeQueue, output: Output) -> None:
    queue = make(interval=60)
    for number in range(25):
        queue.add(number)
    assert queue.flush(10) is True
    assert sum(output.batches, []) == list(range(25))  # noqa: RUF017 - three lists
    assert max(map(len, output.batches)) <= 10


def test_what_is_added_is_processed_without_a_flush(make: MakeQueue, output: Output) -> None:
    make().add(1)
    assert output.entered.wait(10) is True


def test_adding_never_waits_and_what_is_too_much_is_dropped_and_counted(
    make: MakeQueue, output: Output, errors: InternalErrors
) -> None:
    queue = make(max_waiting=5)
    output.open.clear()
    queue.add(0)
    output.entered.wait(10)
    for number in range(8):
        queue.add(number)
    assert (len(queue), errors.counts) == (5, {"queue.test": 3})


def test_a_flush_gives_up_where_the_output_blocks(make: MakeQueue, output: Output) -> None:
    queue = make()
    output.open.clear()
    queue.add(0)
    output.entered.wait(10)
    started = time.monotonic()
    assert queue.flush(0.05) is False
    assert time.monotonic() - started < 5


def test_a_flush_waits_for_what_was_added_before_it_alone(make: MakeQueue, output: Output) -> None:
    queue = make()
    stop = threading.Event()

    def add() -> None:
        while not stop.wait(0.0005):
            queue.add(1)

    thread = threading.Thread(target=add)
    thread.start()
    output.entered.wait(10)
    is_flushed = queue.flush(10)
    stop.set()
    thread.join()
    assert is_flushed is True


def test_without_a_thread_a_flush_processes_what_waits_itself(
    make: MakeQueue, output: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As at the end of a process, where the interpreter starts no thread."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    queue = make()
    queue.add(7)
    assert (queue.flush(10), output.batches) == (True, [[7]])


def test_a_batch_that_fails_is_counted_and_the_next_is_processed(
    make: MakeQueue, output: Output, errors: InternalErrors
) -> None:
    queue = make()
    queue.add(-1)
    queue.flush(10)
    queue.add(2)
    queue.flush(10)
    assert (output.batches, errors.counts) == ([[-1], [2]], {"test.process": 1})


def test_a_forked_process_drops_what_is_its_parent_s(make: MakeQueue, output: Output) -> None:
    queue = make(interval=60)
    queue.add(1)
    queue.forget_after_fork()
    queue.add(2)
    queue.flush(10)
    assert output.batches == [[2]]


def test_while_a_fork_holds_the_rounds_nothing_is_processed(make: MakeQueue, output: Output) -> None:
    queue = make()
    with queue.in_round:
        queue.add(1)
        is_flushed = queue.flush(0.05)
    assert (is_flushed, queue.flush(10), output.batches) == (False, True, [[1]])
