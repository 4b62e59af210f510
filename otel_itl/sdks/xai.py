"""The xai-sdk: `chat.stream()` and `chat.stream_batch()`, sync and async, which are calls of gRPC.

The hook is the SDK's own interceptor, which each of its calls passes when the request is sent: below the generators
that the caller iterates over, and above what gRPC receives.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Final

from opentelemetry.trace import get_current_span

from otel_itl.core.conventions import Where
from otel_itl.sdks.driver import Around, Call, Driver, ResultHook, StreamingCall
from otel_itl.sdks.formats.xai_chat import classify_completion_chunk
from otel_itl.sdks.grpc_calls import bind_call, name_error
from otel_itl.sdks.open_call import Description, Moment
from otel_itl.sdks.values import make_request

METHOD: Final = "/xai_api.Chat/GetCompletionChunk"
"""The one method that streams chunks of a completion."""
DEFAULT_HOST: Final = "api.x.ai"
"""What the SDK asks, and what a client asks as far as we know that was made before `instrument()`."""


class HostTimeout(float):
    """The timeout of a client, which also holds the host that its channel leads to.

    A call has no reference to the channel that it goes over. The timeout is what the interceptor of each has.
    """

    api_host: str = DEFAULT_HOST


def describe(call: Call) -> Description | None:
    """Describe a call of `intercept_unary_stream(continuation, details, request)`; None for other methods of gRPC."""
    details, message = call.args[1], call.args[2]
    if details.method not in {METHOD, METHOD.encode()}:
        return None
    body = {field.name: value for field, value in message.ListFields()}
    address = f"https://{getattr(call.instance.timeout, 'api_host', DEFAULT_HOST)}"
    request = make_request("chat", address, "x_ai", message.model, _parameters(body))
    span: Any = get_current_span()
    is_own = getattr(getattr(span, "instrumentation_scope", None), "name", "").startswith("xai_sdk.")
    return Description(
        request,
        classify_completion_chunk,
        body,
        lambda: dict(details.metadata or ()),
        sent=_begun.get(),
        name_error=name_error,
        sdk_span=span if is_own else None,
    )


def _parameters(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a request, whose numbers are rounded to single precision."""
    given: dict[str, Any] = {
        name: round(value, 6) if isinstance(value, float) else value for name, value in body.items()
    }
    if "stop" in given:
        given["stop"] = list(given["stop"])
    if given.get("n") == 1:  # which the SDK sends with every request
        del given["n"]
    return given


_begun: ContextVar[Moment | None] = ContextVar("otel_itl_xai_begun", default=None)
"""When the SDK began the request that it sends here: an asynchronous one is sent by a task of its own, later."""


def _begin_request(driver: Driver, *_: object) -> None:
    """Note when a request begins."""
    _begun.set(driver.read_clocks())


def _make_channel(driver: Driver, wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
    """Make a channel; the timeout that is handed on to its calls names the host of the API as well."""
    try:
        given = inspect.signature(wrapped).bind(*args, **kwargs)
        timeout = HostTimeout(given.arguments["timeout"])
        timeout.api_host = str(given.arguments["api_host"])
        given.arguments["timeout"] = timeout
        args, kwargs = given.args, given.kwargs
    except Exception as error:  # noqa: BLE001 - the guard
        driver.errors.report(Where.STREAM_OPEN, error)
    return wrapped(*args, **kwargs)


SDK = (
    *(
        StreamingCall("xai_sdk.interceptors", f"{interceptor}.intercept_unary_stream", describe, bind=bind_call)
        for interceptor in ("TimeoutInterceptor", "UnaryStreamTimeoutAioInterceptor")
    ),
    # A request begins where the SDK collects the attributes of its span.
    ResultHook(
        "xai_sdk.chat",
        "BaseChat._make_span_request_attributes",
        _begin_request,
        Where.STREAM_OPEN,
        is_optional=True,
    ),
    *(
        Around(f"xai_sdk.{face}.client", "Client._make_grpc_channel", _make_channel, is_optional=True)
        for face in ("sync", "aio")
    ),
)
