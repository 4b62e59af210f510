"""Set-ups that do not work: what users get wrong, and the first sentence that the doctor has for each."""

# ruff: noqa: E501 - a sentence is one line

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

ASK: Final = """
import groq
client = groq.Groq(max_retries=0)
def ask(**options):
    answer = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "?"}], **options)
    return list(answer) if options else answer
"""
STREAM: Final = ASK + "ask(stream=True)\n"
MEASURED: Final = "import otel_itl\notel_itl.instrument()\n" + STREAM
SWALLOWED: Final = MEASURED.replace("ask(stream=True)", "try:\n    ask(stream=True)\nexcept groq.APIError:\n    pass")
PROVIDER: Final = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
"""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """A program in an environment, and what is found first in it."""

    program: str = MEASURED
    variables: Mapping[str, str] = field(default_factory=dict)
    """In their values, `{NAME}` stands for an address of the fixture `places`."""
    command: tuple[str, ...] = ("{python}", "app.py")
    files: Mapping[str, str] = field(default_factory=dict)
    first: str
    """The finding, and after an arrow the remedy; without an arrow, a note."""


def over_http(place: str, **more: str) -> dict[str, str]:
    """Variables that export traces alone to an endpoint by HTTP."""
    quiet = dict.fromkeys(("OTEL_METRICS_EXPORTER", "OTEL_LOGS_EXPORTER"), "none")
    return {
        **quiet,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_ENDPOINT": place,
        **more,
    }


FINE: Final = over_http("{http}/200")
SETUPS: Final[Mapping[str, Setup]] = {
    # --- The program ------------------------------------------------------------------------------------------------
    "instrument is never called": Setup(
        program=STREAM,
        variables=FINE,
        first=(
            "program: it is measured only because of the doctor: it had not called otel_itl.instrument() at its first stream"
            " → call otel_itl.instrument() before its first stream, or start the program by otel-itl run"
        ),
    ),
    "instrument is called after the first stream": Setup(
        program=STREAM + "import otel_itl\notel_itl.instrument()\nask(stream=True)\n",
        variables=FINE,
        first=(
            "program: it is measured only because of the doctor: it had not called otel_itl.instrument() at its first stream"
            " → call otel_itl.instrument() before its first stream, or start the program by otel-itl run"
        ),
    ),
    "instrument is called in the parent, after the fork": Setup(
        program=ASK
        + """
import os, sys
child = os.fork()
if not child:
    ask(stream=True)
    sys.exit()
