/* The words about the rows of the lanes: their number and order, a stream in a few lines, and the table behind them. */

import { formatClock, formatDuration, formatWithError } from "./format.js";
import { chunksOf, endOf, errorAbove, errorOf, isPlain, isRunning, longestGap, longestStall, ongoingStall, timeToFirstToken } from "./streams.js";

const AHEAD_US = 5e6;
export const ROW_COLUMNS = ["started", "provider", "model", "session", "state", "TTFT", "duration", "ITL p50", "ITL p99", "longest gap", "chunks", "stalls"];
export const ROW_TEXTS = 5;

const inUs = (seconds) => formatDuration(seconds === undefined ? null : seconds * 1e6);

/* How many streams there are, how they are ordered, and which of them the window cannot show. */
export function describeRows(page, { isByRequest, isByGap, isStallFirst }) {
  const { shown, streams, now, view, isLive } = page;
  const running = shown.filter(isRunning).length;
  const all = streams.byId.size;
  const count = view.isFiltered ? `${shown.length.toLocaleString("en")} of ${all.toLocaleString("en")}` : all.toLocaleString("en");
  const open = running ? `, ${running} open` : "";
  const stalled = shown.filter((stream) => isRunning(stream) && ongoingStall(stream, now)).length;
  const order = isByGap ? ", the longest gap first"
    : isStallFirst && shown.some((stream) => longestStall(stream, now)) ? ", the longest stall first" : "";
  const ahead = isLive && !isByRequest ? shown.filter((stream) => stream.start > now + AHEAD_US).length : 0;
  const late = ahead ? `, ${ahead.toLocaleString("en")} of a clock that is ahead: see them since request` : "";
  return `${count}${open}${stalled ? `, ${stalled} stalled now` : ""}${order}${late}`;
}

/* A stream in a few lines. */
export function describeStream(stream, now, sides) {
  const lines = [`${sides ? `${sides[stream.side]}: ` : ""}${stream.provider ?? ""} ${stream.model ?? stream.name ?? ""}`.trim()];
  if (stream.session) lines.push(`session ${stream.session}${stream.turn ? `, request ${stream.turn}` : ""}`);
  const first = timeToFirstToken(stream);
  const facts = [`${isRunning(stream) ? "running for" : (stream.outcome ?? "span")} ${formatDuration(endOf(stream, now) - stream.start)}`];
  if (first !== null && !isPlain(stream)) facts.push(`TTFT ${formatWithError(first, errorOf(stream, "time_to_first_token"))}`);
  if (stream.measures?.itl_p50 !== undefined) facts.push(`ITL p50 ${inUs(stream.measures.itl_p50)}, p99 ${formatWithError(stream.measures.itl_p99 * 1e6, errorOf(stream, "itl_p99"), errorAbove(stream, "itl_p99"))}`);
  lines.push(facts.join(" · "));
  for (const stall of (stream.stalls ?? []).slice(0, 4)) {
    const length = stall.open ? now - stream.start - stall.at : stall.waited;
    lines.push(`${stall.open ? "stalled now for" : "stall of"} ${formatDuration(length)}, ${(stall.cause ?? "unknown cause").replace("_", " ")}`);
  }
  return lines.join("\n");
}

/* The cells of a stream, by `ROW_COLUMNS`. */
export function makeCells(stream, now) {
  return [
    formatClock(stream.start, 1000), stream.provider ?? "", stream.model ?? stream.name ?? "", stream.session ?? "",
    isRunning(stream) ? "running" : (stream.outcome ?? "span"), formatWithError(timeToFirstToken(stream), errorOf(stream, "time_to_first_token")),
    formatDuration(endOf(stream, now) - stream.start), inUs(stream.measures?.itl_p50), inUs(stream.measures?.itl_p99),
    inUs(longestGap(stream, now) / 1e6 || undefined),
    stream.measures?.chunk_count ?? (isPlain(stream) ? "–" : chunksOf(stream).n), (stream.stalls?.length ?? 0) + (stream.more_stalls ?? 0),
  ];
}
