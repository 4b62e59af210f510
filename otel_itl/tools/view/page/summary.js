/* The tiles at the top: what is open and stalled now, and the figures of the streams that are shown, of each side. Those
   that count streams are filters. */

import { byId, make } from "./dom.js";
import { formatCount, formatShare, formatWithError } from "./format.js";
import { TOO_FEW, markIfTooFew, quantileOf, shownError } from "./samples.js";
import { makeSideName } from "./sides.js";
import { countOutput, isKnown, isPlain, isRunning, ongoingStall, timeToFirstToken } from "./streams.js";

const RATE_US = 3e6;
const TILES = [
  ["open", "open now", null, { outcome: "running" }], ["stalled", "stalled now", "stall", { stalled: "now" }],
  ["streams", "streams", "stream"], ["rate", "chunks/s"],
  ["ttft50", "TTFT p50", "TTFT"], ["ttft99", "TTFT p99", "TTFT"], ["itl50", "ITL p50", "ITL"], ["itl99", "ITL p99", "ITL"],
  ["stalls", "stalls", "stall", { stalled: "1" }], ["failed", "failed", null, { outcome: "failed" }],
  ["slo", "objective met", "objective"],
];
const LIVE = ["open", "stalled", "rate"];

export class Summary {
  constructor(page) {
    this.page = page;
    this.tiles = new Map(TILES.map(([key, name, term, filter]) => {
      const value = make("span", { class: "value", id: `tile-${key}` });
      const label = make("span", { class: "label" }, make("span", term && !filter ? { term } : {}, name));
      const tile = filter
        ? make("button", { class: "tile", type: "button", "data-term": term, onclick: () => page.view.toggle(filter) }, label, value)
        : make("div", { class: "tile" }, label, value);
      return [key, { tile, value, filter }];
    }));
    byId("summary").append(...[...this.tiles.values()].map(({ tile }) => tile));
  }

  /* Shows a figure of each side: `text`, `below` (a note), `isAlarm`. */
  set(key, ...figures) {
    const { tile, value } = this.tiles.get(key);
    const shown = JSON.stringify(figures);
    if (value.dataset.shown === shown) return;
    value.dataset.shown = shown;
    const isOne = figures.length === 1;
    value.replaceChildren(...figures.map((figure, side) =>
      make("span", { class: isOne ? "" : "of-side" }, isOne ? null : makeSideName(this.page.facts, side), ...makeFigure(figure, isOne))));
    tile.title = figures.some(({ text }) => text.startsWith("~")) ? TOO_FEW : "";
    tile.classList.toggle("alarm", figures.some(({ isAlarm }) => isAlarm));
  }

  show(key, isShown) {
    this.tiles.get(key).tile.hidden = !isShown;
  }

  /* The first tiles change as streams run, the others when some end. */
  update() {
    const { page } = this;
    for (const key of LIVE) this.show(key, page.isLive && !page.facts.sides);
    for (const { tile, filter } of this.tiles.values()) if (filter) tile.setAttribute("aria-pressed", String(page.view.has(filter)));
    if (!page.isLive) return;
    const running = page.shown.filter(isRunning);
    const stalled = running.filter(ongoingStall).length;
    this.set("open", { text: formatCount(running.length) });
    this.set("stalled", { text: formatCount(stalled), isAlarm: stalled > 0 });
    let output = 0;
    for (const stream of page.shown) {
      if (stream.start < page.now - 6e8) break;
      if (!isPlain(stream) && (isRunning(stream) || stream.start + stream.end > page.now - RATE_US)) output += countOutput(stream, page.now - RATE_US, page.now);
    }
    this.set("rate", { text: formatCount(output / (RATE_US / 1e6)) });
  }

  updateTotals() {
    const { page } = this;
    const parts = page.parts.map(summarizePart);
    for (const key of Object.keys(parts[0])) this.set(key, ...parts.map((part) => part[key]));
    const measured = page.shown.filter((stream) => !isPlain(stream));
    this.show("slo", measured.some((stream) => ["met", "missed", "not known"].includes(stream.slo?.verdict)));
  }
}

/* A figure with its unit, what it may be less and more by, and the note below, as elements. */
function makeFigure({ text, below }, isOne) {
  const [, number, unit, error] = /^(~?[\d.,]+)\s([^\s(]+)(?:\s(\(.+\)))?$/.exec(text) ?? [null, text, ""];
  return [number, unit && make("small", {}, unit), error && make("small", { class: isOne ? "below" : "" }, error),
    below && make("small", { class: "below" }, below)].filter(Boolean);
}

/* The figures of one side, by the keys of their tiles. */
function summarizePart({ streams, sums }) {
  const measured = streams.filter((stream) => !isPlain(stream));
  const [first, least] = [sums.sortedFirst(), sums.sortedFirst("least")];
  const stalls = measured.reduce((sum, stream) => sum + (stream.stalls?.length ?? 0) + (stream.more_stalls ?? 0), 0);
  const failed = measured.filter((stream) => stream.outcome === "error" || stream.outcome === "truncated").length;
  const [met, missed, unjudged] = ["met", "missed", "not known"].map((verdict) => measured.filter((stream) => stream.slo?.verdict === verdict).length);
  const withFirst = measured.filter((stream) => timeToFirstToken(stream) !== null && !isRunning(stream));
  const withGaps = measured.filter((stream) => stream.measures?.itl_p50 !== undefined);
  const figures = {
    streams: { text: formatCount(measured.length) },
    stalls: { text: formatCount(stalls), isAlarm: stalls > 0 }, failed: { text: formatCount(failed), isAlarm: failed > 0 },
    slo: { text: formatMet(met, missed, unjudged), below: unjudged ? `${formatCount(unjudged)} not known` : "" },
  };
  for (const [percentage, share] of [["50", 0.5], ["99", 0.99]]) {
    figures[`ttft${percentage}`] = { text: formatFirst(first, least, share), below: describeSetAside(withFirst, "TTFT") };
    figures[`itl${percentage}`] = { text: formatSamples(sums, share), below: describeSetAside(withGaps, "ITL") };
  }
  return figures;
}

/* A percentile of times to first token, with what it may be less by. */
export function formatFirst(first, least, share, format = formatWithError) {
  const us = quantileOf(first, share);
  return markIfTooFew(format(us, shownError(us - quantileOf(least, share), us)), share, first.length, first.length);
}

/* A percentile of ITL samples, with what it may be less and more by. */
export function formatSamples({ samples, streams }, share, format = formatWithError) {
  const { below, above } = samples.errors(share);
  return markIfTooFew(format(samples.quantile(share), below, above), share, samples.count, streams);
}

/* The share of streams that met their objective; where some are not known, the least and the most that it may be. */
function formatMet(met, missed, unjudged) {
  const all = met + missed + unjudged;
  if (!all) return "–";
  const least = formatShare(met / all);
  return unjudged ? `${least.replace(" %", "")}–${formatShare((met + unjudged) / all)}` : least;
}

/* How many of the streams that have a figure are not in it, since it is not known well enough. */
function describeSetAside(streams, figure) {
  const aside = streams.filter((stream) => !isKnown(stream, figure)).length;
  return aside ? `${formatCount(aside)} of ${formatCount(streams.length)} set aside` : "";
}
