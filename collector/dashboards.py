"""Write the Grafana dashboards of this folder: `python collector/dashboards.py`. The files are generated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "dashboards"

Panel = dict[str, Any]

_METRICS = {"type": "prometheus", "uid": "${metrics}"}
_TRACES = {"type": "tempo", "uid": "${traces}"}
_WIDTH = 24
_CHOSEN = 'job=~"$job", gen_ai_provider_name=~"$provider", gen_ai_request_model=~"$model"'
_BY_MODEL = "gen_ai_provider_name, gen_ai_request_model"
_MODEL = "{{gen_ai_provider_name}} {{gen_ai_request_model}}"


def _panel(kind: str, title: str, width: int, height: int, targets: list[dict[str, Any]], **options: Any) -> Panel:
    source = targets[0]["datasource"]
    lettered = [{"refId": chr(ord("A") + index), **target} for index, target in enumerate(targets)]
    return {
        "type": kind,
        "title": title,
        "datasource": source,
        "gridPos": {"w": width, "h": height},
        "targets": lettered,
        **options,
    }


def _query(expression: str, legend: str = "", **options: Any) -> dict[str, Any]:
    return {"datasource": _METRICS, "expr": expression, "legendFormat": legend, **options}


def _field(unit: str, **defaults: Any) -> dict[str, Any]:
    return {"defaults": {"unit": unit, "custom": {"showPoints": "never", "lineWidth": 1}, **defaults}, "overrides": []}


def lines(title: str, unit: str, *queries: dict[str, Any], width: int = 12, text: str = "") -> Panel:
    """Curves over time."""
    return _panel("timeseries", title, width, 8, list(queries), fieldConfig=_field(unit), description=text)


def number(title: str, unit: str, expression: str, *, bad_above: float | None = None, text: str = "") -> Panel:
    """One number, now."""
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if bad_above is not None:
        steps.append({"color": "red", "value": bad_above})
    field = _field(unit, thresholds={"mode": "absolute", "steps": steps})
    return _panel("stat", title, 4, 4, [_query(expression, instant=True)], fieldConfig=field, description=text)


def heatmap(title: str, expression: str, *, native: bool) -> Panel:
    """Draw a distribution over time."""
    query = _query(expression, "" if native else "{{le}}", format="heatmap")
    options = {"calculate": False, "yAxis": {"unit": "s"}, "color": {"scheme": "Oranges", "mode": "scheme"}}
    return _panel("heatmap", title, 12, 9, [query], options=options)


def heading(title: str) -> Panel:
    """Begin a row of panels that have a question in common."""
    return {"type": "row", "title": title, "collapsed": False, "gridPos": {"w": _WIDTH, "h": 1}, "targets": []}


def table(title: str, *queries: dict[str, Any]) -> Panel:
    """Make a table with a row for each provider and model and a column for each query."""
    targets = [{**query, "format": "table", "instant": True} for query in queries]
    hidden = {"Time": True, "quantile": True, "objective": True}
    renamed = {f"Value #{chr(ord('A') + index)}": query["legendFormat"] for index, query in enumerate(queries)}
    changes = [
        {"id": "merge", "options": {}},
        {"id": "organize", "options": {"excludeByName": hidden, "renameByName": renamed}},
    ]
    return _panel("table", title, 24, 9, targets, transformations=changes, fieldConfig=_field("s"))


def table_by_load(title: str, *queries: dict[str, Any], text: str) -> Panel:
    """Make a table with a row for each own load, model and job, and a column for each query."""
    targets = [{**query, "format": "table", "instant": True} for query in queries]
    values = {f"Value #{chr(ord('A') + index)}": query["legendFormat"] for index, query in enumerate(queries)}
    names = {"own_streams": "own streams", "gen_ai_provider_name": "provider", "gen_ai_request_model": "model"}
    changes: list[dict[str, Any]] = [
        {"id": "merge", "options": {}},
        {
            "id": "organize",
            "options": {"excludeByName": {"Time": True, "quantile": True}, "renameByName": {**names, **values}},
        },
        {
            "id": "convertFieldType",
            "options": {"conversions": [{"targetField": "own streams", "destinationType": "number"}]},
        },
        {"id": "sortBy", "options": {"sort": [{"field": "own streams"}]}},
    ]
    return _panel("table", title, 24, 9, targets, transformations=changes, fieldConfig=_field("s"), description=text)


def scatter(title: str, across: dict[str, Any], upwards: dict[str, Any]) -> Panel:
    """One query against another, a point for each moment."""
    changes = [{"id": "joinByField", "options": {"byField": "Time", "mode": "outer"}}]
    options = {"mapping": "auto", "series": [{}]}
    return _panel("xychart", title, 24, 10, [across, upwards], transformations=changes, options=options)


def found(title: str, condition: str, columns: str) -> Panel:
    """List the traces that a TraceQL query finds."""
    query = {
        "datasource": _TRACES,
        "queryType": "traceql",
        "query": f"{{ {condition} }} | select({columns})",
        "limit": 200,
        "tableType": "spans",
    }
    return _panel("table", title, 24, 10, [query])


def _variable(name: str, label: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": _METRICS,
        "query": f"label_values(itl_client_stream_outcomes_total, {label})",
        "refresh": 2,
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }


def _source(name: str, kind: str) -> dict[str, Any]:
    return {"name": name, "type": "datasource", "query": kind, "label": f"{kind.title()} data source"}


_CHOICES = [
    _source("metrics", "prometheus"),
    _source("traces", "tempo"),
    _variable("job", "job"),
    _variable("provider", "gen_ai_provider_name"),
    _variable("model", "gen_ai_request_model"),
]


def dashboard(uid: str, title: str, panels: list[Panel], *variables: dict[str, Any]) -> dict[str, Any]:
    """Make a dashboard with its panels laid out from left to right, row by row."""
    left, top, row_height = 0, 0, 0
    for number_, panel in enumerate(panels, start=1):
        place = panel["gridPos"]
        if left + place["w"] > _WIDTH:
            left, top, row_height = 0, top + row_height, 0
        place |= {"x": left, "y": top}
        panel["id"] = number_
        left, row_height = left + place["w"], max(row_height, place["h"])
    return {
        "uid": uid,
        "title": title,
        "tags": ["otel-itl"],
        "schemaVersion": 41,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [*_CHOICES, *variables]},
        "links": [{"type": "dashboards", "tags": ["otel-itl"], "title": "otel-itl", "asDropdown": True}],
        "panels": panels,
    }


def _quantiles(metric: str) -> list[dict[str, Any]]:
    """p50, p95 and p99 of all that is chosen, from native histograms or else classic ones."""
    return [
        _query(
            f"histogram_quantile({quantile}, sum(rate({metric}{{{_CHOSEN}}}[$__rate_interval]))) or "
            f"histogram_quantile({quantile}, sum by (le) (rate({metric}_bucket{{{_CHOSEN}}}[$__rate_interval])))",
            f"p{quantile * 100:g}",
            exemplar=True,
        )
        for quantile in (0.5, 0.95, 0.99)
    ]


def _quantile_by(metric: str, quantile: float, by: str) -> str:
    native = f"histogram_quantile({quantile}, sum by ({by}) (rate({metric}{{{_CHOSEN}}}[$__rate_interval])))"
    buckets = f"sum by ({by}, le) (rate({metric}_bucket{{{_CHOSEN}}}[$__rate_interval]))"
    return f"{native} or histogram_quantile({quantile}, {buckets})"


def _per_second(metric: str, by: str = "", more: str = "") -> str:
    rate = f"rate({metric}{{{_CHOSEN}{more}}}[$__rate_interval])"
    return f"sum by ({by}) ({rate})" if by else f"sum({rate})"


_ITL = "itl_client_inter_token_latency_seconds"
_TTFT = "itl_client_time_to_first_token_seconds"
_TPOT = "itl_client_time_per_output_token_seconds"
_OUTCOMES = "itl_client_stream_outcomes_total"
_STALLS = "itl_client_stalls_total"
_STREAMS = "itl_client_stream_count"


def fleet() -> dict[str, Any]:
    """Show the latency that users get, all in all, and what is left of the budget."""
    worst = f"min by (objective) (itl:slo:budget_left30d{{{_CHOSEN}}})"
    return dashboard(
        "otel-itl-fleet",
        "Streaming LLM: fleet",
        [
            number("Streams", "reqps", _per_second(_OUTCOMES)),
            number("p99 time to first token", "s", _quantiles(_TTFT)[2]["expr"]),
            number("p99 inter-token latency", "s", _quantiles(_ITL)[2]["expr"]),
            number("Open streams", "short", f"sum({_STREAMS}{{{_CHOSEN}}})"),
            number(
                "Of them stalled",
                "percentunit",
                f'sum({_STREAMS}{{{_CHOSEN}, itl_stream_state="stalled"}}) / sum({_STREAMS}{{{_CHOSEN}}})',
                bad_above=0.05,
            ),
            _panel(
                "stat",
                "Budget left, worst model",
                4,
                4,
                [_query(worst, "{{objective}}", instant=True)],
                fieldConfig=_field("percentunit", thresholds=_RUNNING_OUT),
                description="Of 30 days' misses. Below 0 it is overdrawn.",
            ),
            lines("Time to first token", "s", *_quantiles(_TTFT)),
            lines("Inter-token latency", "s", *_quantiles(_ITL)),
            heatmap(
                "Inter-token latency, native histograms",
                f"sum(rate({_ITL}{{{_CHOSEN}}}[$__rate_interval]))",
                native=True,
            ),
            heatmap(
                "Inter-token latency, classic histograms",
                f"sum by (le) (rate({_ITL}_bucket{{{_CHOSEN}}}[$__rate_interval]))",
                native=False,
            ),
            lines(
                "Burn rate of the inter-token objective, 1 h",
                "none",
                _query(f'itl:slo:burn_rate1h{{{_CHOSEN}, objective="itl"}}', f"{{{{job}}}} {_MODEL}"),
                text="1 spends the budget of 30 days in 30 days; at 14.4 somebody is paged.",
            ),
            lines(
                "Burn rate of the first-token objective, 1 h",
                "none",
                _query(f'itl:slo:burn_rate1h{{{_CHOSEN}, objective="ttft"}}', f"{{{{job}}}} {_MODEL}"),
                text="1 spends the budget of 30 days in 30 days; at 14.4 somebody is paged.",
            ),
        ],
    )


_RUNNING_OUT = {
    "mode": "absolute",
    "steps": [{"color": "red", "value": None}, {"color": "orange", "value": 0}, {"color": "green", "value": 0.25}],
}


def providers() -> dict[str, Any]:
    """Show the same figures of each provider and model, side by side."""
    by = _BY_MODEL
    failed = _per_second(_OUTCOMES, by, ', itl_stream_outcome=~"error|truncated"')
    return dashboard(
        "otel-itl-providers",
        "Streaming LLM: providers and models",
        [
            table(
                "Now",
                _query(_quantile_by(_TTFT, 0.5, by), "TTFT p50"),
                _query(_quantile_by(_TTFT, 0.99, by), "TTFT p99"),
                _query(_quantile_by(_ITL, 0.5, by), "ITL p50"),
                _query(_quantile_by(_ITL, 0.99, by), "ITL p99"),
                _query(_quantile_by(_TPOT, 0.5, by), "TPOT p50"),
            ),
            lines("Time to first token, p50", "s", _query(_quantile_by(_TTFT, 0.5, by), _MODEL)),
            lines("Time to first token, p99", "s", _query(_quantile_by(_TTFT, 0.99, by), _MODEL)),
            lines("Inter-token latency, p50", "s", _query(_quantile_by(_ITL, 0.5, by), _MODEL)),
            lines("Inter-token latency, p99", "s", _query(_quantile_by(_ITL, 0.99, by), _MODEL)),
            lines("Time per output token, p50", "s", _query(_quantile_by(_TPOT, 0.5, by), _MODEL)),
            lines(
                "Failed or truncated",
                "percentunit",
                _query(f"{failed} / {_per_second(_OUTCOMES, by)}", _MODEL),
            ),
            lines(
                "Median inter-token latency over what is usual",
                "none",
                _query(
                    f'itl:inter_token_latency_seconds:quantile5m{{{_CHOSEN}, quantile="0.5"}} / '
                    f"itl:inter_token_latency_seconds:usual1d{{{_CHOSEN}}}",
                    f"{{{{job}}}} {_MODEL}",
                ),
                width=24,
                text="Above 1.5 for half an hour is a ticket.",
            ),
        ],
    )


def stalls() -> dict[str, Any]:
    """Streams that stand still, and how streams end."""
    return dashboard(
        "otel-itl-stalls",
        "Streaming LLM: stalls and outcomes",
        [
            lines(
                "Open streams",
                "short",
                _query(f"sum by (itl_stream_state) ({_STREAMS}{{{_CHOSEN}}})", "{{itl_stream_state}}"),
            ),
            lines(
                "Stalled now",
                "short",
                _query(f'sum by ({_BY_MODEL}) ({_STREAMS}{{{_CHOSEN}, itl_stream_state="stalled"}})', _MODEL),
            ),
            lines("Stalls, by cause", "ops", _query(_per_second(_STALLS, "itl_stall_cause"), "{{itl_stall_cause}}")),
            lines("Stalls, by phase", "ops", _query(_per_second(_STALLS, "itl_stall_phase"), "{{itl_stall_phase}}")),
            lines(
                "Stalls of a hundred streams",
                "none",
                _query(f"100 * {_per_second(_STALLS, _BY_MODEL)} / {_per_second(_OUTCOMES, _BY_MODEL)}", _MODEL),
            ),
            lines("How long stalls last", "s", *_quantiles("itl_client_stall_duration_seconds")),
            lines("Outcomes", "reqps", _query(_per_second(_OUTCOMES, "itl_stream_outcome"), "{{itl_stream_outcome}}")),
            lines(
                "Truncated",
                "percentunit",
                _query(
                    _per_second(_OUTCOMES, _BY_MODEL, ', itl_stream_outcome="truncated"')
                    + f" / {_per_second(_OUTCOMES, _BY_MODEL)} or 0 * {_per_second(_OUTCOMES, _BY_MODEL)}",
                    _MODEL,
                ),
            ),
            found(
                "Stalled streams",
                "span.itl.stall.count > 0",
                "span.gen_ai.request.model, span.itl.stall.count, span.itl.stall.max, span.itl.stream.outcome",
            ),
        ],
    )


_QUANTILES = {"p50": "0.5", "p99": "0.99"}
_DAY: dict[str, Any] = {"timeFrom": "24h", "interval": "5m"}


def _whose_load() -> list[Panel]:
    """Return the row that shows over the day whether upstream is slower, or one's own load is higher."""
    everywhere = _CHOSEN.split(", ", 1)[1]  # own load is that of all jobs
    latency, recorded = "itl:inter_token_latency_seconds", f"{{{{job}}}} {_MODEL}"

    def by_quantile(metric: str, legend: str, more: str = "") -> list[dict[str, Any]]:
        """Query p50 and p99 of a recorded series."""
        return [
            _query(f'{metric}{{{_CHOSEN}, quantile="{quantile}"{more}}}', f"{name} {legend}".strip())
            for name, quantile in _QUANTILES.items()
        ]

    panels = [
        lines(
            "Inter-token latency over the day, and what is usual at the own load of the moment",
            "s",
            *by_quantile(f"{latency}:quantile5m", recorded),
            *by_quantile(f"{latency}:expected5m", f"usual at this load, {recorded}"),
        ),
        lines(
            "Own load over the day: open streams of all jobs and processes",
            "short",
            _query(f"itl:own_streams:avg5m{{{everywhere}}}", _MODEL),
        ),
        lines(
            "Slower at the same own load: points upstream",
            "none",
            *by_quantile("itl:slowdown:ratio5m", recorded, ', points_to="upstream"'),
            text="Latency over what was usual at this load in the past week. 1.5 is half as slow again.",
        ),
        lines(
            "Slower with one's own load: one's own",
            "none",
            *by_quantile("itl:slowdown:ratio5m", recorded, ', points_to="own_load"'),
            text="What is usual at this load over what is usual at all loads. Absent at a load that is new this week.",
        ),
    ]
    by_load = table_by_load(
        "Inter-token latency at each own load, past week",
        *(
            _query(f'{latency}:usual_at_load7d{{{_CHOSEN}, quantile="{quantile}"}}', name)
            for name, quantile in _QUANTILES.items()
        ),
        text="The median over time, for the loads that lasted 15 minutes or more.",
    )
    title = "Slower: upstream, or one's own load?"
    return [heading(title), *(panel | _DAY for panel in panels), by_load]


