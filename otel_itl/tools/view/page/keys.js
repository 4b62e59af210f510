/* The keyboard: `?` lists what each key does. */

import { byId, make, makeButton } from "./dom.js";
import { makeTable } from "./tables.js";

export function listenToKeys(page) {
  const actions = {
    "?": ["list the keys", () => showHelp(actions)],
    j: ["next stream", () => page.step(1)],
    k: ["previous stream", () => page.step(-1)],
    Enter: ["open the newest stream", () => !page.view.get("stream") && page.step(1)],
    Escape: ["close the stream, then remove the selection", () => page.leave()],
    f: ["follow new streams", () => page.isLive && page.lanes.toggleFollowing()],
    "0": ["show all of the time", () => page.lanes.fit()],
    "+": ["zoom in", () => page.lanes.move(() => page.lanes.window.zoom(0.6, 0.5))],
    "-": ["zoom out", () => page.lanes.move(() => page.lanes.window.zoom(1.6, 0.5))],
    h: ["earlier", () => page.lanes.move(() => page.lanes.window.pan(-0.15))],
    l: ["later", () => page.lanes.move(() => page.lanes.window.pan(0.15))],
    r: ["time of day or time since the request", () => page.lanes.toggleAxis()],
    d: ["dense rows", () => page.view.set({ dense: page.lanes.isDense ? "" : "1" })],
    s: ["only stalled streams", () => page.view.set({ stalled: page.view.get("stalled") ? "" : "1" })],
    c: ["clear the filters", () => page.view.clear()],
    t: ["dark or light", () => page.toggleTheme()],
  };
  const aliases = { ArrowDown: "j", ArrowUp: "k", ArrowLeft: "h", ArrowRight: "l", "=": "+" };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
    const isTyping = event.target.closest?.("select, input, textarea");
    const isArrow = event.key.startsWith("Arrow");
    const isPressing = event.key === "Enter" && event.target.closest?.("button, a, tr, [role=region]");
    if (isTyping || isPressing || (isArrow && !event.target.closest?.(".scroller, body:focus"))) return;
    const action = actions[aliases[event.key] ?? event.key];
    if (!action) return;
    event.preventDefault();
    action[1]();
  });
  return () => showHelp(actions);
}

function showHelp(actions) {
  const dialog = byId("help");
  const rows = Object.entries(actions).map(([key, [text]]) => [make("td", {}, make("kbd", {}, key)), make("td", { class: "text" }, text)]);
  const pointer = [["drag", "move in time; in the heat map, select"], ["Ctrl + wheel", "zoom in time"], ["click", "open a stream"]]
    .map(([key, text]) => [make("td", {}, make("kbd", {}, key)), make("td", { class: "text" }, text)]);
  dialog.replaceChildren(make("h2", {}, "Keys"), makeTable({ columns: ["key", "what it does"], rows: [...rows, ...pointer], texts: 2 }),
    make("p", {}, makeButton("close", () => dialog.close(), { autofocus: true })));
  dialog.showModal();
}
