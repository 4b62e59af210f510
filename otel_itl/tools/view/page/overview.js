/* The overview of the whole time, above the lanes: how many streams were open, what stalled, and a frame around the part
   that the lanes show. A drag shows another part by time of day, a click moves there. */

import { Plot } from "./canvas.js";
import { make } from "./dom.js";
import { formatClock, formatCount, formatTime } from "./format.js";
import { countOpen, drawOpened } from "./opened.js";

const OVERVIEW_PX = 44;
const COLUMN_PX = 3;
const MIN_DRAG_PX = 4;
const CLICKED_SHARE = 0.05;

export class Overview {
  constructor(page, lanes) {
    Object.assign(this, { page, lanes, drag: null });
    this.plot = new Plot(OVERVIEW_PX, "All of the time: how many streams were open, and when something stalled. The table over time has the same data.", () => page.refresh());
    this.frame = make("div", { class: "frame", "aria-hidden": "true" });
    this.plot.box.classList.add("overview");
    this.plot.box.append(this.frame);
    const { box } = this.plot;
    box.addEventListener("pointerdown", (event) => this.begin(event));
    box.addEventListener("pointermove", (event) => this.move(event));
    box.addEventListener("pointerup", (event) => this.finish(event));
    box.addEventListener("pointercancel", () => this.cancel());
    box.addEventListener("pointerleave", () => page.tip.hide());
  }

  get area() {
    const { left, right } = this.lanes.area;
    return { left, width: Math.max(right - left, 10), bottom: OVERVIEW_PX - 10, height: OVERVIEW_PX - 16 };
  }

  /* The time from the first request to the last end, which are those of the charts below. */
  get range() {
    return this.page.parts[0].range;
  }

  /* Draws the strip, as often as the charts; sides have no time in common. */
  draw() {
    const { page, plot, area } = this;
    plot.box.hidden = Boolean(page.facts.sides) || !page.shown.length;
    if (plot.box.hidden) return;
    const context = plot.begin();
    const { from, until } = this.range;
    const [part] = page.parts;
    this.open = countOpen(part.streams, page.now, from, until, Math.max(Math.floor(area.width / COLUMN_PX), 1));
    const { colors } = page.theme;
    drawOpened(context, colors, [{ ...part, open: this.open }], area, page.now);
    context.fillStyle = colors.dim;
    context.textAlign = "left";
    const isWide = area.left > 120;
    context.fillText(isWide ? `${formatTime(from, until - from)} – ${formatTime(until, until - from)}` : "all of it", 2, OVERVIEW_PX / 2);
    this.place();
  }

  /* Puts the frame where the window of the lanes is, or where it is dragged to. */
  place() {
    if (this.plot.box.hidden || !this.page.parts.length) return;
    const { area, lanes } = this;
    const { from, until } = this.range;
    const x = (moment) => Math.min(Math.max(((moment - from) / (until - from)) * area.width, 0), area.width);
    const [left, right] = this.drag ? [Math.min(this.drag.start, this.drag.end), Math.max(this.drag.start, this.drag.end)]
      : [x(lanes.window.from), x(lanes.window.until)];
    this.frame.hidden = !this.drag && lanes.isByRequest;
    this.frame.style.left = `${area.left + left}px`;
    this.frame.style.width = `${Math.max(right - left, 3)}px`;
  }

  point(event) {
    const { left, width } = this.area;
    return Math.min(Math.max(event.clientX - this.plot.box.getBoundingClientRect().left - left, 0), width);
  }

  moment(x) {
    const { from, until } = this.range;
    return from + (x / this.area.width) * (until - from);
  }

  begin(event) {
    if (event.button !== 0) return;
    const start = this.point(event);
    this.drag = { start, end: start };
    this.plot.box.setPointerCapture(event.pointerId);
  }

  move(event) {
    const x = this.point(event);
    if (this.drag) {
      this.drag.end = x;
      this.place();
    } else if (this.open) {
      const column = Math.min(Math.floor((x / this.area.width) * this.open.length), this.open.length - 1);
      this.page.tip.show(`${formatClock(this.moment(x))}\n${formatCount(this.open[column])} open\ndrag to see a part, click to go there`, event.clientX, event.clientY);
    }
  }

  finish() {
    if (!this.drag) return;
    const [from, until] = [this.moment(Math.min(this.drag.start, this.drag.end)), this.moment(Math.max(this.drag.start, this.drag.end))];
    const isClick = Math.abs(this.drag.end - this.drag.start) < MIN_DRAG_PX;
    this.drag = null;
    if (isClick) this.lanes.goTo(from, (this.range.until - this.range.from) * CLICKED_SHARE);
    else this.lanes.show(from, until);
  }

  cancel() {
    this.drag = null;
    this.place();
  }
}
