/* The tiles at the top: what is open and stalled now, and the figures of the streams that are shown. */

import { byId, make } from "./dom.js";
import { formatCount, formatShare, formatWithError } from "./format.js";
import { quantileOf, shownError } from "./samples.js";
import { countOutput, isKnown, isPlain, isRunning, ongoingStall, timeToFirstToken } from "./streams.js";

const RATE_US = 3e6;
const TILES = [["open", "open now"], ["stalled", "stalled now", "stall"], ["streams", "streams", "stream"], ["rate", "chunks/s"],
  ["ttft50", "TTFT p50", "TTFT"], ["ttft99", "TTFT p99", "TTFT"], ["itl50", "ITL p50", "ITL"], ["itl99", "ITL p99", "ITL"],
  ["stalls", "stalls", "stall"], ["failed", "failed"], ["slo", "objective met", "objective"]];

export class Summary {
  constructor(page) {
    this.page = page;
    this.tiles = new Map(TILES.map(([key, name, term]) => {
      const value = make("dd", { id: `tile-${key}` });
      const tile = make("div", { class: "tile" }, make("dl", {}, make("dt", {}, make("span", term ? { term } : {}, name)), value));
      return [key, { tile, value }];
    }));
    byId("summary").append(...[...this.tiles.values()].map(({ tile }) => tile));
  }

  set(key, text, isAlarm = false, below = "") {
    const { tile, value } = this.tiles.get(key);
    const [, number, unit] = /^([\d.,]+)\s(.+)$/.exec(text) ?? [null, text, ""];
    const shown = [number, unit && make("small", {}, unit), below && make("small", { class: "below" }, below)];
    if (value.dataset.text !== text + below) {
      value.dataset.text = text + below;
      value.replaceChildren(...shown.filter(Boolean));
    }
    tile.classList.toggle("alarm", isAlarm);
  }

  /* Says of how many streams figures are, where some are not known well enough. */
  note(keys, streams, figure) {
    const known = streams.filter((stream) => isKnown(stream, figure)).length;
    const text = known < streams.length ? `of ${formatCount(known)} of ${formatCount(streams.length)} streams; the others are not known` : "";
    for (const key of keys) this.tiles.get(key).tile.title = text;
  }

  show(key, isShown) {
    this.tiles.get(key).tile.hidden = !isShown;
  }

  /* The first tiles change as streams run, the others when some end. */
  update() {
    const { page } = this;
    const running = page.shown.filter(isRunning);
    const stalled = running.filter(ongoingStall).length;
    for (const key of ["open", "stalled", "rate"]) this.show(key, page.isLive);
    this.set("open", formatCount(running.length));
    this.set("stalled", formatCount(stalled), stalled > 0);
    let output = 0;
    for (const stream of page.shown) {
      if (stream.start < page.now - 6e8) break;
      if (!isPlain(stream) && (isRunning(stream) || stream.start + stream.end > page.now - RATE_US)) output += countOutput(stream, page.now - RATE_US, page.now);
    }
    this.set("rate", formatCount(output / (RATE_US / 1e6)));
  }

  updateTotals() {
    const { page } = this;
    const measured = page.shown.filter((stream) => !isPlain(stream));
    const [first, least] = ["us", "least"].map((key) => page.aggregate.firstTokens.map((token) => token[key]).sort((a, b) => a - b));
    const { samples } = page.aggregate;
    const stalls = measured.reduce((sum, stream) => sum + (stream.stalls?.length ?? 0) + (stream.more_stalls ?? 0), 0);
    const failed = measured.filter((stream) => stream.outcome === "error" || stream.outcome === "truncated").length;
    const [met, missed, unjudged] = ["met", "missed", "not known"].map((verdict) => measured.filter((stream) => stream.slo?.verdict === verdict).length);
    const judged = met + missed;
    this.set("streams", formatCount(measured.length));
    for (const [percentage, share] of [["50", 0.5], ["99", 0.99]]) {
      const us = quantileOf(first, share);
      this.set(`ttft${percentage}`, formatWithError(us, shownError(us - quantileOf(least, share), us)));
      const { below, above } = samples.errors(share);
      this.set(`itl${percentage}`, formatWithError(samples.quantile(share), below, above));
    }
    this.set("stalls", formatCount(stalls), stalls > 0);
    this.set("failed", formatCount(failed), failed > 0);
    this.show("slo", judged + unjudged > 0);
    this.set("slo", judged ? formatShare(met / judged) : "–", false, unjudged ? `${formatCount(unjudged)} not known` : "");
    this.note(["ttft50", "ttft99"], measured.filter((stream) => timeToFirstToken(stream) !== null), "TTFT");
    this.note(["itl50", "itl99"], measured.filter((stream) => stream.measures?.itl_p50 !== undefined), "ITL");
  }
}
