"""A call whose recording is opened in another thread than the one in which it fails."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from otel_itl.recording.internal_errors import InternalErrors
from otel_itl.sdks.open_call import OpenCall


class Recorder:
    """Notes what ended it."""

    def __init__(self) -> None:
        self.ended_by: list[BaseException] = []
        self.span_handle = SimpleNamespace(context=None)

    def end_failed(self, error: BaseException) -> None:
        self.ended_by.append(error)


def make_call(open_later: Any) -> OpenCall:
    opener: Any = SimpleNamespace(move=None, errors=InternalErrors())
    return OpenCall(None, opener, has_inner_layer=False, open_later=open_later)


def test_a_call_that_is_cancelled_while_its_recording_is_being_opened_ends_it() -> None:
    recorder, error = Recorder(), asyncio.CancelledError()

    def open_later(**_: Any) -> Recorder:
        call._fail(error)  # in the task, meanwhile
        return recorder

    call = make_call(open_later)
    call.open_recording(SimpleNamespace(is_recording=lambda: True))
    assert recorder.ended_by == [error]


def test_a_call_that_fails_before_its_recording_is_opened_opens_and_ends_it() -> None:
    recorder, error = Recorder(), OSError()
    make_call(lambda **_: recorder)._fail(error)
    assert recorder.ended_by == [error]


def test_a_call_that_has_failed_keeps_no_error() -> None:
    call = make_call(lambda **_: Recorder())
    call._fail(OSError())
    assert call._error is None
