/* Reads the packed chunks of a stream, as otel_itl/tools/view/packing.py writes them, and yields its latency samples. */

export const REASONING = 1;
export const ANSWER = 2;
export const TOOL = 4;
export const OUTPUT = 7;
export const HIDDEN = 8;
export const UNMEASURED = 16;
export const OTHER = 32;

export const NO_CHUNKS = Object.freeze({
  n: 0, at: new Float64Array(0), codes: new Uint8Array(0), shares: null, choices: null, holds: [],
});

/* Moments are microseconds after the request; `since` is that of the chunk before. */
export function unpackChunks(packed, since = 0) {
  if (!packed || !packed.n) return packed && packed.h ? { ...NO_CHUNKS, holds: packed.h } : NO_CHUNKS;
  const at = new Float64Array(packed.n);
  let moment = since;
  for (let chunk = 0; chunk < packed.n; chunk++) at[chunk] = moment += packed.d[chunk];
  return {
    n: packed.n, at, codes: unpackRuns(packed.k, packed.n, Uint8Array),
    shares: packed.w ? unpackRuns(packed.w, packed.n, Float64Array) : null,
    choices: packed.c ? unpackRuns(packed.c, packed.n, Uint8Array) : null,
    holds: packed.h ?? [],
  };
}

function unpackRuns(runs, length, Kind) {
  const values = new Kind(length);
  let place = 0;
  for (let run = 0; run < runs.length; run += 2) {
    values.fill(runs[run], place, place + runs[run + 1]);
    place += runs[run + 1];
  }
  return values;
}

/* The chunks of a stream that runs, with those of one more `itl.stream.progress` behind them. */
export function joinChunks(before, packed) {
  const more = unpackChunks(packed, before.n ? before.at[before.n - 1] : 0);
  const join = (name, Kind, fill) => {
    if (!before[name] && !more[name]) return null;
    const joined = new Kind(before.n + more.n).fill(fill);
    if (before[name]) joined.set(before[name]);
    if (more[name]) joined.set(more[name], before.n);
    return joined;
  };
  return {
    n: before.n + more.n, at: join("at", Float64Array, 0), codes: join("codes", Uint8Array, 0),
    shares: join("shares", Float64Array, 1), choices: join("choices", Uint8Array, 0),
    holds: before.holds.concat(more.holds),
  };
}

/* The choices of each choice byte: from 128 on it is a set, with a bit for each of the first seven choices. */
const CHOICES = Array.from({ length: 256 }, (_, byte) => {
  const several = [0, 1, 2, 3, 4, 5, 6].filter((choice) => byte >> choice & 1);
  return byte > 128 ? several : [byte];
});

/* Calls `take(end, gap, shares, index)` for each measured gap: it is `shares` samples of gap / shares each. */
export function forEachGap(chunks, take) {
  const last = new Map();
  for (let index = 0; index < chunks.n; index++) {
    const code = chunks.codes[index];
    if (!(code & OUTPUT)) continue;
    for (const choice of CHOICES[chunks.choices ? chunks.choices[index] : 0]) {
      if (!(code & UNMEASURED) && last.has(choice)) {
        take(chunks.at[index], chunks.at[index] - last.get(choice), chunks.shares ? chunks.shares[index] : 1, index);
      }
      last.set(choice, chunks.at[index]);
    }
  }
}

/* The number of each output chunk among those of its choice, from 1, as the report counts them; 0: no output. */
export function numberOutputs(chunks) {
  const counts = new Map();
  const numbers = new Uint32Array(chunks.n);
  for (let index = 0; index < chunks.n; index++) {
    if (!(chunks.codes[index] & OUTPUT)) continue;
    for (const choice of CHOICES[chunks.choices ? chunks.choices[index] : 0]) {
      numbers[index] = (counts.get(choice) ?? 0) + 1;
      counts.set(choice, numbers[index]);
    }
  }
  return numbers;
}

/* The index of the first chunk at or after a moment. */
export function findChunk(chunks, moment) {
  let low = 0;
  let high = chunks.n;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (chunks.at[middle] < moment) low = middle + 1;
    else high = middle;
  }
  return low;
}

export function firstOutput(chunks) {
  for (let index = 0; index < chunks.n; index++) if (chunks.codes[index] & OUTPUT) return chunks.at[index];
  return null;
}
