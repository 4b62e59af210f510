/* Latency over time: percentiles of ITL and each TTFT, with concurrency and stalls below. */

import { quantileOfRows, sumColumns } from "./aggregate.js";
import { drawAxisTitle, drawTimeAxis, drawValueAxis, logTicks } from "./axis.js";
import { Plot } from "./canvas.js";
import { makeHead } from "./dom.js";
import { formatClock, formatCount, formatDuration } from "./format.js";
import { drawNothing } from "./heatmap.js";
import { endOf, isPlain } from "./streams.js";
import { TableToggle } from "./tables.js";

const LINES = [[0.5, "series-a", 2], [0.95, "series-b", 1.5], [0.99, "series-c", 1.5]];
const STRIP = 38;
const MAX_DOTS = 4000;

export class Series {
  constructor(section, page) {
    this.page = page;
    this.plot = new Plot(236, "Percentiles of inter-token latency, time to first token, concurrency and stalls over time.", () => page.refresh());
    this.table = new TableToggle("figures over time", () => this.makeRows());
    const legend = [["a", "ITL p50", "ITL"], ["b", "p95"], ["c", "p99"], ["d", "TTFT", "TTFT"], ["stall", "stall", "stall"]];
    section.append(makeHead("Over time", { tools: [this.table.button], legend }), this.plot.box, this.table.box);
    this.plot.box.addEventListener("pointermove", (event) => this.hover(event));
    this.plot.box.addEventListener("pointerleave", () => page.tip.hide());
  }

  get area() {
    return { left: 52, top: 6, width: Math.max(this.plot.width - 58, 10), height: this.plot.height - 36 - STRIP, labelY: this.plot.height - 10 };
  }

  draw() {
    const { page, plot, area } = this;
    const { colors } = page.theme;
    const context = plot.begin();
    const { from, until } = page.range;
    this.range = { from, until };
    const columns = Math.max(Math.min(Math.floor(area.width / 9), Math.ceil((until - from) / page.aggregate.binUs)), 1);
    this.columns = sumColumns(page.aggregate, from, until, columns);
    this.open = countOpen(page.shown, page.now, from, until, columns);
    const { firstTokens, samples } = page.aggregate;
    drawTimeAxis(context, colors, { ...area, height: area.height + STRIP + 6 }, from, until);
    if (samples.count || firstTokens.length) {
      const first = firstTokens.map((token) => token.us);
      const low = 10 ** (Math.floor(Math.log10(Math.max(Math.min(samples.quantile(0.3) || 1e5, 1e5), 300)) * 2) / 2);
      const high = 10 ** (Math.ceil(Math.log10(Math.max(samples.quantile(0.999) ?? 0, first.reduce((a, b) => Math.max(a, b), 0), low * 30)) * 3) / 3);
      const y = (us) => area.top + area.height * (1 - Math.log(Math.min(Math.max(us, low), high) / low) / Math.log(high / low));
      drawValueAxis(context, colors, area, logTicks(low, high), y, formatDuration);
      this.drawDots(context, colors, y);
      for (const [share, color, width] of LINES) this.drawLine(context, colors[color], width, y, share);
    } else {
      drawNothing(context, colors, area, "no latency sample yet");
    }
    this.drawStrip(context, colors);
    this.table.update();
  }

  drawDots(context, colors, y) {
    const { area } = this;
    const { from, until } = this.range;
    context.fillStyle = colors["series-d"];
    context.globalAlpha = 0.75;
    for (const token of this.page.aggregate.firstTokens.slice(-MAX_DOTS)) {
      const x = area.left + ((token.at - from) / (until - from)) * area.width;
      if (x < area.left) continue;
      context.beginPath();
      context.arc(x, y(token.us), 2.2, 0, 7);
      context.fill();
    }
    context.globalAlpha = 1;
  }

  drawLine(context, color, width, y, share) {
    const { area } = this;
    const step = area.width / this.columns.length;
    context.strokeStyle = color;
    context.lineWidth = width;
    context.lineJoin = "round";
    context.beginPath();
    let isDrawing = false;
    this.columns.forEach((rows, column) => {
      const value = rows ? quantileOfRows(rows, share) : null;
      const x = area.left + (column + 0.5) * step;
      if (value === null) isDrawing = false;
      else if (isDrawing) context.lineTo(x, y(value));
      else {
        context.moveTo(x - Math.max(step * 0.4, 2), y(value));
        context.lineTo(x, y(value));
        isDrawing = true;
      }
    });
    context.stroke();
    context.lineWidth = 1;
  }

  /* Below: how many streams were open, and when something stalled. */
  drawStrip(context, colors) {
    const { area } = this;
    const { from, until } = this.range;
    const top = area.top + area.height + 8;
    const most = Math.max(...this.open, 1);
    const step = area.width / this.open.length;
    context.fillStyle = colors.wait;
    this.open.forEach((count, column) => {
      const height = (count / most) * (STRIP - 6);
      context.fillRect(area.left + column * step, top + STRIP - 6 - height, step + 0.4, height);
    });
    context.fillStyle = colors.stall;
    for (const stream of this.page.shown) {
      for (const stall of stream.stalls ?? []) {
        const x = area.left + ((stream.start + stall.at - from) / (until - from)) * area.width;
        const length = stall.open ? this.page.now - stream.start - stall.at : stall.waited;
        const width = Math.max((length / (until - from)) * area.width, 2);
        if (x + width > area.left) context.fillRect(Math.max(x, area.left), top + STRIP - 5, width, 5);
      }
    }
    context.fillStyle = colors.dim;
    context.textAlign = "right";
    context.fillText(`${most}`, area.left - 6, top + 5);
    drawAxisTitle(context, colors, "open", area.left - 6, top + 20, "right");
  }

  hover(event) {
    if (!this.columns) return;
    const { area } = this;
    const box = this.plot.box.getBoundingClientRect();
    const position = Math.min(Math.max((event.clientX - box.left - area.left) / area.width, 0), 0.9999);
    const column = Math.floor(position * this.columns.length);
    const rows = this.columns[column];
    const { from, until } = this.range;
    const lines = [formatClock(from + position * (until - from), 1e6), `${this.open[column]} open`];
    if (rows) lines.push(...LINES.map(([share]) => `ITL p${share * 100} ${formatDuration(quantileOfRows(rows, share))}`));
    this.page.tip.show(lines.join("\n"), event.clientX, event.clientY);
  }

  makeRows() {
    const { from, until } = this.page.range;
    const summed = sumColumns(this.page.aggregate, from, until, 24);
    const open = countOpen(this.page.shown, this.page.now, from, until, 24);
    const rows = summed.map((latencies, column) => [
      formatClock(from + ((until - from) * column) / 24, 1e6), formatCount(open[column]),
      ...LINES.map(([share]) => formatDuration(latencies ? quantileOfRows(latencies, share) : null)),
    ]);
    return { columns: ["from", "open streams", "ITL p50", "ITL p95", "ITL p99"], rows };
  }
}

/* The most streams that were open at once, in each of some equal parts of the time. */
function countOpen(streams, now, from, until, columns) {
  const changes = new Float64Array(columns + 1);
  const column = (moment) => Math.min(Math.max(Math.floor(((moment - from) / (until - from)) * columns), 0), columns);
  for (const stream of streams) {
    if (isPlain(stream)) continue;
    changes[column(stream.start)] += 1;
    changes[Math.min(column(endOf(stream, now)) + 1, columns)] -= 1;
  }
  const open = [];
  let count = 0;
  for (let place = 0; place < columns; place++) {
    count += changes[place];
    open.push(count);
  }
  return open;
}
