"""Describes an exporter, and whether its endpoint answers and accepts an empty request."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from http.client import HTTPException
from typing import Any, Final

from otel_itl.export.sdk_internals.outlets import Answer, endpoint_of, is_otlp, send_empty
from otel_itl.tools.doctor.facts import ExporterFacts

TIMEOUT: Final = 3.0
"""Seconds that an endpoint has to answer."""

_MAX_CAUSES: Final = 32
_GRPC_TLS_WORDS: Final = ("ssl", "tls", "certificate", "handshake")


def describe_outlet(outlet: Any, signal: str) -> ExporterFacts:
    """Describe where a signal leaves the process. An OTLP exporter is asked to send an empty request."""
    name = type(outlet).__qualname__
    if type(outlet).__module__.startswith("otel_itl."):
        name = f"otel_itl {name}"
    endpoint = endpoint_of(outlet)
    if not is_otlp(outlet):
        return ExporterFacts(name=name, endpoint=endpoint)
    protocol = "grpc" if ".grpc." in type(outlet).__module__ else "http/protobuf"
    try:
        answer = send_empty(outlet, signal, TIMEOUT)
    except Exception as error:  # noqa: BLE001 - an exporter that has changed inside
        answer = Answer(None, error)
    return ExporterFacts(
        name=name,
        endpoint=endpoint,
        protocol=protocol,
        status=None if answer.status is None else str(answer.status),
        is_accepted=answer.is_accepted,
        problem=None if answer.is_accepted else _classify(answer),
    )


def _classify(answer: Answer) -> str | None:
    """Return the kind of a failure; None where the status says it all."""
    if answer.error is None:
        return None
    details = str(getattr(answer.error, "details", lambda: "")() or "").lower() if answer.status is not None else ""
    if details:
        return _classify_grpc(str(answer.status), details)
    kinds: tuple[tuple[type[BaseException], str], ...] = (
        (ssl.SSLError, "tls"),
        (ConnectionRefusedError, "refused"),
        (socket.gaierror, "dns"),
        (TimeoutError, "timeout"),
        (ConnectionError, "closed"),
        (HTTPException, "closed"),  # an answer that is not HTTP
    )
    causes = list(_causes(answer.error))
    for kind, name in kinds:
        if any(isinstance(cause, kind) for cause in causes):
            return name
    names = " ".join(type(cause).__name__ for cause in causes)
    return "timeout" if "Timeout" in names else "tls" if "SSL" in names else type(answer.error).__name__


def _classify_grpc(status: str, details: str) -> str | None:
    """Return the kind of a failure by the text that gRPC gives, which is all that it gives."""
    if status not in {"UNAVAILABLE", "DEADLINE_EXCEEDED", "UNKNOWN", "INTERNAL"}:
        return None
    if "refused" in details:
        return "refused"
    if any(word in details for word in _GRPC_TLS_WORDS):
        return "tls"
    if "dns" in details or "name resolution" in details or "domain name" in details:
        return "dns"
    if "http1" in details or "http/1" in details or "settings" in details or "closed" in details or "http2" in details:
        return "closed"
    return "timeout" if status == "DEADLINE_EXCEEDED" else None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and those that it was made of: HTTP clients wrap what the socket raised, several times."""
    waiting, seen = [error], set[int]()
    while waiting and len(seen) < _MAX_CAUSES:
        found = waiting.pop(0)
        if id(found) in seen:
            continue
        seen.add(id(found))
        yield found
        related = (found.__cause__, found.__context__, getattr(found, "reason", None), *found.args)
        waiting.extend(cause for cause in related if isinstance(cause, BaseException))
