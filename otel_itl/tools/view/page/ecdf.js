/* The share of latencies up to each size (ECDF), with the objectives as lines. */

import { drawValueAxis, logTicks } from "./axis.js";
import { Plot } from "./canvas.js";
import { make, makeHead } from "./dom.js";
import { formatDuration, formatShare } from "./format.js";
import { drawNothing } from "./heatmap.js";
import { TableToggle } from "./tables.js";

const CURVE_STEPS = 220;

export class Ecdf {
  constructor(section, page) {
    this.page = page;
    this.plot = new Plot(216, "Share of latencies up to each size, with the objectives.", () => page.refresh());
    this.table = new TableToggle("shares", () => this.makeRows());
    this.note = make("span", { class: "note" });
    const legend = [["a", "ITL", "ITL"], ["b", "TTFT", "TTFT"]];
    section.append(makeHead("Share within", { note: this.note, tools: [this.table.button], legend }), this.plot.box, this.table.box);
    this.plot.box.addEventListener("pointermove", (event) => this.hover(event));
    this.plot.box.addEventListener("pointerleave", () => page.tip.hide());
  }

  get area() {
    return { left: 46, top: 8, width: Math.max(this.plot.width - 62, 10), height: this.plot.height - 30 };
  }

  /* The share of first tokens up to a size. */
  shareOfFirst(us) {
    let low = 0;
    let high = this.first.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.first[middle] <= us) low = middle + 1;
      else high = middle;
    }
    return this.first.length ? low / this.first.length : null;
  }

  draw() {
    const { page, plot, area } = this;
    const { colors } = page.theme;
    const { samples } = page.aggregate;
    const context = plot.begin();
    this.first = page.aggregate.firstTokens.map((token) => token.us).sort((a, b) => a - b);
    this.note.textContent = this.describeObjective();
    if (!samples.count && !this.first.length) return drawNothing(context, colors, area, "no latency sample yet");
    const low = Math.max(10 ** Math.floor(Math.log10(Math.max(samples.quantile(0.02) || 1000, 100))), 100);
    const high = 10 ** (Math.ceil(Math.log10(Math.max(samples.max, this.first.at(-1) ?? 0, low * 10) * 1.02) * 3) / 3);
    this.sizes = { low, high };
    const x = (us) => area.left + area.width * (Math.log(us / low) / Math.log(high / low));
    const y = (share) => area.top + area.height * (1 - share);
    drawValueAxis(context, colors, area, [0, 0.25, 0.5, 0.75, 1], y, formatShare);
    context.textAlign = "center";
    for (const tick of logTicks(low, high)) {
      context.fillStyle = colors.grid;
      context.fillRect(Math.round(x(tick)), area.top, 1, area.height);
      context.fillStyle = colors.dim;
      if (area.width > 420 || /^1/.test(String(tick))) context.fillText(formatDuration(tick), x(tick), plot.height - 10);
    }
    this.drawObjective(context, colors, x);
    this.drawLine(context, colors["series-b"], x, y, (us) => this.shareOfFirst(us), this.first.length);
    this.drawLine(context, colors["series-a"], x, y, (us) => samples.shareUpTo(us), samples.count);
    return this.table.update();
  }

  drawLine(context, color, x, y, share, count) {
    if (!count) return;
    context.strokeStyle = color;
    context.lineWidth = 2;
    context.beginPath();
    const { low, high } = this.sizes;
    for (let step = 0; step <= CURVE_STEPS; step++) {
      const us = low * (high / low) ** (step / CURVE_STEPS);
      context.lineTo(x(us), y(share(us)));
    }
    context.stroke();
    context.lineWidth = 1;
  }

  drawObjective(context, colors, x) {
    const { objective } = this.page;
    if (!objective) return;
    const { area } = this;
    context.setLineDash([5, 3]);
    for (const [seconds, color, name] of [[objective.itl, colors["series-a"], "ITL"], [objective.ttft, colors["series-b"], "TTFT"]]) {
      const place = seconds ? x(seconds * 1e6) : 0;
      if (place < area.left || place > area.left + area.width) continue;
      context.strokeStyle = color;
      context.strokeRect(Math.round(place) + 0.5, area.top, 0, area.height);
      context.fillStyle = color;
      const isLeft = place > area.left + area.width - 90;
      context.textAlign = isLeft ? "right" : "left";
      context.fillText(`${name} ≤ ${formatDuration(seconds * 1e6)}`, place + (isLeft ? -5 : 5), area.top + area.height - (name === "ITL" ? 10 : 24));
    }
    context.setLineDash([]);
  }

  describeObjective() {
    const { objective, aggregate } = this.page;
    if (!objective) return "";
    const parts = [];
    if (objective.itl && aggregate.samples.count) parts.push(`${formatShare(aggregate.samples.shareUpTo(objective.itl * 1e6))} of ITL`);
    if (objective.ttft && this.first.length) parts.push(`${formatShare(this.shareOfFirst(objective.ttft * 1e6))} of TTFT`);
    return parts.length ? `objective ${objective.profile}: ${parts.join(" and ")} within` : "";
  }

  hover(event) {
    if (!this.sizes) return;
    const { area } = this;
    const box = this.plot.box.getBoundingClientRect();
    const position = Math.min(Math.max((event.clientX - box.left - area.left) / area.width, 0), 1);
    const us = this.sizes.low * (this.sizes.high / this.sizes.low) ** position;
    const { samples } = this.page.aggregate;
    this.page.tip.show(`within ${formatDuration(us)}\nITL ${formatShare(samples.shareUpTo(us))}\nTTFT ${formatShare(this.shareOfFirst(us))}`,
      event.clientX, event.clientY);
  }

  makeRows() {
    const { samples } = this.page.aggregate;
    const sizes = [5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7];
    const rows = sizes.map((us) => [formatDuration(us), formatShare(samples.shareUpTo(us)), formatShare(this.first ? this.shareOfFirst(us) : null)]);
    return { columns: ["within", "ITL", "TTFT"], rows };
  }
}
