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
    this.table ??= new DataTable();
    if (!this.box.children.length) this.box.append(this.table.element);
    this.table.fill(this.makeData());
  }
}

/* A table that is filled again and again: a row that stays keeps its element, and with it the focus. */
export class DataTable {
  constructor() {
    this.head = make("tr");
    this.body = make("tbody");
    this.element = make("table", {}, make("thead", {}, this.head), this.body);
  }

  /* `rows`: lists of cells, text or elements; `keys`: what tells them apart, else their place; `texts`: columns of text. */
  fill({ columns, rows, keys = [], texts = 1, more = 0, onRow, terms = {} }) {
    const names = JSON.stringify(columns);
    if (this.names !== names) {
      this.names = names;
      this.head.replaceChildren(...columns.map((name, place) =>
        make("th", { class: place < texts ? "text" : null, scope: "col" }, make("span", terms[name] ? { term: terms[name] } : {}, name))));
    }
    const lines = rows.map((cells, row) => ({
      key: String(keys[row] ?? row), open: onRow && (() => onRow(row)),
      cells: cells.map((cell, place) => ({ content: cell, isText: place < texts })),
    }));
    fillRows(this.body, lines);
    if (more) this.body.append(make("tr", {}, make("td", { class: "text dim", colspan: columns.length }, `and ${more.toLocaleString("en")} more`)));
  }
}

/* Fills the body of a table with lines: `key`, `cells` (`content`, `isText`), and `open()` where a click does something. */
function fillRows(body, lines) {
  const { activeElement } = document;
  const present = new Map([...body.children].map((row) => [row.dataset.key, row]));
  const rows = lines.map((line) => {
    const row = present.get(line.key) ?? makeRow(line);
    row.open = line.open;
    const text = JSON.stringify(line.cells.map(({ content }) => content.textContent ?? content));
    if (row.dataset.text !== text) {
      row.dataset.text = text;
      row.replaceChildren(...line.cells.map(({ content, isText }) => make("td", { class: isText ? "text" : null }, content instanceof Node ? content : String(content))));
    }
    return row;
  });
  if (rows.length === body.children.length && rows.every((row, place) => row === body.children[place])) return;
  body.replaceChildren(...rows);
  if (body.contains(activeElement)) activeElement.focus({ preventScroll: true });
}

function makeRow({ key, open }) {
  const row = make("tr", open ? { class: "pick", tabindex: 0, onclick: () => row.open() } : {});
  row.dataset.key = key;
  if (open) row.addEventListener("keydown", (event) => event.key === "Enter" && row.open());
  return row;
}

/* A table that is sorted by the column that was clicked last. `columns`: name, value(row), cell(row), term, isText;
   `keyOf` tells rows apart. */
export class SortedTable {
  constructor(columns, sortedBy, onRow, keyOf) {
    Object.assign(this, { columns, onRow, keyOf, sortedBy, isDescending: true });
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
    fillRows(this.body, sorted.map((row) => ({
      key: this.keyOf(row), open: () => this.onRow(row),
      cells: this.columns.map(({ cell, isText }) => ({ content: cell(row), isText })),
    })));
  }
}

function compare(one, other) {
  if (typeof one === "string") return one.localeCompare(other);
  return (one ?? -Infinity) - (other ?? -Infinity);
}
