/* Axes: where their ticks are, and how they are drawn. */

import { formatDuration, formatTime } from "./format.js";

const ROUND_STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7,
  1.5e7, 3e7, 6e7, 1.2e8, 3e8, 6e8, 1.8e9, 3.6e9, 1.08e10, 2.16e10, 4.32e10, 8.64e10, 1.728e11, 8.64e11];

/* Round steps of a time axis (µs), at least `apart` pixels from one another. */
export function timeTicks(from, until, width, apart = 90) {
  const least = ((until - from) / Math.max(width, 1)) * apart;
  const longest = ROUND_STEPS.at(-1);
  const step = ROUND_STEPS.find((candidate) => candidate >= least) ?? longest * 2 ** Math.ceil(Math.log2(least / longest));
  const ticks = [];
  for (let moment = Math.ceil(from / step) * step; moment <= until; moment += step) ticks.push(moment);
  return { step, ticks };
}

/* 1, 2, 5, 10, … between two positive numbers; only powers of ten where there are many decades. */
export function logTicks(low, high) {
  const ticks = [];
  const factors = Math.log10(high / low) > 3.2 ? [1] : [1, 2, 5];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high) + 1e-9; power++) {
    for (const factor of factors) {
      const tick = factor * 10 ** power;
      if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
    }
  }
  return ticks;
}

/* Vertical grid lines with their times below: times of day, or durations where `isDuration`. */
export function drawTimeAxis(context, colors, box, from, until, isDuration = false) {
  const { step, ticks } = timeTicks(from, until, box.width);
  context.textAlign = "center";
  for (const moment of ticks) {
    const x = box.left + ((moment - from) / (until - from)) * box.width;
    context.fillStyle = colors.grid;
    context.fillRect(Math.round(x), box.top, 1, box.height);
    context.fillStyle = colors.dim;
    const text = isDuration ? (moment ? formatDuration(moment) : "0") : formatTime(moment, step);
    const half = context.measureText(text).width / 2;
    context.fillText(text, Math.min(Math.max(x, box.left + 14), box.left + box.width - half), box.labelY);
  }
}

/* Horizontal grid lines with labels at the left. */
export function drawValueAxis(context, colors, box, ticks, place, format) {
  context.textAlign = "right";
  for (const tick of ticks) {
    const y = Math.round(place(tick));
    context.fillStyle = colors.grid;
    context.fillRect(box.left, y, box.width, 1);
    context.fillStyle = colors.dim;
    context.fillText(format(tick), box.left - 6, y);
  }
}

export function drawAxisTitle(context, colors, text, x, y, align = "left") {
  context.fillStyle = colors.dim;
  context.textAlign = align;
  context.fillText(text, x, y);
}
