/* The window of time of the lanes: where it is at first and while it follows; and the order of the rows. */

import { quantileOf } from "./samples.js";
import { endOf, isRunning, longestGap, longestStall, ongoingStall } from "./streams.js";
import { TimeWindow } from "./timescale.js";

const FOLLOWED_US = 30e6;
const MIN_FOLLOWED_US = 4e6;
const QUIET_US = 90e6;
/* A file opens by time of day where half of its streams take at least this share of the width, so that ticks are seen. */
const MIN_SEEN_SHARE = 0.08;

export class LaneWindow extends TimeWindow {
  constructor(page) {
    super();
    this.page = page;
  }

  /* Judges, where the streams changed, whether most of them would be slivers in a window with all of them, whatever the
     filters are, so that the axis does not change with those; and how long those that are shown are. */
  judge() {
    const { shown, streams, now } = this.page;
    const all = streams.all();
    const { from, until } = this.findEnds(all, false);
    this.isSparse = all.length > 0 && quantileOf(sortLengths(all, now), 0.5) < MIN_SEEN_SHARE * (until - from);
    const lengths = sortLengths(shown, now);
    this.seenLength = Math.min(lengths.at(-1) ?? 1e6, 3 * (quantileOf(lengths, 0.9) ?? 1e6));
  }

  /* When the first of some streams begins, and the last one ends: by time of day, or since their requests. */
  findEnds(streams, isByRequest) {
    const { now } = this.page;
    let [from, until] = [Infinity, -Infinity];
    for (const stream of streams) {
      const start = isByRequest ? 0 : stream.start;
      from = Math.min(from, start);
      until = Math.max(until, start + endOf(stream, now) - stream.start);
    }
    return { from, until };
  }

  /* Shows all of the streams over the whole width, but for the share that the text behind the last end needs. */
  fit(isByRequest, labelShare) {
    if (!this.page.shown.length) return;
    const { from, until } = this.findEnds(this.page.shown, isByRequest);
    const length = (until - from) / (1 - labelShare) || 1000;
    this.set(from, from + length);
  }

  /* Shows streams since their requests: all but the few that are far longer than the others. */
  showRequests(labelShare) {
    this.set(0, Math.max(this.seenLength, 1000) / (1 - labelShare));
  }

  /* Shows the time of the newest streams: now, or when the last of them ended. `rows`: how many are in sight. */
  follow(rows) {
    const { shown, now, isLive } = this.page;
    if (isLive && (!shown.length || shown.some(isRunning) || endOf(shown[0], now) > now - QUIET_US)) {
      // As long as the rows in sight need; it changes slowly, so that the picture does not jump.
      const seen = shown[Math.min(shown.length, rows) - 1];
      const wanted = Math.min(Math.max((now - (seen?.start ?? now)) * 1.1, MIN_FOLLOWED_US), FOLLOWED_US);
      this.followed = this.followed ? this.followed + (wanted - this.followed) * 0.06 : wanted;
      this.set(now - this.followed, now + this.followed * 0.16);
    } else if (shown.length) {
      const last = endOf(shown[0], now);
      this.set(last - FOLLOWED_US, last + FOLLOWED_US * 0.16);
    }
  }
}

/* How long streams take, in µs, ascending. */
function sortLengths(streams, now) {
  return streams.map((stream) => endOf(stream, now) - stream.start).sort((a, b) => a - b);
}

/* The rows from the top: what is stalled now; where `isStallFirst`, what was stalled for longest; and then the newest, of
   each side in turn. With `isByGap`: all by their longest gap. */
export function orderRows({ shown, now, facts, parts }, { from, until }, { isByRequest, isByGap, isStallFirst }) {
  const all = facts.sides && isByRequest ? takeInTurn(parts.map(({ streams }) => streams)) : shown;
  const seen = isByRequest ? all : all.filter((stream) => (stream.start <= until && endOf(stream, now) >= from) || ongoingStall(stream));
  const sizeOf = isByGap ? longestGap : isStallFirst ? longestStall : (stream) => (ongoingStall(stream) ? 1 : 0);
  const isOver = (stream) => sizeOf(stream, now) > 0;
  const over = seen.filter(isOver);
  if (!over.length) return seen;
  const sizes = new Map(over.map((stream) => [stream, sizeOf(stream, now)]));
  return [...over.sort((a, b) => sizes.get(b) - sizes.get(a)), ...seen.filter((stream) => !isOver(stream))];
}

/* The first of each list, then the second of each, and so on. */
function takeInTurn(lists) {
  const longest = Math.max(...lists.map((list) => list.length));
  return Array.from({ length: longest }, (_, place) => lists.map((list) => list[place])).flat().filter(Boolean);
}
