"""Describes an exporter, and whether its endpoint answers and accepts an empty request."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from otel_itl.export.sdk_internals.outlets import Answer, endpoint_of, is_otlp, send_empty
from otel_itl.tools.doctor.facts import ExporterFacts

TIMEOUT: Final = 3.0
"""Seconds that an endpoint has to answer."""

_MAX_CAUSES: Final = 32
_WORDS: Final = {
    "proxy": ("proxyerror", "http proxy"),
    "refused": ("refused",),
    "tls": ("ssl", "tls", "certificate", "handshake"),
    "dns": ("gaierror", "dns", "name resolution", "domain name"),
    "timeout": ("timeout",),
    "closed": (
        *("http1", "http/1", "http2", "settings", "closed"),  # as gRPC writes it
        *("connectionreset", "connectionaborted", "brokenpipe", "disconnected", "badstatusline", "incompleteread"),
    ),
}
"""Kind of a failure → what its description has, in the order in which they are looked for."""
_GRPC_WITHOUT_ANSWER: Final = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "UNKNOWN", "INTERNAL"})


def describe_outlet(outlet: Any, signal: str, answered: dict[tuple[str, str], ExporterFacts]) -> ExporterFacts:
    """Describe where a signal leaves the process. An OTLP exporter is asked to send an empty request.

    Args:
        outlet: the exporter.
        signal: `traces`, `metrics` or `logs`.
        answered: protocol and server → an exporter that got no answer there; it is added to. Another signal gets none
            either, and is not to wait for it: gRPC, too, has another reason for the second failure than for the first.
    """
    name = type(outlet).__qualname__
    if type(outlet).__module__.startswith("otel_itl."):
        name = f"otel_itl {name}"
    endpoint = endpoint_of(outlet)
    if not is_otlp(outlet):
        return ExporterFacts(name=name, endpoint=endpoint)
    protocol = "grpc" if ".grpc." in type(outlet).__module__ else "http/protobuf"
    url = endpoint if endpoint is None or "://" in endpoint else f"//{endpoint}"
    server = protocol, (endpoint or "").partition("/v1/")[0]
    if server in answered:
        return replace(answered[server], name=name, endpoint=endpoint)
    try:
        answer = send_empty(outlet, signal, TIMEOUT)
    except Exception as error:  # noqa: BLE001 - an exporter that has changed inside
        answer = Answer(None, error)
    facts = ExporterFacts(
        name=name,
        endpoint=endpoint,
        protocol=protocol,
        status=None if answer.status is None else str(answer.status),
        is_accepted=answer.is_accepted,
        problem=None if answer.is_accepted else _classify(answer),
        is_page=answer.is_page,
        is_compressed=getattr(getattr(outlet, "_compression", None), "name", "").lower() == "gzip",
        proxy=_find_proxy(url or ""),
    )
    if facts.problem is not None:
        answered[server] = facts
    return facts


def _find_proxy(url: str) -> str | None:
    """Return the variable that names the proxy for a URL; None: its host is asked directly."""
    parts = urlsplit(url)
    proxies = getproxies()
    if not parts.hostname or proxy_bypass(parts.hostname):
        return None
    scheme = parts.scheme or "http"
    return next((f"{found.upper()}_PROXY" for found in (scheme, "all") if found in proxies), None)


def _classify(answer: Answer) -> str | None:
    """Return the kind of a failure by the text that gRPC gives, else by the classes of errors; None: see the status."""
    if answer.error is None:
        return None
    details = str(getattr(answer.error, "details", lambda: "")() or "").lower() if answer.status is not None else ""
    if details and answer.status not in _GRPC_WITHOUT_ANSWER:
        return None
    described = details or " ".join(type(cause).__name__ for cause in _causes(answer.error)).lower()
    found = next((kind for kind, words in _WORDS.items() if any(word in described for word in words)), None)
    if found is None and details:
        return "timeout" if answer.status == "DEADLINE_EXCEEDED" else None
    return found or type(answer.error).__name__


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
