/* The percentile spectrum: latency over the percentile, on the axis of HdrHistogram, where each nine has equal room. */

import { drawValueAxis, logTicks } from "./axis.js";
import { CurvePanel } from "./curves.js";
import { formatCount, formatDuration } from "./format.js";
import { drawNothing } from "./heatmap.js";
import { quantileOf } from "./samples.js";

const SHARES = [0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9999];
const LABELS = [0, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999];
const END = -Math.log10(1 - 0.9999);
const STEPS = 160;
const place = (share) => Math.min(-Math.log10(1 - share), END) / END;
const shareAt = (position) => 1 - 10 ** (-position * END);
const percent = (share) => `${+(share * 100).toFixed(2)} %`;

export class Spectrum extends CurvePanel {
  constructor(section, page) {
    const label = "Latency over percentile, for inter-token latency and time to first token.";
    super(section, page, { title: "Percentile spectrum", label, subject: "percentiles", left: 52, right: 28 });
  }

  draw() {
    const { area } = this;
    const { colors } = this.page.theme;
    const { samples } = this.page.aggregate;
    const context = this.begin();
    const sizes = [samples.quantile(0.25), samples.max, quantileOf(this.first, 0), this.first.at(-1)].filter((size) => size > 0);
    if (!sizes.length) return drawNothing(context, colors, area, "no latency sample yet");
    const low = 10 ** (Math.floor(Math.log10(Math.max(Math.min(...sizes), 100)) * 2) / 2);
    const high = 10 ** (Math.ceil(Math.log10(Math.max(...sizes) * 1.05) * 3) / 3);
    const y = (us) => area.top + area.height * (1 - Math.log(Math.max(us, low) / low) / Math.log(high / low));
    drawValueAxis(context, colors, area, logTicks(low, high), y, formatDuration);
    for (const share of LABELS) {
      const isCrowded = share === 0.75 || (area.width <= 360 && (share === 0 || share === 0.95));
      this.drawTick(context, colors, area.left + place(share) * area.width, isCrowded ? "" : percent(share));
    }
    this.drawObjectives(context, colors, (us) => {
      if (y(us) < area.top) return;
      context.globalAlpha = 0.75;
      context.strokeRect(area.left, Math.round(y(us)) + 0.5, area.width, 0);
      context.globalAlpha = 1;
    });
    this.drawQuantiles(context, colors["series-b"], y, (share) => quantileOf(this.first, share), this.first.length);
    this.drawQuantiles(context, colors["series-a"], y, (share) => samples.quantile(share), samples.count);
    return this.table.update();
  }

  /* Draws a line up to the percentile that the number of samples can show. */
  drawQuantiles(context, color, y, quantile, count) {
    if (!count) return;
    const { area } = this;
    const end = Math.min(place(1 - 1 / (count + 1)), 1);
    this.drawCurve(context, color, STEPS, (part) => [area.left + part * end * area.width, y(quantile(shareAt(part * end)))]);
  }

  hover(event) {
    const share = shareAt(this.partAt(event));
    const { samples } = this.page.aggregate;
    if (!samples.count && !this.first.length) return;
    const shown = `p${+(share * 100).toFixed(share > 0.99 ? 3 : 1)}`;
    this.page.tip.show(`${shown}\nITL ${formatDuration(samples.quantile(share))}\nTTFT ${formatDuration(quantileOf(this.first, share))}`,
      event.clientX, event.clientY);
  }

  makeRows() {
    const { samples } = this.page.aggregate;
    const rows = [...SHARES, 1].map((share) => [
      percent(share), formatDuration(samples.quantile(share)), formatDuration(quantileOf(this.first, share)),
    ]);
    rows.push(["samples", formatCount(samples.count), formatCount(this.first.length)]);
    return { columns: ["percentile", "ITL", "TTFT"], rows, terms: { ITL: "ITL", TTFT: "TTFT" } };
  }
}
