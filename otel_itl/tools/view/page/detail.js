/* One stream: everything known of it, its timeline down to a single chunk, and its longest gaps. */

import { drawTimeAxis } from "./axis.js";
import { Plot, makeHatching } from "./canvas.js";
import { byId, make, makeButton } from "./dom.js";
import { formatCount, formatDay, formatDuration, formatWithError, significant } from "./format.js";
import { drawLaneBase, drawLaneOver, drawLaneTicks, makeEraser, makeKindPalette } from "./lanedraw.js";
import { ANSWER, HIDDEN, OTHER, REASONING, TOOL, findChunk, forEachGap, numberOutputs } from "./packed.js";
import { chunksOf, endOf, errorAbove, errorOf, isRunning, timeToFirstToken } from "./streams.js";
import { DataTable } from "./tables.js";
import { TimeWindow, handleGestures } from "./timescale.js";

const KIND_LANES = [["reasoning", REASONING], ["answer", ANSWER], ["tool", TOOL]];
const MAX_GAPS = 40;

export class Detail {
  constructor(page) {
    this.page = page;
    this.sheet = byId("detail");
    this.window = new TimeWindow();
    this.plot = new Plot(96, "Timeline of the stream: its chunks, waits, holds and stalls.", () => page.draw());
    for (const [name, value] of Object.entries({ tabindex: 0, role: "group", "aria-label": "Timeline: arrow keys move, + and - zoom" })) this.plot.box.setAttribute(name, value);
    this.ticks = make("canvas", { "aria-hidden": "true" });
    this.plot.box.append(this.ticks);
    this.title = make("h2");
    this.facts = make("dl", { class: "facts" });
    this.table = new DataTable();
    this.gaps = make("div", { class: "tablebox", tabindex: 0, role: "region", "aria-label": "Longest gaps" }, this.table.element);
    this.details = new Map();
    this.copied = make("span", { class: "note", role: "status" });
    const tools = make("div", { class: "tools" }, this.copied,
      makeButton("copy trace id", () => this.copy(this.stream.trace, "trace id"), { id: "copy-trace" }),
      makeButton("copy as JSON", () => this.copy(this.toJson(), "JSON"), { id: "copy-json" }),
      makeButton("−", () => this.zoom(2, 0.5), { "aria-label": "Zoom out" }), makeButton("+", () => this.zoom(0.5, 0.5), { "aria-label": "Zoom in" }),
      makeButton("fit", () => this.fit()), makeButton("close", () => page.view.set({ stream: "" }), { id: "close-detail", title: "Close (Esc)" }));
    this.sheet.append(make("div", { class: "head" }, this.title, tools), this.plot.box, make("div", { class: "columns" }, this.facts, this.gaps));
    handleGestures(this.plot.box, {
      area: () => this.area, wheelZooms: () => true,
      pan: (share) => { this.window.pan(share); page.draw(); }, zoom: (factor, share) => this.zoom(factor, share),
    });
    this.plot.box.addEventListener("pointermove", (event) => this.hover(event));
    this.plot.box.addEventListener("pointerleave", () => page.tip.hide());
    this.plot.box.addEventListener("keydown", (event) => this.press(event));
  }

  get area() {
    return { left: 70, right: this.plot.width - 8 };
  }

  zoom(factor, share) {
    this.window.zoom(factor, share);
    this.isFitted = false;
    this.page.draw();
  }

  fit() {
    const end = endOf(this.stream, this.page.now) - this.stream.start;
    this.window.set(-end * 0.01, end * 1.06 + 1000);
    this.isFitted = true;
    this.page.draw();
  }

  press(event) {
    const actions = { ArrowLeft: () => this.window.pan(-0.1), ArrowRight: () => this.window.pan(0.1), "+": () => this.window.zoom(0.5, 0.5), "-": () => this.window.zoom(2, 0.5) };
    if (!actions[event.key]) return;
    event.preventDefault();
    event.stopPropagation();
    this.isFitted = false;
    actions[event.key]();
    this.page.draw();
  }

