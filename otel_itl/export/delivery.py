"""Exporters that keep spans and log events instead of retrying while no backend listens, and report each problem once.

OpenTelemetry's own exporters retry for ten seconds for each signal, also when the process ends, and log every attempt.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import socket
from collections import deque
from collections.abc import Mapping, Sequence
from threading import RLock, get_ident
from time import monotonic
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from otel_itl.core.conventions import Where
from otel_itl.core.without_secrets import show_address
from otel_itl.recording.internal_errors import InternalErrors

logger = logging.getLogger("otel_itl")

CONNECT_SECONDS: Final = 0.5
"""How long an endpoint may take to accept a connection. A slower one is left to the exporter and its own timeout."""
SLOW_REFUSAL_SECONDS: Final = 5.0
"""How long a refusal holds that took longer than `CONNECT_SECONDS`, as that of a name server: for the other signals."""
MAX_KEPT: Final = 2_048
"""Spans or log records that wait for an endpoint to listen again; the oldest are dropped and counted."""

_REJECTIONS: Final = frozenset({404, 405, 501, "UNIMPLEMENTED"})
"""Status codes, of HTTP and of gRPC, of a backend that does not take a signal."""
_DOUBLED_PATH: Final = re.compile(r"(/v1/(?:traces|metrics|logs))/+v1/(?:traces|metrics|logs)/*$")
"""The end of a URL where the path of a signal was added to one that had a path already."""
_PROXY_VARIABLES: Final = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")


class Endpoint(NamedTuple):
    """Where an exporter sends to."""

    name: str
    """For messages: as the exporter has it, without what may be a secret."""
    host: str
    port: int

    @property
    def address(self) -> str:
        """Scheme, host and port, without a path."""
        scheme, separator, rest = self.name.rpartition("://")
        return scheme + separator + rest.partition("/")[0]

    @staticmethod
    def parse(text: str, environ: Mapping[str, str]) -> Endpoint | None:
        """Read the endpoint of an exporter: a URL, or host and port.

        Returns:
            None where connecting to it directly shows nothing: it is no address of the network, or a proxy is used.
        """
        try:
            parts = urlsplit(text if "//" in text else f"//{text}")
            default = {"http": 80, "https": 443, "": 443}.get(parts.scheme)  # that of gRPC for a name alone
            host, port = parts.hostname, parts.port or default
        except ValueError:
            return None
        is_local = host == "localhost" or (host or "").startswith(("127.", "::1"))
        has_proxy = any(environ.get(name) or environ.get(name.upper()) for name in _PROXY_VARIABLES)
        if host is None or port is None or (has_proxy and not is_local):
            return None
        return Endpoint(show_address(text), host, port)

    def find_refusal(self) -> str | None:
        """Connect, and return why that is refused; None: it is not, or it takes longer than `CONNECT_SECONDS`."""
        try:
            socket.create_connection((self.host, self.port), timeout=CONNECT_SECONDS).close()
        except (TimeoutError, UnicodeError):  # too slow; no name of a host
            return None
        except OSError as error:
            # No descriptor or no memory is left: that is not the endpoint's fault.
            return None if error.errno in {errno.EMFILE, errno.ENFILE, errno.ENOMEM} else error.strerror or str(error)
        return None


class DeliveryNotices:
    """Logs what happens to the telemetry of the exporters that were made here, each fact once.

    The exporters of all signals share it.

    Args:
        set_up: the sentence for the first delivery: where telemetry goes, and why.
        way_out: what to do besides naming another endpoint, where an endpoint refuses connections.
    """

    def __init__(self, set_up: str, way_out: str) -> None:
        self._set_up, self._way_out = set_up, way_out
        self._lock = RLock()
        self._logged: set[object] = set()
        self._slow_refusals: dict[Endpoint, tuple[float, str]] = {}
        self._is_parent_s = False

    def forget_after_fork(self) -> None:
        """Log nothing more: the parent, which has exporters for a stream, has telemetry to deliver as well."""
        self._lock = RLock()
        self._is_parent_s = True

    def find_refusal(self, endpoint: Endpoint) -> str | None:
        """Return why an endpoint refuses connections now; None: it does not, or takes too long to be known."""
        started = monotonic()
        until, slow_refusal = self._slow_refusals.get(endpoint, (0.0, None))
        if started < until:
            return slow_refusal
        refusal = endpoint.find_refusal()
        if refusal is not None and monotonic() - started > CONNECT_SECONDS:
            self._slow_refusals[endpoint] = (monotonic() + SLOW_REFUSAL_SECONDS, refusal)
        return refusal

    def delivered(self) -> None:
        """Log where telemetry goes, with the first that arrived there."""
        if self._is_first("delivered"):
            logger.warning("%s", self._set_up)

    def refused(self, endpoint: Endpoint, reason: str) -> None:
        """Log that an endpoint refuses connections."""
        if self._is_first((endpoint.host, endpoint.port)):
            logger.warning(
                "Telemetry is not delivered, as %s does not accept connections (%s): set OTEL_EXPORTER_OTLP_ENDPOINT "
                "to an endpoint that does, or %s.",
                endpoint.address,
                reason,
                self._way_out,
            )

    def rejected(self, signal: str, endpoint: str, status: object, extra_path: str = "") -> None:
        """Log that an endpoint does not take a signal; `extra_path` is what its URL has before the path of it."""
        if self._is_first(signal):
            cause = (
                f"leave {extra_path} out of OTEL_EXPORTER_OTLP_ENDPOINT, to which exporters add it; else "
                if extra_path
                else ""
            )
            logger.warning(
                "%s does not take %s (%s): %sOTEL_%s_EXPORTER=none keeps them from being sent.",
                endpoint,
                signal,
                status,
                cause,
                signal.upper(),
            )

    def _is_first(self, fact: object) -> bool:
        """Note a fact; returns whether it is new, and for this process to log."""
        with self._lock:
            if fact in self._logged or self._is_parent_s:
                return False
            self._logged.add(fact)
            return True


class GuardedExporter:
    """An exporter that sends nothing while its endpoint refuses connections, and stays quiet about a rejected signal.

    It stands before an exporter, and has its interface. Spans and log records are kept for when the endpoint listens
    again; metrics are cumulative, and the next collection has them. In a forked process it exports nothing: what is
    found there is the parent's to send, and the parent's connections are not to be touched.

    Args:
        exporter: the exporter, whose export this one guards.
        signal: `traces`, `metrics` or `logs`.
        endpoint: where it sends to; None: it does not send OTLP.
        notices: logs what happens.
        errors: counts what is dropped.
    """

    def __init__(
        self, exporter: Any, signal: str, endpoint: str | None, notices: DeliveryNotices, errors: InternalErrors
    ) -> None:
        self._exporter, self._signal, self._notices, self._errors = exporter, signal, notices, errors
        self._name = show_address(endpoint) if endpoint else type(exporter).__name__
        self._endpoint = Endpoint.parse(endpoint, os.environ) if endpoint else None
        self._kept: deque[Any] = deque()
        doubled = _DOUBLED_PATH.search(endpoint or "")
        self._extra_path = doubled[1] if doubled else ""
        self._pid = os.getpid()
        self._exporting_thread: int | None = None
        self._rejection: object = None
        modules = {kind.__module__ for kind in type(exporter).__mro__}
        self._loggers = [logging.getLogger(name) for name in modules if name.startswith("opentelemetry.exporter.")]
        for exporters_logger in self._loggers:
            # Before the exporters' own filter, which drops a message that another signal's exporter just logged.
            exporters_logger.filters.insert(0, self.filter)

    def __getattr__(self, name: str) -> Any:
        """Return what the guarded exporter has of that name."""
        return getattr(self._exporter, name)

    def export(self, batch: Any, *arguments: Any, **options: Any) -> Any:
        """Export a batch, and what was kept before, unless the endpoint refuses connections; returns the result."""
        if self._pid != os.getpid():
            return None
        refusal = None if self._endpoint is None else self._notices.find_refusal(self._endpoint)
        if refusal is not None and self._endpoint is not None:
            self._keep(batch)
            self._notices.refused(self._endpoint, refusal)
            return None
        batch = self._with_kept(batch)
        self._rejection, self._exporting_thread = None, get_ident()
        try:
            result = self._exporter.export(batch, *arguments, **options)
        finally:
            self._exporting_thread = None
        rejection = self._found_rejection()
        if rejection is not None:
            self._notices.rejected(self._signal, self._name, rejection, self._extra_path)
        elif getattr(result, "name", "") == "SUCCESS":
            self._notices.delivered()
        return result

    def shutdown(self, *arguments: Any, **options: Any) -> Any:
        """Export what was kept, if the endpoint listens by now, and shut the exporter down."""
        if self._pid != os.getpid():
            return None
        if self._kept:
            self.export([])
            self._errors.counts[Where.QUEUE_UNSENT] += len(self._kept)
            self._kept.clear()
        for exporters_logger in self._loggers:
            exporters_logger.removeFilter(self.filter)
        return self._exporter.shutdown(*arguments, **options)

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep back what the exporter logs about a signal that its backend does not take: a notice replaces it.

        Only a record of an export that is under way here: other exporters of the application log as ever.
        """
        if self._exporting_thread != get_ident() or not isinstance(record.args, tuple):
            return True
        for argument in record.args:
            status = getattr(argument, "name", argument)  # gRPC has an enumeration, HTTP a number
            if isinstance(status, (int, str)) and status in _REJECTIONS:
                self._rejection = status
                return False
        return True

    def _found_rejection(self) -> object:
        """Return the status with which the last export was rejected; None: it was not."""
        return self._rejection

    def _keep(self, batch: Any) -> None:
        """Keep spans or log records for later; the oldest that are too many are dropped."""
        if isinstance(batch, Sequence):
            self._kept.extend(batch)
            while len(self._kept) > MAX_KEPT:
                self._kept.popleft()
                self._errors.count_dropped(Where.QUEUE_UNSENT)

    def _with_kept(self, batch: Any) -> Any:
        """Return a batch together with what was kept, which is kept no longer."""
        if not self._kept:
            return batch
        kept = list(self._kept)
        self._kept.clear()
        return [*kept, *batch]
