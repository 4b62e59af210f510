/* The colours of the theme, as text for a canvas and as numbers for its pixels. */

const NAMES = [
  "panel", "line", "grid", "ink", "dim", "faint", "focus", "answer", "reasoning", "tool", "other", "wait", "send", "track",
  "hold", "stall", "stall-ink", "span", "good", "bad", "warn", "series-a", "series-b", "series-c",
  "itl-50", "itl-95", "itl-99", "ttft", "side-0", "side-1", "side-2", "side-3", "side-4", "side-5", "side-6", "side-7",
  "heat-0", "heat-1", "heat-2", "heat-3", "heat-4",
];

export class Theme {
  constructor() {
    this.preference = matchMedia("(prefers-color-scheme: dark)");
    this.apply("");
  }

  /* `chosen`: dark, light, or empty for that of the system. */
  apply(chosen) {
    this.name = chosen === "dark" || chosen === "light" ? chosen : this.preference.matches ? "dark" : "light";
    document.documentElement.dataset.theme = this.name;
    const style = getComputedStyle(document.documentElement);
    this.colors = Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    this.pixels = Object.fromEntries(NAMES.map((name) => [name, toPixel(this.colors[name])]));
    this.heat = makeRamp(["heat-0", "heat-1", "heat-2", "heat-3", "heat-4"].map((name) => this.pixels[name]));
  }
}

/* #rrggbb as a little-endian RGBA number. */
function toPixel(color) {
  const value = Number.parseInt(color.slice(1), 16);
  const [red, green, blue] = [value >> 16, (value >> 8) & 255, value & 255];
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

function makeRamp(stops) {
  const ramp = new Uint32Array(256);
  for (let level = 0; level < 256; level++) {
    const place = (level / 255) * (stops.length - 1);
    const index = Math.min(Math.floor(place), stops.length - 2);
    ramp[level] = mix(stops[index], stops[index + 1], place - index);
  }
  return ramp;
}

function mix(first, second, share) {
  let mixed = 0xff000000;
  for (const shift of [0, 8, 16]) {
    const [a, b] = [(first >>> shift) & 255, (second >>> shift) & 255];
    mixed |= Math.round(a + (b - a) * share) << shift;
  }
  return mixed >>> 0;
}