import otel_itl
otel_itl.instrument()
os.waitpid(child, 0)
""",
        variables=FINE,
        first=(
            "program: a forked process is measured only because of the doctor: otel_itl.instrument() was not called before the fork, nor in it"
            " → call otel_itl.instrument() before the processes are forked, or in each of them before its first stream"
        ),
    ),
    "uninstrument is called before the stream": Setup(
        program="import otel_itl\notel_itl.instrument()\notel_itl.uninstrument()\n" + STREAM,
        variables=FINE,
        first=(
            "program: it has called otel_itl.uninstrument(): no stream is measured after that"
            " → leave the call out, or call otel_itl.instrument() again before the next stream"
        ),
    ),
    "the program fails before its first stream": Setup(
        program="import otel_itl\notel_itl.instrument(slo='chatt')\n" + STREAM,
        variables=FINE,
        first=(
            "program: ended with exit code 1 by ValueError in {folder}/app.py, line 2, before its first stream"
            " → correct that first: its traceback is above"
        ),
    ),
    "the program fails in its first stream": Setup(
        program=MEASURED,
        variables={**FINE, "GROQ_BASE_URL": "http://127.0.0.1:9"},
        first=(
            "program: ended with exit code 1 by groq.APIConnectionError in {folder}/app.py, line 7"
            " → correct that first: its traceback is above"
        ),
    ),
    "the program keeps the failure of its stream to itself": Setup(
        program=SWALLOWED,
        variables={**FINE, "GROQ_BASE_URL": "http://127.0.0.1:9"},
        first=(
            "streams: 1 of 1 stream failed or ended without a token: APIConnectionError (1)"
            " → check the base URL and the key that the SDK is given, and have the program log the errors it catches"
        ),
    ),
    "the base URL is another server's": Setup(
        program=SWALLOWED,
        variables={**FINE, "GROQ_BASE_URL": "{http}/404"},
        first=(
            "streams: 1 of 1 stream failed or ended without a token: NotFoundError (1)"
            " → check the base URL and the key that the SDK is given, and have the program log the errors it catches"
        ),
    ),
    "the base URL is that of a web page": Setup(
        variables={**FINE, "GROQ_BASE_URL": "{http}/page"},
        first=(
            "streams: 1 of 1 stream failed or ended without a token: no token (1)"
            " → check the base URL and the key that the SDK is given, and have the program log the errors it catches"
        ),
    ),
    "instrument is called in the parent of a subprocess": Setup(
        program="import otel_itl, subprocess, sys\notel_itl.instrument()\nsubprocess.run([sys.executable, 'child.py'])\n",
        files={"child.py": STREAM},
        variables=FINE,
        first=(
            "program: a child process (pid {pid}) is measured only because of the doctor: otel_itl.instrument() was not called in it before its first stream, and a call in its parent does not count there"
            " → call otel_itl.instrument() in each child process before its first stream, or start the program by otel-itl run"
        ),
    ),
    "the program exits with a failure": Setup(
        program="import sys\nsys.exit(3)\n",
        variables=FINE,
        first=(
            "program: ended with exit code 3, before its first stream"
            " → correct what it has printed: what it would measure is not known before"
        ),
    ),
    "the program is killed": Setup(
        program=MEASURED + "import os, time\ntime.sleep(0.5)\nos.kill(os.getpid(), 9)\n",
        variables=FINE,
        first=(
            "program: was killed by SIGKILL (on a server: often for want of memory)"
            " → find out what has killed it: what it had not exported by then is lost"
        ),
    ),
    "a forked worker leaves by os._exit": Setup(
        program="import otel_itl\notel_itl.instrument()\n"
        + PROVIDER
        + ASK
        + """
import os
child = os.fork()
if not child:
    ask(stream=True)
    os._exit(0)
