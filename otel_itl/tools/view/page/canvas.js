/* A plot: a canvas that has the size of its box in device pixels, and is drawn again when that changes. */

import { make } from "./dom.js";

const FONT = "Inter, ui-sans-serif, system-ui, 'DejaVu Sans', sans-serif";

export class Plot {
  /* `label` describes the picture to those who do not see it; the data is in the table beside it. */
  constructor(height, label, onResize) {
    this.canvas = make("canvas", { role: "img", "aria-label": label });
    this.box = make("div", { class: "plot" }, this.canvas);
    if (height) this.box.style.height = `${height}px`;
    this.context = this.canvas.getContext("2d");
    this.width = 0;
    this.height = 0;
    new ResizeObserver(() => {
      this.fit();
      onResize();
    }).observe(this.box);
  }

  /* Fits the canvas to its box; returns whether the size changed. */
  fit() {
    const ratio = window.devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = this.box;
    if (width === this.width && height === this.height && ratio === this.ratio) return false;
    Object.assign(this, { width, height, ratio });
    this.canvas.width = Math.max(Math.round(width * ratio), 1);
    this.canvas.height = Math.max(Math.round(height * ratio), 1);
    return true;
  }

  /* Clears the canvas and returns its context, with CSS pixels as the unit. */
  begin() {
    this.fit();
    const { context, ratio } = this;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    setFont(context);
    return context;
  }
}

export function setFont(context, size = 11, weight = 400) {
  context.font = `${weight} ${size}px ${FONT}`;
  context.textBaseline = "middle";
}

/* A text cut to a width, with an ellipsis. */
export function fitText(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let low = 0;
  let high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return low ? `${text.slice(0, low)}…` : "";
}

/* A pattern of diagonal lines, for the caller's holds. */
export function makeHatching(color, ratio) {
  const size = Math.round(6 * ratio);
  const tile = new OffscreenCanvas(size, size);
  const context = tile.getContext("2d");
  context.strokeStyle = color;
  context.lineWidth = 1.2 * ratio;
  for (const shift of [-size, 0, size]) {
    context.moveTo(shift - 1, size + 1);
    context.lineTo(shift + size + 1, -1);
  }
  context.stroke();
  const pattern = context.createPattern(tile, "repeat");
  pattern.setTransform(new DOMMatrix([1 / ratio, 0, 0, 1 / ratio, 0, 0]));
  return pattern;
}
