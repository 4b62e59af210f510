/* The table of models and providers, of each side, with their outcomes. A click on a row filters by it. */

import { modelKey } from "./aggregate.js";
import { make, makeHead } from "./dom.js";
import { formatCount, formatDuration, formatMsWithError, significant } from "./format.js";
import { TOO_FEW, quantileOf } from "./samples.js";
import { makeSideName } from "./sides.js";
import { isKnown, isPlain, isRunning } from "./streams.js";
import { formatFirst, formatSamples } from "./summary.js";
import { SortedTable } from "./tables.js";

const OUTCOMES = [
  ["completed", "good"], ["running", "other"], ["closed", "send"], ["abandoned", "send"], ["interrupted", "send"], ["cancelled", "wait"],
  ["truncated", "stall"], ["error", "stall"], ["span", "span"],
];

export class Models {
  constructor(section, page) {
    this.page = page;
    this.section = section;
    section.append(makeHead("Models and providers", { note: make("span", { class: "note" }, TOO_FEW) }));
  }

  /* The table, made once the sides are known. */
  makeTable() {
    const { page } = this;
    const side = { name: "side", isText: true, value: (row) => row.side, cell: (row) => makeSideName(page.facts, row.side) };
    const first = (name, share) => ({ name, term: "TTFT", value: (row) => quantileOf(row.first, share), cell: (row) => formatFirst(row.first, row.least, share, formatMsWithError) });
    const gaps = (name, share) => ({ name, term: "ITL", value: (row) => row.samples.quantile(share), cell: (row) => formatSamples(row.sums, share, formatMsWithError) });
    const columns = [
      ...(page.facts.sides ? [side] : []),
      { name: "provider", isText: true, value: (row) => row.provider, cell: (row) => row.provider || "–" },
      { name: "model", isText: true, value: (row) => row.model, cell: (row) => row.model },
      { name: "streams", value: (row) => row.streams, cell: (row) => formatCount(row.streams) },
      first("TTFT p50, ms", 0.5), first("p99", 0.99), gaps("ITL p50, ms", 0.5), gaps("p95", 0.95), gaps("p99", 0.99),
      { name: "max", term: "ITL", value: (row) => row.max, cell: (row) => formatMsWithError(row.max, ...Object.values(row.samples.errors(1))) },
      { name: "tok/s", term: "output speed", value: (row) => row.speed, cell: (row) => (row.speed ? significant(row.speed) : "–") },
      { name: "stalls", term: "stall", value: (row) => row.stalls, cell: (row) => make("span", { class: row.stalls ? "bad" : "dim" }, formatCount(row.stalls)) },
      { name: "longest", term: "stall", value: (row) => row.longest, cell: (row) => (row.longest ? formatDuration(row.longest) : "–") },
      { name: "outcomes", isText: true, value: (row) => row.failed / row.streams, cell: (row) => makeOutcomes(row.outcomes) },
    ];
    const table = new SortedTable(columns, columns.findIndex(({ name }) => name === "streams"), (row) => this.toggle(row), ({ key }) => key);
    this.section.append(make("div", { class: "tablebox", tabindex: 0, role: "region", "aria-label": "Models and providers" }, table.element));
    return table;
  }

  /* Filters by the side, the provider and the model of a row, or not any more. */
  toggle({ side, provider, model }) {
    const { view, facts } = this.page;
    view.toggle({ provider, model, ...(facts.sides ? { side: facts.sides[side] } : {}) });
  }

  draw() {
    const groups = new Map();
    for (const stream of this.page.shown) {
      const key = modelKey(stream);
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(stream);
    }
    this.table ??= this.makeTable();
    this.table.fill([...groups].map(([key, streams]) => this.summarize(key, streams)));
  }

  summarize(key, streams) {
    const [side, provider, model] = JSON.parse(key);
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
    const sums = this.page.aggregate.ofModel(key);
    return {
      key, side, provider, model, streams: streams.length, outcomes, stalls, longest, failed, speed: time ? tokens / time : null,
      sums, samples: sums.samples, max: sums.samples.count ? sums.samples.max : null, first: sums.sortedFirst(), least: sums.sortedFirst("least"),
    };
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
