/* The heat map of inter-token latency: time across, logarithmic latency upwards. A click or a brush selects streams. */

import { LATENCY_ROWS, latencyOf, rowOf, sumColumns } from "./aggregate.js";
import { drawTimeAxis, drawValueAxis, logTicks } from "./axis.js";
import { Plot } from "./canvas.js";
import { make, makeHead } from "./dom.js";
import { formatClock, formatCount, formatDuration } from "./format.js";
import { SideLegend } from "./sides.js";
import { TableToggle } from "./tables.js";

const CELL_PX = 5;
const MAP_HEIGHT = 236;
const GROUP = 3;
const BAND_PX = 96;
const NARROW_BAND_PX = 52;
const MAX_WIDE_BANDS = 3;
const BAND_GAP = 10;
const MAP_TABLE_ROWS = 24;
const MARK_PX = 3;

/* How high the picture is with so many bands; the one beside it is as high. */
export function heightOfBands(bands) {
  return Math.max(MAP_HEIGHT, 30 + bands * ((bands > MAX_WIDE_BANDS ? NARROW_BAND_PX : BAND_PX) + BAND_GAP));
}

export class HeatMap {
  constructor(section, page) {
    this.page = page;
    this.plot = new Plot(MAP_HEIGHT, "Heat map of inter-token latency over time. The table has the same data.", () => page.refresh());
    this.plot.box.style.cursor = "crosshair";
    this.table = new TableToggle("latency over time", () => this.makeRows());
    const note = make("span", { class: "note" }, "drag to select a time and a range of latencies, click for a column");
    this.sides = new SideLegend(page);
    this.said = make("span", { class: "read", role: "status" });
    section.append(makeHead("Inter-token latency", { term: "ITL", note, tools: [this.table.button] }), this.sides.element, this.plot.box, this.said, this.table.box);
    const keys = "Select a time and latencies: arrow keys move, with Shift they stretch the selection, Enter selects, Escape stops.";
    for (const [name, value] of Object.entries({ tabindex: 0, role: "application", "aria-roledescription": "brush", "aria-label": keys })) this.plot.box.setAttribute(name, value);
    this.plot.box.addEventListener("keydown", (event) => this.press(event));
    this.plot.box.addEventListener("blur", () => this.brush && this.cancel());
    this.brush = null;
    this.plot.box.addEventListener("pointerdown", (event) => this.begin(event));
    this.plot.box.addEventListener("pointermove", (event) => this.move(event));
    this.plot.box.addEventListener("pointerup", (event) => this.finish(event));
    this.plot.box.addEventListener("pointerleave", () => page.tip.hide());
  }

  get area() {
    const left = this.page.facts.sides ? 60 : 52;
    return { left, top: 6, width: Math.max(this.plot.width - left - 6, 10), height: this.plot.height - 30, labelY: this.plot.height - 10 };
  }

  /* One band for each part, under one another: where each is, its range of time and its latencies by column. */
  placeBands(columns) {
    const { parts } = this.page;
    const { top, height, ...area } = this.area;
    const each = (height - BAND_GAP * (parts.length - 1)) / parts.length;
    return parts.map(({ sums, range, color, side }, place) => ({
      ...area, top: top + place * (each + BAND_GAP), height: each, range, color, side, columns: sumColumns(sums, range.from, range.until, columns),
    }));
  }

  draw() {
    const { plot, page } = this;
    const { parts } = page;
    plot.box.style.height = `${heightOfBands(parts.length)}px`;
    this.sides.update();
    const context = plot.begin();
    const { colors } = page.theme;
    const area = this.area;
    this.bands = this.placeBands(Math.max(Math.floor(area.width / CELL_PX), 1));
    this.bounds = findBounds(parts.map(({ sums }) => sums.samples));
    const [{ range }] = parts;
    if (parts.length > 1) drawTimeAxis(context, colors, area, 0, range.until - range.from, true);
    else drawTimeAxis(context, colors, area, range.from, range.until);
    const { low, high } = this.bounds;
    const most = this.findMost();
    for (const band of this.bands) {
      const place = (us) => band.top + band.height * (1 - Math.log(us / low) / Math.log(high / low));
      const ticks = logTicks(low, high);
      drawValueAxis(context, colors, band, band.height < BAND_PX * 1.6 ? ticks.filter((tick) => /^1/.test(String(tick))) : ticks, place, formatDuration);
      if (band.color) {
        context.fillStyle = colors[band.color];
        context.fillRect(0, band.top, MARK_PX, band.height);
      }
      this.drawCells(context, band, place, most);
      this.drawObjective(context, colors, band, place);
      this.drawSelection(context, colors, band, place);
    }
    if (!page.aggregate.count) drawNothing(context, colors, area, "no latency sample yet");
    this.table.update();
  }