  /* Shows the stream that the URL names, or nothing. */
  update() {
    const stream = this.page.streams.byId.get(this.page.view.get("stream"));
    const isOther = stream?.id !== this.stream?.id;
    if (stream && this.sheet.hidden) this.opener = document.activeElement;
    this.sheet.hidden = !stream;
    document.body.classList.toggle("has-sheet", Boolean(stream));
    if (!stream) {
      if (this.stream) this.giveFocusBack();
      this.stream = undefined;
      return;
    }
    const hasChanged = stream !== this.stream || isRunning(stream);
    this.stream = stream;
    if (isOther) this.page.tip.hide();
    if (isOther || (this.isFitted && hasChanged)) this.fit();
    if (hasChanged) this.fill();
    if (isOther && !this.sheet.contains(document.activeElement)) this.sheet.focus({ preventScroll: true });
  }

  /* Gives the focus back to where it was when the sheet was opened; to the rows, if that is nowhere. */
  giveFocusBack() {
    const isThere = this.opener?.isConnected && this.opener !== document.body;
    (isThere ? this.opener : this.page.lanes.scroller).focus({ preventScroll: true });
  }

  fill() {
    const { stream } = this;
    const name = [stream.provider, stream.model ?? stream.name].filter(Boolean).join(" · ");
    this.title.replaceChildren(name);
    this.fillFacts(listFacts(stream, this.page.now, this.page.facts.sides));
    const gaps = findGaps(stream).slice(0, MAX_GAPS);
    this.gaps.hidden = gaps.length === 0;
    this.table.fill({
      columns: ["longest gaps", "at", "before output chunk", "kind"],
      rows: gaps.map((gap) => [formatDuration(gap.size), formatDuration(gap.end), gap.number, describeCode(gap.code)]),
      onRow: (row) => this.show(gaps[row]),
    });
  }

  /* Shows the facts; one that stays keeps its element, and with it the focus. */
  fillFacts(facts) {
    const elements = facts.map(([term, value, explained, tone]) => {
      if (!this.details.has(term)) this.details.set(term, make("div", {}, make("dt", {}, make("span", explained ? { term: explained } : {}, term)), make("dd")));
      const element = this.details.get(term);
      element.lastChild.className = tone ?? "";
      element.lastChild.replaceChildren(value instanceof Node ? value : String(value));
      return element;
    });
    const isSame = elements.length === this.facts.children.length && elements.every((element, place) => element === this.facts.children[place]);
    if (!isSame) this.facts.replaceChildren(...elements);
  }

  /* Zooms to a gap. */
  show(gap) {
    const margin = Math.max(gap.size * 0.35, 3000);
    this.window.set(gap.end - gap.size - margin, gap.end + margin);
    this.isFitted = false;
    this.page.draw();
  }

  draw() {
    if (!this.stream) return;
    const { plot, stream, page } = this;
    const { colors, pixels } = page.theme;
    const lanes = KIND_LANES.filter(([, flag]) => chunksOf(stream).codes.some((code) => code & flag));
    const shown = lanes.length ? lanes : [["", 0]];
    plot.box.style.height = `${26 + shown.length * 34}px`;
    const context = plot.begin();
    const { left, right } = this.area;
    const scale = this.window.scale(left, right);
    const local = (moment) => scale(moment - stream.start);
    local.moment = (x) => scale.moment(x) + stream.start;
    local.perPixel = scale.perPixel;
    const box = { left, width: right - left, top: 0, height: plot.height - 22, labelY: plot.height - 9 };
    drawTimeAxis(context, colors, box, this.window.from, this.window.until, true);
    const buffer = this.tickBuffer();
    const palette = makeKindPalette(pixels);
    const hatching = makeHatching(colors.hold, plot.ratio);
    const clip = () => { context.save(); context.beginPath(); context.rect(left, 0, right - left, plot.height); context.clip(); };
    shown.forEach(([name, flag], place) => {
      const lane = { left, right, top: 5 + place * 34, height: 24 };
      clip();
      drawLaneBase(context, colors, hatching, stream, lane, local, page.now);
      context.restore();
      context.fillStyle = colors.dim;
      context.textAlign = "left";
      context.fillText(name, 0, lane.top + 12);
      drawLaneTicks(buffer, palette, keepKind(stream, flag), lane, local);
    });
    this.ticks.getContext("2d").putImageData(buffer.image, 0, 0);
    const erase = makeEraser(this.ticks, plot.ratio);
    clip();
    shown.forEach((_, place) =>
      drawLaneOver(context, colors, stream, { left, right, top: 5 + place * 34, height: 24 }, local, page.now, erase, place === 0));
    context.restore();
  }

