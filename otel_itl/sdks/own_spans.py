"""The spans that SDKs start themselves: a recording waits for the SDK's span, and is opened on it where it records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from otel_itl.core.conventions import Where
from otel_itl.recording.internal_errors import InternalErrors
from otel_itl.sdks.open_call import current_call
from otel_itl.sdks.patching import Target


def span_start_target(
    module: str,
    path: str,
    errors: InternalErrors,
    *,
    span_of: Callable[[Any], Any] = lambda result: result,
    trigger: str = "",
) -> Target:
    """Make the patch target of the function by which an SDK starts a span of its own.

    Args:
        module: the function's module.
        path: the function's name in the module.
        errors: where failures of our own are reported.
        span_of: returns the span in what the function returned, or None.
        trigger: the module whose import the patch waits for; empty: the SDK's package.
    """

    def start(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:  # noqa: ARG001 - the signature of a wrapper
        """Have the SDK start its span, and open the recording on it where it records."""
        result = wrapped(*args, **kwargs)
        try:
            call = current_call()
            if call is not None:
                call.open_recording(span_of(result))
        except Exception as error:  # noqa: BLE001 - the guard
            errors.report(Where.STREAM_OPEN, error)
        return result

    return Target(module, path, start, is_optional=True, trigger=trigger)


def thread_return_target(module: str, path: str, errors: InternalErrors, *, trigger: str = "") -> Target:
    """Make the patch target of the coroutine function by which an SDK starts its span in another thread.

    What is made current in that thread is not in the task that sends the request: it is made current there afterwards.
    """

    async def enter(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:  # noqa: ARG001 - as above
        """Await the SDK's function, and make the span of the request current where it was opened meanwhile."""
        result = await wrapped(*args, **kwargs)
        try:
            call = current_call()
            if call is not None:
                call.enter_recording()
        except Exception as error:  # noqa: BLE001 - the guard
            errors.report(Where.STREAM_OPEN, error)
        return result

    return Target(module, path, enter, is_optional=True, trigger=trigger)
