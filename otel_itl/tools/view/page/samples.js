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

/* The middle of a bin. The first one holds what is shorter than the resolution of a timeline. */
function sizeOf(bin) {
  return bin === 0 ? 0 : MIN_US * 10 ** ((bin - 0.5) / BINS_PER_DECADE);
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
