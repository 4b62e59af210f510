/* Latency over time: percentiles of ITL and each TTFT, with concurrency and stalls below. */

import { describeQuantile, quantileOfRows, sumColumns } from "./aggregate.js";
import { drawAxisTitle, drawTimeAxis, drawValueAxis, logTicks } from "./axis.js";
import { Plot } from "./canvas.js";
import { makeHead } from "./dom.js";
import { formatClock, formatCount, formatDuration } from "./format.js";
import { drawNothing, heightOfBands } from "./heatmap.js";
import { countOpen, drawOpened } from "./opened.js";
import { SideLegend } from "./sides.js";
import { TableToggle } from "./tables.js";

const LINES = [{ share: 0.5, color: "itl-50", width: 2, dash: [] }, { share: 0.95, color: "itl-95", width: 1.5, dash: [] },
  { share: 0.99, color: "itl-99", width: 1.5, dash: [3, 2] }];
const SHARES_OF_SIDES = [0.5, 0.99];
const STRIP = 38;
const TABLE_ROWS = 24;
const DOT_PX = 2.2;

export class Series {
  constructor(section, page) {
    this.page = page;
    this.plot = new Plot(236, "Percentiles of inter-token latency, time to first token, concurrency and stalls over time.", () => page.refresh());
    this.table = new TableToggle("figures over time", () => this.makeRows());
    this.sides = new SideLegend(page, "ITL p50, and p99 dashed");
    const legend = [["itl", "ITL p50", "ITL"], ["itl-95", "p95"], ["itl-99", "p99"], ["ttft", "TTFT", "TTFT"], ["stall", "stall", "stall"]];
    section.append(makeHead("Over time", { tools: [this.table.button], legend }), this.sides.element, this.plot.box, this.table.box);
    this.plot.box.addEventListener("pointermove", (event) => this.hover(event));
    this.plot.box.addEventListener("pointerleave", () => page.tip.hide());
  }

  get area() {
    return { left: 52, top: 6, width: Math.max(this.plot.width - 58, 10), height: this.plot.height - 36 - STRIP, labelY: this.plot.height - 10 };
  }

  /* The parts with their latencies by column, and how many streams were open at most in each. */
  sumParts(width) {
    const { page } = this;
    return page.parts.map((part) => {
      const { from, until } = part.range;
      const columns = Math.max(Math.min(Math.floor(width / 9), Math.ceil((until - from) / part.sums.binUs)), 1);
      return { ...part, columns: sumColumns(part.sums, from, until, columns), open: countOpen(part.streams, page.now, from, until, columns) };
    });
  }

  draw() {
    const { page, plot, area } = this;
    const { colors } = page.theme;
    plot.box.style.height = `${heightOfBands(page.parts.length)}px`;
    const context = plot.begin();
    this.sides.update();
    this.parts = this.sumParts(area.width);
    const [{ range }] = this.parts;
    const box = { ...area, height: area.height + STRIP + 6 };
    if (page.facts.sides) drawTimeAxis(context, colors, box, 0, range.until - range.from, true);
    else drawTimeAxis(context, colors, box, range.from, range.until);
    const bounds = findLatencyBounds(this.parts.map(({ sums }) => sums));
    if (bounds) {
      const { low, high } = bounds;
      const y = (us) => area.top + area.height * (1 - Math.log(Math.min(Math.max(us, low), high) / low) / Math.log(high / low));
      drawValueAxis(context, colors, area, logTicks(low, high), y, formatDuration);
      for (const part of this.parts) this.drawDots(context, colors, y, part);
      for (const part of this.parts) {
        const lines = part.color ? LINES.filter(({ share }) => SHARES_OF_SIDES.includes(share)) : LINES;
        for (const line of lines) this.drawLine(context, colors, y, part, line);
      }
    } else {
      drawNothing(context, colors, area, "no latency sample yet");
    }
    this.drawStrip(context, colors);
    this.table.update();
  }