  drawObjective(context, colors, band, place) {
    const objective = (this.page.objective?.itl ?? 0) * 1e6;
    if (objective <= this.bounds.low || objective >= this.bounds.high) return;
    context.strokeStyle = colors.good;
    context.setLineDash([5, 3]);
    context.strokeRect(band.left, Math.round(place(objective)) + 0.5, band.width, 0);
    context.setLineDash([]);
  }

  /* The largest count of any cell. */
  findMost() {
    let most = 0;
    for (const { columns } of this.bands) {
      for (const rows of columns) {
        for (let row = 0; rows && row < LATENCY_ROWS; row += GROUP) most = Math.max(most, sumRows(rows, row, GROUP));
      }
    }
    return most;
  }

  drawCells(context, band, place, most) {
    const { heat } = this.page.theme;
    const width = band.width / band.columns.length;
    const scale = Math.log1p(most);
    band.columns.forEach((rows, column) => {
      if (!rows) return;
      for (let row = 0; row < LATENCY_ROWS; row += GROUP) {
        const count = sumRows(rows, row, GROUP);
        if (!count) continue;
        const color = heat[Math.round(60 + 195 * (Math.log1p(count) / scale))];
        context.fillStyle = `rgb(${color & 255} ${(color >> 8) & 255} ${(color >> 16) & 255})`;
        const bottom = place(Math.max(latencyOf(row), this.bounds.low));
        const top = place(Math.max(latencyOf(row + GROUP), this.bounds.low * 1.13));
        context.fillRect(band.left + column * width, top, width + 0.3, bottom - top + 0.3);
      }
    });
  }

  /* The selection of the address in each band, or of the brush in its own. */
  drawSelection(context, colors, band, place) {
    const { view } = this.page;
    if (this.brush && this.bands[this.brush.band] !== band) return;
    const chosen = this.brush ? this.selection() : view.number("from") === null ? null : {
      from: view.number("from"), to: view.number("to"), low: view.number("low"), high: view.number("high"),
    };
    if (!chosen) return;
    const { from, until } = band.range;
    const x = (moment) => band.left + ((moment - from) / (until - from)) * band.width;
    const left = Math.max(x(chosen.from), band.left);
    const right = Math.min(x(chosen.to ?? chosen.from), band.left + band.width);
    const top = chosen.high ? Math.max(place(chosen.high), band.top) : band.top;
    const bottom = chosen.low ? Math.min(place(chosen.low), band.top + band.height) : band.top + band.height;
    if (right < band.left || left > band.left + band.width) return;
    context.strokeStyle = colors.focus;
    context.lineWidth = 1.5;
    context.strokeRect(left, top, Math.max(right - left, 2), bottom - top);
    context.globalAlpha = 0.1;
    context.fillStyle = colors.focus;
    context.fillRect(left, top, Math.max(right - left, 2), bottom - top);
    context.globalAlpha = 1;
    context.lineWidth = 1;
  }

  /* The band that is under the pointer, or nearest to it. */
  bandAt(event) {
    const y = event.clientY - this.plot.box.getBoundingClientRect().top;
    const below = this.bands.findIndex((band) => y < band.top + band.height + BAND_GAP / 2);
    return below < 0 ? this.bands.length - 1 : below;
  }

  /* Where the pointer is in a band. */
  point(event, band) {
    const box = this.plot.box.getBoundingClientRect();
    const { left, top, width, height } = this.bands[band];
    return {
      x: Math.min(Math.max(event.clientX - box.left - left, 0), width),
      y: Math.min(Math.max(event.clientY - box.top - top, 0), height),
    };
  }

  begin(event) {
    if (event.button !== 0 || !this.bands) return;
    const band = this.bandAt(event);
    const start = this.point(event, band);
    this.brush = { band, start, end: start };
    this.plot.box.setPointerCapture(event.pointerId);
  }

  move(event) {
    if (this.brush) {
      this.brush.end = this.point(event, this.brush.band);
      this.draw();
    } else if (this.bands) {
      this.hover(event);
    }
  }

  finish() {
    if (!this.brush) return;
    const selection = this.selection();
    this.brush = null;
    this.page.view.set(selection);
  }

  cancel() {
    this.brush = null;
    this.said.textContent = "";
    this.draw();
  }

  /* The brush by keys: arrows move it, with Shift they stretch it, Enter selects what it covers. */
  press(event) {
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (!this.bands || !(steps[event.key] || (this.brush && ["Enter", "Escape"].includes(event.key)))) return;
    event.preventDefault();
    event.stopPropagation();
    if (event.key === "Escape") return this.cancel();
    if (event.key === "Enter") return this.finish();
    return this.moveBrush(steps[event.key], event.shiftKey);
  }

