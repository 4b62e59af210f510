"""What `otel-itl COMMAND --help` prints above and below the options."""

from __future__ import annotations

from typing import Final

EXAMPLES = """\
examples:
  otel-itl run app.py                 measure a program, and report at its end
  otel-itl doctor                     find out what is missing
  otel-itl demo                       watch streams while they are measured
  otel-itl report spans.jsonl         latency by model, and the worst stream
  otel-itl report --json *.jsonl.gz   the same as JSON
  ssh host cat spans.jsonl | otel-itl report -
"""
REPORT = """\
Report the latency of the streams in OTLP JSON files, by provider and model:
time to first token, inter-token latency, and outcomes; and the stream with the
longest wait for a token, drawn over time. Where there are any: stalls by phase
and cause, how many streams met their SLO, and sessions, the worst first.
"""
REPORT_EXAMPLES = """\
examples:
  otel-itl report spans.jsonl
  otel-itl report spans.jsonl logs.jsonl.gz
  otel-itl report --json spans.jsonl | jq .rows[].inter_token_latency.p99
  otel-itl report --as vllm spans.jsonl
  otel-itl report --slo 0.5/0.05@0.995 spans.jsonl
  otel-itl report --session agent-7 spans.jsonl
  otel-itl report --explain --zone Europe/Berlin fleet/*.jsonl.gz

exit codes:
  0  a report was made
  1  too few streams to explain anything (--explain)
  2  bad usage, or a file that cannot be read or has no usable stream
"""
DEMO = """\
Measure real SDK clients that stream from a server on this machine, which plays
smooth, bursty, slow, stalling, degrading and breaking models. Stalls are
printed while they last, then a report on all streams.
"""
DEMO_EXAMPLES = """\
Telemetry goes to a new file of OTLP JSON lines; or, if no --output is given, to
where the environment directs it (OTEL_EXPORTER_OTLP_ENDPOINT,
OTEL_TRACES_EXPORTER and the like).

examples:
  otel-itl demo
  otel-itl demo --seconds 3 --seed 7
  otel-itl demo --sdk openai,groq
  OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4317 otel-itl demo

exit codes:
  0    streams were measured
  1    no stream was measured
  2    bad usage, a missing SDK, a port in use, or a file that exists
  130  interrupted, with the report on what was measured so far, or without one
"""
RUN = """\
Run a program, measure its streams without a line of code in it, and report on
them on standard error at its end. Every Python process that it starts is
measured, too. Its input, output, signals and exit code are its own.

COMMAND is a Python file, -m and a module, or any command. What follows COMMAND
belongs to it.
"""
RUN_EXAMPLES = """\
Telemetry goes to a new file of OTLP JSON lines, and to an endpoint or exporter
that the environment names (OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_EXPORTER
and the like).

examples:
  otel-itl run app.py --model gpt-5-mini
  otel-itl run -m chat.worker
  otel-itl run -o chat.jsonl uvicorn app:app --workers 2
  OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4317 otel-itl run app.py

exit codes:
  those of the program; where a signal ended it, the same signal ends otel-itl
  2    bad usage, a file that does not exist or cannot be used; nothing was run
  126  the command cannot be executed
  127  there is no such command
"""
DOCTOR = """\
Check the installation, and print what is not fine with its remedy: packages,
SDKs and what wraps them, OpenTelemetry's providers and exporters, whether the
endpoints accept telemetry, and variables that switch something off. A stream
of a scripted model is sent through, marked with itl.test and in no metric.

With COMMAND, all this is examined inside the program, when its first stream
has ended or at its end; its standard output goes to standard error.
"""
DOCTOR_EXAMPLES = """\
examples:
  otel-itl doctor
  otel-itl doctor app.py --model gpt-5-mini
  otel-itl doctor --json uvicorn app:app | jq '.checks[] | select(.remedy)'

exit codes:
  0  all is fine
  1  something is not fine
  2  bad usage, or the program cannot be started
"""
VIEW = """\
Show streams on a page in the browser: a row for each with a tick per chunk,
stalls while they last, latency over time, sessions and models. Without FILE,
telemetry is received (OTLP over HTTP and gRPC, from this machine alone); with
FILE, what the files hold is shown, and what is appended to them.
"""
VIEW_EXAMPLES = """\
examples:
  otel-itl view
  otel-itl view spans.jsonl
  otel-itl view --port 8080 --grpc-port off --no-open
  OTEL_ITL_PROGRESS=0.25 opentelemetry-instrument python app.py

exit codes:
  0    ended by Ctrl-C
  2    bad usage, a port in use, or a file that cannot be read
"""
COMPARE = """\
Compare two sides, model by model and over all models: is B slower than A, the
same, or is that not known? Whole sessions are resampled, as the gaps of a
request and the requests of a session are alike; docs/compare.md says how. Where
chunks may have come before they were delivered, an answer counts only if it is
the same with the least that all figures can be.
"""
COMPARE_EXAMPLES = """\
examples:
  otel-itl compare before.jsonl after.jsonl
  otel-itl compare --by service.version week.jsonl
  otel-itl compare --by gen_ai.request.model=gpt-5-mini,gpt-5 week.jsonl
  otel-itl compare --before 2026-11-01T12:00Z week.jsonl
  otel-itl compare --markdown --fail-on itl_p50,ttft_p50 main.jsonl branch.jsonl
  otel-itl compare --otava runs.csv runs/*.jsonl

exit codes:
  0  B is the same or faster
  1  B is slower
  2  bad usage, or a file that cannot be read or has no usable stream
  3  it is not known: not enough data, or the caller's machine decides
"""
SWEEP = """\
Drive an endpoint of yours from its expected peak to five times that, and find
how many streams it carries within an objective. Requests are due by the clock,
whether or not earlier ones have ended, and their latency counts from the moment
when they were due. Any OpenAI-compatible or Anthropic endpoint is asked through
the SDK, with its key from the environment, without retries and redirects.

A host that is not this machine is asked about first. Ctrl-C ends it, and
reports on what was measured; docs/sweep.md has the method.
"""
SWEEP_EXAMPLES = """\
examples:
  otel-itl sweep http://localhost:8000/v1 --model llama --peak 24 --slo chat
  otel-itl sweep http://localhost:8000/v1 --model llama --from week.jsonl
  otel-itl sweep https://api.openai.com/v1 --model gpt-5-mini --peak 4 \\
      --levels 1,2 --prices in=0.25,out=2 --max-cost 5 --slo 800ms/50ms
  otel-itl sweep http://localhost:8000 --api anthropic --model m --peak 8 --json

exit codes:
  0    the objective holds at the expected peak, or none is given
  1    it does not hold at the expected peak
  2    bad usage, a file that cannot be read or has no usable stream, or an
       endpoint that cannot be asked
  3    it is not known: no round counts, or an interval contains the objective
  130  ended by Ctrl-C, with a report on what was measured
"""
BY_COMMAND: Final = {
    "run": (RUN, RUN_EXAMPLES),
    "doctor": (DOCTOR, DOCTOR_EXAMPLES),
    "report": (REPORT, REPORT_EXAMPLES),
    "view": (VIEW, VIEW_EXAMPLES),
    "compare": (COMPARE, COMPARE_EXAMPLES),
    "sweep": (SWEEP, SWEEP_EXAMPLES),
    "demo": (DEMO, DEMO_EXAMPLES),
}
"""Command → its description and its examples."""
