"""The spans that SDKs start themselves: a recording waits for the SDK's span, and is opened on it where it records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from otel_itl.core.conventions import Where
from otel_itl.sdks.driver import Call, Driver, ResultHook
from otel_itl.sdks.open_call import current_call


def span_start(
    module: str, path: str, span_of: Callable[[Any], Any] = lambda result: result, *, is_imported_late: bool = False
) -> ResultHook:
    """Make the hook of the function by which an SDK starts a span of its own.

    Args:
        module: the function's module.
        path: the function's name in the module.
        span_of: returns the span in what the function returned, or None.
        is_imported_late: the SDK imports the module when it first needs it.
    """

    def open_recording(_: Driver, __: Call, result: Any) -> None:
        """Open the recording on the span that the SDK has started, where it records."""
        call = current_call()
        if call is not None:
            call.open_recording(span_of(result))

    return ResultHook(
        module, path, open_recording, Where.STREAM_OPEN, is_optional=True, is_imported_late=is_imported_late
    )


async def enter(driver: Driver, wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
    """Await the coroutine function by which an SDK starts its span in another thread: for `Around`.

    What is made current in that thread is not in the task that sends the request: it is made current there afterwards.
    """
    result = await wrapped(*args, **kwargs)
    try:
        call = current_call()
        if call is not None:
            call.enter_recording()
    except Exception as error:  # noqa: BLE001 - the guard
        driver.errors.report(Where.STREAM_OPEN, error)
    return result
