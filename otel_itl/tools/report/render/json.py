"""Renders a report as JSON; docs/report.md has the schema."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from otel_itl.core.measures import Measures
from otel_itl.core.metric_conventions import LATENCY_BUCKETS
from otel_itl.core.timeline import SECOND
from otel_itl.tools.report.certainty import find_error
from otel_itl.tools.report.json_text import encode_json
from otel_itl.tools.report.model_summary import ModelSummary
from otel_itl.tools.report.other_tools import TOOLS
from otel_itl.tools.report.sessions import RequestSummary, SessionSummary
from otel_itl.tools.report.slo import Verdict
from otel_itl.tools.report.summary import Report
from otel_itl.tools.report.worst_stream import WorstStream

SCHEMA = "otel-itl.report.v1"

_LATENCIES = (
    "time_to_first_token",
    "inter_token_latency",
    "latency_buckets",
    "time_per_output_token",
    "output_speed",
    "known",
)
"""Our own figures of a row, which another tool's figures replace."""

_FIGURES_OF_REQUEST = ("duration", "time_to_first_token", "itl_p50", "itl_p99", "itl_mean")


def report_to_json(report: Report, session: SessionSummary | None = None) -> str:
    """Return the report as indented JSON, with `session` in full. Times are seconds; what is absent is null."""
    return encode_json(report_to_data(report, session), is_indented=True).decode()


def report_to_data(report: Report, session: SessionSummary | None = None) -> dict[str, Any]:
    """Return the report in the types of JSON, with stable keys, and `session` in full."""
    return {
        "schema": SCHEMA,
        **_tool_to_data(report.tool),
        "streams": report.streams,
        "rows": [_model_to_data(row) for row in report.rows],
        "worst": None if report.worst is None else _worst_to_data(report.worst),
        "slo": [asdict(summary) for summary in report.slo],
        "sessions": [_session_to_data(summary, in_full=False) for summary in report.sessions],
        "session": None if session is None else _session_to_data(session, in_full=True),
        "skipped_input": report.skipped_input,
    }


def _tool_to_data(tool: str | None) -> dict[str, Any]:
    """Return the keys that depend on whose figures the report has."""
    if tool is None:
        return {"as": None, "latency_bucket_edges": list(LATENCY_BUCKETS)}
    definition = TOOLS[tool]
    return {
        "as": tool,
        "version": definition.version,
        "assumes": definition.assumes or None,
        "counts": definition.tokens.words,
        "ends": definition.ends,
        "percentiles": definition.percentiles.words,
        "formulas": definition.formulas,
    }


def _model_to_data(model: ModelSummary) -> dict[str, Any]:
    unwanted = ("figures",) if model.figures is None else _LATENCIES
    return {key: value for key, value in asdict(model).items() if key not in unwanted}


def _worst_to_data(worst: WorstStream) -> dict[str, Any]:
    """Return the worst stream with its facts and the place of its longest gap."""
    stream, gap = worst.stream, worst.gap
    ours = {
        "time_to_first_token": stream.measures.time_to_first_token,
        "time_to_first_token_uncertainty": find_error(stream.measures, "time_to_first_token"),
    }
    return {
        "provider": stream.provider,
        "model": stream.model,
        "operation": stream.operation,
        "trace_id": stream.trace_id,
        "span_id": stream.span_id,
        "where": stream.where,
        "outcome": stream.timeline.outcome.value,
        "duration": stream.measures.duration,
        **(ours if worst.figures is None else {"figures": dict(worst.figures)}),
        "output_chunks": stream.measures.output_chunk_count,
        "longest_latency": worst.longest,
        "longest_latency_uncertainty": find_error(stream.measures, "itl_max"),
        "longest_latency_uncertainty_above": find_error(stream.measures, "itl_max", is_above=True),
        "gap": gap and {"start": gap.start / SECOND, "end": gap.end / SECOND, "position": gap.position},
    }


def _session_to_data(session: SessionSummary, *, in_full: bool) -> dict[str, Any]:
    """Return a session with the number of its requests, or in full with each of them."""
    data: dict[str, Any] = {field.name: getattr(session, field.name) for field in fields(session)}
    data["requests"] = list(map(_request_to_data, session.requests)) if in_full else len(session.requests)
    return data | {"itl_mean_by_request": [request.measures.itl_mean for request in session.requests]}


def _request_to_data(request: RequestSummary) -> dict[str, Any]:
    """Return one request of a session, with its figures and the state of the session at its end."""
    data: dict[str, Any] = {field.name: getattr(request, field.name) for field in fields(request)}
    measures: Measures = data.pop("measures")
    return {
        **data.pop("state")._asdict(),
        **data,
        **{name: getattr(measures, name) for name in _FIGURES_OF_REQUEST},
        "time_to_first_token_uncertainty": find_error(measures, "time_to_first_token"),
        "itl_p99_uncertainty": find_error(measures, "itl_p99"),
        "itl_p99_uncertainty_above": find_error(measures, "itl_p99", is_above=True),
        "slo_met": {Verdict.MET: True, Verdict.MISSED: False}.get(data["slo_verdict"]),
    }