  tickBuffer() {
    const { width, height } = this.plot.canvas;
    this.ticks.width = width;
    this.ticks.height = height;
    const image = new ImageData(width, height);
    return { image, data: new Uint32Array(image.data.buffer), width, height, ratio: this.plot.ratio };
  }

  hover(event) {
    if (!this.stream) return;
    const box = this.plot.box.getBoundingClientRect();
    const { left, right } = this.area;
    const scale = this.window.scale(left, right);
    const chunks = chunksOf(this.stream);
    const moment = scale.moment(event.clientX - box.left);
    const after = findChunk(chunks, moment);
    const nearest = [after - 1, after].filter((index) => index >= 0 && index < chunks.n)
      .sort((a, b) => Math.abs(chunks.at[a] - moment) - Math.abs(chunks.at[b] - moment))[0];
    if (nearest === undefined || Math.abs(chunks.at[nearest] - moment) / scale.perPixel > 40) return this.page.tip.hide();
    const gap = nearest > 0 ? `, ${formatDuration(chunks.at[nearest] - chunks.at[nearest - 1])} after the one before` : "";
    const number = numberOutputs(chunks)[nearest];
    const name = number ? `output chunk ${number}` : `chunk ${nearest + 1} of all ${chunks.n}`;
    const text = `${name}: ${describeCode(chunks.codes[nearest])}\nat ${formatDuration(chunks.at[nearest])}${gap}`;
    return this.page.tip.show(text, event.clientX, event.clientY);
  }

  toJson() {
    const { chunks, replaces, t, ...known } = this.stream;
    const unpacked = chunksOf(this.stream);
    const timeline = { moments_us: [...unpacked.at], kinds: [...unpacked.codes], holds_us: unpacked.holds };
    return JSON.stringify({ ...known, timeline }, null, 2);
  }

  async copy(text, name) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      copyBySelection(text);
    }
    this.copied.textContent = `${name} copied`;
    setTimeout(() => { this.copied.textContent = ""; }, 2000);
  }
}