  moveBrush([right, down], isStretched) {
    const middle = { x: this.bands[0].width / 2, y: this.bands[0].height / 2 };
    this.brush ??= { band: 0, start: middle, end: middle };
    const { width, height } = this.bands[this.brush.band];
    const shift = ({ x, y }) => ({
      x: Math.min(Math.max(x + right * CELL_PX * 2, 0), width), y: Math.min(Math.max(y + down * CELL_PX * 2, 0), height),
    });
    const { y } = this.brush.end;
    this.brush.end = shift(this.brush.end);
    if (!isStretched) this.brush.start = this.brush.end;
    const next = this.brush.band + down;
    if (!isStretched && y === this.brush.end.y && down && this.bands[next]) {
      const start = { x: this.brush.end.x, y: down > 0 ? 0 : this.bands[next].height };
      this.brush = { band: next, start, end: start };
    }
    this.said.textContent = this.describe(this.brush.band, this.brush.end);
    this.draw();
  }

  /* What the brush covers: its column where it was not dragged. */
  selection() {
    const { start, end, band: place } = this.brush;
    const band = this.bands[place];
    const { from, until } = band.range;
    const side = band.color ? { side: this.page.facts.sides[band.side] } : {};
    const moment = (x) => Math.round(from + (x / band.width) * (until - from));
    if (Math.abs(start.x - end.x) < 4 && Math.abs(start.y - end.y) < 4) {
      const width = band.width / band.columns.length;
      const column = Math.min(Math.floor(start.x / width), band.columns.length - 1);
      return { ...side, from: moment(column * width), to: moment((column + 1) * width), low: "", high: "" };
    }
    const { low, high } = this.bounds;
    const latency = (y) => Math.round(low * (high / low) ** (1 - y / band.height));
    const isWhole = Math.abs(start.y - end.y) < 8;
    return {
      ...side, from: moment(Math.min(start.x, end.x)), to: moment(Math.max(start.x, end.x)),
      low: isWhole ? "" : latency(Math.max(start.y, end.y)), high: isWhole ? "" : latency(Math.min(start.y, end.y)),
    };
  }

  hover(event) {
    const band = this.bandAt(event);
    this.page.tip.show(this.describe(band, this.point(event, band)), event.clientX, event.clientY);
  }

  /* What is at a point of a band. */
  describe(place, { x, y }) {
    const { columns, width, height, range, color, side } = this.bands[place];
    const rows = columns[Math.min(Math.floor((x / width) * columns.length), columns.length - 1)];
    const { low, high } = this.bounds;
    const row = rowOf(low * (high / low) ** (1 - y / height));
    const from = row - (row % GROUP);
    const count = rows ? sumRows(rows, from, GROUP) : 0;
    const passed = (x / width) * (range.until - range.from);
    const when = color ? `${this.page.facts.sides[side]}, after ${formatDuration(passed)}` : formatClock(range.from + passed, 1e5);
    return `${when}\n${formatDuration(latencyOf(from))}–${formatDuration(latencyOf(from + GROUP))}: ${formatCount(count)} samples`;
  }

  makeRows() {
    const edges = [0, 1e4, 3e4, 1e5, 3e5, 1e6, Infinity];
    const names = ["< 10 ms", "10–30 ms", "30–100 ms", "100–300 ms", "0.3–1 s", "> 1 s"];
    const rows = this.page.parts.flatMap(({ name, sums, range: { from, until } }) =>
      sumColumns(sums, from, until, MAP_TABLE_ROWS).map((latencies, column) => {
        const passed = ((until - from) * column) / MAP_TABLE_ROWS;
        return [
          name ? `${name}, ${formatDuration(passed)}` : formatClock(from + passed, 1e6),
          ...names.map((_, place) => formatCount(latencies ? countBetween(latencies, edges[place], edges[place + 1]) : 0)),
        ];
      }));
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

/* Half a decade around the samples of all parts, so that the map is no thin strip. */
function findBounds(all) {
  const samples = all.filter(({ count }) => count);
  if (!samples.length) return { low: 1e3, high: 1e6 };
  const low = Math.max(Math.min(...samples.map((one) => one.quantile(0.02)), 1e4), 300);
  const high = Math.max(...samples.map(({ max }) => max), low * 30);
  return { low: 10 ** (Math.floor(Math.log10(low) * 2) / 2), high: 10 ** (Math.ceil(Math.log10(high) * 2) / 2) };
}

export function drawNothing(context, colors, area, text) {
  context.fillStyle = colors.dim;
  context.textAlign = "center";
  context.fillText(text, area.left + area.width / 2, area.top + area.height / 2);
}
