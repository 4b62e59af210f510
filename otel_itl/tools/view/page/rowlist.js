/* The rows of the lanes for those who do not see them: the options of a list box, and the keys that move through them. */

import { make } from "./dom.js";

const AROUND = 12;

export class RowList {
  /* `lanes` has the rows, and reveals and opens a stream. */
  constructor(page, lanes) {
    Object.assign(this, { page, lanes, current: "", shown: "" });
    this.element = make("div", { class: "read", role: "none" });
  }

  /* The place of the current row; -1: it has none. */
  get place() {
    return this.lanes.rows.findIndex(({ id }) => id === this.current);
  }

  /* Describes the rows around the current one. */
  update() {
    const { rows } = this.lanes;
    const first = Math.max(this.place - AROUND, 0);
    const near = rows.slice(first, first + 2 * AROUND + 1);
    const texts = near.map((stream) => this.lanes.describeRow(stream));
    const shown = JSON.stringify([this.current, first, rows.length, this.page.view.get("stream"), texts]);
    if (shown === this.shown) return;
    this.shown = shown;
    this.element.replaceChildren(...near.map((stream, place) => make("div", {
      role: "option", id: `row-${first + place}`, "aria-posinset": first + place + 1, "aria-setsize": rows.length,
      "aria-selected": String(stream.id === this.page.view.get("stream")),
    }, texts[place])));
    const { place } = this;
    if (place < 0) this.lanes.scroller.removeAttribute("aria-activedescendant");
    else this.lanes.scroller.setAttribute("aria-activedescendant", `row-${place}`);
  }

  press(event) {
    const { rows } = this.lanes;
    if (event.ctrlKey || event.metaKey || event.altKey || !rows.length) return;
    const { place } = this;
    const last = rows.length - 1;
    const places = { ArrowDown: place + 1, ArrowUp: Math.max(place, 1) - 1, PageDown: place + AROUND, PageUp: place - AROUND, Home: 0, End: last };
    if (event.key === "Enter" || event.key === " ") this.lanes.open(rows[Math.max(place, 0)]);
    else if (event.key in places) this.move(rows[Math.min(Math.max(places[event.key], 0), last)]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  move(stream) {
    this.current = stream.id;
    this.lanes.reveal(stream);
    this.update();
    this.page.draw();
  }
}
