"""The spans that SDKs start themselves: a recording waits for the SDK's span, and is opened on it where it records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from otel_itl.core.conventions import Where
from otel_itl.sdks.driver import Driver
from otel_itl.sdks.open_call import current_call
from otel_itl.sdks.patching import Target


def span_start_target(
    driver: Driver, module: str, path: str, span_of: Callable[[Any], Any] = lambda result: result, trigger: str = ""
) -> Target:
    """Make the patch target of the function by which an SDK starts a span of its own.

    Args:
        driver: records the calls.
        module: the function's module.
        path: the function's name in the module.
        span_of: returns the span in what the function returned, or None.
        trigger: the module whose import the patch waits for; empty: the SDK's package.
    """

    def open_recording(_: object, result: Any) -> None:
        """Open the recording on the span that the SDK has started, where it records."""
        call = current_call()
        if call is not None:
            call.open_recording(span_of(result))

    return driver.result_target(module, path, open_recording, Where.STREAM_OPEN, is_optional=True, trigger=trigger)


def thread_return_target(driver: Driver, module: str, path: str) -> Target:
    """Make the patch target of the coroutine function by which an SDK starts its span in another thread.

    What is made current in that thread is not in the task that sends the request: it is made current there afterwards.
    """

    async def enter(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
        """Await the SDK's function, and make the span of the request current where it was opened meanwhile."""
        result = await wrapped(*args, **kwargs)
        try:
            call = current_call()
            if call is not None:
                call.enter_recording()
        except Exception as error:  # noqa: BLE001 - the guard
            driver.errors.report(Where.STREAM_OPEN, error)
        return result

    return Target(module, path, enter, is_optional=True, trigger=module)
