/* The heat map of inter-token latency: time across, logarithmic latency upwards. A click or a brush selects streams. */

import { LATENCY_ROWS, latencyOf, rowOf, sumColumns } from "./aggregate.js";
import { drawTimeAxis, drawValueAxis, logTicks } from "./axis.js";
import { Plot } from "./canvas.js";
import { make, makeHead } from "./dom.js";
import { formatClock, formatCount, formatDuration } from "./format.js";
import { TableToggle } from "./tables.js";

const CELL_PX = 5;

export class HeatMap {
  constructor(section, page) {
    this.page = page;
    this.plot = new Plot(236, "Heat map of inter-token latency over time. The table has the same data.", () => page.refresh());
    this.plot.box.style.cursor = "crosshair";
    this.table = new TableToggle("latency over time", () => this.makeRows());
    const note = make("span", { class: "note" }, "drag to select a time and a range of latencies, click for a column");
    section.append(makeHead("Inter-token latency", { term: "ITL", note, tools: [this.table.button] }), this.plot.box, this.table.box);
    this.brush = null;
    this.plot.box.addEventListener("pointerdown", (event) => this.begin(event));
    this.plot.box.addEventListener("pointermove", (event) => this.move(event));
    this.plot.box.addEventListener("pointerup", (event) => this.finish(event));
    this.plot.box.addEventListener("pointerleave", () => page.tip.hide());
  }

  get area() {
    return { left: 52, top: 6, width: Math.max(this.plot.width - 58, 10), height: this.plot.height - 30, labelY: this.plot.height - 10 };
  }

  draw() {
    const { plot, page } = this;
    const context = plot.begin();
    const { colors } = page.theme;
    const { aggregate } = page;
    const area = this.area;
    this.range = page.range;
    const { from, until } = this.range;
    const columns = Math.max(Math.floor(area.width / CELL_PX), 1);
    this.columns = sumColumns(aggregate, from, until, columns);
    this.bounds = findBounds(aggregate.samples);
    drawTimeAxis(context, colors, area, from, until);
    const { low, high } = this.bounds;
    const place = (us) => area.top + area.height * (1 - Math.log(us / low) / Math.log(high / low));
    drawValueAxis(context, colors, area, logTicks(low, high), place, formatDuration);
    this.drawCells(context, area, place);
    const slo = page.objective;
    if (slo?.itl && slo.itl * 1e6 < high && slo.itl * 1e6 > low) {
      context.strokeStyle = colors.good;
      context.setLineDash([5, 3]);
      context.strokeRect(area.left, Math.round(place(slo.itl * 1e6)) + 0.5, area.width, 0);
      context.setLineDash([]);
    }
    this.drawSelection(context, colors, area, place);
    if (!aggregate.samples.count) drawNothing(context, colors, area, "no latency sample yet");
    this.table.update();
  }

  drawCells(context, area, place) {
    const { heat } = this.page.theme;
    const width = area.width / this.columns.length;
    const group = 3;
    let most = 0;
    for (const rows of this.columns) {
      if (!rows) continue;
      for (let row = 0; row < LATENCY_ROWS; row += group) most = Math.max(most, sumRows(rows, row, group));
    }
    const scale = Math.log1p(most);
    this.columns.forEach((rows, column) => {
      if (!rows) return;
      for (let row = 0; row < LATENCY_ROWS; row += group) {
        const count = sumRows(rows, row, group);
        if (!count) continue;
        const color = heat[Math.round(60 + 195 * (Math.log1p(count) / scale))];
        context.fillStyle = `rgb(${color & 255} ${(color >> 8) & 255} ${(color >> 16) & 255})`;
        const bottom = place(Math.max(latencyOf(row), this.bounds.low));
        const top = place(Math.max(latencyOf(row + group), this.bounds.low * 1.13));
        context.fillRect(area.left + column * width, top, width + 0.3, bottom - top + 0.3);
      }
    });
  }

  drawSelection(context, colors, area, place) {
    const { view } = this.page;
    const chosen = this.brush ? this.selection() : view.number("from") === null ? null : {
      from: view.number("from"), to: view.number("to"), low: view.number("low"), high: view.number("high"),
    };
    if (!chosen) return;
    const { from, until } = this.range;
    const x = (moment) => area.left + ((moment - from) / (until - from)) * area.width;
    const left = Math.max(x(chosen.from), area.left);
    const right = Math.min(x(chosen.to ?? chosen.from), area.left + area.width);
    const top = chosen.high ? Math.max(place(chosen.high), area.top) : area.top;
    const bottom = chosen.low ? Math.min(place(chosen.low), area.top + area.height) : area.top + area.height;
    if (right < area.left || left > area.left + area.width) return;
    context.strokeStyle = colors.focus;
    context.lineWidth = 1.5;
    context.strokeRect(left, top, Math.max(right - left, 2), bottom - top);
    context.globalAlpha = 0.12;
    context.fillStyle = colors.focus;
    context.fillRect(left, top, Math.max(right - left, 2), bottom - top);
    context.globalAlpha = 1;
    context.lineWidth = 1;
  }