def concurrency() -> dict[str, Any]:
    """Show whether inter-token latency rises with the streams in flight: then the server, or the process, is full."""
    return dashboard(
        "otel-itl-concurrency",
        "Streaming LLM: latency against concurrency",
        [
            scatter(
                "Median inter-token latency against open streams",
                _query(f"sum({_STREAMS}{{{_CHOSEN}}})", "open streams"),
                _query(_quantiles(_ITL)[0]["expr"], "p50 ITL"),
            ),
            lines("Open streams", "short", _query(f"sum by ({_BY_MODEL}) ({_STREAMS}{{{_CHOSEN}}})", _MODEL)),
            lines("Inter-token latency, p50", "s", _query(_quantile_by(_ITL, 0.5, _BY_MODEL), _MODEL)),
            lines(
                "Open streams of the busiest processes",
                "short",
                _query(f"topk(10, sum by (job, instance) ({_STREAMS}{{{_CHOSEN}}}))", "{{job}} {{instance}}"),
            ),
            lines(
                "Output chunks a second and open stream",
                "none",
                _query(
                    f"sum(rate({_ITL}_count{{{_CHOSEN}}}[$__rate_interval]) or "
                    f"histogram_count(rate({_ITL}{{{_CHOSEN}}}[$__rate_interval]))) / "
                    f"sum(avg_over_time({_STREAMS}{{{_CHOSEN}}}[$__rate_interval]))"
                ),
            ),
            *_whose_load(),
        ],
    )


