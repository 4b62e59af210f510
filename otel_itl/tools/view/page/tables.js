/* Tables: behind each picture one with the same data, and those that are sorted by a click on a column. */

import { make, makeButton } from "./dom.js";

/* A button that shows or hides the table behind a picture. `makeData` returns columns, rows, and how many are text. */
export class TableToggle {
  constructor(subject, makeData) {
    this.makeData = makeData;
    this.subject = subject;
    this.box = make("div", { class: "tablebox", hidden: true, tabindex: 0, role: "region", "aria-label": `Table of ${subject}` });
    this.button = makeButton("table", () => this.toggle(), { "aria-expanded": "false", title: `Show ${subject} as a table` });
    this.made = -Infinity;
  }

  toggle() {
    this.box.hidden = !this.box.hidden;
    this.button.setAttribute("aria-expanded", String(!this.box.hidden));
    this.button.setAttribute("aria-pressed", String(!this.box.hidden));
    this.made = -Infinity;
    this.update();
  }

  /* Fills the table again, where it is open: once a second at most. */
  update() {
    if (this.box.hidden || performance.now() - this.made < 1000) return;
    this.made = performance.now();
    this.box.replaceChildren(makeTable(this.makeData()));
  }
}

export function makeTable({ columns, rows, texts = 1, more = 0, onRow, terms = {} }) {
  const head = columns.map((name, place) =>
    make("th", { class: place < texts ? "text" : null, scope: "col" }, make("span", terms[name] ? { term: terms[name] } : {}, name)));
  const body = rows.map((cells, row) => {
    const open = onRow && (() => onRow(row));
    const line = make("tr", open ? { class: "pick", onclick: open, tabindex: 0 } : {},
      ...cells.map((cell, place) => (cell instanceof Node ? cell : make("td", { class: place < texts ? "text" : null }, String(cell)))));
    if (open) line.addEventListener("keydown", (event) => event.key === "Enter" && open());
    return line;
  });
  if (more) body.push(make("tr", {}, make("td", { class: "text dim", colspan: columns.length }, `and ${more.toLocaleString("en")} more`)));
  return make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body));
}

/* A table that is sorted by the column that was clicked last. `columns`: name, value(row), cell(row), term, isText. */
export class SortedTable {
  constructor(columns, sortedBy, onRow) {
    Object.assign(this, { columns, onRow, sortedBy, isDescending: true });
    this.body = make("tbody");
    this.heads = columns.map((column, place) => make("th", { scope: "col", class: column.isText ? "text" : null },
      makeButton(column.name, () => this.sortBy(place), column.term ? { "data-term": column.term } : {})));
    this.element = make("table", {}, make("thead", {}, make("tr", {}, ...this.heads)), this.body);
    this.rows = [];
  }

  sortBy(place) {
    this.isDescending = place === this.sortedBy ? !this.isDescending : !this.columns[place].isText;
    this.sortedBy = place;
    this.fill(this.rows);
  }

  fill(rows) {
    this.rows = rows;
    const { value } = this.columns[this.sortedBy];
    const sign = this.isDescending ? -1 : 1;
    const sorted = [...rows].sort((a, b) => sign * compare(value(a), value(b)));
    this.heads.forEach((head, place) => {
      if (place === this.sortedBy) head.setAttribute("aria-sort", this.isDescending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    this.body.replaceChildren(...sorted.map((row) => this.makeRow(row)));
  }

  makeRow(row) {
    const cells = this.columns.map((column) => {
      const shown = column.cell(row);
      return make("td", { class: column.isText ? "text" : null }, shown instanceof Node ? shown : String(shown));
    });
    if (!this.onRow) return make("tr", {}, ...cells);
    const line = make("tr", { class: "pick", tabindex: 0, onclick: () => this.onRow(row) }, ...cells);
    line.addEventListener("keydown", (event) => event.key === "Enter" && this.onRow(row));
    return line;
  }
}

function compare(one, other) {
  if (typeof one === "string") return one.localeCompare(other);
  return (one ?? -Infinity) - (other ?? -Infinity);
}
