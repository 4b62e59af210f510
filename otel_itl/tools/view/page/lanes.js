/* The panel of live lanes: one row a stream, newest on top, by time of day or by time since the request. */

import { drawTimeAxis } from "./axis.js";
import { Plot, fitText, makeHatching, setFont } from "./canvas.js";
import { make, makeButton, makeHead } from "./dom.js";
import { LaneWindow, orderRows } from "./lanewindow.js";
import { ROW_COLUMNS, ROW_TEXTS, describeRows, describeStream, makeCells } from "./lanetext.js";
import { drawLaneBase, drawLaneOver, drawLaneTicks, makeEraser, makeKindPalette } from "./lanedraw.js";
import { Overview } from "./overview.js";
import { RowList } from "./rowlist.js";
import { SideLegend, colorOfSide } from "./sides.js";
import { isPlain, isRunning, ongoingStall } from "./streams.js";
import { TableToggle } from "./tables.js";
import { handleGestures } from "./timescale.js";

const AXIS_HEIGHT = 24;
const MAX_HEIGHT = 460;
const SIDE_PX = 4;
const LABEL_PX = 76;
const ROW = Object.freeze({ normal: 25, dense: 6 });
const MAX_TABLE_ROWS = 200;
const LEGEND = [
  ["wait", "until the first token", "TTFT"], ["reasoning", "reasoning"], ["answer", "answer"], ["tool", "tool call"],
  ["cap", "may be earlier", "uncertainty"], ["hollow", "hidden", "hidden"], ["hold", "hold", "hold"], ["stall", "stall", "stall"],
  ["span", "other span"],
];

export class Lanes {
  constructor(section, page) {
    this.page = page;
    this.window = new LaneWindow(page);
    this.isFollowing = true;
    this.fitsAll = true;
    this.rows = [];
    this.plot = new Plot(0, "Streams over time, one row each. The table has the same data.", () => page.draw());
    this.ticks = make("canvas", { "aria-hidden": "true" });
    this.plot.box.append(this.ticks);
    this.spacer = make("div", { class: "spacer" });
    this.list = new RowList(page, this);
    this.scroller = make("div", { class: "scroller", tabindex: 0, role: "listbox", "aria-label": "Streams: arrow keys move, Enter opens" },
      make("div", { class: "pin", "aria-hidden": "true" }, this.plot.box), this.spacer, this.list.element);
    this.scroller.addEventListener("keydown", (event) => this.list.press(event));
    this.empty = make("div", { class: "empty" });
    this.follow = makeButton("follow", () => this.toggleFollowing(), { id: "follow" });
    this.axis = makeButton("since request", () => this.toggleAxis(), { id: "axis" });
    this.dense = makeButton("dense", () => page.view.set({ dense: this.isDense ? "" : "1" }), { id: "dense" });
    const fit = makeButton("fit", () => this.fit(), { title: "Show all of the time (0)" });
    this.table = new TableToggle("the streams", () => this.makeRows());
    this.note = make("span", { class: "note" });
    this.sort = makeButton("longest gap first", () => page.view.set({ sort: this.isByGap ? "" : "gap" }), { id: "sort" });
    const tools = [this.follow, fit, this.axis, this.sort, this.dense, this.table.button];
    this.overview = new Overview(page, this);
    this.sides = new SideLegend(page);
    section.append(makeHead("Streams", { term: "stream", note: this.note, tools, legend: LEGEND }), this.sides.element,
      this.overview.plot.box, this.scroller, this.empty, this.table.box);
    this.scroller.addEventListener("scroll", () => page.draw());
    handleGestures(this.plot.box, {
      area: () => this.area, pan: (share) => this.move(() => this.window.pan(share)),
      zoom: (factor, share) => this.move(() => this.window.zoom(factor, share)),
      click: (event) => this.open(this.rowAt(event)),
    });
    this.plot.box.addEventListener("pointermove", (event) => this.hover(event));
    this.plot.box.addEventListener("pointerleave", () => page.tip.hide());
  }

  get isDense() {
    return this.page.view.get("dense") === "1";
  }

  get isByGap() {
    return this.page.view.get("sort") === "gap";
  }

  /* Whether what has stalled is above all others: where the rows are those of a file, and not those of now. */
  get isStallFirst() {
    const { isLive, facts } = this.page;
    return this.isByRequest || !isLive || !facts.grown;
  }

  /* Whether rows begin at their requests: as it was chosen; else for sides, and for a file of which the streams would be
     slivers by time of day. */
  get isByRequest() {
    const chosen = this.page.view.get("axis");
    if (chosen) return chosen === "request";
    return Boolean(this.page.facts.sides) || (this.isFollowing && this.fitsAll && this.window.isSparse);
  }

  /* The share of the width that the text behind the last end needs. */
  get labelShare() {
    const { left, right } = this.area;
    return Math.min(LABEL_PX / Math.max(right - left, 1), 0.3);
  }

  get area() {
    const left = this.plot.width < 560 ? 92 : 208;
    return { left, right: this.plot.width - 4 };
  }

  setFollowing(isFollowing) {
    this.isFollowing = isFollowing;
    this.page.draw();
  }