def session() -> dict[str, Any]:
    """One session, request by request."""
    wanted = {
        "name": "session",
        "type": "textbox",
        "label": "session.id",
        "query": "",
        "current": {"text": "", "value": ""},
    }
    columns = (
        "span.itl.session.request.index, span.gen_ai.request.model, span.itl.time_to_first_token, "
        "span.itl.latency.p99, span.itl.session.latency.ratio, span.itl.session.stall.count, span.itl.stream.outcome"
    )
    degraded = 'traces_span_metrics_calls_total{job=~"$job", itl_session_degraded="true"}'
    return dashboard(
        "otel-itl-session",
        "Streaming LLM: session",
        [
            found("Requests of the session", 'span.session.id = "$session"', columns),
            found(
                "Its stalls",
                'span.session.id = "$session" && span.itl.stall.count > 0',
                f"{columns}, span.itl.stall.max",
            ),
            found("Sessions that have degraded", "span.itl.session.degraded = true", f"span.session.id, {columns}"),
            lines(
                "Requests of degraded sessions",
                "reqps",
                _query(f"sum by (job) (rate({degraded}[$__rate_interval]))", "{{job}}"),
                width=24,
            ),
        ],
        wanted,
    )


DASHBOARDS = (fleet, providers, stalls, concurrency, session)


def main() -> None:
    """Write all of them."""
    FOLDER.mkdir(exist_ok=True)
    for made in DASHBOARDS:
        (FOLDER / f"{made.__name__}.json").write_text(written(made()))


def written(made: dict[str, Any]) -> str:
    """Return a dashboard as the text of its file."""
    return json.dumps(made, indent=1) + "\n"


if __name__ == "__main__":
    main()
