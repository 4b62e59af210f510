/* What is shown: the filters and the selection. They live in the URL, so that a link restores the view. */

import { byId, make, makeButton } from "./dom.js";
import { formatClock, formatDuration } from "./format.js";
import { forEachGap } from "./packed.js";
import { chunksOf, endOf, hasStalled, isPlain, isRunning, ongoingStall } from "./streams.js";

const FACETS = ["side", "provider", "model", "session", "outcome"];
const FILTERS = [...FACETS, "stalled", "text"];
const KEYS = [...FILTERS, "from", "to", "low", "high", "stream", "axis", "sort", "dense", "theme", "keys"];
const RUNNING = "running";
const FAILED = "failed";
const SEARCHED = ["id", "provider", "model", "name", "session", "operation", "error"];
const MAX_CHOICES = 500;

export class View {
  /* `facts`: of the page, which name the sides. */
  constructor(onChange, facts) {
    this.onChange = onChange;
    this.facts = facts;
    this.values = readUrl();
    window.addEventListener("hashchange", () => {
      this.values = readUrl();
      onChange();
    });
  }

  get(name) {
    return this.values[name] ?? "";
  }

  /* A number of the URL; null: it has none. */
  number(name) {
    const value = Number.parseFloat(this.values[name]);
    return Number.isFinite(value) ? value : null;
  }

  set(changes) {
    for (const [name, value] of Object.entries(changes)) {
      if (value === "" || value === null || value === undefined) delete this.values[name];
      else this.values[name] = String(value);
    }
    const query = new URLSearchParams(this.values).toString();
    history.replaceState(null, "", query ? `#${query}` : location.pathname + location.search);
    this.onChange();
  }

  /* Whether all of these filters are set. */
  has(filters) {
    return Object.entries(filters).every(([name, value]) => this.get(name) === value);
  }

  /* Sets filters, or removes them where all are set. */
  toggle(filters) {
    this.set(this.has(filters) ? Object.fromEntries(Object.keys(filters).map((name) => [name, ""])) : filters);
  }

  clear() {
    const kept = Object.fromEntries(["theme", "axis", "sort", "dense", "keys"].map((name) => [name, this.values[name]]));
    this.values = {};
    this.set(kept);
  }

  get isFiltered() {
    return [...FILTERS, "from"].some((name) => this.values[name]);
  }

  facetOf(stream, name) {
    if (name === "outcome") return isRunning(stream) ? RUNNING : isPlain(stream) ? "span" : stream.outcome;
    return (name === "side" ? this.facts.sides?.[stream.side] : stream[name]) ?? "";
  }

  hasValue(stream, name, wanted) {
    const value = this.facetOf(stream, name);
    return value === wanted || (wanted === FAILED && name === "outcome" && (value === "error" || value === "truncated"));
  }

  /* Whether a stream passes the filters. */
  accepts(stream, now) {
    for (const name of FACETS) {
      if (this.values[name] && !this.hasValue(stream, name, this.values[name])) return false;
    }
    if (this.values.stalled && !(this.values.stalled === "now" ? ongoingStall(stream) : hasStalled(stream))) return false;
    if (this.values.text && !hasText(stream, this.values.text)) return false;
    const from = this.number("from");
    if (from === null) return true;
    const until = this.number("to") ?? from;
    if (stream.start > until || endOf(stream, now) < from) return false;
    const low = this.number("low");
    return low === null || hasGap(stream, from, until, low, this.number("high") ?? Infinity);
  }
}

/* Whether each word occurs in a name or an id of a stream, in capital letters or not. */
function hasText(stream, text) {
  const all = SEARCHED.map((name) => stream[name] ?? "").join(" ").toLowerCase();
  return text.toLowerCase().split(/\s+/).every((word) => all.includes(word));
}

function readUrl() {
  const query = new URLSearchParams(location.hash.slice(1));
  return Object.fromEntries(KEYS.filter((name) => query.get(name)).map((name) => [name, query.get(name)]));
}

/* Whether a stream has a latency sample within a time and a range of latencies (µs). */
function hasGap(stream, from, until, low, high) {
  let has = false;
  forEachGap(chunksOf(stream), (end, gap, shares) => {
    const moment = stream.start + end;
    has ||= moment >= from && moment <= until && gap / shares >= low && gap / shares <= high;
  });
  return has;
}

/* The controls in the header. They are built once and filled with the values that occur. */
export class FilterBar {
  constructor(view) {
    this.view = view;
    this.selects = FACETS.map((name) => make("select", {
      "aria-label": name, id: `filter-${name}`, onchange: (event) => view.set({ [name]: event.target.value }),
    }));
    this.stalled = makeButton("stalled", () => view.set({ stalled: view.get("stalled") ? "" : "1" }), {
      id: "filter-stalled", "data-term": "stall",
    });
    this.text = make("input", {
      type: "search", id: "filter-text", placeholder: "search", "aria-label": "Search names and ids", maxlength: 200,
      oninput: (event) => view.set({ text: event.target.value }),
    });
    this.range = makeButton("", () => view.set({ from: "", to: "", low: "", high: "" }), {
      class: "chip", id: "filter-range", title: "Remove the selection of time and latency",
    });
    this.reset = makeButton("clear", () => view.clear(), { id: "filter-clear" });
    byId("filters").append(this.text, ...this.selects, this.stalled, this.range, this.reset);
    this.shown = FACETS.map(() => "");
  }

  update(streams) {
    FACETS.forEach((name, place) => this.fill(name, this.selects[place], place, streams));
    this.stalled.setAttribute("aria-pressed", String(Boolean(this.view.get("stalled"))));
    if (document.activeElement !== this.text) this.text.value = this.view.get("text");
    this.reset.hidden = !this.view.isFiltered;
    this.range.hidden = this.view.number("from") === null;
    if (!this.range.hidden) this.range.textContent = `${this.describeRange()} ×`;
  }

  fill(name, select, place, streams) {
    const found = new Set();
    for (const stream of streams) {
      const value = this.view.facetOf(stream, name);
      if (value && found.size < MAX_CHOICES) found.add(value);
    }
    const chosen = this.view.get(name);
    if (chosen) found.add(chosen);
    const values = [...found].sort();
    const shown = JSON.stringify(values);
    if (shown !== this.shown[place]) {
      this.shown[place] = shown;
      const all = make("option", { value: "" }, `all ${name}s`);
      select.replaceChildren(all, ...values.map((value) => make("option", { value }, value)));
    }
    select.value = chosen;
    select.classList.toggle("set", Boolean(chosen));
    select.hidden = values.length === 0;
  }

  describeRange() {
    const [from, until] = [this.view.number("from"), this.view.number("to") ?? this.view.number("from")];
    const times = `${formatClock(from, until - from)}–${formatClock(until, until - from)}`;
    const low = this.view.number("low");
    if (low === null) return times;
    return `${times}, ${formatDuration(low)}–${formatDuration(this.view.number("high") ?? low)}`;
  }
}
