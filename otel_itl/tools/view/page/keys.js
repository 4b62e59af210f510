/* The keyboard: `?` lists what each key does. */

import { byId, make, makeButton } from "./dom.js";
import { DataTable } from "./tables.js";

export function listenToKeys(page) {
  const actions = {
    "?": ["list the keys", () => showHelp(page, actions)],
    j: ["next stream", () => page.step(1)],
    k: ["previous stream", () => page.step(-1)],
    "/": ["search", () => byId("filter-text").focus()],
    Escape: ["close the stream, then remove the selection", () => page.leave()],
    f: ["follow new streams", () => page.isLive && page.lanes.toggleFollowing()],
    "0": ["show all of the time", () => page.lanes.fit()],
    "+": ["zoom in", () => page.lanes.move(() => page.lanes.window.zoom(0.6, 0.5))],
    "-": ["zoom out", () => page.lanes.move(() => page.lanes.window.zoom(1.6, 0.5))],
    h: ["earlier", () => page.lanes.move(() => page.lanes.window.pan(-0.15))],
    l: ["later", () => page.lanes.move(() => page.lanes.window.pan(0.15))],
    r: ["time of day or time since the request", () => page.lanes.toggleAxis()],
    g: ["the longest gap first", () => page.view.set({ sort: page.lanes.isByGap ? "" : "gap" })],
    d: ["dense rows", () => page.view.set({ dense: page.lanes.isDense ? "" : "1" })],
    s: ["only stalled streams", () => page.view.set({ stalled: page.view.get("stalled") ? "" : "1" })],
    c: ["clear the filters", () => page.view.clear()],
    t: ["dark or light", () => page.toggleTheme()],
  };
  const aliases = { ArrowLeft: "h", ArrowRight: "l", "=": "+" };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
    const isTyping = event.target.closest?.("select, input, textarea");
    const isArrow = event.key.startsWith("Arrow");
    if (isTyping && event.key === "Escape") event.target.blur();
    if (isTyping || (isArrow && !event.target.closest?.(".scroller, body:focus"))) return;
    if (event.key.length === 1 && page.view.get("keys") === "off") return;
    const action = actions[aliases[event.key] ?? event.key];
    if (!action) return;
    event.preventDefault();
    action[1]();
  });
  return () => showHelp(page, actions);
}

function showHelp(page, actions) {
  const dialog = byId("help");
  const rows = Object.entries(actions).map(([key, [text]]) => [make("kbd", {}, key), text]);
  const others = [["arrows", "in the streams: another row, earlier, later; in the heat map: the brush, which Shift stretches"],
    ["Enter", "open the row, select what the brush covers"], ["drag", "move in time; in the heat map, select"],
    ["Ctrl + wheel", "zoom in time"], ["click", "open a stream"]].map(([key, text]) => [make("kbd", {}, key), text]);
  const table = new DataTable();
  table.fill({ columns: ["key", "what it does"], rows: [...rows, ...others], texts: 2 });
  const change = (event) => page.view.set({ keys: event.target.checked ? "" : "off" });
  const check = make("input", { type: "checkbox", id: "single-keys", onchange: change });
  check.checked = page.view.get("keys") !== "off";
  dialog.replaceChildren(make("h2", { id: "help-title" }, "Keys"), make("label", {}, check, " single letters and signs act as keys"),
    table.element, make("p", {}, makeButton("close", () => dialog.close(), { autofocus: true })));
  dialog.showModal();
}
