/* Draws token time of one stream: the wait for its first token, a tick per chunk, holds, stalls, and its end. */

import { fitText, setFont } from "./canvas.js";
import { formatDuration } from "./format.js";
import { ANSWER, HIDDEN, OTHER, REASONING, findChunk } from "./packed.js";
import { chunksOf, endOf, isPlain, isRunning, ongoingStall, timeToFirstToken } from "./streams.js";

const WIDE_PX = 7;
export const OUTCOME_MARKS = Object.freeze({
  completed: "", truncated: "⊣ truncated", closed: "◂ closed", abandoned: "◌ abandoned", cancelled: "◼ cancelled",
  error: "✕ error", span: "",
});

/* What is under the ticks. `lane` has `top` and `height`; `scale` maps a moment (µs) to a pixel. */
export function drawLaneBase(context, colors, hatching, stream, lane, scale, now) {
  const left = scale(stream.start);
  const right = scale(endOf(stream, now));
  const { top, height } = lane;
  if (isPlain(stream)) {
    context.fillStyle = colors.span;
    context.fillRect(left, top + height * 0.28, Math.max(right - left, 1.5), height * 0.44);
    return;
  }
  context.fillStyle = colors.track;
  context.fillRect(left, top, Math.max(right - left, 1), height);
  drawFirstWait(context, colors, stream, lane, scale, left, right);
  const { holds } = chunksOf(stream);
  if (!holds.length) return;
  context.fillStyle = hatching;
  for (let place = 0; place < holds.length; place += 2) {
    const from = scale(stream.start + holds[place]);
    const until = scale(stream.start + holds[place] + holds[place + 1]);
    if (until < lane.left || from > lane.right) continue;
    context.fillRect(from, top, Math.max(until - from, 0.6), height);
  }
}

/* The TTFT bar: light until the response headers are there, dark until the first token. */
function drawFirstWait(context, colors, stream, { top, height }, scale, left, right) {
  const first = timeToFirstToken(stream);
  const until = first === null ? right : scale(stream.start + first);
  const inset = height > 10 ? height * 0.22 : 0;
  context.fillStyle = colors.wait;
  context.fillRect(left, top + inset, Math.max(until - left, 0), height - 2 * inset);
  if (stream.headers > 0) {
    context.fillStyle = colors.send;
    const headers = Math.min(scale(stream.start + stream.headers), until);
    context.fillRect(left, top + inset, Math.max(headers - left, 0), height - 2 * inset);
  }
}

/* The ticks, as pixels: thousands of chunks in 200 lanes are drawn in a few milliseconds. */
export function drawLaneTicks(pixels, palette, stream, lane, scale) {
  const chunks = chunksOf(stream);
  if (!chunks.n) return;
  const { ratio } = pixels;
  const top = Math.round(lane.top * ratio);
  const bottom = Math.min(Math.round((lane.top + lane.height) * ratio), pixels.height);
  const from = Math.max(top, 0);
  const first = Math.max(findChunk(chunks, scale.moment(lane.left) - stream.start) - 1, 0);
  const last = scale.moment(lane.right) - stream.start;
  const [minX, maxX] = [Math.round(lane.left * ratio), Math.round(lane.right * ratio)];
  const spacing = (scale.perPixel ? (chunks.at[chunks.n - 1] - chunks.at[0]) / chunks.n / scale.perPixel : 0) || 0;
  const width = spacing > WIDE_PX ? Math.round(2 * ratio) : Math.max(1, Math.round(ratio));
  const quarter = Math.max(Math.round((bottom - top) / 4), 1);
  for (let index = first; index < chunks.n && chunks.at[index] <= last; index++) {
    const code = chunks.codes[index];
    const x = Math.round(scale(stream.start + chunks.at[index]) * ratio);
    if (x < minX || x >= maxX) continue;
    const end = Math.min(x + width, maxX);
    if (code & OTHER) fillPixels(pixels, x, end, Math.max(bottom - quarter, from), bottom, palette.other);
    else if (code & HIDDEN) drawHollow(pixels, x, Math.min(x + width + (spacing > WIDE_PX ? Math.round(3 * ratio) : 0), maxX), from, bottom, quarter, palette.of(code));
    else fillPixels(pixels, x, end, from, bottom, palette.of(code));
  }
}

