/* The percentile spectrum: latency over the percentile, on the axis of HdrHistogram, where each nine has equal room; and
   which share of the latencies is within the objectives. */

import { drawValueAxis, logTicks } from "./axis.js";
import { Plot } from "./canvas.js";
import { make, makeHead } from "./dom.js";
import { formatCount, formatDuration, formatShare } from "./format.js";
import { drawNothing } from "./heatmap.js";
import { markIfTooFew, quantileOf } from "./samples.js";
import { SideLegend } from "./sides.js";
import { TableToggle } from "./tables.js";

const SHARES = [0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9999];
const LABELS = [0, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999];
const END = -Math.log10(1 - 0.9999);
const STEPS = 160;
const DASH = [4, 3];
const place = (share) => Math.min(-Math.log10(1 - share), END) / END;
const shareAt = (position) => 1 - 10 ** (-position * END);
const percent = (share) => `${+(share * 100).toFixed(2)} %`;

export class Spectrum {
  constructor(section, page) {
    this.page = page;
    this.plot = new Plot(236, "Latency over percentile, for inter-token latency and time to first token.", () => page.refresh());
    this.table = new TableToggle("percentiles", () => this.makeRows());
    this.note = make("span", { class: "note" });
    this.sides = new SideLegend(page, "ITL, and TTFT dashed");
    const legend = [["itl", "ITL", "ITL"], ["ttft", "TTFT", "TTFT"]];
    section.append(makeHead("Percentile spectrum", { note: this.note, tools: [this.table.button], legend }), this.sides.element, this.plot.box, this.table.box);
    this.plot.box.addEventListener("pointermove", (event) => this.hover(event));
    this.plot.box.addEventListener("pointerleave", () => page.tip.hide());
    this.lines = [];
  }

  get area() {
    return { left: 52, top: 8, width: Math.max(this.plot.width - 80, 10), height: this.plot.height - 30 };
  }

  /* The lines: for each side one of TTFT, which is dashed, and one of ITL. */
  findLines() {
    return this.page.parts.flatMap(({ name, color, sums: { samples }, sums }) => {
      const first = sums.sortedFirst();
      const title = name ? ` of ${name}` : "";
      return [
        { title: `TTFT${title}`, color: color ?? "ttft", dash: DASH, count: first.length, streams: first.length, quantile: (share) => quantileOf(first, share), within: (us) => shareUpTo(first, us), least: first[0], most: first.at(-1) },
        { title: `ITL${title}`, color: color ?? "itl-50", dash: [], count: samples.count, streams: sums.streams, quantile: (share) => samples.quantile(share), within: (us) => samples.shareUpTo(us), least: samples.quantile(0.25), most: samples.max },
      ];
    }).filter(({ count }) => count);
  }

  draw() {
    const { area } = this;
    const { colors } = this.page.theme;
    const context = this.plot.begin();
    this.sides.update();
    this.lines = this.findLines();
    this.note.textContent = this.describeObjective();
    const sizes = this.lines.flatMap(({ least, most }) => [least, most]).filter((size) => size > 0);
    if (!sizes.length) return drawNothing(context, colors, area, "no latency sample yet");
    const low = 10 ** (Math.floor(Math.log10(Math.max(Math.min(...sizes), 100)) * 2) / 2);
    const high = 10 ** (Math.ceil(Math.log10(Math.max(...sizes) * 1.05) * 3) / 3);
    const y = (us) => area.top + area.height * (1 - Math.log(Math.max(us, low) / low) / Math.log(high / low));
    drawValueAxis(context, colors, area, logTicks(low, high), y, formatDuration);
    for (const share of LABELS) {
      const isCrowded = share === 0.75 || (area.width <= 360 && (share === 0 || share === 0.95));
      this.drawTick(context, colors, area.left + place(share) * area.width, isCrowded ? "" : percent(share));
    }
    this.drawObjectives(context, colors, y, high);
    for (const line of this.lines) this.drawLine(context, colors, y, line);
    return this.table.update();
  }

  /* A vertical grid line with its label, or without one. */
  drawTick(context, colors, x, label) {
    const { area, plot } = this;
    context.textAlign = "center";
    context.fillStyle = colors.grid;
    context.fillRect(Math.round(x), area.top, 1, area.height);
    context.fillStyle = colors.dim;
    if (label) context.fillText(label, x, plot.height - 10);
  }

  drawObjectives(context, colors, y, high) {
    const { objective } = this.page;
    const { area } = this;
    context.textAlign = "left";
    for (const [seconds, name] of [[objective?.itl, "ITL"], [objective?.ttft, "TTFT"]]) {
      if (!seconds || seconds * 1e6 > high) continue;
      const line = Math.round(y(seconds * 1e6)) + 0.5;
      context.strokeStyle = context.fillStyle = colors.good;
      context.setLineDash([5, 3]);
      context.strokeRect(area.left, line, area.width, 0);
      context.setLineDash([]);
      context.fillText(`${name} ≤ ${formatDuration(seconds * 1e6)}`, area.left + 5, line - 8);
    }
  }

  /* Draws a line up to the percentile that the number of samples can show. */
  drawLine(context, colors, y, { color, dash, count, quantile }) {
    const { area } = this;
    const end = Math.min(place(1 - 1 / (count + 1)), 1);
    context.strokeStyle = colors[color];
    context.lineWidth = 2;
    context.lineJoin = "round";
    context.setLineDash(dash);
    context.beginPath();
    for (let step = 0; step <= STEPS; step++) context.lineTo(area.left + (step / STEPS) * end * area.width, y(quantile(shareAt((step / STEPS) * end))));
    context.stroke();
    context.setLineDash([]);
    context.lineWidth = 1;
  }

  /* Which share of the latencies is within the objectives. */
  describeObjective() {
    const { objective } = this.page;
    const shares = this.lines.map(({ title, within }) => {
      const seconds = objective?.[title.startsWith("ITL") ? "itl" : "ttft"];
      return seconds && `${formatShare(within(seconds * 1e6))} of ${title.replace(" of ", ", ")}`;
    }).filter(Boolean);
    return shares.length ? `objective ${objective.profile}: ${shares.join(" and ")} within` : "";
  }

  hover(event) {
    if (!this.lines.length) return;
    const { area } = this;
    const box = this.plot.box.getBoundingClientRect();
    const share = shareAt(Math.min(Math.max((event.clientX - box.left - area.left) / area.width, 0), 1));
    const shown = `p${+(share * 100).toFixed(share > 0.99 ? 3 : 1)}`;
    const figures = this.lines.map((line) => `${line.title} ${describeAt(line, share)}`);
    this.page.tip.show([shown, ...figures].join("\n"), event.clientX, event.clientY);
  }

  makeRows() {
    const rows = [...SHARES, 1].map((share) => [percent(share), ...this.lines.map((line) => describeAt(line, share))]);
    rows.push(["samples", ...this.lines.map(({ count }) => formatCount(count))]);
    return { columns: ["percentile", ...this.lines.map(({ title }) => title)], rows, terms: { ITL: "ITL", TTFT: "TTFT" } };
  }
}

/* The latency of a line at a percentile, marked where that has too few samples; the least and the most are exact. */
function describeAt({ quantile, count, streams }, share) {
  const text = formatDuration(quantile(share));
  return share > 0 && share < 1 ? markIfTooFew(text, share, count, streams) : text;
}

/* The share of ascending values up to a size. */
function shareUpTo(sorted, size) {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= size) low = middle + 1;
    else high = middle;
  }
  return low / sorted.length;
}
