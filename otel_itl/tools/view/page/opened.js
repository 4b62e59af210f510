/* How many streams were open at once over time, and when something stalled: counted, and drawn as a strip. */

import { endOf, isPlain } from "./streams.js";

const STALL_PX = 5;

/* The most streams that were open at once, in each of some equal parts of the time. */
export function countOpen(streams, now, from, until, columns) {
  const changes = [];
  for (const stream of streams) {
    if (!isPlain(stream)) changes.push([stream.start, 1], [endOf(stream, now), -1]);
  }
  // Where one ends in the moment in which another one begins, one was open.
  changes.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const open = [];
  let [count, next] = [0, 0];
  for (let column = 1; column <= columns; column++) {
    const end = from + ((until - from) * column) / columns;
    let most = count;
    for (; next < changes.length && (changes[next][0] < end || column === columns); next++) {
      count += changes[next][1];
      most = Math.max(most, count);
    }
    open.push(most);
  }
  return open;
}

/* Draws parts with their `open` counts above a bottom line, as an area, or as a line for each side, and their stalls below
   it; returns the most that were open. */
export function drawOpened(context, colors, parts, { left, width, bottom, height }, now) {
  const most = parts.reduce((sum, { open }) => open.reduce((more, count) => Math.max(more, count), sum), 1);
  for (const { open, color, streams, range: { from, until } } of parts) {
    const step = width / open.length;
    context.fillStyle = colors[color ?? "faint"];
    open.forEach((count, column) => {
      const size = (count / most) * height;
      if (!color || count) context.fillRect(left + column * step, bottom - size, step + 0.4, color ? 1.5 : size);
    });
    context.fillStyle = colors.stall;
    for (const stream of streams) {
      for (const stall of stream.stalls ?? []) {
        const x = left + ((stream.start + stall.at - from) / (until - from)) * width;
        const length = stall.open ? now - stream.start - stall.at : stall.waited;
        const size = Math.max((length / (until - from)) * width, 2);
        if (x + size > left) context.fillRect(Math.max(x, left), bottom + 1, size, STALL_PX);
      }
    }
  }
  return most;
}
