"""Records SDKs whose call returns the lines of a response, from which a generator function makes the chunks.

The recorder of a call is found by the lines that it returned. The last lines are kept until the stream ends: the
generator function stops at the terminator, and hands out no more than the text of an event where that is asked for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from otel_itl.core.conventions import Where
from otel_itl.core.stream import ResponseInfo
from otel_itl.recording.recorder import StreamRecorder
from otel_itl.recording.stream_iterators import AsyncEventTap, tap_events
from otel_itl.sdks.driver import Call, Driver, iterate_recorded
from otel_itl.sdks.http_clients import enable_abort
from otel_itl.sdks.open_call import current_recorder

KEPT_LINES: Final = 4
"""The last event and the blank lines after it."""

ReadLastLine = Callable[[str, ResponseInfo], None]
"""Records what the data of the last event reveals about the response."""


def bind_lines(driver: Driver, lines: Any, recorder: StreamRecorder) -> Any:
    """Register the recorder for the lines that a call returned, and return those unchanged."""
    recorder.record_headers(None)
    driver.response_recorders.add(lines, recorder)
    return lines


def parse_lines(read_last_line: ReadLastLine, driver: Driver, wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
    """Return the recorded chunks that a generator function makes of lines, its first argument: for `Around`.

    Where the request of the lines is not recorded, they are the SDK's own.
    """
    try:
        lines, *rest = args
        recorder = driver.response_recorders.find(lines)
        if recorder is not None:
            last: deque[Any] = deque(maxlen=KEPT_LINES)
            recorder.set_before_outcome(partial(_read_end, last, read_last_line))
            tap = AsyncEventTap if hasattr(lines, "__anext__") else tap_events
            return iterate_recorded(wrapped(tap(lines, last.append), *rest, **kwargs), recorder)
    except Exception as error:  # noqa: BLE001 - the guard: a generator function has done nothing yet
        driver.errors.report(Where.RESPONSE_FOLLOW, error)
    return wrapped(*args, **kwargs)


def follow_response(position: int, _: Driver, call: Call, __: object) -> None:
    """Note how the stream is aborted that is being opened, by the argument `position`, its HTTP response."""
    recorder = current_recorder()
    if recorder is not None:
        enable_abort(recorder, call.args[position])


def _read_end(last: deque[Any], read_last_line: ReadLastLine, recorder: StreamRecorder) -> None:
    """Read the last line that is not blank."""
    line = next((line for line in reversed(last) if line.strip()), b"")
    text = line.decode(errors="replace") if isinstance(line, bytes) else str(line)
    read_last_line(text.removeprefix("data:").strip(), recorder.response)
