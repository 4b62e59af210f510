/* Sums up the streams that pass the filters, a few milliseconds at a time: latencies by time, and all of them together. */

import { formatDuration } from "./format.js";
import { forEachGap } from "./packed.js";
import { Samples, interpolateRanks, markIfTooFew } from "./samples.js";
import { chunksOf, errorOf, isKnown, timeToFirstToken } from "./streams.js";

const SLICE_MS = 7;
const MAX_BINS = 720;
const MIN_BIN_US = 50_000;
export const ROWS_PER_DECADE = 30;
export const MIN_LATENCY_US = 10;
export const LATENCY_ROWS = ROWS_PER_DECADE * 7;

export const rowOf = (us) => {
  if (us <= MIN_LATENCY_US) return 0;
  return Math.min(Math.floor(Math.log10(us / MIN_LATENCY_US) * ROWS_PER_DECADE), LATENCY_ROWS - 1);
};
export const latencyOf = (row) => MIN_LATENCY_US * 10 ** (row / ROWS_PER_DECADE);

/* The latencies of some streams: their ITL samples, of how many `streams` they are, all together and by time, and their times to first token. */
export class Sums {
  constructor() {
    this.samples = new Samples();
    this.streams = 0;
    this.firstTokens = [];
    this.bins = new Map();
    this.binUs = MIN_BIN_US;
  }

  add(stream) {
    const first = timeToFirstToken(stream);
    if (first !== null && isKnown(stream, "TTFT")) this.firstTokens.push({ at: stream.start + first, us: first, least: first - errorOf(stream, "time_to_first_token") });
    if (isKnown(stream, "ITL")) this.addGaps(stream);
    while (this.bins.size > MAX_BINS) this.widenBins();
  }

  addGaps(stream) {
    this.samples.addBounds(stream);
    const before = this.samples.count;
    forEachGap(chunksOf(stream), (end, gap, shares) => {
      const size = gap / shares;
      this.samples.add(size, shares);
      const bin = Math.floor((stream.start + end) / this.binUs);
      let rows = this.bins.get(bin);
      if (!rows) {
        rows = new Float32Array(LATENCY_ROWS);
        this.bins.set(bin, rows);
      }
      rows[rowOf(size)] += shares;
    });
    this.streams += this.samples.count > before;
  }

  /* Joins each two neighbouring bins of time. */
  widenBins() {
    const joined = new Map();
    for (const [bin, rows] of this.bins) {
      const place = Math.floor(bin / 2);
      const present = joined.get(place);
      if (present) for (let row = 0; row < LATENCY_ROWS; row++) present[row] += rows[row];
      else joined.set(place, rows);
    }
    this.bins = joined;
    this.binUs *= 2;
  }

  /* Times to first token (µs), ascending; `least`: as early as they may have been. */
  sortedFirst(key = "us") {
    return this.firstTokens.map((token) => token[key]).sort((a, b) => a - b);
  }
}

/* The key of a stream in the table of models: its side, its provider and its model. */
export const modelKey = (stream) => JSON.stringify([stream.side ?? 0, stream.provider ?? "", stream.model ?? stream.name ?? ""]);

export class Aggregate {
  constructor() {
    this.reset();
  }

  reset() {
    this.taken = new Set();
    this.sides = [];
    this.models = new Map();
    this.waiting = [];
  }

  /* Takes the streams that pass the filters now. Where one that was taken does not any more, or a tenth of them was let
     go, all is begun anew; `byId` holds the streams that are kept. */
  expect(shown, byId) {
    const ended = shown.filter((stream) => stream.measures);
    const present = new Set(ended);
    let missing = 0;
    for (const stream of this.taken) {
      if (present.has(stream)) continue;
      missing++;
      if (byId.get(stream.id) === stream || missing > this.taken.size / 10) {
        this.reset();
        break;
      }
    }
    this.waiting = ended.filter((stream) => !this.taken.has(stream));
  }

  /* Adds what waits, for some milliseconds; returns whether there is more. */
  work() {
    const until = performance.now() + SLICE_MS;
    while (this.waiting.length && performance.now() < until) this.add(this.waiting.pop());
    return this.waiting.length > 0;
  }

  add(stream) {
    this.taken.add(stream);
    this.ofSide(stream.side ?? 0).add(stream);
    this.ofModel(modelKey(stream)).add(stream);
  }

  /* The sums of a side of a comparison; of all streams where nothing is compared: side 0. */
  ofSide(side) {
    this.sides[side] ??= new Sums();
    return this.sides[side];
  }

  ofModel(key) {
    if (!this.models.has(key)) this.models.set(key, new Sums());
    return this.models.get(key);
  }

  /* How many ITL samples there are of all sides. */
  get count() {
    return this.sides.reduce((sum, side) => sum + (side?.samples.count ?? 0), 0);
  }
}

/* The latency (µs) at a share of the samples of some rows; null: there is none. */
export function quantileOfRows(rows, share) {
  let total = 0;
  for (const count of rows) total += count;
  return interpolateRanks(rows, total, share, (row, part) => latencyOf(row + part));
}

/* Likewise as text; marked where there are too few samples, and a dash where there is none. */
export function describeQuantile(rows, share) {
  if (!rows) return formatDuration(null);
  return markIfTooFew(formatDuration(quantileOfRows(rows, share)), share, rows.reduce((sum, count) => sum + count, 0));
}

/* The rows of latency per column of a picture: `columns` equal parts of the time from `from` to `until`. */
export function sumColumns(sums, from, until, columns) {
  const summed = Array.from({ length: columns }, () => null);
  for (const [bin, rows] of sums.bins) {
    const middle = (bin + 0.5) * sums.binUs;
    const column = Math.floor(((middle - from) / (until - from)) * columns);
    if (column < 0 || column >= columns) continue;
    summed[column] ??= new Float32Array(LATENCY_ROWS);
    for (let row = 0; row < LATENCY_ROWS; row++) summed[column][row] += rows[row];
  }
  return summed;
}
