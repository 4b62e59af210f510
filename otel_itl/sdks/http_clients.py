"""The HTTP clients under the SDKs: where their responses are, and how a stream over each of them is aborted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, Final

from otel_itl.recording.abort import HTTPAborter
from otel_itl.recording.recorder import StreamRecorder

_TIMEOUTS: Final = {
    "httpx": "ReadTimeout",
    "httpx2": "ReadTimeout",
    "requests": "ReadTimeout",
    "aiohttp": "ServerTimeoutError",
}
"""HTTP client → the error of its own read timeout, which the reader of an aborted stream gets."""
_RETRY_COUNT: Final = "x-stainless-retry-count"
_RETRY_COUNT_AS_SENT: Final = _RETRY_COUNT.encode()

MakeError = Callable[[Any, str], Exception]
"""Makes the error that the reader of an aborted stream gets, from the HTTP request and a message."""


def _make_timeout(library: str, request: Any, message: str) -> Exception:
    """Make the error of a read timeout of an HTTP client."""
    kind: Callable[..., Exception] = getattr(import_module(library), _TIMEOUTS[library])
    return kind(message) if library == "aiohttp" else kind(message, request=request)


def find_response(result: Any) -> Any:
    """Return the HTTP response under a stream (`response`) or a raw response (`http_response`)."""
    response = getattr(result, "response", None)
    if response is None:
        response = getattr(result, "http_response", None)
    return result if response is None else response


def _find_request(response: Any) -> Any:
    """Return the HTTP request of a response; None where it has none, as a response that a middleware made."""
    try:
        return response.request
    except (AttributeError, RuntimeError):
        return None


def count_attempts(response: Any) -> int | None:
    """Return the HTTP attempts that an SDK made, as it counts them in its requests; None where it does not."""
    headers = getattr(_find_request(response), "headers", {})
    # A look-up by name compares with every header in Python.
    retries = dict(getattr(headers, "raw", ())).get(_RETRY_COUNT_AS_SENT) or headers.get(_RETRY_COUNT, "")
    return int(retries) + 1 if retries.isdigit() else None


def find_generators_response(generator: Any) -> Any:
    """Return the HTTP response among the local variables of a suspended generator; None where there is none.

    For SDKs that keep it nowhere else.
    """
    frame = getattr(generator, "gi_frame", None) or getattr(generator, "ag_frame", None)
    variables = () if frame is None else frame.f_locals.values()
    return next((value for value in variables if _library_of(value) is not None), None)


def _library_of(response: Any) -> str | None:
    """Return the HTTP client that an object belongs to; None: to none that is known here."""
    libraries = (kind.__module__.partition(".")[0] for kind in type(response).__mro__)
    return next((library for library in libraries if library in _TIMEOUTS), None)


def enable_abort(recorder: StreamRecorder, response: Any, make_error: MakeError | None = None) -> None:
    """Have a stream aborted by the response that it is read from, where that is of an HTTP client known here.

    `make_error` makes the timeout error of the SDK; None: it passes the errors of its HTTP client on, or makes its own
    of them.
    """
    if make_error is None and (library := _library_of(response)) is not None:
        make_error = partial(_make_timeout, library)
    if make_error is not None:
        recorder.enable_abort(HTTPAborter(response, _find_request(response), make_error))
