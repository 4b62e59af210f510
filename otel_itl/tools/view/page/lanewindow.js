/* The window of time of the lanes: where it is at first and while it follows; and the order of the rows. */

import { quantileOf } from "./samples.js";
import { endOf, isRunning, longestStall, ongoingStall } from "./streams.js";
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

  /* Shows all of the streams. */
  fit(isByRequest) {
    if (!this.page.shown.length) return;
    const { from, until } = this.findEnds(this.page.shown, isByRequest);
    const margin = (until - from) * 0.04 || 1000;
    this.set(from - (isByRequest ? 0 : margin), until + margin * 2.5);
  }

  /* Shows streams since their requests: all but the few that are far longer than the others. */
  showRequests() {
    this.set(0, Math.max(this.seenLength, 1000) * 1.15);
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

/* The rows from the top: what is stalled now; by request, what was stalled for longest; and then the newest, of each side
   in turn. */
export function orderRows({ shown, now, facts, parts }, { from, until }, isByRequest) {
  if (isByRequest) {
    const all = facts.sides ? takeInTurn(parts.map(({ streams }) => streams)) : shown;
    const stalled = all.filter((stream) => longestStall(stream, now)).sort((a, b) => longestStall(b, now) - longestStall(a, now));
    return stalled.length ? [...stalled, ...all.filter((stream) => !longestStall(stream, now))] : all;
  }
  const seen = shown.filter((stream) => (stream.start <= until && endOf(stream, now) >= from) || ongoingStall(stream));
  const stalled = seen.filter(ongoingStall);
  return stalled.length ? [...stalled, ...seen.filter((stream) => !ongoingStall(stream))] : seen;
}

/* The first of each list, then the second of each, and so on. */
function takeInTurn(lists) {
  const longest = Math.max(...lists.map((list) => list.length));
  return Array.from({ length: longest }, (_, place) => lists.map((list) => list[place])).flat().filter(Boolean);
}
