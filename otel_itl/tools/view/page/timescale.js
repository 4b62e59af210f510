/* A window of time that is panned and zoomed, and its scale from moments (µs) to pixels. */

export class TimeWindow {
  constructor() {
    this.from = 0;
    this.until = 1;
  }

  set(from, until) {
    const least = 20;
    const middle = (from + until) / 2;
    if (until - from < least) [from, until] = [middle - least / 2, middle + least / 2];
    Object.assign(this, { from, until });
  }

  /* Zooms by a factor around a share of the width. */
  zoom(factor, share) {
    const length = this.until - this.from;
    const anchor = this.from + length * share;
    const next = Math.min(Math.max(length * factor, 20), 4e12);
    this.set(anchor - next * share, anchor + next * (1 - share));
  }

  pan(share) {
    const shift = (this.until - this.from) * share;
    this.set(this.from + shift, this.until + shift);
  }

  /* A function from moments to pixels between `left` and `right`, which also has `moment(x)` and `perPixel`. */
  scale(left, right) {
    const { from, until } = this;
    const perPixel = (until - from) / Math.max(right - left, 1);
    const scale = (moment) => left + (moment - from) / perPixel;
    scale.moment = (x) => from + (x - left) * perPixel;
    scale.perPixel = perPixel;
    return scale;
  }
}

/* Pans by dragging and zooms with the wheel and a modifier, or with two fingers. `act` gets pan(share), zoom(factor, share). */
export function handleGestures(element, { area, pan, zoom, click, wheelZooms = () => false }) {
  const pointers = new Map();
  let moved = 0;
  let spread = 0;
  const shareOf = (event) => {
    const box = element.getBoundingClientRect();
    const { left, right } = area();
    return Math.min(Math.max((event.clientX - box.left - left) / Math.max(right - left, 1), 0), 1);
  };
  element.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    pointers.set(event.pointerId, event);
    moved = 0;
    spread = 0;
  });
  element.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    const width = Math.max(area().right - area().left, 1);
    pointers.set(event.pointerId, event);
    if (pointers.size === 2) {
      const [one, other] = [...pointers.values()];
      const next = Math.abs(one.clientX - other.clientX) + 1;
      if (spread) zoom(spread / next, (shareOf(one) + shareOf(other)) / 2);
      spread = next;
      moved = 9;
      return;
    }
    moved += Math.abs(event.clientX - before.clientX) + Math.abs(event.clientY - before.clientY);
    if (moved > 4) {
      if (!element.hasPointerCapture(event.pointerId)) element.setPointerCapture(event.pointerId);
      pan((before.clientX - event.clientX) / width);
    }
  });
  const release = (event) => {
    const wasDown = pointers.delete(event.pointerId);
    if (wasDown && event.type === "pointerup" && moved <= 4) click?.(event);
  };
  element.addEventListener("pointerup", release);
  element.addEventListener("pointercancel", release);
  element.addEventListener("wheel", (event) => {
    const isZoom = event.ctrlKey || event.metaKey || wheelZooms();
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : event.shiftKey ? event.deltaY : 0;
    if (!isZoom && !sideways) return;
    event.preventDefault();
    if (sideways) pan(sideways / Math.max(area().right - area().left, 1));
    else zoom(Math.exp(Math.sign(event.deltaY) * Math.min(Math.abs(event.deltaY), 100) * 0.0025), shareOf(event));
  }, { passive: false });
}
