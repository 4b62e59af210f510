/* The sides of a comparison, which each picture draws in one colour each; without one, a single part that has all. */

import { make } from "./dom.js";
import { endOf } from "./streams.js";

const SIDE_COLORS = 8;

export const colorOfSide = (side) => `side-${side % SIDE_COLORS}`;

/* The parts of the streams that are shown: `name`, `side`, `color` (of the theme; of no side: none), `streams`, `sums` and
   `range`, which is as long for each. Times of a side are counted from the begin of its range. */
export function splitBySide({ shown, aggregate, facts, now }) {
  if (!facts.sides) return [{ name: "", color: null, streams: shown, sums: aggregate.ofSide(0), range: findRange(shown, now) }];
  const parts = facts.sides.map((name, side) => {
    const streams = shown.filter((stream) => stream.side === side);
    return { name, side, color: colorOfSide(side), streams, sums: aggregate.ofSide(side), range: findRange(streams, now) };
  });
  const longest = Math.max(...parts.map(({ streams, range }) => (streams.length ? range.until - range.from : 0)), 1e6);
  for (const { range } of parts) range.until = range.from + longest;
  return parts;
}

/* The time that streams take, in microseconds since the epoch. */
function findRange(streams, now) {
  let [from, until] = [Infinity, -Infinity];
  for (const stream of streams) {
    from = Math.min(from, stream.start);
    until = Math.max(until, endOf(stream, now));
  }
  return from < until ? { from, until } : { from: now - 1e6, until: now };
}

/* The name of a side with its colour, for legends, tiles and tables. */
export function makeSideName({ sides }, side) {
  return make("span", { class: "side" }, make("i", { class: `k-${colorOfSide(side)}`, "aria-hidden": "true" }), make("span", {}, sides[side]));
}

/* A legend of the sides, once they are known; with a note on how lines are drawn, it takes the place of the other legend. */
export class SideLegend {
  constructor(page, note = "") {
    Object.assign(this, { page, note });
    this.element = make("div", { class: "legend" });
  }

  update() {
    const { facts } = this.page;
    if (!facts.sides || this.element.children.length) return;
    if (this.note) this.element.parentElement?.querySelector(".head .legend")?.remove();
    this.element.append(...facts.sides.map((_, side) => makeSideName(facts, side)), ...(this.note ? [make("span", {}, this.note)] : []));
  }
}
