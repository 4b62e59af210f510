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
from otel_itl.sdks.patching import Target

KEPT_LINES: Final = 4
"""The last event and the blank lines after it."""

ReadLastLine = Callable[[str, ResponseInfo], None]
"""Records what the data of the last event reveals about the response."""


class LineStreams:
    """The streams of such an SDK.

    Args:
        driver: records the calls.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def bind(self, lines: Any, recorder: StreamRecorder) -> Any:
        """Register the recorder for the lines that a call returned, and return those unchanged."""
        recorder.record_headers(None)
        self._driver.response_recorders.add(lines, recorder)
        return lines

    def parser_target(self, module: str, path: str, read_last_line: ReadLastLine) -> Target:
        """Make the patch target of a generator function that makes chunks of lines, its first argument."""

        def parse(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:  # noqa: ARG001 - the signature of a wrapper
            """Return the recorded chunks; where the request of the lines is not recorded, the SDK's own."""
            try:
                lines, *rest = args
                recorder = self._driver.response_recorders.find(lines)
                if recorder is not None:
                    last: deque[Any] = deque(maxlen=KEPT_LINES)
                    recorder.set_before_outcome(partial(_read_end, last, read_last_line))
                    tap = AsyncEventTap if hasattr(lines, "__anext__") else tap_events
                    return iterate_recorded(wrapped(tap(lines, last.append), *rest, **kwargs), recorder)
            except Exception as error:  # noqa: BLE001 - the guard: a generator function has done nothing yet
                self._driver.errors.report(Where.RESPONSE_FOLLOW, error)
            return wrapped(*args, **kwargs)

        return Target(module, path, parse, trigger=module)

    def response_target(self, module: str, path: str, position: int) -> Target:
        """Make the patch target of a function that gets the HTTP response of the call, as its argument `position`."""

        def follow(call: Call, _: object) -> None:
            """Note how the stream is aborted that is being opened here."""
            recorder = current_recorder()
            if recorder is not None:
                enable_abort(recorder, call.args[position])

        return self._driver.result_target(module, path, follow, trigger=module)


def _read_end(last: deque[Any], read_last_line: ReadLastLine, recorder: StreamRecorder) -> None:
    """Read the last line that is not blank."""
    line = next((line for line in reversed(last) if line.strip()), b"")
    text = line.decode(errors="replace") if isinstance(line, bytes) else str(line)
    read_last_line(text.removeprefix("data:").strip(), recorder.response)
