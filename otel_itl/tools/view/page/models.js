/* The table of models and providers, with their outcomes. A click on a row filters by it. */

import { make, makeHead } from "./dom.js";
import { formatCount, formatDuration, formatMs, significant } from "./format.js";
import { Samples, quantileOf } from "./samples.js";
import { isKnown, isPlain, isRunning, timeToFirstToken } from "./streams.js";
import { SortedTable } from "./tables.js";

const OUTCOMES = [
  ["completed", "good"], ["running", "answer"], ["closed", "tool"], ["abandoned", "reasoning"], ["cancelled", "reasoning"],
  ["truncated", "stall"], ["error", "stall"], ["span", "span"],
];
const MAX_POOLED = 4000;

export class Models {
  constructor(section, page) {
    this.page = page;
    this.cache = new Map();
    this.table = new SortedTable([
      { name: "provider", isText: true, value: (row) => row.provider, cell: (row) => row.provider || "–" },
      { name: "model", isText: true, value: (row) => row.model, cell: (row) => row.model },
      { name: "streams", value: (row) => row.streams, cell: (row) => formatCount(row.streams) },
      { name: "TTFT p50, ms", term: "TTFT", value: (row) => row.first50, cell: (row) => formatMs(row.first50) },
      { name: "p99", term: "TTFT", value: (row) => row.first99, cell: (row) => formatMs(row.first99) },
      { name: "ITL p50, ms", term: "ITL", value: (row) => row.p50, cell: (row) => formatMs(row.p50) },
      { name: "p95", term: "ITL", value: (row) => row.p95, cell: (row) => formatMs(row.p95) },
      { name: "p99", term: "ITL", value: (row) => row.p99, cell: (row) => formatMs(row.p99) },
      { name: "max", term: "ITL", value: (row) => row.max, cell: (row) => formatMs(row.max) },
      { name: "tok/s", term: "output speed", value: (row) => row.speed, cell: (row) => (row.speed ? significant(row.speed) : "–") },
      { name: "stalls", term: "stall", value: (row) => row.stalls, cell: (row) => make("span", { class: row.stalls ? "bad" : "dim" }, formatCount(row.stalls)) },
      { name: "longest", term: "stall", value: (row) => row.longest, cell: (row) => (row.longest ? formatDuration(row.longest) : "–") },
      { name: "outcomes", isText: true, value: (row) => row.failed / row.streams, cell: (row) => makeOutcomes(row.outcomes) },
    ], 2, (row) => page.view.set({ model: page.view.get("model") === row.model ? "" : row.model }));
    section.append(makeHead("Models and providers", {}), make("div", { class: "tablebox" }, this.table.element));
  }

  draw() {
    const groups = new Map();
    for (const stream of this.page.shown) {
      const key = JSON.stringify([stream.provider ?? "", stream.model ?? stream.name ?? ""]);
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(stream);
    }
    this.table.fill([...groups].map(([key, streams]) => this.summarize(key, streams)));
  }

  summarize(key, streams) {
    const [provider, model] = JSON.parse(key);
    const outcomes = {};
    let [stalls, longest, failed, time, tokens] = [0, 0, 0, 0, 0];
    for (const stream of streams) {
      const outcome = isPlain(stream) ? "span" : isRunning(stream) ? "running" : stream.outcome;
      outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
      failed += outcome === "error" || outcome === "truncated";
      stalls += (stream.stalls?.length ?? 0) + (stream.more_stalls ?? 0);
      for (const stall of stream.stalls ?? []) longest = Math.max(longest, stall.waited ?? 0);
      if (stream.measures?.time_per_output_token && stream.measures.decode_time && isKnown(stream, "TPOT")) {
        time += stream.measures.decode_time;
        tokens += stream.measures.decode_time / stream.measures.time_per_output_token;
      }
    }
    const first = streams.map((stream) => (isPlain(stream) || !isKnown(stream, "TTFT") ? null : timeToFirstToken(stream))).filter((us) => us !== null).sort((a, b) => a - b);
    const pooled = this.pool(key, streams);
    return {
      provider, model, streams: streams.length, outcomes, stalls, longest, failed, speed: time ? tokens / time : null,
      first50: quantileOf(first, 0.5), first99: quantileOf(first, 0.99), p50: pooled.quantile(0.5), p95: pooled.quantile(0.95),
      p99: pooled.quantile(0.99), max: pooled.count ? pooled.max : null,
    };
  }

  /* The pooled samples of the newest streams of a model, made anew only where those changed. */
  pool(key, streams) {
    const ended = streams.filter((stream) => !isRunning(stream)).slice(0, MAX_POOLED);
    const cached = this.cache.get(key);
    if (cached?.count === ended.length && cached.newest === ended[0]) return cached.samples;
    const samples = new Samples();
    for (const stream of ended) if (isKnown(stream, "ITL")) samples.addStream(stream);
    this.cache.set(key, { count: ended.length, newest: ended[0], samples });
    return samples;
  }
}

function makeOutcomes(outcomes) {
  const total = Object.values(outcomes).reduce((sum, count) => sum + count, 0);
  const present = OUTCOMES.filter(([name]) => outcomes[name]);
  const text = present.map(([name]) => `${outcomes[name]} ${name}`).join(", ");
  const stack = make("div", { class: "stack", "aria-hidden": "true" });
  for (const [name, color] of present) {
    const part = make("i");
    part.style.width = `${(outcomes[name] / total) * 100}%`;
    part.style.background = `var(--${color})`;
    stack.append(part);
  }
  return make("div", { title: text }, stack, make("span", { class: "dim" }, text));
}
