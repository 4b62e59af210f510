"""Draw the dashboards of `collector/dashboards` for the documentation: `python docs/draw_dashboards.py`.

Grafana has no part in it: a fleet of the real programs is started, streams of several models run through it for some
minutes, and every panel is drawn from the answer of its own query. Needs the programs of `collector/` and matplotlib.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "collector"))

from emitter import Emitter
from fleet import FILES, Fleet, Prometheus, get_json
from workers import start_worker

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEALTHY, SLOW, SILENT = [0.03, 0.15, 0.0], [0.2, 0.8, 0.0], [0.03, 0.15, 2.5]
ALONE, CROWDED = [0.014, 0.1, 0.0], [0.03, 0.2, 0.0]
PLANS: list[tuple[int, str, int, list[list[float]]]] = [
    (0, "chat-70b", 3, [[60, *HEALTHY], [25, *SLOW], [155, *HEALTHY]]),
    (0, "reasoner-1", 2, [[90, 0.05, 0.3, 0.0], [25, *SILENT], [125, 0.05, 0.3, 0.0]]),
    (0, "crowded-8b", 2, [[60, *ALONE], [30, *CROWDED], [60, *ALONE], [25, *CROWDED], [25, *ALONE], [40, *CROWDED]]),
    (60, "crowded-8b", 4, [[30, *CROWDED]]),
    (200, "crowded-8b", 4, [[40, *CROWDED]]),
]
"""When to start, model, how many streams at once, and phases of seconds, gap, first token and longest gap."""

SECONDS = 240
WINDOW = "10s"
STEP_SECONDS = 2
COLUMN_INCHES, ROW_INCHES, TITLE_INCHES = 0.55, 0.32, 0.5
UNITS = {"s": (1_000, "ms"), "percentunit": (100, "%"), "reqps": (1, "/s"), "ops": (1, "/s")}
FOLDER = Path(__file__).parent / "dashboards"


def main() -> None:
    """Play, and draw."""
    mpl.rcParams.update({"font.size": 7, "axes.grid": True, "grid.alpha": 0.3, "axes.titlesize": 8})
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as state, Fleet(Path(state), 10, 20) as fleet:
        began = time.time()
        _play(fleet)
        for path in sorted((FILES / "dashboards").glob("*.json")):
            _draw(path, fleet.prometheus, began + 10)


def _play(fleet: Fleet) -> None:
    form = {"OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION": "base2_exponential_bucket_histogram"}
    watched = {"OTEL_ITL_SLO": "chat", "OTEL_ITL_STALL": "first_token=1,next_token=1"}
    workers, plans = [], sorted(PLANS)
    sessions = Emitter("shop", fleet.agent.http_url)
    began = time.monotonic()
    while (elapsed := time.monotonic() - began) < SECONDS:
        while plans and plans[0][0] <= elapsed:
            _, model, streams, phases = plans.pop(0)
            plan = {"model": model, "streams": streams, "tokens": 20, "phases": phases}
            workers += [start_worker(fleet, "shop", plan, **more, **watched) for more in (form, {})]
        outcome = "truncated" if elapsed % 30 < 1 else "completed"
        sessions.stream(itl_session_degraded=True, itl_stream_outcome=outcome)
        time.sleep(1)
    sessions.close()
    for worker in workers:
        worker.communicate(timeout=60)


def _draw(path: Path, prometheus: Prometheus, start: float) -> None:
    dashboard = json.loads(path.read_text())
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in dashboard["panels"])
    width, height = 24 * COLUMN_INCHES, rows * ROW_INCHES + TITLE_INCHES
    figure = plt.figure(figsize=(width, height), dpi=80)
    figure.suptitle(
        dashboard["title"], x=0.02, y=1 - 0.12 / height, ha="left", va="top", fontsize=11, fontweight="bold"
    )
    model = "crowded-8b" if path.stem == "concurrency" else ".*"
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        if panel["type"] == "row":
            at_left, at_top = at["x"] * COLUMN_INCHES + 0.3, (rows - at["y"] - at["h"]) * ROW_INCHES + 0.05
            figure.text(at_left / width, at_top / height, panel["title"], fontsize=9, fontweight="bold")
            continue
        left, bottom = at["x"] * COLUMN_INCHES + 0.55, (rows - at["y"] - at["h"]) * ROW_INCHES + 0.45
        size = at["w"] * COLUMN_INCHES - 0.7, at["h"] * ROW_INCHES - 0.75
        axes = figure.add_axes((left / width, bottom / height, size[0] / width, size[1] / height))
        axes.set_title(panel["title"], loc="left")
        answers = [
            _asked(prometheus, target["expr"].replace("$model", model), start) if "expr" in target else []
            for target in panel["targets"]
        ]
        {"stat": _stat, "heatmap": _heatmap, "table": _table, "xychart": _scatter}.get(panel["type"], _lines)(
            axes, panel, answers
        )
    figure.savefig(FOLDER / f"{path.stem}.png")
    plt.close(figure)


def _asked(prometheus: Prometheus, expression: str, start: float) -> list[dict[str, Any]]:
    """Return the answer, its moments in seconds after the start."""
    for variable, value in {"$job": ".*", "$provider": ".*", "$__rate_interval": WINDOW}.items():
        expression = expression.replace(variable, value)
    query = {"query": expression, "start": start, "end": time.time(), "step": STEP_SECONDS}
    answer = list(get_json(f"{prometheus.url}/api/v1/query_range", **query)["data"]["result"])
    for series in answer:
        for kind in series.keys() & {"values", "histograms"}:
            series[kind] = [(moment - start, value) for moment, value in series[kind]]
    return answer


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
                moments,
                [v * factor for v in values],
                label=name,
                lw=1,
            )
    axes.set_ylim(bottom=0)
    axes.set_ylabel(sign)
    axes.set_xlabel("s")
    axes.set_xlim(0, SECONDS)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize=6, loc="upper left", framealpha=0.6)


def _stat(axes: Axes, panel: dict[str, Any], answers: Sequence[list[dict[str, Any]]]) -> None:
    factor, sign = _unit(panel)
    shown = []
    for series in answers[0]:
        _, values = _points(series)
        name = _named(panel["targets"][0]["legendFormat"], series["metric"])
        if values:
            shown.append(f"{name} {values[-1] * factor:.3g} {sign}".strip())
    axes.axis("off")
    axes.text(
        0.0,
        0.4,
        "\n".join(shown),
        fontsize=12 if len(shown) == 1 else 9,
        va="center",
        color="#cf222e" if any("-" in each for each in shown) else "#1a7f37",
    )


def _heatmap(axes: Axes, _: dict[str, Any], answers: Sequence[list[dict[str, Any]]]) -> None:
    cells: dict[float, list[tuple[float, float, float]]] = {}
    for series in answers[0]:
        for moment, histogram in series.get("histograms", []):
            buckets = [(float(low), float(high), float(n)) for _, low, high, n in histogram["buckets"]]
            cells[float(moment)] = [(max(low, 0.0001), max(high, 0.0001), n) for low, high, n in buckets]
    if not cells:
        edges = sorted((float(series["metric"]["le"]), dict(series["values"])) for series in answers[0])
        for (low, below), (high, up_to) in zip([(0.0001, {}), *edges], edges, strict=False):
            for moment, count in up_to.items():
                share = float(count) - float(below.get(moment, 0))
                cells.setdefault(float(moment), []).append((max(low, 0.0001), min(high, 30.0), share))
    largest = max(n for row in cells.values() for *_, n in row) or 1
    for moment, row in cells.items():
        for low, high, n in row:
            if n > 0:
                colour = plt.get_cmap("Oranges")(0.15 + 0.85 * (n / largest) ** 0.5)
                axes.fill_between([moment, moment + STEP_SECONDS], low * 1_000, high * 1_000, color=colour, lw=0)
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
            labels = series["metric"]
            model = f"{labels['gen_ai_provider_name']} {labels['gen_ai_request_model']}"
            if "own_streams" in labels:
                model = f"{labels['own_streams']:>3} own streams, {model}"
            rows.setdefault(model, ["-"] * len(answers))[column] = f"{values[-1] * 1_000:.0f} ms" if values else "-"
    columns = ["", *(target["legendFormat"] for target in panel["targets"])]
    drawn = axes.table([[model, *cells] for model, cells in sorted(rows.items())], colLabels=columns, loc="upper left")
    drawn.scale(1, 1.4)


def _scatter(axes: Axes, panel: dict[str, Any], answers: Sequence[list[dict[str, Any]]]) -> None:
    across, upwards = (dict(zip(*_points(answer[0]), strict=True)) for answer in answers)
    both = sorted(across.keys() & upwards.keys())
    axes.scatter([across[moment] for moment in both], [upwards[moment] * 1_000 for moment in both], s=8)
    axes.set_xlabel(panel["targets"][0]["legendFormat"])
    axes.set_ylabel("p50 ITL, ms")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


main()
