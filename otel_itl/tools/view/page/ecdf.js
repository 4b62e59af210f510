/* The share of latencies up to each size (ECDF), with the objectives as lines. */

import { drawValueAxis, logTicks } from "./axis.js";
import { CurvePanel } from "./curves.js";
import { make } from "./dom.js";
import { formatDuration, formatShare } from "./format.js";
import { drawNothing } from "./heatmap.js";

const CURVE_STEPS = 220;

export class Ecdf extends CurvePanel {
  constructor(section, page) {
    const label = "Share of latencies up to each size, with the objectives.";
    const note = make("span", { class: "note" });
    super(section, page, { title: "Share within", label, subject: "shares", left: 46, right: 16, note });
    this.note = note;
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

  /* The size at a part of the width. */
  sizeAt(part) {
    return this.sizes.low * (this.sizes.high / this.sizes.low) ** part;
  }

  draw() {
    const { area } = this;
    const { colors } = this.page.theme;
    const { samples } = this.page.aggregate;
    const context = this.begin();
    this.note.textContent = this.describeObjective();
    if (!samples.count && !this.first.length) return drawNothing(context, colors, area, "no latency sample yet");
    const low = Math.max(10 ** Math.floor(Math.log10(Math.max(samples.quantile(0.02) || 1000, 100))), 100);
    const high = 10 ** (Math.ceil(Math.log10(Math.max(samples.max, this.first.at(-1) ?? 0, low * 10) * 1.02) * 3) / 3);
    this.sizes = { low, high };
    const x = (us) => area.left + area.width * (Math.log(us / low) / Math.log(high / low));
    const y = (share) => area.top + area.height * (1 - share);
    drawValueAxis(context, colors, area, [0, 0.25, 0.5, 0.75, 1], y, formatShare);
    for (const tick of logTicks(low, high)) {
      const hasLabel = area.width > 420 || /^1/.test(String(tick));
      this.drawTick(context, colors, x(tick), hasLabel ? formatDuration(tick) : "");
    }
    this.drawObjectives(context, colors, (us, name) => {
      const at = x(us);
      if (at < area.left || at > area.left + area.width) return;
      context.strokeRect(Math.round(at) + 0.5, area.top, 0, area.height);
      const isLeft = at > area.left + area.width - 90;
      context.textAlign = isLeft ? "right" : "left";
      context.fillText(`${name} ≤ ${formatDuration(us)}`, at + (isLeft ? -5 : 5), area.top + area.height - (name === "ITL" ? 10 : 24));
    });
    const drawShares = (color, share) => this.drawCurve(context, color, CURVE_STEPS, (part) => [area.left + part * area.width, y(share(this.sizeAt(part)))]);
    if (this.first.length) drawShares(colors["series-b"], (us) => this.shareOfFirst(us));
    if (samples.count) drawShares(colors["series-a"], (us) => samples.shareUpTo(us));
    return this.table.update();
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
    const us = this.sizeAt(this.partAt(event));
    const { samples } = this.page.aggregate;
    this.page.tip.show(`within ${formatDuration(us)}\nITL ${formatShare(samples.shareUpTo(us))}\nTTFT ${formatShare(this.shareOfFirst(us))}`,
      event.clientX, event.clientY);
  }

  makeRows() {
    const { samples } = this.page.aggregate;
    const sizes = [5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7];
    const rows = sizes.map((us) => [formatDuration(us), formatShare(samples.shareUpTo(us)), formatShare(this.shareOfFirst(us))]);
    return { columns: ["within", "ITL", "TTFT"], rows };
  }
}
