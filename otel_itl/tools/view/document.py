"""Describes a stream as one JSON object for the page: who, when, the figures of the report, and its packed chunks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from time import time_ns
from typing import Any, Final

from otel_itl.core.measures import Measures
from otel_itl.core.timeline import MICROSECOND
from otel_itl.tools.report.certainty import find_error, find_uncertainty_cause
from otel_itl.tools.report.reading.span_facts import StallFacts
from otel_itl.tools.report.reading.streams import UNKNOWN, Identity, StoredStream
from otel_itl.tools.report.render.number_format import ABSENT, make_printable
from otel_itl.tools.report.selection import find_attribute
from otel_itl.tools.report.set_aside import find_set_aside_cause
from otel_itl.tools.report.slo import read_verdict
from otel_itl.tools.report.stalls import collect_stalls
from otel_itl.tools.view.moments import draw_chunks
from otel_itl.tools.view.packing import pack_chunks, pack_samples

MAX_TEXT: Final = 200
"""Characters of a name or an id; a longer one is cut. The page shows them, and they may come from anywhere."""

_MICROSECONDS: Final = 1_000_000

_POOLED: Final = {"TTFT": "time_to_first_token", "ITL": "itl_p99", "TPOT": "time_per_output_token"}
"""Name of a figure that is pooled over streams → the field of `Measures` that shows how well it is known."""


def describe_stream(stream: StoredStream, by: str | None = None) -> dict[str, Any]:
    """Describe a stream that has ended. Times are seconds; moments are microseconds after the request.

    A key is absent where its value is not known. `by`: as for `name_model`.
    """
    stream = replace(stream, model=name_model(stream.model, stream.span_facts.attributes, by))
    timeline, facts = stream.timeline, stream.span_facts
    stalls = collect_stalls(stream)
    described = describe_head((stream.trace_id, stream.span_id), stream, timeline.request_unix_ns, facts.session_id)
    described |= {
        "end": timeline.end // MICROSECOND,
        "headers": None if timeline.headers is None else timeline.headers // MICROSECOND,
        "outcome": timeline.outcome.value,
        "error": facts.error_type and cut(facts.error_type),
        "input": timeline.input_tokens,
        "reasoning": timeline.reasoning_tokens,
        "attempts": timeline.attempts,
        "measures": describe_measures(stream.measures),
        "host_bound": facts.is_host_bound or None,
        "stalls": [describe_stall(stall) for stall in stalls if stall.start is not None],
        "more_stalls": sum(stall.count for stall in stalls if stall.start is None) or None,
        "t": pack_chunks(draw_chunks(timeline), timeline.choices),
        "thinned": sum(timeline.skipped) + timeline.unrecorded or None,
    }
    if facts.session is not None:
        described |= {"turn": facts.session.request_index, "ratio": _rounded(facts.session.latency_ratio)}
        described |= {"degraded": facts.session.degraded or None, "scope": facts.session.scope}
    if facts.slo is not None:
        verdict = read_verdict(stream)
        described["slo"] = without_none(
            {
                "profile": cut(facts.slo.profile),
                "verdict": verdict and verdict.value,
                "ttft": facts.slo.ttft,
                "itl": facts.slo.itl,
            }
        )
    return without_none(described | describe_errors(stream))


def describe_head(
    key: tuple[str, str], names: StoredStream | Identity, request_unix_ns: int, session_id: str | None
) -> dict[str, Any]:
    """Describe who a stream is and when it was requested; `key`: trace id and span id."""
    described = {
        "id": stream_id(*key, request_unix_ns),
        "trace": key[0],
        "span": key[1],
        "provider": cut(names.provider),
        "model": cut(names.model),
        "operation": cut(names.operation),
        "session": session_id and cut(session_id),
        "start": request_unix_ns // MICROSECOND,
    }
    return without_none(described)


def name_model(model: str, attributes: Mapping[str, Any], by: str | None) -> str:
    """Return the name of a model, with the value of the attribute that models are split by; None: they are not."""
    return model if by is None else f"{model}, {find_attribute(attributes, by) or ABSENT}"


def describe_errors(stream: StoredStream) -> dict[str, Any]:
    """Return by how much figures of a stream may be off, why, and which are not known; empty where all are exact."""
    measures = stream.measures
    aside = {name: find_set_aside_cause(stream, field) for name, field in _POOLED.items()}
    left_out = [name for name, cause in aside.items() if cause is not None]
    if not measures.bounds and not left_out:
        return {}
    why = next((cause for cause in aside.values() if cause is not None), None) or find_uncertainty_cause(stream)
    errors = {field: _rounded(find_error(measures, field)) for field in measures.bounds}
    above = {field: _rounded(find_error(measures, field, is_above=True)) for field in measures.bounds}
    has_bounds = "ITL" not in left_out and "itl_mean" in measures.bounds
    return {
        "low": pack_samples(measures.sample_bounds.lowest) if has_bounds else None,
        "high": pack_samples(measures.sample_bounds.highest) if has_bounds else None,
        "errors": without_none(errors) or None,
        "above": without_none(above) or None,
        "why": why.words,
        "left_out": left_out or None,
    }


def describe_measures(measures: Measures) -> dict[str, Any]:
    """Return the figures of a stream by their fields, without those that are unknown, zero or False."""
    figures = measures._asdict().items()
    return {field: _rounded(value) for field, value in figures if isinstance(value, (int, float)) and value}


def describe_stall(stall: StallFacts) -> dict[str, Any]:
    """Return a stall of which it is known when it began. `waited` is without the time for which the caller held."""
    start = round((stall.start or 0.0) * _MICROSECONDS)
    return without_none(
        {
            "at": start,
            "waited": round(stall.duration * _MICROSECONDS),
            "phase": stall.phase and cut(stall.phase),
            "cause": stall.cause and cut(stall.cause),
            "alive": stall.is_alive or None,
        }
    )


def put_on_side(described: dict[str, Any], side: int) -> dict[str, Any]:
    """Return the description of a stream as one of a side of a comparison: the same stream may be on several."""
    prefix, identifier = f"{side}.", described["id"]
    return described | {"id": identifier if identifier.startswith(prefix) else prefix + identifier, "side": side}


def number_same_names(names: Sequence[str]) -> list[str]:
    """Return names, with a number behind those that occur several times: the page filters sides by their names."""
    names = [cut(name) for name in names]
    return [name if names.count(name) == 1 else f"{name} ({place})" for place, name in enumerate(names, 1)]


def describe_page(streams: Iterable[dict[str, Any]], name: str, more: dict[str, Any]) -> dict[str, Any]:
    """Return the document of a page that shows these streams and no others, newest first; `made` is now, in µs.

    Args:
        streams: as `describe_stream` returns them. Where `more` has `sides`, each has its `side` as well: the index of
            its name. The page then draws all sides in the same pictures.
        name: of the input, for the title.
        more: further keys: `sides` (names), `headline` (what is said above the pictures), and others.
    """
    if "sides" in more:
        more = more | {"sides": number_same_names(more["sides"])}
        streams = (put_on_side(stream, stream["side"]) for stream in streams)
    newest_first = sorted(streams, key=lambda stream: -stream["start"])
    made = time_ns() // MICROSECOND
    return {"schema": "otel-itl.view.v1", "name": cut(name), "made": made, "streams": newest_first, **more}


def stream_id(trace_id: str, span_id: str, request_unix_ns: int) -> str:
    """Return the identifier of a stream on the page: its span, and the request's time, as a span may have several."""
    return f"{trace_id or UNKNOWN}-{span_id}-{request_unix_ns // MICROSECOND:x}"


def cut(text: str) -> str:
    """Return a text of at most `MAX_TEXT` characters, none of which changes how those around it are shown."""
    text = make_printable(text)
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


def without_none(values: dict[str, Any]) -> dict[str, Any]:
    """Return the entries of which the value is known."""
    return {key: value for key, value in values.items() if value is not None}


def _rounded(value: Any) -> Any:
    """Return a float with six digits behind the point, which is microseconds; anything else as it is."""
    return round(value, 6) if isinstance(value, float) else value
