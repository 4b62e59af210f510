/* What drives the latency: each finding in a sentence, with a picture of its effect and the table behind it. */

import { drawAxisTitle, drawValueAxis } from "./axis.js";
import { Plot } from "./canvas.js";
import { make, makeHead } from "./dom.js";
import { formatCount, formatDuration } from "./format.js";
import { TableToggle } from "./tables.js";

const HEIGHT = 150;
const LABEL_APART = 74;
const TICKS = 4;
const MAX_REACH = 0.25;
const COLORS = { upstream: "series-b", own_load: "series-c", request: "series-a", attribute: "series-a" };

/* The panel is there where the page holds an explanation: `report --explain --html` writes one. */
export class Explain {
  constructor(section, page) {
    this.page = page;
    this.effects = [];
    const { explanation } = page.facts;
    section.hidden = !explanation;
    if (!explanation) return;
    section.append(makeHead("What drives it", { term: "explanation", legend: [
      ["b", "points upstream"], ["c", "your own load"], ["a", "comes with the request or an attribute"]] }));
    for (const model of explanation.models) section.append(...this.makeModel(model));
    section.append(make("p", { class: "dim" }, explanation.basis));
  }

  makeModel({ model, note, findings, others }) {
    const list = findings.map((finding) => {
      const effect = new Effect(finding, this.page);
      this.effects.push(effect);
      return effect.element;
    });
    return [
      make("h3", {}, model, " ", make("span", { class: "dim" }, note)),
      list.length ? make("ol", { class: "findings" }, ...list) : null,
      ...others.map((sentence) => make("p", {}, sentence)),
    ].filter(Boolean);
  }

  draw() {
    for (const effect of this.effects) effect.draw();
  }
}

/* One finding: its share, its sentences, and the typical latency over the driver with the 95 % interval as a band. */
class Effect {
  constructor(finding, page) {
    Object.assign(this, { finding, page });
    const subject = `${finding.target} over ${finding.axis}`;
    this.element = make("li", {},
      make("p", {}, make("b", { class: "share" }, finding.share), " of ", make("span", { term: finding.target }, finding.target), ": ",
        finding.sentence, " ", make("span", { class: "dim" }, finding.origin)));
    if (!finding.points.length) return;
    this.plot = new Plot(HEIGHT, `${subject}. ${finding.sentence}`, () => this.draw());
    this.table = new TableToggle(subject, () => this.makeRows());
    this.plot.box.addEventListener("pointermove", (event) => this.hover(event));
    this.plot.box.addEventListener("pointerleave", () => page.tip.hide());
    this.element.append(make("div", { class: "head" }, make("span", { class: "note" }, subject), make("div", { class: "tools" }, this.table.button)),
      this.plot.box, this.table.box);
  }

  get area() {
    return { left: 58, top: 8, width: Math.max(this.plot.width - 76, 10), height: HEIGHT - 46 };
  }

  placeX({ at }) {
    const inset = this.finding.line ? 0 : 0.12;
    return this.area.left + (inset + at * (1 - 2 * inset)) * this.area.width;
  }

  draw() {
    if (!this.plot) return;
    const { area, finding: { points, line, axis, points_to: pointsTo } } = this;
    const { colors } = this.page.theme;
    const context = this.plot.begin();
    const { ticks, least, most } = valueTicks(points);
    const y = (us) => area.top + area.height * (1 - (us - least) / (most - least));
    drawValueAxis(context, colors, area, ticks, y, formatDuration);
    this.drawLabels(context, colors);
    drawAxisTitle(context, colors, axis, area.left + area.width, HEIGHT - 8, "right");
    const color = colors[COLORS[pointsTo]];
    context.save();
    context.beginPath();
    context.rect(area.left - 5, area.top - 5, area.width + 10, area.height + 10);
    context.clip();
    if (line) this.drawBand(context, color, y);
    for (const point of points) drawPoint(context, color, this.placeX(point), y, point, line);
    context.restore();
    this.table.update();
  }

  drawLabels(context, colors) {
    context.fillStyle = colors.dim;
    context.textAlign = "center";
    let last = -Infinity;
    for (const point of this.finding.points) {
      const x = this.placeX(point);
      if (x - last < Math.max(LABEL_APART, context.measureText(point.label).width + 8)) continue;
      last = x;
      context.fillText(point.label, x, this.area.top + this.area.height + 12);
    }
  }

  drawBand(context, color, y) {
    const { points } = this.finding;
    context.fillStyle = color;
    context.globalAlpha = 0.18;
    context.beginPath();
    for (const point of points) context.lineTo(this.placeX(point), y(point.low));
    for (const point of [...points].reverse()) context.lineTo(this.placeX(point), y(point.high));
    context.fill();
    context.globalAlpha = 1;
    context.strokeStyle = color;
    context.lineWidth = 2;
    context.beginPath();
    for (const point of points) context.lineTo(this.placeX(point), y(point.y));
    context.stroke();
    context.lineWidth = 1;
  }

  hover(event) {
    const x = event.clientX - this.plot.box.getBoundingClientRect().left;
    const distance = (point) => Math.abs(this.placeX(point) - x);
    const nearest = this.finding.points.reduce((best, point) => (distance(point) < distance(best) ? point : best));
    this.page.tip.show(`${nearest.label}\n${formatDuration(nearest.y)} (${formatDuration(nearest.low)} to ${formatDuration(nearest.high)})\n${formatCount(nearest.streams)} streams`,
      event.clientX, event.clientY);
  }

  makeRows() {
    const { points, axis, target } = this.finding;
    const rows = points.map((point) => [point.label, formatDuration(point.y), formatDuration(point.low), formatDuration(point.high), formatCount(point.streams)]);
    return { columns: [axis, target, "from", "to", "streams"], rows };
  }
}

/* Draws a point; without a line through it, with its interval. */
function drawPoint(context, color, x, y, point, hasLine) {
  context.fillStyle = color;
  if (!hasLine) context.fillRect(x - 1, y(point.high), 2, Math.max(y(point.low) - y(point.high), 1));
  context.beginPath();
  context.arc(x, y(point.y), hasLine ? 2.5 : 4, 0, 2 * Math.PI);
  context.fill();
}

/* Round steps around the intervals of all points; an interval of few streams that reaches far beyond is cut off. */
function valueTicks(points) {
  const values = points.map((point) => point.y);
  const low = Math.max(Math.min(...points.map((point) => point.low)), Math.min(...values) * (1 - MAX_REACH));
  const high = Math.min(Math.max(...points.map((point) => point.high)), Math.max(...values) * (1 + MAX_REACH));
  const room = Math.max(high - low, high * 0.02, 1);
  const power = 10 ** Math.floor(Math.log10(room / TICKS));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= room / TICKS);
  const least = Math.floor(low / step) * step;
  const most = Math.max(Math.ceil(high / step), least / step + 1) * step;
  const ticks = [];
  for (let tick = least; tick <= most + step / 2; tick += step) ticks.push(tick);
  return { ticks, least, most };
}
