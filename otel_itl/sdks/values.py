"""Reads the fields of SDK objects and of request bodies, whatever a provider or a caller put there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from itertools import compress
from typing import Any, Final
from urllib.parse import urlsplit

from otel_itl.core.conventions import REQUEST_PARAMETERS
from otel_itl.core.request import Request
from otel_itl.core.stream import ResponseInfo
from otel_itl.sdks.formats.kinds import EMPTY, FINISH
from otel_itl.sdks.provider_hosts import provider_of

MAX_STR_LENGTH: Final = 256
MAX_STOP_SEQUENCES: Final = 64
MIN_SIGNATURE_LENGTH: Final = 100
"""Characters. A signature of Anthropic's holds the whole reasoning, encrypted: it has hundreds of characters, and more.
Servers of other models that speak this format send none, or an id or a checksum of up to 64, and stream the reasoning
itself."""
MAX_DURATION: Final = 1 << 63
"""A duration in any unit that is this long, or no number (NaN), is no duration."""


def fields_of(value: Any) -> dict[str, Any]:
    """Return the fields of an SDK object, undeclared ones included; of a dict, itself; of anything else, none."""
    if isinstance(value, dict):
        return value
    fields: dict[str, Any] = getattr(value, "__dict__", None) or {}
    extra = getattr(value, "__pydantic_extra__", None)
    return {**extra, **fields} if extra else fields


def items_of(value: Any) -> Sequence[Any]:
    """Return the items of a list or tuple; of anything else, none."""
    return value if isinstance(value, (list, tuple)) else ()


def valid_count(value: Any) -> int | None:
    """Return a provider's token count; None for what is no count, or is more than a span attribute can hold."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63 else None


def record_counts(response_info: ResponseInfo, usage: Mapping[str, Any], **names: str) -> None:
    """Record the token counts of a provider's usage, by the names that it has them under: ours → its own.

    A name may lead into an inner object (`output_tokens_details.reasoning_tokens`). Counts with names joined by `+`
    are added up, those that are missing left out; without the first, there is none. No count leaves an earlier one.
    """
    for ours, theirs in names.items():
        total: int | None = None
        for position, (outer, name) in enumerate(_parse_names(theirs)):
            fields = usage
            for part in outer:
                fields = fields_of(fields.get(part))
            count = valid_count(fields.get(name))
            if position == 0:
                total = count
            elif total is not None and count is not None:
                total = valid_count(total + count)
        if total is not None:
            setattr(response_info, ours, total)


def record_finish(response_info: ResponseInfo, reason: Any, choice: int = 0) -> int:
    """Record the finish reason of a choice, where there is one; returns the kind of the chunk that has it."""
    text = short_str(reason)
    if text is None:
        return EMPTY
    response_info.add_finish_reason(text, choice)
    return FINISH


@cache  # as many as the formats have
def _parse_names(names: str) -> tuple[tuple[tuple[str, ...], str], ...]:
    """Return, of names that are joined by `+`, the objects that each leads through, and its last part."""
    paths = [name.split(".") for name in names.split("+")]
    return tuple((tuple(outer), name) for *outer, name in paths)


def valid_seconds(value: Any, units_per_second: int) -> float | None:
    """Return a provider's duration in seconds; None for what is no number, negative, or not finite.

    Args:
        value: as the provider sends it.
        units_per_second: 1 for seconds, 1,000 for milliseconds, and so on.
    """
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < MAX_DURATION:
        return None
    return value / units_per_second


def short_str(value: Any) -> str | None:
    """Return a provider's name or reason, cut to `MAX_STR_LENGTH` characters; None for what is no text, or empty.

    Half of a surrogate pair, which JSON may hold, is replaced: an exporter could encode neither it nor its batch.
    """
    if not isinstance(value, str) or not value:
        return None
    cut = value[:MAX_STR_LENGTH]
    return cut if cut.isascii() else cut.encode(errors="replace").decode()


def is_signature(value: Any) -> bool:
    """Return whether a field of a chunk is the signature of reasoning of which only a summary is shown, or nothing."""
    return isinstance(value, (str, bytes)) and len(value) >= MIN_SIGNATURE_LENGTH


def request_parameters(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `gen_ai.request.*` attributes of the parameters in a request body.

    Numbers are kept, and at most `MAX_STOP_SEQUENCES` stop sequences; a parameter with another value is left out.
    """
    attributes: dict[str, Any] = {}
    for name in compress(REQUEST_PARAMETERS, map(body.__contains__, REQUEST_PARAMETERS)):
        attribute, value = REQUEST_PARAMETERS[name], body[name]
        if name in {"stop", "stop_sequences"} and value is not None:
            value = [value] if isinstance(value, str) else value
            if isinstance(value, (list, tuple)) and all(isinstance(stop, str) for stop in value):
                attributes[attribute] = tuple(short_str(stop) or "" for stop in value[:MAX_STOP_SEQUENCES])
        elif type(value) is float or (type(value) is int and abs(value) < 1 << 63):
            attributes[attribute] = value
    return attributes


def make_request(  # noqa: PLR0913 - what distinguishes requests
    operation: str,
    server: str | tuple[str | None, int | None],
    provider: str,
    model: Any,
    parameters: Mapping[str, Any],
    *,
    is_resumed: bool = False,
) -> Request:
    """Make the description of a request. What is asked for again and again is described once, by one object.

    Args:
        operation: `gen_ai.operation.name`.
        server: the URL that is asked, or that of the service; or its host and port.
        provider: where the host does not show it.
        model: its name as the request has it.
        parameters: those of the request, by the names of OpenAI's API; everything else is left out.
        is_resumed: a response is fetched from its middle on.
    """
    host, port = split_address(server) if isinstance(server, str) else server
    given = request_parameters(parameters)
    types = tuple(map(type, given.values()))  # 1 and 1.0 are equal
    return _find_request(operation, host, port, provider, short_str(model), tuple(given.items()), types, is_resumed)


@lru_cache(maxsize=256)
def _find_request(  # noqa: PLR0913, PLR0917 - what distinguishes requests
    operation: str,
    host: str | None,
    port: int | None,
    provider: str,
    model: str | None,
    parameters: tuple[tuple[str, Any], ...],
    _: tuple[type, ...],
    is_resumed: bool,  # noqa: FBT001 - by position alone
) -> Request:
    """Return the description of a request, made when it is first asked for."""
    return Request(
        operation=operation,
        provider=provider_of(host, provider),
        model=model,
        server_address=host,
        server_port=port,
        parameters=dict(parameters),
        is_resumed=is_resumed,
    )


@lru_cache(maxsize=64)
def split_address(address: str) -> tuple[str | None, int | None]:
    """Return the host and the port of an address; None for what it lacks."""
    try:
        url = urlsplit(address)
        return url.hostname, url.port or {"http": 80, "https": 443}.get(url.scheme)
    except ValueError:  # the caller's, which the SDK refuses as well
        return None, None