  point(event) {
    const box = this.plot.box.getBoundingClientRect();
    const area = this.area;
    return {
      x: Math.min(Math.max(event.clientX - box.left - area.left, 0), area.width),
      y: Math.min(Math.max(event.clientY - box.top - area.top, 0), area.height),
    };
  }

  begin(event) {
    if (event.button !== 0 || !this.range) return;
    const start = this.point(event);
    this.brush = { start, end: start };
    this.plot.box.setPointerCapture(event.pointerId);
  }

  move(event) {
    if (this.brush) {
      this.brush.end = this.point(event);
      this.draw();
    } else if (this.range) {
      this.hover(event);
    }
  }

  finish() {
    if (!this.brush) return;
    const selection = this.selection();
    this.brush = null;
    this.page.view.set(selection);
  }

  /* What the brush covers: its column where it was not dragged. */
  selection() {
    const { start, end } = this.brush;
    const { from, until } = this.range;
    const area = this.area;
    const moment = (x) => Math.round(from + (x / area.width) * (until - from));
    if (Math.abs(start.x - end.x) < 4 && Math.abs(start.y - end.y) < 4) {
      const width = area.width / this.columns.length;
      const column = Math.floor(start.x / width);
      return { from: moment(column * width), to: moment((column + 1) * width), low: "", high: "" };
    }
    const { low, high } = this.bounds;
    const latency = (y) => Math.round(low * (high / low) ** (1 - y / area.height));
    const isWhole = Math.abs(start.y - end.y) < 8;
    return {
      from: moment(Math.min(start.x, end.x)), to: moment(Math.max(start.x, end.x)),
      low: isWhole ? "" : latency(Math.max(start.y, end.y)), high: isWhole ? "" : latency(Math.min(start.y, end.y)),
    };
  }

  hover(event) {
    const { x, y } = this.point(event);
    const area = this.area;
    const column = Math.min(Math.floor((x / area.width) * this.columns.length), this.columns.length - 1);
    const { low, high } = this.bounds;
    const row = rowOf(low * (high / low) ** (1 - y / area.height));
    const rows = this.columns[column];
    const count = rows ? sumRows(rows, row - (row % 3), 3) : 0;
    const when = formatClock(this.range.from + (x / area.width) * (this.range.until - this.range.from), 1e5);
    const from = row - (row % 3);
    const text = `${when}\n${formatDuration(latencyOf(from))}–${formatDuration(latencyOf(from + 3))}: ${formatCount(count)} samples`;
    this.page.tip.show(text, event.clientX, event.clientY);
  }

  makeRows() {
    const { from, until } = this.page.range;
    const summed = sumColumns(this.page.aggregate, from, until, 24);
    const edges = [0, 1e4, 3e4, 1e5, 3e5, 1e6, Infinity];
    const names = ["< 10 ms", "10–30 ms", "30–100 ms", "100–300 ms", "0.3–1 s", "> 1 s"];
    const rows = summed.map((latencies, column) => [
      formatClock(from + ((until - from) * column) / 24, 1e6),
      ...names.map((_, place) => formatCount(latencies ? countBetween(latencies, edges[place], edges[place + 1]) : 0)),
    ]);
    return { columns: ["from", ...names], rows };
  }
}

function sumRows(rows, first, group) {
  let sum = 0;
  for (let row = first; row < Math.min(first + group, rows.length); row++) sum += rows[row];
  return sum;
}

function countBetween(rows, low, high) {
  return rows.reduce((sum, count, row) => (latencyOf(row + 0.5) > low && latencyOf(row + 0.5) <= high ? sum + count : sum), 0);
}

/* Half a decade around the samples, so that the map is no thin strip. */
function findBounds(samples) {
  if (!samples.count) return { low: 1e3, high: 1e6 };
  const low = Math.max(Math.min(samples.quantile(0.02), 1e4), 300);
  return { low: 10 ** (Math.floor(Math.log10(low) * 2) / 2), high: 10 ** (Math.ceil(Math.log10(Math.max(samples.max, low * 30)) * 2) / 2) };
}

export function drawNothing(context, colors, area, text) {
  context.fillStyle = colors.dim;
  context.textAlign = "center";
  context.fillText(text, area.left + area.width / 2, area.top + area.height / 2);
}
