"""What the doctor finds out about a process."""

from __future__ import annotations

from dataclasses import dataclass, field

from otel_itl.tools.doctor.finding import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class SDKFacts:
    """One supported SDK."""

    name: str
    requirement: str
    """The supported releases, as pip takes them."""
    version: str | None = None
    """None: it is not installed."""
    is_imported: bool = False
    is_hooked: bool = False
    missing: list[str] = field(default_factory=list)
    """Functions that were to be hooked and do not exist."""
    wrappers: dict[str, list[str]] = field(default_factory=dict)
    """Who else has wrapped functions of the SDK, and which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExporterFacts:
    """One way by which the telemetry of a signal leaves the process."""

    name: str
    """The name of its class."""
    endpoint: str | None = None
    """None: it has none, or none that is known."""
    protocol: str | None = None
    """`grpc` or `http/protobuf`; None: it is no OTLP exporter, and nothing was sent."""
    status: str | None = None
    """What the endpoint answered; None: nothing."""
    is_accepted: bool = False
    problem: str | None = None
    """Why there was no answer: `refused`, `tls`, `dns`, `timeout`, `closed`, or the class of the error."""
    is_page: bool = False
    """Whether the answer is a web page."""
    is_compressed: bool = False
    proxy: str | None = None
    """The variable of the proxy that is used for the endpoint; None: there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalFacts:
    """The provider of one signal, and its exporters."""

    name: str
    """`traces`, `metrics` or `logs`."""
    provider: str | None = None
    """Its class; None: none was set."""
    set_by: str = ""
    sampler: str | None = None
    exporters: list[ExporterFacts] | None = None
    """None: unknown."""
    is_immediate: bool = False
    """Whether each span is sent while the program waits (`SimpleSpanProcessor` with an OTLP exporter)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFacts:
    """The scripted stream that was sent through."""

    sdk: str
    trace_id: str | None = None
    """None: no span was made."""
    is_sampled: bool = False
    error: str | None = None
    """The class of the exception with which it failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One process."""

    python: str
    python_version: str
    packages: dict[str, str | None]
    """Distribution → installed version; None: not installed."""
    sdks: list[SDKFacts]
    signals: list[SignalFacts]
    variables: dict[str, str]
    """The `OTEL_*` variables that decide what is measured and where it goes; never a header."""
    refused_variables: list[str]
    """Sentences about variables that are not accepted."""
    malformed: list[Finding] = field(default_factory=list)
    """What is wrong with the names, the form, or the exporters of `OTEL_*` variables."""
    launcher: str | None = None
    """`opentelemetry-instrument` or `otel-itl run`, if that has started the process."""
    has_distro: bool = False
    objectives: str | None = None
    """The objectives in force, for people to read; None: there are none."""
    streams_before_code: int | None = None
    """Streams that the program made before it called `instrument()`; None: it has not called it."""
    was_stopped: bool = False
    """Whether the program has called `uninstrument()` since."""
    is_forked: bool = False
    """Whether the process was forked from another one of the program."""
    child: str | None = None
    """The pid of the process, and its name, where another process of the program has started it; None: none has."""
    late_signals: list[str] = field(default_factory=list)
    """The signals whose provider the program set after its first stream."""
    http_clients: list[str] = field(default_factory=list)
    """HTTP clients that the program has imported, where it has imported no supported SDK."""
    is_recording: bool = False
    """Whether streams are measured: the program has called `instrument()`, or the doctor has started it."""
    streams: int | None = None
    """Streams that the program itself has made; None: there is no program."""
    internal_errors: dict[str, int] = field(default_factory=dict)
    stream: StreamFacts | None = None
    """None: no scripted stream was sent, as no SDK is there to do it."""
