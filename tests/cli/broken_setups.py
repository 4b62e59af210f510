"""Set-ups that do not work: what users get wrong, and the first sentence that the doctor has for each."""

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
    "instrument is never called": Setup(program=STREAM, variables=FINE, first=""),
    "instrument is called after the first stream": Setup(
        program=STREAM + "import otel_itl\notel_itl.instrument()\nask(stream=True)\n", variables=FINE, first=""
    ),
    "instrument is called in the parent, after the fork": Setup(
        program=ASK + """
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
        first="",
    ),
    "uninstrument is called before the stream": Setup(
        program="import otel_itl\notel_itl.instrument()\notel_itl.uninstrument()\n" + STREAM, variables=FINE, first=""
    ),
    "the program fails before its first stream": Setup(
        program="import otel_itl\notel_itl.instrument(slo='chatt')\n" + STREAM, variables=FINE, first=""
    ),
    "the program fails in its first stream": Setup(
        program=MEASURED, variables={**FINE, "GROQ_BASE_URL": "http://127.0.0.1:9"}, first=""
    ),
    "the program exits with a failure": Setup(program="import sys\nsys.exit(3)\n", variables=FINE, first=""),
    "the program is killed": Setup(
        program=MEASURED + "import os, time\ntime.sleep(0.5)\nos.kill(os.getpid(), 9)\n", variables=FINE, first=""
    ),
    "a forked worker leaves by os._exit": Setup(
        program="import otel_itl\notel_itl.instrument()\n" + PROVIDER + ASK + """
import os
child = os.fork()
if not child:
    ask(stream=True)
    os._exit(0)
os.waitpid(child, 0)
""",
        variables=FINE,
        first="",
    ),
    "no request is a stream": Setup(program="import otel_itl\notel_itl.instrument()\n" + ASK, variables=FINE, first=""),
    "the program streams by an HTTP client": Setup(
        program="import otel_itl, httpx\notel_itl.instrument()\n", variables=FINE, first=""
    ),
    "the program does nothing": Setup(program="import otel_itl\notel_itl.instrument()\n", variables=FINE, first=""),
    "the interpreter ignores the environment": Setup(command=("{python}", "-I", "app.py"), first=""),
    # --- Packages ---------------------------------------------------------------------------------------------------
    "the SDK is too old": Setup(
        program="import otel_itl, groq\notel_itl.instrument()\n",
        files={
            "groq/__init__.py": "",
            "groq-0.5.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: groq\nVersion: 0.5.0\n",
        },
        variables=FINE,
        first="",
    ),
    "the SDK has been rewritten": Setup(
        program="import otel_itl, groq\notel_itl.instrument()\n",
        files={
            "groq/__init__.py": "",
            "groq-1.9.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: groq\nVersion: 1.9.0\n",
        },
        variables=FINE,
        first="",
    ),
    "two releases of OpenTelemetry": Setup(
        files={
            "opentelemetry_api-1.38.0.dist-info/METADATA": (
                "Metadata-Version: 2.1\nName: opentelemetry-api\nVersion: 1.38.0\n"
            )
        },
        variables=FINE,
        first="",
    ),
    # --- The environment --------------------------------------------------------------------------------------------
    "OTEL_SDK_DISABLED": Setup(variables={**FINE, "OTEL_SDK_DISABLED": "true"}, first=""),
    "OTEL_ITL_DISABLED": Setup(variables={**FINE, "OTEL_ITL_DISABLED": "true"}, first=""),
    "a sampler that drops all": Setup(variables={**FINE, "OTEL_TRACES_SAMPLER": "always_off"}, first=""),
    "a ratio of zero": Setup(
        variables={**FINE, "OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"}, first=""
    ),
    "every exporter is none": Setup(variables={**FINE, "OTEL_TRACES_EXPORTER": "none"}, first=""),
    "an exporter that is not installed": Setup(variables={**FINE, "OTEL_TRACES_EXPORTER": "zipkin"}, first=""),
    "a protocol that does not exist": Setup(variables={**FINE, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, first=""),
    "a misspelled variable": Setup(
        variables={**FINE, "OTEL_EXPORTER_OLTP_HEADERS": "a=b"}, first=""
    ),
    "a misspelled option": Setup(variables={**FINE, "OTEL_ITL_STALLS": "2"}, first=""),
    "quotation marks of a file for Docker": Setup(variables=over_http('"{http}/200"'), first=""),
    "a header with a colon": Setup(
        variables={**FINE, "OTEL_EXPORTER_OTLP_HEADERS": "authorization: Bearer key"}, first=""
    ),
    "a configuration file without a set-up": Setup(variables={**FINE, "OTEL_CONFIG_FILE": "otel.yaml"}, first=""),
    "the SDK is left out": Setup(variables={**FINE, "OTEL_ITL_SDKS": "openai"}, first=""),
    # --- Providers --------------------------------------------------------------------------------------------------
    "a provider is set after the first stream": Setup(
        program=MEASURED + PROVIDER, variables=over_http("{refused}"), first=""
    ),
    "a provider without an exporter": Setup(
        program="""
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())
"""
        + MEASURED,
        variables=FINE,
        first="",
    ),
    "each span is sent at once": Setup(
        program=PROVIDER.replace("(BatchSpanProcessor(", "(SimpleSpanProcessor(") + MEASURED, variables=FINE, first=""
    ),
    "objectives without metrics": Setup(
        program=PROVIDER + MEASURED.replace("instrument()", "instrument(slo='chat')"), variables=FINE, first=""
    ),
    "a meter provider alone": Setup(
        program="""
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
metrics.set_meter_provider(MeterProvider())
"""
        + MEASURED,
        variables=FINE,
        first="",
    ),
    "no distro": Setup(
        program=STREAM, variables=FINE, command=("{launcher}", "{python}", "app.py"), first=""
    ),
    "the instrumentation is disabled": Setup(
        program=STREAM,
        variables={**FINE, "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "itl_groq"},
        command=("{launcher}", "{python}", "app.py"),
        first="",
    ),
    # --- Endpoints --------------------------------------------------------------------------------------------------
    "nothing listens, by gRPC": Setup(
        variables={"OTEL_EXPORTER_OTLP_ENDPOINT": "{refused}", "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}, first=""
    ),
    "nothing listens, by HTTP": Setup(variables=over_http("{refused}"), first=""),
    "gRPC to a port for HTTP": Setup(variables={"OTEL_EXPORTER_OTLP_ENDPOINT": "{http}"}, first=""),
    "HTTP to a port for gRPC": Setup(variables=over_http("{grpc}"), first=""),
    "TLS to a plain port, by gRPC": Setup(variables={"OTEL_EXPORTER_OTLP_ENDPOINT": "https://{host}"}, first=""),
    "TLS to a plain port, by HTTP": Setup(variables=over_http("https://{host}"), first=""),
    "plain to a port with TLS": Setup(variables=over_http("{tls_as_http}"), first=""),
    "a certificate of one's own": Setup(variables=over_http("{tls}"), first=""),
    "no scheme": Setup(variables=over_http("{host}"), first=""),
    "the path of traces": Setup(variables=over_http("{http}/404/v1/traces"), first=""),
    "another path": Setup(variables=over_http("{http}/404"), first=""),
    "a user interface": Setup(variables=over_http("{http}/page"), first=""),
    "a redirection to TLS": Setup(variables=over_http("{http}/301"), first=""),
    "no key": Setup(variables=over_http("{http}/401"), first=""),
    "a wrong key": Setup(variables=over_http("{http}/403"), first=""),
    "too large": Setup(variables=over_http("{http}/413"), first=""),
    "another encoding": Setup(variables=over_http("{http}/415"), first=""),
    "gzip is not accepted": Setup(
        variables=over_http("{http}/415", OTEL_EXPORTER_OTLP_COMPRESSION="gzip"), first=""
    ),
    "too often": Setup(variables=over_http("{http}/429"), first=""),
    "the backend fails": Setup(variables=over_http("{http}/503"), first=""),
    "no such host": Setup(variables=over_http("http://collector.invalid:4318"), first=""),
    "no answer in time": Setup(
        variables=over_http("{silent}", OTEL_EXPORTER_OTLP_TIMEOUT="1", OTEL_BSP_EXPORT_TIMEOUT="500"), first=""
    ),
    "a proxy in the way": Setup(
        variables=over_http("http://collector.example:4318", HTTP_PROXY="{refused}", NO_PROXY="127.0.0.1"), first=""
    ),
    "metrics are not taken": Setup(
        variables={**over_http("{http}/200"), "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "{http}/404/v1/metrics", "OTEL_METRICS_EXPORTER": "otlp"}, first=""
    ),
    # --- What only `otel-itl run` measures -----------------------------------------------------------------------
    "no stream under otel-itl run": Setup(
        program=ASK, variables=FINE, command=("{python}", "-m", "otel_itl", "run", "--quiet", "app.py"), first=""
    ),
}
