"""What the answer of an endpoint means, and what to do about it."""

from __future__ import annotations

from typing import Final

from otel_itl.tools.doctor.facts import ExporterFacts

_GRPC: Final = "grpc"
_START_ONE: Final = (
    "start a Collector there, or set OTEL_EXPORTER_OTLP_ENDPOINT to where one listens; without a Collector: "
    "otel-itl run, or OTEL_ITL_FILE=otel-itl.jsonl and no OTEL_EXPORTER_OTLP_ENDPOINT"
)
_SET_TLS: Final = (
    "set OTEL_EXPORTER_OTLP_CERTIFICATE to the file of its certificate authority; or, for an endpoint without "
    "TLS, begin OTEL_EXPORTER_OTLP_ENDPOINT with http://"
)
_CHECK_ROUTE: Final = "check that the host and the port of OTEL_EXPORTER_OTLP_ENDPOINT can be reached from here"
_PROBLEMS: Final = {
    "refused": ("refuses the connection", _START_ONE),
    "dns": ("has a host name that does not resolve", "correct the host in OTEL_EXPORTER_OTLP_ENDPOINT"),
    "timeout": ("does not answer within 3 s", _CHECK_ROUTE),
    "tls": ("fails the TLS handshake", _SET_TLS),
}
"""Why there was no answer → what is reported, and the remedy."""
_STATUSES: Final = {
    "413": (
        "what is sent at once is too large for it",
        "set OTEL_BSP_MAX_EXPORT_BATCH_SIZE=64, or raise the limit of the backend or of the proxy before it",
    ),
    "429": ("it limits how much it takes", "send less often (OTEL_BSP_SCHEDULE_DELAY), or have the limit raised"),
}
"""Status → what it means, and the remedy."""
_FORBIDDEN: Final = frozenset({"401", "403", "UNAUTHENTICATED", "PERMISSION_DENIED"})
_UNSUPPORTED: Final = frozenset({"404", "405", "501", "UNIMPLEMENTED"})
_WRONG_ENCODING: Final = frozenset({"400", "406", "415", "UNKNOWN", "INTERNAL"})


def is_unsupported(exporter: ExporterFacts) -> bool:
    """Return whether an endpoint does not know what it was asked for."""
    return not exporter.is_accepted and not exporter.is_page and exporter.status in _UNSUPPORTED


def remedy_for(signal: str, exporter: ExporterFacts, *, is_alone: bool = True) -> tuple[str, str]:
    """Return what was found at the endpoint of an exporter that did not accept, and the remedy.

    Args:
        signal: `traces`, `metrics` or `logs`.
        exporter: of the signal.
        is_alone: the endpoint of another signal knows what it is asked for.
    """
    if exporter.protocol != _GRPC and "://" not in (exporter.endpoint or ""):
        return "has no scheme", "begin OTEL_EXPORTER_OTLP_ENDPOINT with http:// (or https://)"
    if exporter.proxy is not None and exporter.problem is not None and exporter.problem != "tls":
        return (
            f"is asked through the proxy of {exporter.proxy}, which does not reach it",
            f"add its host to NO_PROXY, or correct {exporter.proxy}",
        )
    if exporter.problem in _PROBLEMS:
        return _PROBLEMS[exporter.problem]
    if exporter.problem == "closed":
        return "closes the connection without an answer", _other_protocol(exporter)
    status = exporter.status
    if status is None:
        return (
            f"cannot be asked ({exporter.problem})",
            f"check {_variable(signal, 'ENDPOINT')} and the network between here and there",
        )
    is_misplaced = signal == "traces" or not is_alone
    special = _remedy_for_special(signal, exporter, status)
    return special or _remedy_for_status(signal, exporter, status, is_misplaced=is_misplaced)


def _remedy_for_special(signal: str, exporter: ExporterFacts, status: str) -> tuple[str, str] | None:
    """Return what an answer means that is no refusal of OTLP as such, and the remedy; None: it is one, if anything."""
    finding = f"answers {status}"
    if exporter.is_page:
        return (
            "answers with a web page: it is no OTLP endpoint, but perhaps the user interface of the backend",
            f"set {_variable(signal, 'ENDPOINT')} to the port for OTLP (usually 4318, or 4317 for gRPC)",
        )
    if status.startswith("3"):
        return (
            f"{finding}: it redirects, which exporters do not follow",
            f"set {_variable(signal, 'ENDPOINT')} to where it redirects, such as https:// in the place of http://",
        )
    if status in _STATUSES:
        meaning, remedy = _STATUSES[status]
        return f"{finding}: {meaning}", remedy
    if exporter.is_compressed and status in _WRONG_ENCODING:
        return (
            f"{finding} to a request that gzip compresses",
            "unset OTEL_EXPORTER_OTLP_COMPRESSION, or have the backend accept gzip",
        )
    return None


def _remedy_for_status(signal: str, exporter: ExporterFacts, status: str, *, is_misplaced: bool) -> tuple[str, str]:
    """Return what an answer means, and the remedy; `is_misplaced`: what is not supported there is so elsewhere."""
    finding = f"answers {status}"
    if status in _FORBIDDEN:
        return (
            f"{finding}: the credentials are missing or wrong",
            f"set {_variable(signal, 'HEADERS')}, such as authorization=Bearer%20KEY, as the backend documents it",
        )
    if status in _UNSUPPORTED:
        if is_misplaced:
            path = "" if exporter.protocol == _GRPC else f": /v1/{signal} is added to OTEL_EXPORTER_OTLP_ENDPOINT alone"
            return f"{finding}: it takes no {signal} there", f"correct {_variable(signal, 'ENDPOINT')}{path}"
        return f"{finding}: it takes no {signal}", f"set OTEL_{signal.upper()}_EXPORTER=none"
    if status in _WRONG_ENCODING:
        return f"{finding}: it does not understand {exporter.protocol}", _other_protocol(exporter)
    return f"{finding}", "look for the reason in the log of the backend or the Collector"


def _other_protocol(exporter: ExporterFacts) -> str:
    """Return the remedy for gRPC that is sent to an HTTP port, or the reverse."""
    if exporter.protocol == _GRPC:
        return "set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf, or name the port for gRPC (usually 4317)"
    is_sure = exporter.status == "415" or (exporter.endpoint or "").startswith("https")
    tls = "" if is_sure else "; where it has TLS, begin the endpoint with https://"
    return f"set OTEL_EXPORTER_OTLP_PROTOCOL=grpc, or name the port for HTTP (usually 4318){tls}"


def _variable(signal: str, setting: str) -> str:
    return f"OTEL_EXPORTER_OTLP_{setting} (or OTEL_EXPORTER_OTLP_{signal.upper()}_{setting})"