/* A hollow tick: an outline where there is room for it, else its two ends. */
function drawHollow(pixels, x, end, top, bottom, quarter, color) {
  const line = Math.max(1, Math.round(pixels.ratio));
  if (end - x < 4 * line) {
    fillPixels(pixels, x, end, top, Math.min(top + quarter, bottom), color);
    fillPixels(pixels, x, end, Math.max(bottom - quarter, top), bottom, color);
    return;
  }
  fillPixels(pixels, x, x + line, top, bottom, color);
  fillPixels(pixels, end - line, end, top, bottom, color);
  fillPixels(pixels, x, end, top, top + line, color);
  fillPixels(pixels, x, end, bottom - line, bottom, color);
}

function fillPixels({ data, width }, left, right, top, bottom, color) {
  for (let y = top; y < bottom; y++) data.fill(color, y * width + left, y * width + right);
}

export function makeKindPalette(pixels) {
  return {
    other: pixels.other,
    of: (code) => (code & ANSWER ? pixels.answer : code & REASONING ? pixels.reasoning : pixels.tool),
  };
}

/* What is over the ticks: stalls with their seconds and cause, and how the stream ended. */
export function drawLaneOver(context, colors, stream, lane, scale, now, isLabelled = true) {
  const { top, height } = lane;
  const isTall = height >= 11;
  for (const stall of stream.stalls ?? []) {
    const length = stall.open ? Math.max(now - stream.start - stall.at, stall.waited ?? 0) : stall.waited;
    const from = Math.max(scale(stream.start + stall.at), lane.left);
    const until = Math.min(scale(stream.start + stall.at + length), lane.right);
    if (until <= lane.left || from >= lane.right) continue;
    context.fillStyle = colors.stall;
    context.fillRect(from, top - 1, Math.max(until - from, 2), height + 2);
    if (isTall && isLabelled) labelStall(context, colors, stall, length, from, until, lane);
  }
  if (isRunning(stream)) {
    const x = Math.min(scale(endOf(stream, now)), lane.right);
    context.fillStyle = ongoingStall(stream) ? colors.stall : colors.ink;
    context.fillRect(x - 1, top - 2, 2, height + 4);
  } else if (isTall && isLabelled) {
    labelEnd(context, colors, stream, lane, scale);
  }
}

function labelStall(context, colors, stall, length, from, until, { top, height }) {
  const cause = (stall.cause ?? "unknown cause").replace("_", " ");
  setFont(context, 11, 600);
  const room = until - from - 8;
  const time = formatDuration(length);
  const text = context.measureText(`${time} ${cause}`).width <= room ? `${time} ${cause}` : time;
  if (context.measureText(text).width <= room) {
    context.textAlign = "left";
    context.fillStyle = colors["stall-ink"];
    context.fillText(text, from + 4, top + height / 2 + 0.5);
  }
  setFont(context);
}

function labelEnd(context, colors, stream, { top, height, right }, scale) {
  const x = scale(stream.start + stream.end) + 5;
  if (x > right - 12) return;
  const mark = OUTCOME_MARKS[stream.outcome] ?? stream.outcome ?? "";
  const error = stream.outcome === "error" && stream.error ? ` ${stream.error}` : "";
  const text = `${formatDuration(stream.end)}${mark ? `  ${mark}${error}` : ""}`;
  context.textAlign = "left";
  context.fillStyle = stream.outcome === "error" || stream.outcome === "truncated" ? colors.bad : colors.dim;
  context.fillText(fitText(context, text, right - x), x, top + height / 2 + 0.5);
}
