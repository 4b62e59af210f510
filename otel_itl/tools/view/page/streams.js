/* Holds the streams of the page, newest first, and what was let go of them. */

import { NO_CHUNKS, OUTPUT, firstOutput, joinChunks, unpackChunks } from "./packed.js";

export const isRunning = (stream) => stream.end === undefined;
export const isPlain = (stream) => stream.kind === "span";
export const hasStalled = (stream) => (stream.stalls?.length ?? 0) + (stream.more_stalls ?? 0) > 0;

/* The chunks of a stream, unpacked when they are first drawn. */
export function chunksOf(stream) {
  stream.chunks ??= stream.t ? unpackChunks(stream.t) : NO_CHUNKS;
  return stream.chunks;
}

/* The stall that lasts, of a stream that runs; undefined: it has none. */
export function ongoingStall(stream) {
  return isRunning(stream) ? stream.stalls?.find((stall) => stall.open) : undefined;
}

/* How long the longest stall of a stream is or was, in µs; 0: it has none. */
export function longestStall(stream, now) {
  if (!stream.stalls?.length) return 0;
  const lengths = stream.stalls.map((stall) => (stall.open ? now - stream.start - stall.at : stall.waited ?? 0));
  return Math.max(0, ...lengths);
}

/* The longest time between two output chunks of a stream, in µs, or its longest stall. */
export function longestGap(stream, now) {
  return Math.max((stream.measures?.itl_max ?? 0) * 1e6, longestStall(stream, now));
}

/* The time to first token in µs: by its figures, or by its chunks while it runs. */
export function timeToFirstToken(stream) {
  if (stream.measures?.time_to_first_token !== undefined) return stream.measures.time_to_first_token * 1e6;
  return isPlain(stream) ? null : firstOutput(chunksOf(stream));
}

/* By how much a figure of a stream may be less, in µs; 0: by next to nothing. */
export const errorOf = (stream, figure) => (stream.errors?.[figure] ?? 0) * 1e6;

/* By how much it may be more, likewise. */
export const errorAbove = (stream, figure) => (stream.above?.[figure] ?? 0) * 1e6;

/* Whether a figure (TTFT, ITL or TPOT) is known well enough to be pooled over streams. */
export const isKnown = (stream, figure) => !stream.left_out?.includes(figure);

/* When a stream ends or is seen last, in microseconds since the epoch. */
export function endOf(stream, now) {
  return isRunning(stream) ? Math.max(now, stream.start) : stream.start + stream.end;
}

export class Streams {
  constructor() {
    this.byId = new Map();
    this.ordered = [];
    this.letGo = 0;
    this.version = 0;
    this.needsOrder = false;
  }

  /* Adds streams, or replaces those with the same id. */
  put(streams) {
    for (const stream of streams) {
      stream.replaces = this.byId.get(stream.id);
      this.byId.set(stream.id, stream);
    }
    this.needsOrder = true;
    this.version++;
  }

  /* Changes a stream that runs: `set` replaces keys, `t` holds further chunks. */
  patch({ id, set, t }) {
    const stream = this.byId.get(id);
    if (!stream) return;
    if (t) {
      stream.chunks = joinChunks(chunksOf(stream), t);
      delete stream.t;
    }
    Object.assign(stream, set);
    this.version++;
  }

  remove(ids) {
    for (const id of ids) this.byId.delete(id);
    this.needsOrder = true;
    this.version++;
  }

  /* All streams, newest first. */
  all() {
    if (this.needsOrder) {
      this.ordered = [...this.byId.values()].sort((a, b) => b.start - a.start || (a.id < b.id ? -1 : 1));
      this.needsOrder = false;
    }
    return this.ordered;
  }
}

/* Output chunks that arrived between two moments (µs since the epoch). */
export function countOutput(stream, from, until) {
  const chunks = chunksOf(stream);
  let count = 0;
  for (let index = chunks.n - 1; index >= 0; index--) {
    const moment = stream.start + chunks.at[index];
    if (moment < from) break;
    if (moment <= until && chunks.codes[index] & OUTPUT) count++;
  }
  return count;
}