  /* Between following new streams and a window that stays. */
  toggleFollowing() {
    const wasFollowing = this.isFollowing && !this.fitsAll;
    this.fitsAll = false;
    this.setFollowing(!wasFollowing);
  }

  toggleAxis() {
    this.page.view.set({ axis: this.isByRequest ? "time" : "request" });
    this.fit();
  }

  /* Keeps the axis that a file has opened with where its window is moved. */
  keepAxis() {
    const { view } = this.page;
    if (this.isByRequest && !view.get("axis")) view.set({ axis: "request" });
  }

  move(change) {
    this.keepAxis();
    this.isFollowing = false;
    change();
    this.page.draw();
  }

  /* Shows a part of the time, by time of day. */
  show(from, until) {
    this.page.view.set({ axis: "time" });
    this.isFollowing = false;
    this.fitsAll = false;
    this.window.set(from, until);
  }

  /* Shows the time around a moment: as much of it as now, or `length` where rows begin at their requests. */
  goTo(moment, length) {
    const half = (this.isByRequest || this.fitsAll ? length : this.window.until - this.window.from) / 2;
    this.show(moment - half, moment + half);
  }

  /* Shows the whole of the streams that pass the filters. */
  fit() {
    if (!this.page.shown.length) return;
    this.keepAxis();
    this.window.fit(this.isByRequest, this.labelShare);
    this.isFollowing = false;
    this.fitsAll = true;
    this.page.draw();
  }

  /* Places the window where new streams come in. A file that has not grown since it was read, and a saved page, begin
     with all of their streams. */
  placeWindow() {
    if (!this.isFollowing) return;
    this.fitsAll &&= !this.page.facts.grown;
    if (this.isByRequest) this.window.showRequests(this.labelShare);
    else if (this.fitsAll) this.window.fit(false, this.labelShare);
    else this.window.follow(Math.floor(this.plot.height / ROW.normal));
  }

  update() {
    const { page } = this;
    const isEmpty = page.shown.length === 0;
    this.scroller.hidden = isEmpty;
    this.empty.hidden = !isEmpty;
    if (isEmpty) this.empty.replaceChildren(...page.explainEmpty());
    this.follow.hidden = !page.isLive;
    this.follow.setAttribute("aria-pressed", String(this.isFollowing && !this.fitsAll));
    this.axis.setAttribute("aria-pressed", String(this.isByRequest));
    this.sort.setAttribute("aria-pressed", String(this.isByGap));
    this.dense.setAttribute("aria-pressed", String(this.isDense));
    this.sides.update();
    this.list.update();
    this.table.update();
  }

  draw() {
    if (this.scroller.hidden) return;
    this.placeWindow();
    this.rows = orderRows(this.page, this.window, this);
    this.overview.place();
    const rowHeight = this.isDense ? ROW.dense : ROW.normal;
    const whole = AXIS_HEIGHT + this.rows.length * rowHeight + 8;
    const most = Math.max(Math.min(window.innerHeight * 0.62, MAX_HEIGHT * 2), 240);
    const height = Math.min(Math.max(whole, AXIS_HEIGHT + 130), most);
    this.scroller.style.height = `${height}px`;
    this.plot.box.style.height = `${height}px`;
    this.spacer.style.height = `${Math.max(whole, height)}px`;
    this.plot.box.style.width = `${this.scroller.clientWidth}px`;
    this.note.textContent = describeRows(this.page, this);
    this.drawRows(rowHeight);
  }

  drawRows(rowHeight) {
    const { plot, page } = this;
    const { colors, pixels } = page.theme;
    const context = plot.begin();
    const { left, right } = this.area;
    const scale = this.window.scale(left, right);
    const box = { left, width: right - left, top: AXIS_HEIGHT, height: plot.height - AXIS_HEIGHT, labelY: 10 };
    drawTimeAxis(context, colors, box, this.window.from, this.window.until, this.isByRequest);
    const buffer = this.tickBuffer();
    const palette = makeKindPalette(pixels);
    if (this.hatchingColor !== colors.hold + plot.ratio) {
      this.hatchingColor = colors.hold + plot.ratio;
      this.hatching = makeHatching(colors.hold, plot.ratio);
    }
    const places = [...this.placeRows(rowHeight, scale)];
    clipTo(context, left, right - left, plot.height);
    for (const { stream, lane, local, y } of places) {
      if (stream.id === page.view.get("stream")) {
        context.fillStyle = colors.grid;
        context.fillRect(left, y, right - left, rowHeight);
      }
      if (stream.id === this.list.current && document.activeElement === this.scroller) {
        context.strokeStyle = colors.focus;
        context.strokeRect(left + 0.5, y + 0.5, right - left - 1, rowHeight - 1);
      }
      drawLaneBase(context, colors, this.hatching, stream, lane, local, page.now);
      drawLaneTicks(buffer, palette, stream, clipLane(lane, AXIS_HEIGHT), local);
    }
    this.ticks.getContext("2d").putImageData(buffer.image, 0, 0);
    const erase = makeEraser(this.ticks, plot.ratio);
    for (const { stream, lane, local } of places) drawLaneOver(context, colors, stream, lane, local, page.now, erase);
    context.restore();
    clipTo(context, 0, left, plot.height);
    for (const { stream, y } of places) {
      if (stream.side !== undefined) {
        context.fillStyle = colors[colorOfSide(stream.side)];
        context.fillRect(0, y + 1, SIDE_PX, rowHeight - 2);
      }
      if (!this.isDense) this.drawLabel(context, colors, stream, y, rowHeight, left);
    }
    context.restore();
  }

