"""Draw the dashboards of `collector/dashboards` for the documentation: `python docs/draw_dashboards.py`.

Grafana has no part in it: a fleet of the real programs is started, streams of several models run through it for some
minutes, and every panel is drawn from the answer of its own query. Needs the programs of `collector/` and matplotlib.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "collector"))

from emitter import Emitter
from fleet import FILES, Fleet, Prometheus, get_json
from workers import start_worker

HEALTHY, SLOW, SILENT = [0.03, 0.15, 0.0], [0.2, 0.8, 0.0], [0.03, 0.15, 2.5]
PLANS: dict[str, tuple[int, list[list[float]]]] = {
    "chat-8b": (3, [[180, 0.012, 0.08, 0.0]]),
    "chat-70b": (3, [[60, *HEALTHY], [25, *SLOW], [100, *HEALTHY]]),
    "reasoner-1": (2, [[90, 0.05, 0.3, 0.0], [25, *SILENT], [65, 0.05, 0.3, 0.0]]),
}
"""By model: how many streams at once, and phases of seconds, gap, first token and longest gap."""

SECONDS = 175
WINDOW = "10s"
STEP_SECONDS = 2
COLUMN_INCHES, ROW_INCHES = 0.62, 0.34
UNITS = {"s": (1_000, "ms"), "percentunit": (100, "%"), "reqps": (1, "/s"), "ops": (1, "/s")}
LEGEND = "{{"


def main() -> None:
    """Play, and draw."""
    mpl.rcParams.update({"font.size": 7, "axes.grid": True, "grid.alpha": 0.3, "axes.titlesize": 8})
    folder = ROOT / "docs" / "dashboards"
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as state, Fleet(Path(state), 10, 20) as fleet:
        began = time.time()
        _play(fleet)
        for path in sorted((FILES / "dashboards").glob("*.json")):
            _draw(json.loads(path.read_text()), fleet.prometheus, began + 10, folder / f"{path.stem}.png")


def _play(fleet: Fleet) -> None:
    form = {"OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION": "base2_exponential_bucket_histogram"}
    watched = {"OTEL_ITL_SLO": "chat", "OTEL_ITL_STALL": "first_token=1,next_token=1"}
    workers = [
        start_worker(
            fleet, "shop", {"model": model, "streams": streams, "tokens": 20, "phases": phases}, **more, **watched
        )
        for model, (streams, phases) in PLANS.items()
        for more in (form, {})
    ]
    sessions = Emitter("shop", fleet.agent.http_url)
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        sessions.stream(itl_session_degraded=True, itl_stream_outcome="truncated")
        time.sleep(3)
    sessions.close()
    for worker in workers:
        worker.communicate(timeout=60)


def _draw(dashboard: dict[str, Any], prometheus: Prometheus, start: float, file: Path) -> None:
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in dashboard["panels"])
    figure = plt.figure(figsize=(24 * COLUMN_INCHES, rows * ROW_INCHES + 0.5), dpi=80)
    grid = figure.add_gridspec(
        rows, 24, hspace=4, wspace=3, left=0.04, right=0.98, bottom=0.04, top=1 - 0.7 / (rows * 0.34)
    )
    figure.suptitle(dashboard["title"], x=0.04, ha="left", fontsize=11, fontweight="bold")
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        axes = figure.add_subplot(grid[at["y"] : at["y"] + at["h"], at["x"] : at["x"] + at["w"]])
        axes.set_title(panel["title"], loc="left")
        answers = [_asked(prometheus, target["expr"], start) if "expr" in target else [] for target in panel["targets"]]
        {"stat": _stat, "heatmap": _heatmap, "table": _table, "xychart": _scatter}.get(panel["type"], _lines)(
            axes, panel, answers
        )
    figure.savefig(file)
    plt.close(figure)


def _asked(prometheus: Prometheus, expression: str, start: float) -> list[dict[str, Any]]:
    for variable, value in {"$job": ".*", "$provider": ".*", "$model": ".*", "$__rate_interval": WINDOW}.items():
        expression = expression.replace(variable, value)
    query = {"query": expression, "start": start, "end": time.time(), "step": STEP_SECONDS}
    return list(get_json(f"{prometheus.url}/api/v1/query_range", **query)["data"]["result"])


def _unit(panel: dict[str, Any]) -> tuple[float, str]:
    return UNITS.get(panel.get("fieldConfig", {}).get("defaults", {}).get("unit", ""), (1, ""))


def _points(series: dict[str, Any]) -> tuple[list[float], list[float]]:
    known = [(float(moment), float(value)) for moment, value in series.get("values", []) if value != "NaN"]
    return [moment for moment, _ in known], [value for _, value in known]


def _named(legend: str, labels: dict[str, str]) -> str:
    for label, value in labels.items():
        legend = legend.replace(f"{{{{{label}}}}}", value if label != "instance" else value[:8])
    return legend


def _lines(axes: Axes, panel: dict[str, Any], answers: Sequence[list[dict[str, Any]]]) -> None:
    factor, sign = _unit(panel)
    for target, answer in zip(panel["targets"], answers, strict=True):
        for series in answer:
            moments, values = _points(series)
            name = _named(target["legendFormat"], series["metric"])
            axes.plot(
                [moment - moments[0] for moment in moments] if moments else [],
                [v * factor for v in values],
                label=name,
                lw=1,
            )
    axes.set_ylim(bottom=0)
    axes.set_ylabel(sign)
    axes.set_xlabel("s")
    with contextlib.suppress(IndexError):
        axes.legend(fontsize=6, loc="upper left", framealpha=0.6)


def _stat(axes: Axes, panel: dict[str, Any], answers: Sequence[list[dict[str, Any]]]) -> None:
    factor, sign = _unit(panel)
    said = []
    for series in answers[0]:
        _, values = _points(series)
        name = _named(panel["targets"][0]["legendFormat"], series["metric"])
        if values:
            said.append(f"{name} {values[-1] * factor:.3g} {sign}".strip())
    axes.axis("off")
    axes.text(0.0, 0.4, "\n".join(said), fontsize=12 if len(said) == 1 else 9, va="center", color="#1a7f37")


def _heatmap(axes: Axes, _: dict[str, Any], answers: Sequence[list[dict[str, Any]]]) -> None:
    cells: dict[float, list[tuple[float, float, float]]] = {}
    for series in answers[0]:
        for moment, histogram in series.get("histograms", []):
            cells[float(moment)] = [(float(low), float(high), float(n)) for _, low, high, n in histogram["buckets"]]
    if not cells:
        edges = sorted((float(series["metric"]["le"]), dict(series["values"])) for series in answers[0])
        for (low, below), (high, up_to) in zip([(0.0001, {}), *edges], edges, strict=False):
            for moment, count in up_to.items():
                share = float(count) - float(below.get(moment, 0))
                cells.setdefault(float(moment), []).append((max(low, 0.0001), min(high, 30.0), share))
    start = min(cells)
    largest = max(n for row in cells.values() for *_, n in row) or 1
    for moment, row in cells.items():
        for low, high, n in row:
            if n > 0:
                colour = plt.get_cmap("Oranges")(0.15 + 0.85 * (n / largest) ** 0.5)
                axes.fill_between(
                    [moment - start, moment - start + STEP_SECONDS], low * 1_000, high * 1_000, color=colour, lw=0
                )
    axes.set_yscale("log")
    axes.set_ylabel("ms")
    axes.set_xlabel("s")


def _table(axes: Axes, panel: dict[str, Any], answers: Sequence[list[dict[str, Any]]]) -> None:
    axes.axis("off")
    if "query" in panel["targets"][0]:
        axes.text(
            0.0,
            0.5,
            f"traces found by\n{panel['targets'][0]['query']}",
            fontsize=7,
            family="monospace",
            va="center",
            wrap=True,
        )
        return
    rows: dict[str, list[str]] = {}
    for column, answer in enumerate(answers):
        for series in answer:
            _, values = _points(series)
            model = "{gen_ai_provider_name} {gen_ai_request_model}".format(**series["metric"])
            rows.setdefault(model, ["-"] * len(answers))[column] = f"{values[-1] * 1_000:.0f} ms" if values else "-"
    columns = ["", *(target["legendFormat"] for target in panel["targets"])]
    drawn = axes.table([[model, *cells] for model, cells in rows.items()], colLabels=columns, loc="upper left")
    drawn.scale(1, 1.4)


def _scatter(axes: Axes, panel: dict[str, Any], answers: Sequence[list[dict[str, Any]]]) -> None:
    across, upwards = (dict(zip(*_points(answer[0]), strict=True)) for answer in answers)
    both = sorted(across.keys() & upwards.keys())
    axes.scatter([across[moment] for moment in both], [upwards[moment] * 1_000 for moment in both], s=8)
    axes.set_xlabel(panel["targets"][0]["legendFormat"])
    axes.set_ylabel("p50 ITL, ms")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


main()