  /* A dot for each time to first token; one that lies on another is drawn once. */
  drawDots(context, colors, y, { sums, range: { from, until }, color }) {
    const { area } = this;
    const drawn = new Set();
    context.fillStyle = colors[color ?? "ttft"];
    context.globalAlpha = 0.75;
    for (const token of sums.firstTokens) {
      const x = area.left + ((token.at - from) / (until - from)) * area.width;
      const key = Math.round(x) * 1e4 + Math.round(y(token.us));
      if (x < area.left || drawn.has(key)) continue;
      drawn.add(key);
      context.beginPath();
      context.arc(x, y(token.us), DOT_PX, 0, 7);
      context.fill();
    }
    context.globalAlpha = 1;
  }

  drawLine(context, colors, y, { columns, color: ofSide }, { share, color, width, dash }) {
    const { area } = this;
    const step = area.width / columns.length;
    context.strokeStyle = colors[ofSide ?? color];
    context.lineWidth = width;
    context.lineJoin = "round";
    context.setLineDash(dash);
    context.beginPath();
    let isDrawing = false;
    columns.forEach((rows, column) => {
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
    context.setLineDash([]);
    context.lineWidth = 1;
  }

  /* Below: how many streams were open, and when something stalled. */
  drawStrip(context, colors) {
    const { area } = this;
    const bottom = area.top + area.height + 8 + STRIP - 6;
    const most = drawOpened(context, colors, this.parts, { ...area, bottom, height: STRIP - 6 }, this.page.now);
    context.fillStyle = colors.dim;
    context.textAlign = "right";
    context.fillText(`${most}`, area.left - 6, bottom - STRIP + 11);
    drawAxisTitle(context, colors, "open", area.left - 6, bottom - STRIP + 26, "right");
  }

  hover(event) {
    if (!this.parts) return;
    const { area } = this;
    const box = this.plot.box.getBoundingClientRect();
    const position = Math.min(Math.max((event.clientX - box.left - area.left) / area.width, 0), 0.9999);
    const lines = this.parts.flatMap(({ name, columns, open, range: { from, until } }) => {
      const column = Math.floor(position * columns.length);
      const rows = columns[column];
      const figures = rows ? LINES.map(({ share }) => `ITL p${share * 100} ${describeQuantile(rows, share)}`) : [];
      const passed = position * (until - from);
      return [name ? `${name}, after ${formatDuration(passed)}` : formatClock(from + passed, 1e6), `${open[column]} open`, ...figures];
    });
    this.page.tip.show(lines.join("\n"), event.clientX, event.clientY);
  }

  makeRows() {
    const rows = this.page.parts.flatMap(({ name, sums, streams, range: { from, until } }) => {
      const open = countOpen(streams, this.page.now, from, until, TABLE_ROWS);
      return sumColumns(sums, from, until, TABLE_ROWS).map((latencies, column) => {
        const passed = ((until - from) * column) / TABLE_ROWS;
        return [
          name ? `${name}, ${formatDuration(passed)}` : formatClock(from + passed, 1e6), formatCount(open[column]),
          ...LINES.map(({ share }) => describeQuantile(latencies, share)),
        ];
      });
    });
    return { columns: ["from", "open streams", "ITL p50", "ITL p95", "ITL p99"], rows };
  }
}

/* The latencies that the axis has room for; null: there are none. */
function findLatencyBounds(sums) {
  const samples = sums.map((one) => one.samples).filter(({ count }) => count);
  const first = sums.flatMap(({ firstTokens }) => firstTokens);
  if (!samples.length && !first.length) return null;
  const least = Math.min(...samples.map((one) => one.quantile(0.3) || 1e5), 1e5);
  const most = Math.max(...samples.map((one) => one.quantile(0.999)), first.reduce((longest, { us }) => Math.max(longest, us), 0));
  const low = 10 ** (Math.floor(Math.log10(Math.max(least, 300)) * 2) / 2);
  return { low, high: 10 ** (Math.ceil(Math.log10(Math.max(most, low * 30)) * 3) / 3) };
}