  /* The rows that are in sight: where each is, and its scale. */
  *placeRows(rowHeight, scale) {
    const { left, right } = this.area;
    const top = this.scroller.scrollTop;
    const first = Math.max(Math.floor(top / rowHeight), 0);
    const last = Math.min(Math.ceil((top + this.plot.height - AXIS_HEIGHT) / rowHeight), this.rows.length);
    const inset = this.isDense ? 0.5 : 5;
    for (let row = first; row < last; row++) {
      const stream = this.rows[row];
      const y = AXIS_HEIGHT + row * rowHeight - top;
      const lane = { left, right, top: y + inset, height: rowHeight - 2 * inset };
      yield { stream, lane, y, local: this.isByRequest ? shiftScale(scale, stream.start) : scale };
    }
  }

  /* The pixels of the ticks, cleared. They lie over the base, on a canvas of their own. */
  tickBuffer() {
    const { width, height } = this.plot.canvas;
    if (!this.buffer || this.buffer.width !== width || this.buffer.height !== height) {
      this.ticks.width = width;
      this.ticks.height = height;
      const image = new ImageData(width, height);
      this.buffer = { image, data: new Uint32Array(image.data.buffer), width, height };
    }
    this.buffer.ratio = this.plot.ratio;
    this.buffer.data.fill(0);
    return this.buffer;
  }

  drawLabel(context, colors, stream, y, rowHeight, left) {
    const middle = y + rowHeight / 2 + 0.5;
    context.textAlign = "left";
    setFont(context, 12, isRunning(stream) ? 600 : 450);
    context.fillStyle = ongoingStall(stream) ? colors.bad : isPlain(stream) ? colors.dim : colors.ink;
    const start = stream.side === undefined ? 2 : SIDE_PX + 5;
    const name = fitText(context, stream.model ?? stream.name ?? "span", left - start - (left > 120 ? 76 : 6));
    context.fillText(name, start, middle);
    const used = start + context.measureText(name).width + 7;
    setFont(context);
    context.fillStyle = colors.dim;
    const more = stream.session ?? stream.provider ?? "";
    context.fillText(fitText(context, more, left - used - 12), used, middle);
  }

  rowAt(event) {
    const box = this.plot.box.getBoundingClientRect();
    const y = event.clientY - box.top - AXIS_HEIGHT;
    if (y < 0) return undefined;
    return this.rows[Math.floor((y + this.scroller.scrollTop) / (this.isDense ? ROW.dense : ROW.normal))];
  }

  open(stream) {
    if (!stream) return;
    this.list.current = stream.id;
    this.page.view.set({ stream: stream.id });
    this.page.refresh();
  }

  describeRow(stream) {
    return describeStream(stream, this.page.now, this.page.facts.sides);
  }

  hover(event) {
    const stream = event.buttons ? undefined : this.rowAt(event);
    if (!stream) return this.page.tip.hide();
    return this.page.tip.show(this.describeRow(stream), event.clientX, event.clientY);
  }

  /* Scrolls to the row of a stream, where it has one. */
  reveal(stream) {
    const row = this.rows.indexOf(stream);
    if (row < 0) return;
    const height = this.isDense ? ROW.dense : ROW.normal;
    const [top, bottom] = [row * height, (row + 1) * height + AXIS_HEIGHT];
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (bottom > this.scroller.scrollTop + this.plot.height) this.scroller.scrollTop = bottom - this.plot.height;
  }

  /* The rows of the picture, in its order. */
  makeRows() {
    const { rows } = this;
    return {
      keys: rows.slice(0, MAX_TABLE_ROWS).map(({ id }) => id), columns: ROW_COLUMNS, texts: ROW_TEXTS,
      rows: rows.slice(0, MAX_TABLE_ROWS).map((stream) => makeCells(stream, this.page.now)),
      more: Math.max(rows.length - MAX_TABLE_ROWS, 0), onRow: (row) => this.open(rows[row]),
    };
  }
}

function shiftScale(scale, shift) {
  const shifted = (moment) => scale(moment - shift);
  shifted.moment = (x) => scale.moment(x) + shift;
  shifted.perPixel = scale.perPixel;
  return shifted;
}

/* Draws in this part of the canvas alone, below the axis, until `restore()`. */
function clipTo(context, left, width, height) {
  context.save();
  context.beginPath();
  context.rect(left, AXIS_HEIGHT, width, height);
  context.clip();
}

/* A lane without what is above a line: the axis is never drawn over. */
function clipLane(lane, top) {
  const above = Math.max(top - lane.top, 0);
  return { ...lane, top: lane.top + above, height: Math.max(lane.height - above, 0) };
}