os.waitpid(child, 0)
""",
        variables=FINE,
        first=(
            "program: os._exit() ends a process before 1 span of its streams left it"
            " → call otel_itl.flush() before os._exit()"
        ),
    ),
    "no request is a stream": Setup(
        program="import otel_itl\notel_itl.instrument()\n" + ASK,
        variables=FINE,
        first=(
            "streams: the program has made no stream that is measured: no request, or none with stream=True"
            " → ask for a stream in the calls that docs/supported.md lists, and let the program make one"
        ),
    ),
    "the program streams by an HTTP client": Setup(
        program="import otel_itl, httpx\notel_itl.instrument()\n",
        variables=FINE,
        first=(
            "SDK: the program has imported no supported SDK, but httpx, whose own streams are not measured"
            " → measure what it streams with otel_itl.observe(): see README.md"
        ),
    ),
    "the program does nothing": Setup(
        program="import otel_itl\notel_itl.instrument()\n",
        variables=FINE,
        first=(
            "SDK: the program has imported no supported SDK"
            " → measure what it streams with otel_itl.observe(): see README.md"
        ),
    ),
    "the interpreter ignores the environment": Setup(
        command=("{python}", "-I", "app.py"),
        first=(
            "program: no process of it could be examined: no Python process was started, or only with -I, -E or -S (PYTHONPATH is ignored there)"
            " → install otel-itl in the environment that runs the program, and let the program end by itself or by Ctrl-C"
        ),
    ),
    # --- Packages ---------------------------------------------------------------------------------------------------
    "the SDK is too old": Setup(
        program="import otel_itl, groq\notel_itl.instrument()\n",
        files={
            "groq/__init__.py": "",
            "groq-0.5.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: groq\nVersion: 0.5.0\n",
        },
        variables=FINE,
        first=("groq: 0.5.0 is not hooked: it is too old, or incomplete → pip install --upgrade 'groq>=0.13'"),
    ),
    "the SDK has been rewritten": Setup(
        program="import otel_itl, groq\notel_itl.instrument()\n",
        files={
            "groq/__init__.py": "",
            "groq-1.9.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: groq\nVersion: 1.9.0\n",
        },
        variables=FINE,
        first=(
            "groq: 1.9.0 has no groq._base_client:AsyncAPIClient.request (and 5 more): what passes there is not measured"
            " → install a release that docs/supported.md names: pip install 'groq>=0.13'"
        ),
    ),
    "two releases of OpenTelemetry": Setup(
        files={
            "opentelemetry_api-1.38.0.dist-info/METADATA": (
                "Metadata-Version: 2.1\nName: opentelemetry-api\nVersion: 1.38.0\n"
            )
        },
        variables=FINE,
        first=(
            "opentelemetry-api: 1.38.0 and opentelemetry-sdk {sdk} are of different releases"
            " → pip install --upgrade opentelemetry-api opentelemetry-sdk opentelemetry-exporter-otlp"
        ),
    ),
    # --- The environment --------------------------------------------------------------------------------------------
    "OTEL_SDK_DISABLED": Setup(
        variables={**FINE, "OTEL_SDK_DISABLED": "true"},
        first=("OTEL_SDK_DISABLED: is true: nothing is measured → unset OTEL_SDK_DISABLED"),
    ),
    "OTEL_ITL_DISABLED": Setup(
        variables={**FINE, "OTEL_ITL_DISABLED": "true"},
        first=("OTEL_ITL_DISABLED: is true: nothing is measured → unset OTEL_ITL_DISABLED"),
    ),
    "a sampler that drops all": Setup(
        variables={**FINE, "OTEL_TRACES_SAMPLER": "always_off"},
        first=("OTEL_TRACES_SAMPLER: always_off: no span is recorded → unset OTEL_TRACES_SAMPLER, or always_on"),
    ),
    "a ratio of zero": Setup(
        variables={**FINE, "OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"},
        first=(
            "traces: the sampler ParentBased{root:TraceIdRatioBased{0.0} records no span"
            " → set up the provider with another sampler, or unset OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG"
        ),
    ),
    "every exporter is none": Setup(
        variables={**FINE, "OTEL_TRACES_EXPORTER": "none"},
        first=(
            "OTEL_*_EXPORTER: each is none: no telemetry leaves the process"
            " → unset OTEL_TRACES_EXPORTER, or set OTEL_ITL_FILE=otel-itl.jsonl"
        ),
    ),
    "an exporter that is not installed": Setup(
        variables={**FINE, "OTEL_TRACES_EXPORTER": "zipkin"},
        first=(
            "OTEL_TRACES_EXPORTER: names the exporter 'zipkin', which no installed package provides"
            " → pip install the package that has it, or set OTEL_TRACES_EXPORTER=otlp"
        ),
    ),
    "a protocol that does not exist": Setup(
        variables={**FINE, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
        first=(
            "OTEL_EXPORTER_OTLP_PROTOCOL: is http/json: nothing is exported, as that is none of grpc and http/protobuf"
            " → set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf, or unset it for grpc"
        ),
    ),
    "a misspelled variable": Setup(
        variables={**FINE, "OTEL_EXPORTER_OLTP_HEADERS": "a=b"},
        first=(
            "OTEL_EXPORTER_OLTP_HEADERS: is not known to OpenTelemetry"
            " → set OTEL_EXPORTER_OTLP_HEADERS, which it is probably meant to be"
        ),
    ),
    "a misspelled option": Setup(
        variables={**FINE, "OTEL_ITL_STALLS": "2"},
        first=(
            "OTEL_ITL_STALLS: is not known to otel_itl. Did you mean OTEL_ITL_STALL?"
            " → correct or unset OTEL_ITL_STALLS: see docs/configuration.md"
        ),
    ),
    "quotation marks of a file for Docker": Setup(
        variables=over_http('"{http}/200"'),
        first=(
            "OTEL_EXPORTER_OTLP_ENDPOINT: its value has quotation marks, which are part of it: Docker's files of variables take none"
            " → write OTEL_EXPORTER_OTLP_ENDPOINT= and the value without quotation marks"
        ),
    ),
    "a header with a colon": Setup(
        variables={**FINE, "OTEL_EXPORTER_OTLP_HEADERS": "authorization: Bearer key"},
        first=(
            "OTEL_EXPORTER_OTLP_HEADERS: has a header that is not NAME=VALUE, and is left out"
            " → write OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20KEY"
        ),
    ),
    "the path of traces, at an endpoint that takes whatever comes": Setup(
        variables=over_http("{http}/200/v1/traces"),
        first=(
            "OTEL_EXPORTER_OTLP_ENDPOINT: ends in /v1/traces: an exporter by HTTP adds the path of its signal to that, so that there are two"
            " → leave /v1/traces out of OTEL_EXPORTER_OTLP_ENDPOINT"
        ),
    ),
    "a configuration file without a set-up": Setup(
        variables={**FINE, "OTEL_CONFIG_FILE": "otel.yaml"},
        first=(
            "OTEL_CONFIG_FILE: asks for global providers, which otel_itl leaves to others: without them, nothing is exported"
            " → start the program by opentelemetry-instrument, with opentelemetry-distro installed, or unset it"
        ),
    ),
    "the SDK is left out": Setup(
        variables={**FINE, "OTEL_ITL_SDKS": "openai"},
        first=(
            "groq: {groq} is used by the program, and not measured: OTEL_ITL_SDKS=openai"
            " → add groq to OTEL_ITL_SDKS, or unset that"
        ),
    ),
    # --- Providers --------------------------------------------------------------------------------------------------
    "a provider is set after the first stream": Setup(
        program=MEASURED + PROVIDER,
        variables=over_http("{refused}"),
        first=(
            "traces: the program sets its provider after its first stream, whose telemetry went elsewhere"
            " → set up OpenTelemetry before the first stream"
        ),
    ),
    "a provider without an exporter": Setup(
        program="""
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())
"""
        + MEASURED,
        variables=FINE,
        first=(
            "traces: opentelemetry.TracerProvider, set by the application; it has no exporter, so that no span leaves the process"
            " → add one to the first provider that is set (OpenTelemetry ignores a second), such as BatchSpanProcessor(OTLPSpanExporter()), or set OTEL_ITL_FILE=otel-itl.jsonl"
        ),
    ),
    "each span is sent at once": Setup(
        program=PROVIDER.replace("(BatchSpanProcessor(", "(SimpleSpanProcessor(") + MEASURED,
        variables=FINE,
        first=(
            "traces: SimpleSpanProcessor sends each span at once, and the program waits for the endpoint meanwhile"
            " → use BatchSpanProcessor in its place"
        ),
    ),
    "objectives without metrics": Setup(
        program=PROVIDER + MEASURED.replace("instrument()", "instrument(slo='chat')"),
        variables=FINE,
        first=(
            "metrics: no provider is set, and so no alert on the objectives (*=chat) has a series"
            " → set a meter provider as well: opentelemetry.metrics.set_meter_provider()"
        ),
    ),
    "a meter provider alone": Setup(
        program="""
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
metrics.set_meter_provider(MeterProvider())
"""
        + MEASURED,
        variables=FINE,
        first=(
            "traces: no provider is set, and so no span is made: the one for metrics was set by the application"
            " → set a tracer provider as well: opentelemetry.trace.set_tracer_provider()"
        ),
    ),
    "no distro": Setup(
        program=STREAM,
        variables=FINE,
        command=("{launcher}", "{python}", "app.py"),
        first=(
            "distro: opentelemetry-instrument finds no distro, and sets up no SDK: spans of other instrumentations are not recorded"
            " → pip install opentelemetry-distro, or set up the SDK in the program"
        ),
    ),
    "the instrumentation is disabled": Setup(
        program=STREAM,
        variables={**FINE, "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "itl_groq"},
        command=("{launcher}", "{python}", "app.py"),
        first=(
            "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS: disables itl_groq: streams are measured only because of the doctor"
            " → remove those names from OTEL_PYTHON_DISABLED_INSTRUMENTATIONS"
        ),
    ),
    # --- What only `otel-itl run` measures -----------------------------------------------------------------------
    "no stream under otel-itl run": Setup(
        program=ASK,
        variables=FINE,
        command=("{python}", "-m", "otel_itl", "run", "--quiet", "app.py"),
        first=(
            "streams: the program has made no stream that is measured: no request, or none with stream=True"
            " → ask for a stream in the calls that docs/supported.md lists, and let the program make one"
        ),
    ),
}
ENDPOINTS: Final[Mapping[str, Setup]] = {
    "nothing listens, by gRPC": Setup(
        variables={"OTEL_EXPORTER_OTLP_ENDPOINT": "{refused}", "OTEL_EXPORTER_OTLP_TIMEOUT": "1"},
        first=(
            "traces, metrics, logs: {refused_host} (grpc) refuses the connection"
            " → start a Collector there, or set OTEL_EXPORTER_OTLP_ENDPOINT to where one listens; without a Collector: otel-itl run, or OTEL_ITL_FILE=otel-itl.jsonl and no OTEL_EXPORTER_OTLP_ENDPOINT"
        ),
    ),
    "nothing listens, by HTTP": Setup(
        variables=over_http("{refused}"),
        first=(
            "traces: {refused}/v1/traces (http/protobuf) refuses the connection"
            " → start a Collector there, or set OTEL_EXPORTER_OTLP_ENDPOINT to where one listens; without a Collector: otel-itl run, or OTEL_ITL_FILE=otel-itl.jsonl and no OTEL_EXPORTER_OTLP_ENDPOINT"
        ),
    ),
    "gRPC to a port for HTTP": Setup(
        variables={"OTEL_EXPORTER_OTLP_ENDPOINT": "{http}"},
        first=(
            "traces, metrics, logs: {host} (grpc) closes the connection without an answer"
            " → set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf, or name the port for gRPC (usually 4317)"
        ),
    ),
    "HTTP to a port for gRPC": Setup(
        variables=over_http("{grpc}"),
        first=(
            "traces: {grpc}/v1/traces (http/protobuf) closes the connection without an answer"
            " → set OTEL_EXPORTER_OTLP_PROTOCOL=grpc, or name the port for HTTP (usually 4318); where it has TLS, begin the endpoint with https://"
        ),
    ),
    "TLS to a plain port, by gRPC": Setup(
        variables={"OTEL_EXPORTER_OTLP_ENDPOINT": "https://{host}"},
        first=(
            "traces, metrics, logs: {host} (grpc) fails the TLS handshake"
            " → set OTEL_EXPORTER_OTLP_CERTIFICATE to the file of its certificate authority; or, for an endpoint without TLS, begin OTEL_EXPORTER_OTLP_ENDPOINT with http://"
        ),
    ),
    "TLS to a plain port, by HTTP": Setup(
        variables=over_http("https://{host}"),
        first=(
            "traces: https://{host}/v1/traces (http/protobuf) fails the TLS handshake"
            " → set OTEL_EXPORTER_OTLP_CERTIFICATE to the file of its certificate authority; or, for an endpoint without TLS, begin OTEL_EXPORTER_OTLP_ENDPOINT with http://"
        ),
    ),
    "plain to a port with TLS": Setup(
        variables=over_http("{tls_as_http}"),
        first=(
            "traces: {tls_as_http}/v1/traces (http/protobuf) closes the connection without an answer"
            " → set OTEL_EXPORTER_OTLP_PROTOCOL=grpc, or name the port for HTTP (usually 4318); where it has TLS, begin the endpoint with https://"
        ),
    ),
    "a certificate of one's own": Setup(
        variables=over_http("{tls}"),
        first=(
            "traces: {tls}/v1/traces (http/protobuf) fails the TLS handshake"
            " → set OTEL_EXPORTER_OTLP_CERTIFICATE to the file of its certificate authority; or, for an endpoint without TLS, begin OTEL_EXPORTER_OTLP_ENDPOINT with http://"
        ),
    ),
    "no scheme": Setup(
        variables=over_http("{host}"),
        first=(
            "traces: {host}/v1/traces (http/protobuf) has no scheme"
            " → begin OTEL_EXPORTER_OTLP_ENDPOINT with http:// (or https://)"
        ),
    ),
    "another path": Setup(
        variables=over_http("{http}/404"),
        first=(
            "traces: {http}/…/v1/traces (http/protobuf) answers 404: it takes no traces there"
            " → correct OTEL_EXPORTER_OTLP_ENDPOINT (or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT): /v1/traces is added to OTEL_EXPORTER_OTLP_ENDPOINT alone"
        ),
    ),
    "a user interface": Setup(
        variables=over_http("{http}/page"),
        first=(
            "traces: {http}/page/v1/traces (http/protobuf) answers with a web page: it is no OTLP endpoint, but perhaps the user interface of the backend"
            " → set OTEL_EXPORTER_OTLP_ENDPOINT (or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT) to the port for OTLP (usually 4318, or 4317 for gRPC)"
        ),
    ),
    "a redirection to TLS": Setup(
        variables=over_http("{http}/301"),
        first=(
            "traces: {http}/…/v1/traces (http/protobuf) answers 301: it redirects, which exporters do not follow"
            " → set OTEL_EXPORTER_OTLP_ENDPOINT (or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT) to where it redirects, such as https:// in the place of http://"
        ),
    ),
    "no key": Setup(
        variables=over_http("{http}/401"),
        first=(
            "traces: {http}/…/v1/traces (http/protobuf) answers 401: the credentials are missing or wrong"
            " → set OTEL_EXPORTER_OTLP_HEADERS (or OTEL_EXPORTER_OTLP_TRACES_HEADERS), such as authorization=Bearer%20KEY, as the backend documents it"
        ),
    ),
    "a wrong key": Setup(
        variables=over_http("{http}/403"),
        first=(
            "traces: {http}/…/v1/traces (http/protobuf) answers 403: the credentials are missing or wrong"
            " → set OTEL_EXPORTER_OTLP_HEADERS (or OTEL_EXPORTER_OTLP_TRACES_HEADERS), such as authorization=Bearer%20KEY, as the backend documents it"
        ),
    ),
    "too large": Setup(
        variables=over_http("{http}/413"),
        first=(
            "traces: {http}/…/v1/traces (http/protobuf) answers 413: what is sent at once is too large for it"
            " → set OTEL_BSP_MAX_EXPORT_BATCH_SIZE=64, or raise the limit of the backend or of the proxy before it"
        ),
    ),
    "another encoding": Setup(
        variables=over_http("{http}/415"),
        first=(
            "traces: {http}/…/v1/traces (http/protobuf) answers 415: it does not understand http/protobuf"
            " → set OTEL_EXPORTER_OTLP_PROTOCOL=grpc, or name the port for HTTP (usually 4318)"
        ),
    ),
    "gzip is not accepted": Setup(
        variables=over_http("{http}/415", OTEL_EXPORTER_OTLP_COMPRESSION="gzip"),
        first=(
            "traces: {http}/…/v1/traces (http/protobuf) answers 415 to a request that gzip compresses"
            " → unset OTEL_EXPORTER_OTLP_COMPRESSION, or have the backend accept gzip"
        ),
    ),
    "too often": Setup(
        variables=over_http("{http}/429"),
        first=(
            "traces: {http}/…/v1/traces (http/protobuf) answers 429: it limits how much it takes"
            " → send less often (OTEL_BSP_SCHEDULE_DELAY), or have the limit raised"
        ),
    ),
    "the backend fails": Setup(
        variables=over_http("{http}/503"),
        first=(
            "traces: {http}/…/v1/traces (http/protobuf) answers 503"
            " → look for the reason in the log of the backend or the Collector"
        ),
    ),
    "no such host": Setup(
        variables=over_http("http://collector.invalid:4318"),
        first=(
            "traces: http://collector.invalid:4318/v1/traces (http/protobuf) has a host name that does not resolve"
            " → correct the host in OTEL_EXPORTER_OTLP_ENDPOINT"
        ),
    ),
    "no answer in time": Setup(
        variables=over_http("{silent}", OTEL_EXPORTER_OTLP_TIMEOUT="1", OTEL_BSP_EXPORT_TIMEOUT="500"),
        first=(
            "traces: {silent}/v1/traces (http/protobuf) does not answer within 3 s"
            " → check that the host and the port of OTEL_EXPORTER_OTLP_ENDPOINT can be reached from here"
        ),
    ),
    "a proxy in the way": Setup(
        variables=over_http("http://collector.example:4318", HTTP_PROXY="{refused}", NO_PROXY="127.0.0.1"),
        first=(
            "traces: http://collector.example:4318/v1/traces (http/protobuf) is asked through the proxy of HTTP_PROXY, which does not reach it"
            " → add its host to NO_PROXY, or correct HTTP_PROXY"
        ),
    ),
    "metrics are not taken": Setup(
        variables={
            **over_http("{http}/200"),
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "{http}/404/v1/metrics",
            "OTEL_METRICS_EXPORTER": "otlp",
        },
        first=(
            "metrics: {http}/…/v1/metrics (http/protobuf) answers 404: it takes no metrics"
            " → set OTEL_METRICS_EXPORTER=none"
        ),
    ),
}
