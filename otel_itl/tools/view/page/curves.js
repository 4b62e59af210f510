/* What the panels with a curve for ITL and one for TTFT have in common: their frame, their lines and their objectives. */

import { Plot } from "./canvas.js";
import { makeHead } from "./dom.js";
import { TableToggle } from "./tables.js";

export class CurvePanel {
  /* `left` and `right` are the margins of the plot, `note` an element in the head. */
  constructor(section, page, { title, label, subject, left, right, note }) {
    this.page = page;
    this.margins = { left, right };
    this.plot = new Plot(216, label, () => page.refresh());
    this.table = new TableToggle(subject, () => this.makeRows());
    const legend = [["a", "ITL", "ITL"], ["b", "TTFT", "TTFT"]];
    section.append(makeHead(title, { note, tools: [this.table.button], legend }), this.plot.box, this.table.box);
    this.plot.box.addEventListener("pointermove", (event) => this.hover(event));
    this.plot.box.addEventListener("pointerleave", () => page.tip.hide());
    this.first = [];
  }

  get area() {
    const { left, right } = this.margins;
    return { left, top: 8, width: Math.max(this.plot.width - left - right, 10), height: this.plot.height - 30 };
  }

  /* Clears the plot, and takes the times to first token (µs), ascending. */
  begin() {
    this.first = this.page.aggregate.firstTokens.map((token) => token.us).sort((a, b) => a - b);
    return this.plot.begin();
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

  /* Draws a curve: `point(part)` returns where it is at a part of its way. */
  drawCurve(context, color, steps, point) {
    context.strokeStyle = color;
    context.lineWidth = 2;
    context.lineJoin = "round";
    context.beginPath();
    for (let step = 0; step <= steps; step++) context.lineTo(...point(step / steps));
    context.stroke();
    context.lineWidth = 1;
  }

  /* Calls `draw(us, name)` for each objective, with dashed lines in its colour. */
  drawObjectives(context, colors, draw) {
    const { objective } = this.page;
    if (!objective) return;
    context.setLineDash([5, 3]);
    for (const [seconds, color, name] of [[objective.itl, colors["series-a"], "ITL"], [objective.ttft, colors["series-b"], "TTFT"]]) {
      context.strokeStyle = color;
      context.fillStyle = color;
      if (seconds) draw(seconds * 1e6, name);
    }
    context.setLineDash([]);
  }

  /* The part of the width at which the pointer is. */
  partAt(event) {
    const { area } = this;
    const box = this.plot.box.getBoundingClientRect();
    return Math.min(Math.max((event.clientX - box.left - area.left) / area.width, 0), 1);
  }
}
