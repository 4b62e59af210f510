/* Draws token time of one stream: the wait for its first token, a tick per chunk, holds, stalls, and its end. */

import { fitText, setFont } from "./canvas.js";
import { formatDuration } from "./format.js";
import { ANSWER, HIDDEN, OTHER, REASONING, TOOL, findChunk } from "./packed.js";
import { chunksOf, endOf, errorOf, isPlain, isRunning, ongoingStall, timeToFirstToken } from "./streams.js";

const WIDE_PX = 7;
const CAP_ALPHA = 0.4;
const SOLID = REASONING | ANSWER | TOOL;
const KIND_FLAGS = Object.freeze([0, 1, 2, 3, 4, 5, 6, 7]);
export const OUTCOME_MARKS = Object.freeze({
  completed: "", truncated: "⊣ truncated", closed: "◂ closed", abandoned: "◌ abandoned", interrupted: "◂ interrupted", cancelled: "◼ cancelled",
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

/* The TTFT bar: light until the response headers are there, dark until the first token, with a lighter cap where that may
   have come earlier. */
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
  const error = errorOf(stream, "time_to_first_token");
  if (first !== null && error) drawCap(context, colors, scale(stream.start + first - error), until, top + inset, height - 2 * inset);
}

/* The lighter cap of a bar: its end may have come as early as this. */
function drawCap(context, colors, from, until, top, height) {
  context.fillStyle = colors.track;
  context.fillRect(from, top, until - from, height);
  context.globalAlpha = CAP_ALPHA;
  context.fillStyle = colors.wait;
  context.fillRect(from, top, until - from, height);
  context.globalAlpha = 1;
}

/* The ticks, as pixels: thousands of chunks in 200 lanes are drawn in a few milliseconds. Solid ticks are written into
   the first row of the lane, which is then copied to its other rows; the few that are not solid are drawn one by one. */
export function drawLaneTicks(pixels, palette, stream, lane, scale) {
  const chunks = chunksOf(stream);
  const { ratio, data, width: stride } = pixels;
  const top = Math.max(Math.round(lane.top * ratio), 0);
  const bottom = Math.min(Math.round((lane.top + lane.height) * ratio), pixels.height);
  if (!chunks.n || bottom <= top) return;
  const [minX, maxX] = [Math.round(lane.left * ratio), Math.round(lane.right * ratio)];
  const perMicrosecond = ratio / scale.perPixel;
  const origin = scale(stream.start) * ratio;
  const spacing = ((chunks.at[chunks.n - 1] - chunks.at[0]) / chunks.n / scale.perPixel) || 0;
  const width = spacing > WIDE_PX ? Math.round(2 * ratio) : Math.max(1, Math.round(ratio));
  const last = scale.moment(lane.right) - stream.start;
  const colors = KIND_FLAGS.map((flag) => palette.of(flag));
  const line = top * stride;
  const hollow = [];
  const { at, codes } = chunks;
  for (let index = Math.max(findChunk(chunks, scale.moment(lane.left) - stream.start) - 1, 0); index < chunks.n; index++) {
    if (at[index] > last) break;
    const x = Math.round(origin + at[index] * perMicrosecond);
    if (x < minX || x >= maxX) continue;
    const code = codes[index];
    if (code & (HIDDEN | OTHER)) {
      hollow.push(x, code);
      continue;
    }
    const color = colors[code & SOLID];
    data[line + x] = color;
    for (let more = 1; more < width && x + more < maxX; more++) data[line + x + more] = color;
  }
  for (let y = top + 1; y < bottom; y++) data.copyWithin(y * stride + minX, line + minX, line + maxX);
  drawSpecialTicks(pixels, palette, hollow, { top, bottom, maxX, width, isWide: spacing > WIDE_PX });
}

/* Hollow ticks, and short ones for chunks without output. `ticks` holds a pixel and a code for each. */
function drawSpecialTicks(pixels, palette, ticks, { top, bottom, maxX, width, isWide }) {
  const quarter = Math.max(Math.round((bottom - top) / 4), 1);
  const room = isWide ? Math.round(3 * pixels.ratio) : 0;
  for (let place = 0; place < ticks.length; place += 2) {
    const [x, code] = [ticks[place], ticks[place + 1]];
    const color = palette.of(code & SOLID);
    if (code & OTHER) fillPixels(pixels, x, Math.min(x + width, maxX), Math.max(bottom - quarter, top), bottom, palette.other);
    else if (code & HIDDEN) drawHollow(pixels, x, Math.min(x + width + room, maxX), top, bottom, quarter, color);
    else fillPixels(pixels, x, Math.min(x + width, maxX), top, bottom, color);
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

/* A function that removes ticks from a part of their canvas, in CSS pixels. */
export function makeEraser(ticks, ratio) {
  const context = ticks.getContext("2d");
  return (left, top, width, height) => context.clearRect(left * ratio, top * ratio, width * ratio, height * ratio);
}

export function makeKindPalette(pixels) {
  return {
    other: pixels.other,
    of: (code) => (code & ANSWER ? pixels.answer : code & REASONING ? pixels.reasoning : pixels.tool),
  };
}

/* What is over the ticks: stalls with their seconds and cause, and how the stream ended. `erase(left, top, width, height)`
   removes the ticks under a text. */
export function drawLaneOver(context, colors, stream, lane, scale, now, erase, isLabelled = true) {
  const { top, height } = lane;
  const isTall = height >= 11;
  for (const stall of stream.stalls ?? []) {
    const length = stall.open ? Math.max(now - stream.start - stall.at, stall.waited ?? 0) : stall.waited;
    const from = Math.max(scale(stream.start + stall.at), lane.left);
    const until = Math.min(scale(stream.start + stall.at + length), lane.right);
    if (until <= lane.left || from >= lane.right) continue;
    context.fillStyle = colors.stall;
    context.fillRect(from, top - 1, Math.max(until - from, 2), height + 2);
    if (isTall && isLabelled) labelStall(context, colors, stall, length, from, until, lane, erase);
  }
  if (isRunning(stream)) {
    const x = Math.min(scale(endOf(stream, now)), lane.right);
    context.fillStyle = ongoingStall(stream) ? colors.stall : colors.ink;
    context.fillRect(x - 1, top - 2, 2, height + 4);
  } else if (isTall && isLabelled) {
    labelEnd(context, colors, stream, lane, scale);
  }
}

function labelStall(context, colors, stall, length, from, until, { top, height }, erase) {
  const cause = (stall.cause ?? "unknown cause").replace("_", " ");
  setFont(context, 11, 600);
  const room = until - from - 8;
  const time = formatDuration(length);
  const text = context.measureText(`${time} ${cause}`).width <= room ? `${time} ${cause}` : time;
  const { width } = context.measureText(text);
  if (width <= room) {
    erase(from, top - 1, width + 8, height + 2);
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