/* A page from a file may not use the clipboard's own interface. */
function copyBySelection(text) {
  const area = make("textarea", { class: "read" });
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

/* A stream with the output chunks of one kind alone; pings stay in all. */
function keepKind(stream, flag) {
  const chunks = chunksOf(stream);
  if (!flag) return stream;
  const kept = [];
  for (let index = 0; index < chunks.n; index++) if (chunks.codes[index] & (flag | OTHER)) kept.push(index);
  const at = Float64Array.from(kept, (index) => chunks.at[index]);
  return { ...stream, chunks: { ...chunks, n: kept.length, at, codes: Uint8Array.from(kept, (index) => chunks.codes[index]) } };
}

function findGaps(stream) {
  const gaps = [];
  const chunks = chunksOf(stream);
  const numbers = numberOutputs(chunks);
  forEachGap(chunks, (end, size, shares, index) => gaps.push({ end, size, shares, number: numbers[index], code: chunks.codes[index] }));
  return gaps.sort((a, b) => b.size - a.size);
}

function describeCode(code) {
  const kind = code & OTHER ? "no output (ping, role, lifecycle)" : [[REASONING, "reasoning"], [ANSWER, "answer"], [TOOL, "tool call"]].filter(([flag]) => code & flag).map(([, name]) => name).join(" and ");
  return code & HIDDEN ? `${kind}, hidden` : kind;
}

function listFacts(stream, now, sides) {
  const figures = stream.measures ?? {};
  const time = (seconds) => formatDuration(seconds === undefined ? null : seconds * 1e6);
  const figure = (name) => formatWithError(figures[name] === undefined ? null : figures[name] * 1e6, errorOf(stream, name), errorAbove(stream, name));
  const tokens = figures.token_count === undefined ? null : `${formatCount(figures.token_count)}${figures.has_reported_token_count ? "" : " chunks, not counted by the provider"}`;
  const facts = [
    ["side", sides?.[stream.side]],
    ["outcome", isRunning(stream) ? "running" : `${stream.outcome ?? "span"}${stream.error ? ` (${stream.error})` : ""}`, null, stream.outcome === "error" || stream.outcome === "truncated" ? "bad" : null],
    ["started", formatDay(stream.start)], ["duration", formatDuration(endOf(stream, now) - stream.start), "E2E"],
    ["headers", stream.headers && formatDuration(stream.headers)],
    ["TTFT", formatWithError(timeToFirstToken(stream), errorOf(stream, "time_to_first_token")), "TTFT"], ["first answer token", figures.time_to_first_answer_token && figure("time_to_first_answer_token"), "TTFA"],
    ["ITL p50 · p95", figures.itl_p50 !== undefined && `${time(figures.itl_p50)} · ${time(figures.itl_p95)}`, "ITL"],
    ["ITL p99 · max", figures.itl_max !== undefined && `${figure("itl_p99")} · ${figure("itl_max")}`, "ITL"],
    ["TPOT", figures.time_per_output_token && figure("time_per_output_token"), "TPOT"], ["speed", figures.output_speed && `${significant(figures.output_speed)} tok/s`, "output speed"],
    ["not known exactly", (stream.errors || stream.above) && stream.why, "uncertainty"], ["not pooled", stream.left_out && `${stream.left_out.join(", ")}: ${stream.why}`, "uncertainty"],
    ["output tokens", tokens], ["reasoning tokens", stream.reasoning && formatCount(stream.reasoning)], ["input tokens", stream.input && formatCount(stream.input)],
    ["output chunks", figures.output_chunk_count && formatCount(figures.output_chunk_count), "output chunk"],
    ["gaps imputed · excluded", (figures.imputed || figures.excluded) && `${figures.imputed ?? 0} · ${figures.excluded ?? 0}`, "imputed"],
    ["held by the caller", figures.consumer_time && time(figures.consumer_time), "consumer time"],
    ["caller-bound", figures.is_consumer_bound && (stream.host_bound ? "yes, and host-bound, which comes first" : "yes"), stream.host_bound ? null : "consumer-bound"], ["host-bound", stream.host_bound && "yes", "host-bound"],
    ["buffered", figures.is_buffered && `${Math.round((figures.burst_ratio ?? 0) * 100)} % in bursts`, "buffered"],
    ["stalls", (stream.stalls ?? []).length > 0 && describeStalls(stream, now), "stall", "bad"],
    ["further stalls", stream.more_stalls], ["attempts", stream.attempts > 1 && stream.attempts, "attempt"],
    ["session", stream.session && `${stream.session}${stream.turn ? `, request ${stream.turn}` : ""}`, "session"],
    ["latency ratio", stream.ratio && `×${stream.ratio.toFixed(2)}${stream.degraded ? " (degraded)" : ""}`, "latency ratio", stream.degraded ? "bad" : null],
    ["objective", stream.slo && describeObjective(stream), "objective", { met: "good", missed: "bad" }[stream.slo?.verdict]],
    ["operation", stream.operation], ["chunks left out", stream.thinned && formatCount(stream.thinned)],
    ["trace", stream.trace && make("span", { class: "mono" }, stream.trace)], ["span", stream.span && make("span", { class: "mono" }, stream.span)],
  ];
  return facts.filter(([, value]) => value !== null && value !== undefined && value !== false && value !== 0 && value !== "");
}

/* Whether a stream met its objective, and why that is not known. */
function describeObjective({ slo, why }) {
  const verdict = slo.verdict ?? "too little to judge by";
  return `${slo.profile}: ${verdict}${verdict === "not known" ? `, ${why}` : ""}`;
}

function describeStalls(stream, now) {
  return stream.stalls.map((stall) => {
    const length = stall.open ? now - stream.start - stall.at : stall.waited;
    const parts = [(stall.phase ?? "").replace("_", " "), (stall.cause ?? "cause unknown").replace("_", " "), stall.alive ? "alive" : "", stall.open ? "now" : ""];
    return `${formatDuration(length)} (${parts.filter(Boolean).join(", ")})`;
  }).join("; ");
}
