/* Numbers as people read them: durations in the unit that fits, times of day, shares. Times come in microseconds. */

const SECOND_US = 1e6;
const DAY_US = 8.64e10;

export function formatDuration(us) {
  if (us === null || us === undefined || Number.isNaN(us)) return "–";
  const size = Math.abs(us);
  if (size < 1000) return `${Math.round(us)} µs`;
  if (size < SECOND_US) return `${significant(us / 1000)} ms`;
  if (size < 120 * SECOND_US) return `${significant(us / SECOND_US)} s`;
  const minutes = Math.floor(us / 60 / SECOND_US);
  if (minutes < 120) return `${minutes} min ${Math.round(us / SECOND_US - minutes * 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/* A duration with what it may be less and more by: 655 ms (-120), 12.0 ms (-0.5 +1.3). The errors are in the same
   unit, rounded up to two digits; no duration is negative. */
export function formatWithError(us, error, above) {
  const shown = formatDuration(us);
  if (!(error || above) || us === null || us === undefined) return shown;
  const unit = us < 1000 ? 1 : us < SECOND_US ? 1000 : us < 120 * SECOND_US ? SECOND_US : 60 * SECOND_US;
  const number = shown.split(" ")[0];
  const less = error && roundUp(error / unit);
  const isAll = error && unit <= SECOND_US && Number(less.replaceAll(",", "")) > Number(number.replaceAll(",", ""));
  return `${shown} (${[error && `-${isAll ? number : less}`, above && `+${roundUp(above / unit)}`].filter(Boolean).join(" ")})`;
}

/* Likewise in milliseconds without their unit, for columns. */
export function formatMsWithError(us, error, above) {
  const parts = [error && `-${roundUp(error / 1000)}`, above && `+${roundUp(above / 1000)}`].filter(Boolean);
  return `${formatMs(us)}${parts.length ? ` (${parts.join(" ")})` : ""}`;
}

/* A positive number rounded up to two significant digits, as text. */
function roundUp(number) {
  const digits = 1 - Math.floor(Math.log10(number));
  const step = 10 ** -digits;
  const rounded = Math.ceil(Number((number / step).toFixed(6))) * step;
  return Number(rounded.toFixed(Math.max(digits, 0))).toLocaleString("en", { maximumFractionDigits: 9 });
}

/* Three significant digits, without an exponent. */
export function significant(value) {
  const size = Math.abs(value);
  if (size >= 100) return Math.round(value).toLocaleString("en");
  return size >= 10 ? value.toFixed(1) : value.toFixed(2);
}

/* Milliseconds without their unit, for columns and axes. */
export function formatMs(us) {
  return us === null || us === undefined ? "–" : significant(us / 1000);
}

export function formatCount(count) {
  if (count === null || count === undefined) return "–";
  if (count >= 1e7) return `${significant(count / 1e6)} M`;
  return Math.round(count).toLocaleString("en");
}

export function formatShare(share) {
  return share === null || share === undefined ? "–" : `${+(share * 100).toPrecision(3)} %`;
}

/* The time of day of a moment in microseconds since the epoch, with as many digits as a step of the axis needs. */
export function formatClock(us, step = SECOND_US) {
  const date = new Date(us / 1000);
  const two = (number) => String(number).padStart(2, "0");
  const base = `${two(date.getHours())}:${two(date.getMinutes())}`;
  if (step >= 60 * SECOND_US) return base;
  const seconds = `${base}:${two(date.getSeconds())}`;
  if (step >= SECOND_US) return seconds;
  const digits = Math.min(6, Math.max(1, Math.ceil(-Math.log10(step / SECOND_US) - 1e-9)));
  const fraction = String(Math.floor(((us % SECOND_US) + SECOND_US) % SECOND_US)).padStart(6, "0");
  return `${seconds}.${fraction.slice(0, digits)}`;
}

/* Likewise, as a day where the step is one or more, and at midnight: `24 Nov`; with its year from a month on. */
export function formatTime(us, step) {
  const date = new Date(us / 1000);
  const isMidnight = step >= 60 * SECOND_US && !date.getHours() && !date.getMinutes();
  if (step < DAY_US && !isMidnight) return formatClock(us, step);
  return date.toLocaleDateString("en-GB", step < 28 * DAY_US ? { day: "numeric", month: "short" } : { month: "short", year: "numeric" });
}

export function formatDay(us) {
  const date = new Date(us / 1000);
  return `${date.toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" })} ${formatClock(us)}`;
}
