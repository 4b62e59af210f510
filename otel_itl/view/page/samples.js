/* Latency samples of many streams in bins of equal ratio: percentiles within 0.6 %, whatever their number. */

import { forEachGap } from "./packed.js";
import { chunksOf } from "./streams.js";

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
  }

  /* The sample (µs) that a share of all samples does not exceed; null: there is none. */
  quantile(share) {
    if (!this.count) return null;
    const rank = share * (this.count - 1);
    let seen = 0;
    for (let bin = 0; bin < BINS; bin++) {
      seen += this.counts[bin];
      if (seen > rank) return Math.min(Math.max(sizeOf(bin), this.min), this.max);
    }
    return this.max;
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

/* The middle of a bin. The first one holds what is shorter than the resolution of a timeline. */
function sizeOf(bin) {
  return bin === 0 ? 0 : MIN_US * 10 ** ((bin - 0.5) / BINS_PER_DECADE);
}

/* The quantile of ascending values, interpolated as in the report; null: there is none. */
export function quantileOf(sorted, share) {
  if (!sorted.length) return null;
  const rank = share * (sorted.length - 1);
  const below = Math.floor(rank);
  const above = Math.min(below + 1, sorted.length - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (rank - below);
}
