"""Describes why a request failed: by the status, the endpoint's own message, or what became of the connection."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from email.utils import parsedate_to_datetime
from math import isfinite
from socket import gaierror
from ssl import SSLError
from typing import Any, Final, NamedTuple

from otel_itl.core.without_secrets import HIDDEN, show_address

NO_TOKEN: Final = "NoToken"
"""Name of the failure of a request that was answered without an error and without a token."""
MAX_MESSAGE: Final = 200
"""Characters of an endpoint's message that are shown."""
_MAX_CAUSES: Final = 10
_REDIRECTS: Final = range(300, 400)
_MESSAGE_KEYS: Final = ("message", "error", "detail", "msg", "title")
"""Where endpoints put the message of an error: OpenAI, Ollama, FastAPI, others."""
_CLOSED: Final = (
    ("without sending a response", "the connection was closed without an answer"),
    ("peer closed connection", "the connection was closed in the middle of the answer"),
)
"""Parts of the text of an HTTP client's protocol error, and what it means."""


class Failure(NamedTuple):
    """Why a request failed."""

    name: str
    """The class of the exception."""
    status: int | None
    """HTTP status; None: there was no response."""
    retry_after: float | None
    """Seconds for which the endpoint asks not to be asked; None: it does not."""
    detail: str | None
    """The endpoint's own message, or what became of the connection, in one line; None: neither is known."""


WITHOUT_TOKEN: Final = Failure(NO_TOKEN, None, None, "the answer had no token")


def describe_failure(error: Exception) -> Failure:
    """Describe the exception of an SDK."""
    response = getattr(error, "response", None)
    status = getattr(error, "status_code", None)
    headers = getattr(response, "headers", None)
    headers = headers if isinstance(headers, Mapping) else {}
    status = status if isinstance(status, int) else None
    if status in _REDIRECTS:
        detail: str | None = (
            f"a redirect to {shorten(show_address(headers.get('location', '?')))}, which is not followed"
        )
    elif status is not None or getattr(error, "body", None) is not None:
        detail = _find_message(getattr(error, "body", None), _find_keys(response))
    else:
        detail = _describe_cause(error)
    return Failure(type(error).__name__, status, read_retry_after(headers, time.time()), detail)


def read_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds that `Retry-After` and `retry-after-ms` ask to wait; None: neither does, or is malformed.

    Args:
        headers: headers of a response; names in lower case, or found in any case.
        now: Unix time in seconds, for `Retry-After` as a date.
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        with suppress(TypeError, ValueError):
            seconds = float(headers.get(name, "")) * unit
            if isfinite(seconds):
                return max(seconds, 0.0)
    with suppress(TypeError, ValueError, OverflowError):
        return max(parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - now, 0.0)
    return None


def shorten(text: str) -> str:
    """Return a text from outside as one printable line of at most `MAX_MESSAGE` characters."""
    line = " ".join(text[: 4 * MAX_MESSAGE].split())
    printable = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in line)
    return printable if len(printable) <= MAX_MESSAGE else f"{printable[: MAX_MESSAGE - 1]}…"


def _find_keys(response: Any) -> list[str]:
    """Return the keys that the request of a response was sent with, which an endpoint may repeat in its message."""
    headers = getattr(getattr(response, "request", None), "headers", None)
    if not isinstance(headers, Mapping):
        return []
    sent = (headers.get(name) for name in ("authorization", "x-api-key", "api-key"))
    return [value.rpartition(" ")[2] for value in sent if isinstance(value, str) and value.rpartition(" ")[2]]


def _find_message(body: object, keys: Sequence[str]) -> str | None:
    """Return the message in the body of an answer, without the request's keys; None: it has none, or is a web page."""
    for _ in range(len(_MESSAGE_KEYS)):
        if not isinstance(body, Mapping):
            break
        body = next((body[key] for key in _MESSAGE_KEYS if body.get(key)), None)
    if isinstance(body, list):
        body = json.dumps(body, ensure_ascii=False, default=str)
    if not isinstance(body, str) or not body.strip() or body.lstrip().startswith("<"):
        return None
    for key in keys:
        body = body.replace(key, HIDDEN)
    return shorten(body)


def _describe_cause(error: Exception) -> str:
    """Return in words why there was no answer, or none that an SDK can read."""
    causes = list(_iterate_causes(error))
    names = {type(one).__name__ for one in causes}
    kinds: tuple[tuple[type[BaseException], str], ...] = (
        (ConnectionRefusedError, "connection refused"),
        (gaierror, "the host name is not known"),
        (SSLError, "no TLS connection"),
        (ConnectionError, "the connection was reset"),
        (json.JSONDecodeError, "an event of the stream is no JSON"),
        (UnicodeError, "the answer is no UTF-8"),
    )
    for kind, words in kinds:
        if any(isinstance(one, kind) for one in causes):
            return words
    if "ConnectTimeout" in names:
        return "no connection in time"
    if any("Timeout" in name for name in names):
        return "no byte in time"
    last = causes[-1]
    if "RemoteProtocolError" in names:
        found = (words for part, words in _CLOSED if any(part in str(one) for one in causes))
        return next(found, f"the answer is no HTTP: {shorten(str(last))}")
    return shorten(str(last)) or type(last).__name__


def _iterate_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, its cause, the cause of that, and so on."""
    one: Any = error
    for _ in range(_MAX_CAUSES):
        if one is None:
            return
        yield one
        one = one.__cause__ or one.__context__
