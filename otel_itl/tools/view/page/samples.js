/* Latency samples of many streams in bins of equal ratio: percentiles within 0.6 %, whatever their number. */

import { forEachGap } from "./packed.js";
import { chunksOf } from "./streams.js";

const MIN_BEYOND = 10;
const MIN_STREAMS = 5;
const BINS_PER_DECADE = 200;
const MIN_US = 1;
const BINS = 9 * BINS_PER_DECADE;

export class Samples {
  constructor() {
    this.counts = new Float64Array(BINS);
    this.count = 0;
    this.sum = 0;
    this.min = Infinity;
    this.max = 0;
    this.hasBounds = false;
    this.shifts = { low: new Float64Array(BINS), high: new Float64Array(BINS) };
  }

  /* Adds `times` samples of this size (µs). */
  add(size, times = 1) {
    this.counts[binOf(size)] += times;
    this.count += times;
    this.sum += size * times;
    if (size < this.min) this.min = size;
    if (size > this.max) this.max = size;
  }

  addStream(stream) {
    forEachGap(chunksOf(stream), (_, gap, shares) => this.add(gap / shares, shares));
    this.addBounds(stream);
  }

  /* Notes how the counts change if each sample of a stream that was added is the least, or the most, that it can be. */
  addBounds(stream) {
    for (const [side, shift] of Object.entries(this.shifts)) {
      const runs = stream[side];
      if (!runs) continue;
      this.hasBounds = true;
      for (let run = 0; run < runs.length; run += 2) shift[Math.min(runs[run], BINS - 1)] += runs[run + 1];
      forEachGap(chunksOf(stream), (_, gap, shares) => { shift[binOf(gap / shares)] -= shares; });
    }
  }

  /* By how much the sample at a share may be less, and more (µs). */
  errors(share) {
    if (!this.hasBounds) return { below: 0, above: 0 };
    const value = this.quantile(share);
    const [low, high] = [this.shifts.low, this.shifts.high].map((shift) => interpolateRanks(this.counts.map((count, bin) => count + shift[bin]), this.count, share, sizeOf));
    return { below: shownError(value - low, value), above: shownError(high - value, value) };
  }

  /* The sample (µs) that a share of all samples does not exceed, interpolated as in the report; null: there is none. */
  quantile(share) {
    return interpolateRanks(this.counts, this.count, share, (bin) => Math.min(Math.max(sizeOf(bin), this.min), this.max));
  }

  /* The share of samples up to a size (µs). */
  shareUpTo(size) {
    let seen = 0;
    for (let bin = 0; bin <= binOf(size); bin++) seen += this.counts[bin];
    return this.count ? seen / this.count : 0;
  }
}

function binOf(size) {
  if (size < MIN_US) return 0;
  return Math.min(1 + Math.floor(Math.log10(size / MIN_US) * BINS_PER_DECADE), BINS - 1);
}

/* An error (µs) of a figure if it is shown: from 1 ms and 1 % of the figure on; else 0. */
export const shownError = (error, us) => (error > Math.max(1000, 0.01 * us) ? error : 0);

/* The middle of a bin. The first one holds what is shorter than the resolution of a timeline. */
function sizeOf(bin) {
  return bin === 0 ? 0 : MIN_US * 10 ** ((bin - 0.5) / BINS_PER_DECADE);
}

/* What the mark before a percentile means. */
export const TOO_FEW = "~ of too few samples: p95 needs 200, p99 1,000, of 5 streams; p50 needs 5";

/* A percentile as text, with the mark of one that has too few samples, or samples of too few streams: the rule of the
   report (tools/report/too_few.py). Of one sample there is one figure, its median. */
export function markIfTooFew(text, share, samples, streams = MIN_STREAMS) {
  if (samples === 1 && share !== 0.5) return "–";
  const needed = share <= 0.5 ? MIN_STREAMS : Math.round(MIN_BEYOND / (1 - share));
  return samples && (samples < needed || (share > 0.5 && streams < MIN_STREAMS)) ? `~${text}` : text;
}

/* The value at a share of counted values: `sizeAt(bin, part)` returns the value at a part of the way through a bin. */
export function interpolateRanks(counts, total, share, sizeAt) {
  if (!total) return null;
  const rank = share * (total - 1);
  const wanted = Math.floor(rank);
  let lower = null;
  let seen = 0;
  for (let bin = 0; bin < counts.length; bin++) {
    const count = counts[bin];
    if (lower === null && seen + count > wanted) lower = sizeAt(bin, (wanted - seen + 0.5) / count);
    if (lower !== null && (rank === wanted || seen + count > wanted + 1)) {
      return lower + (rank - wanted) * ((rank === wanted ? lower : sizeAt(bin, (wanted + 1 - seen + 0.5) / count)) - lower);
    }
    seen += count;
  }
  return lower;
}

/* The quantile of ascending values, interpolated as in the report; null: there is none. */
export function quantileOf(sorted, share) {
  if (!sorted.length) return null;
  const rank = share * (sorted.length - 1);
  const below = Math.floor(rank);
  const above = Math.min(below + 1, sorted.length - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (rank - below);
}
