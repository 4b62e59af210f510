/* The percentile spectrum: latency over the percentile, on the axis of HdrHistogram, where each nine has equal room. */

import { drawValueAxis, logTicks } from "./axis.js";
import { Plot } from "./canvas.js";
import { makeHead } from "./dom.js";
import { formatCount, formatDuration } from "./format.js";
import { drawNothing } from "./heatmap.js";
import { quantileOf } from "./samples.js";
import { TableToggle } from "./tables.js";

const SHARES = [0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9999];
const LABELS = [0, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999];
const END = -Math.log10(1 - 0.9999);
const STEPS = 160;
const place = (share) => Math.min(-Math.log10(1 - share), END) / END;
const percent = (share) => `${+(share * 100).toFixed(2)} %`;

export class Spectrum {
  constructor(section, page) {
    this.page = page;
    this.plot = new Plot(216, "Latency over percentile, for inter-token latency and time to first token.", () => page.refresh());
    this.table = new TableToggle("percentiles", () => this.makeRows());
    const legend = [["a", "ITL", "ITL"], ["b", "TTFT", "TTFT"]];
    section.append(makeHead("Percentile spectrum", { tools: [this.table.button], legend }), this.plot.box, this.table.box);
    this.plot.box.addEventListener("pointermove", (event) => this.hover(event));
    this.plot.box.addEventListener("pointerleave", () => page.tip.hide());
  }

  get area() {
    return { left: 52, top: 8, width: Math.max(this.plot.width - 80, 10), height: this.plot.height - 30 };
  }

  draw() {
    const { page, plot, area } = this;
    const { colors } = page.theme;
    const { samples } = page.aggregate;
    const context = plot.begin();
    this.first = page.aggregate.firstTokens.map((token) => token.us).sort((a, b) => a - b);
    const sizes = [samples.quantile(0.25), samples.max, quantileOf(this.first, 0), this.first.at(-1)].filter((size) => size > 0);
    if (!sizes.length) return drawNothing(context, colors, area, "no latency sample yet");
    const low = 10 ** (Math.floor(Math.log10(Math.max(Math.min(...sizes), 100)) * 2) / 2);
    const high = 10 ** (Math.ceil(Math.log10(Math.max(...sizes) * 1.05) * 3) / 3);
    const y = (us) => area.top + area.height * (1 - Math.log(Math.max(us, low) / low) / Math.log(high / low));
    drawValueAxis(context, colors, area, logTicks(low, high), y, formatDuration);
    context.textAlign = "center";
    for (const share of LABELS) {
      const x = area.left + place(share) * area.width;
      context.fillStyle = colors.grid;
      context.fillRect(Math.round(x), area.top, 1, area.height);
      context.fillStyle = colors.dim;
      const isCrowded = share === 0.75 || (area.width <= 360 && (share === 0 || share === 0.95));
      if (!isCrowded) context.fillText(percent(share), x, plot.height - 10);
    }
    this.drawObjective(context, colors, y);
    this.drawLine(context, colors["series-b"], y, (share) => quantileOf(this.first, share), this.first.length);
    this.drawLine(context, colors["series-a"], y, (share) => samples.quantile(share), samples.count);
    return this.table.update();
  }

  /* Draws a line up to the percentile that the number of samples can show. */
  drawLine(context, color, y, quantile, count) {
    if (!count) return;
    const { area } = this;
    const end = Math.min(place(1 - 1 / (count + 1)), 1);
    context.strokeStyle = color;
    context.lineWidth = 2;
    context.lineJoin = "round";
    context.beginPath();
    for (let step = 0; step <= STEPS; step++) {
      const position = (step / STEPS) * end;
      const share = 1 - 10 ** (-position * END);
      context.lineTo(area.left + position * area.width, y(quantile(share)));
    }
    context.stroke();
    context.lineWidth = 1;
  }

  drawObjective(context, colors, y) {
    const { objective } = this.page;
    if (!objective) return;
    const { area } = this;
    context.setLineDash([5, 3]);
    for (const [seconds, color] of [[objective.itl, colors["series-a"]], [objective.ttft, colors["series-b"]]]) {
      if (!seconds) continue;
      const height = y(seconds * 1e6);
      if (height < area.top) continue;
      context.strokeStyle = color;
      context.globalAlpha = 0.75;
      context.strokeRect(area.left, Math.round(height) + 0.5, area.width, 0);
      context.globalAlpha = 1;
    }
    context.setLineDash([]);
  }

  hover(event) {
    const { area } = this;
    const box = this.plot.box.getBoundingClientRect();
    const position = Math.min(Math.max((event.clientX - box.left - area.left) / area.width, 0), 1);
    const share = 1 - 10 ** (-position * END);
    const { samples } = this.page.aggregate;
    if (!samples.count && !this.first?.length) return;
    const shown = `p${+(share * 100).toFixed(share > 0.99 ? 3 : 1)}`;
    this.page.tip.show(`${shown}\nITL ${formatDuration(samples.quantile(share))}\nTTFT ${formatDuration(quantileOf(this.first, share))}`,
      event.clientX, event.clientY);
  }

  makeRows() {
    const { samples } = this.page.aggregate;
    const rows = [...SHARES, 1].map((share) => [
      percent(share), formatDuration(samples.quantile(share)), formatDuration(quantileOf(this.first ?? [], share)),
    ]);
    rows.push(["samples", formatCount(samples.count), formatCount(this.first?.length ?? 0)]);
    return { columns: ["percentile", "ITL", "TTFT"], rows, terms: { ITL: "ITL", TTFT: "TTFT" } };
  }
}
