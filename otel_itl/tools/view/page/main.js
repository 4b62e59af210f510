/* Composes the page: reads or receives streams, applies the filters, and has each panel drawn when it changed. */

import { Aggregate } from "./aggregate.js";
import { Detail } from "./detail.js";
import { byId, make, makeButton } from "./dom.js";
import { Explain } from "./explain.js";
import { FilterBar, View } from "./filters.js";
import { formatCount, formatDay } from "./format.js";
import { HeatMap } from "./heatmap.js";
import { listenToKeys } from "./keys.js";
import { Lanes } from "./lanes.js";
import { Models } from "./models.js";
import { Series } from "./series.js";
import { Sessions } from "./sessions.js";
import { splitBySide } from "./sides.js";
import { connect, readDocument } from "./source.js";
import { Spectrum } from "./spectrum.js";
import { Streams, isRunning } from "./streams.js";
import { Summary } from "./summary.js";
import { Theme } from "./theme.js";
import { Tip } from "./tip.js";

const REFRESH_MS = 500;
/* Drawing the charts takes at most this part of the time: the rest is for summing up and for the reader. */
const REFRESH_SHARE = 0.2;
const IDLE_FRAME_MS = 100;

class Page {
  constructor(facts) {
    this.facts = facts;
    this.isLive = Boolean(facts.live);
    this.offset = 0;
    this.madeAt = facts.made ?? 0;
    this.streams = new Streams();
    this.aggregate = new Aggregate();
    this.shown = [];
    this.parts = [];
    this.theme = new Theme();
    this.tip = new Tip(facts.glossary ?? {});
    this.view = new View(() => this.changeView(), facts);
    this.bar = new FilterBar(this.view);
    this.summary = new Summary(this);
    this.lanes = new Lanes(byId("lanes"), this);
    this.charts = [
      new HeatMap(byId("heat"), this), new Series(byId("series"), this), new Spectrum(byId("spectrum"), this),
      new Sessions(byId("sessions"), this), new Models(byId("models"), this),
      this.lanes.overview, new Explain(byId("explain"), this),
    ];
    this.detail = new Detail(this);
    const showHelp = listenToKeys(this);
    this.addActions(showHelp);
    this.theme.preference.addEventListener("change", () => this.changeView());
    this.refreshedAt = 0;
    this.refreshCost = 0;
    this.frames = 0;
    this.changeView();
    requestAnimationFrame(() => this.frame());
  }

  /* Now, in microseconds since the epoch, by the clock of the server; in a saved page, when it was saved. */
  get now() {
    return this.isLive ? Date.now() * 1000 + this.offset : this.madeAt;
  }

  addActions(showHelp) {
    const save = this.isLive ? make("a", { class: "button", id: "save", href: `save${location.search}`, download: "otel-itl.html" }, "save") : null;
    byId("actions").append(...[save, makeButton("theme", () => this.toggleTheme(), { id: "theme", title: "Dark or light (t)" }),
      makeButton("?", showHelp, { id: "keys", "aria-label": "List the keys" })].filter(Boolean));
  }

  toggleTheme() {
    this.view.set({ theme: this.theme.name === "dark" ? "light" : "dark" });
  }

  changeView() {
    const { name } = this.theme;
    this.theme.apply(this.view.get("theme"));
    if (this.theme.name !== name) this.refresh();
    this.isFilterChanged = true;
    this.draw();
  }

  /* Has the lanes drawn with the next frame. */
  draw() {
    this.isDirty = true;
  }

  /* Has the charts drawn with the next frame. */
  refresh() {
    this.needsRefresh = true;
    this.isDirty = true;
  }

  filter() {
    this.filteredVersion = this.streams.version;
    const { now } = this;
    const all = this.streams.all();
    this.shown = this.view.isFiltered ? all.filter((stream) => this.view.accepts(stream, now)) : all;
    this.aggregate.expect(this.shown, this.streams.byId);
    const judged = this.shown.find((stream) => stream.slo?.itl || stream.slo?.ttft);
    this.objective = judged?.slo;
    this.parts = splitBySide(this);
    this.lanes.window.judge();
  }

  frame() {
    this.frames++;
    const time = performance.now();
    const hasChanged = this.filteredVersion !== this.streams.version;
    const isDue = time - this.refreshedAt >= Math.max(REFRESH_MS, this.refreshCost / REFRESH_SHARE);
    if (this.isFilterChanged || (hasChanged && isDue) || (hasChanged && !this.shown.length)) {
      this.filter();
      this.bar.update(this.streams.all());
      this.isFilterChanged = false;
      this.needsRefresh = true;
    }
    const isBusy = this.aggregate.work();
    const isMoving = this.isLive && this.lanes.isFollowing;
    const hasRunning = isMoving && this.shown.some(isRunning);
    const isLaneDue = this.isDirty || hasRunning || (isMoving && time - (this.drawnAt ?? 0) > IDLE_FRAME_MS);
    if (isLaneDue || hasChanged) {
      this.drawnAt = time;
      this.isDirty = false;
      this.lanes.draw();
      this.detail.draw();
    }
    if ((this.needsRefresh || this.isLive) && (isDue || (this.needsRefresh && !isBusy))) this.refreshAll(time, isBusy);
    requestAnimationFrame(() => this.frame());
  }

  refreshAll(time, isBusy) {
    this.refreshedAt = time;
    const isNeeded = this.needsRefresh || isBusy || this.shown.some(isRunning);
    this.lanes.update();
    this.summary.update();
    this.detail.update();
    this.showStatus();
    if (!isNeeded) return;
    this.parts = splitBySide(this);
    this.summary.updateTotals();
    for (const chart of this.charts) chart.draw();
    this.needsRefresh = isBusy;
    this.refreshCost = performance.now() - time;
  }

  showName() {
    document.title = `otel-itl · ${this.facts.name}`;
    byId("headline").textContent = this.facts.headline ?? "";
    byId("headline").hidden = !this.facts.headline;
  }

  showStatus() {
    const { facts, streams } = this;
    const state = this.isLive ? (this.isLost ? "lost" : "on") : "";
    const parts = [];
    if (this.isLive) parts.push(this.isLost ? "the server does not answer" : (facts.status ?? "live"));
    else parts.push(`${facts.name}, ${formatDay(facts.made)}`);
    if (streams.letGo) parts.push(`${formatCount(streams.letGo)} older let go`);
    if (facts.selected) parts.push(facts.selected);
    if (facts.skipped) parts.push(facts.skipped);
    const text = parts.join(" · ");
    if (this.shownStatus === state + text) return;
    this.shownStatus = state + text;
    byId("status").replaceChildren(make("span", { class: `dot ${state}`, "aria-hidden": "true" }), text);
  }

  /* What to do where nothing is shown. */
  explainEmpty() {
    if (this.streams.byId.size) return [make("p", {}, "No stream passes the filters. "), makeButton("clear the filters", () => this.view.clear())];
    if (!this.isLive) return [make("p", {}, "There is no stream in this file.")];
    const lines = [make("p", {}, "Waiting for the first stream.")];
    if (this.facts.selected) lines.push(make("p", { class: "warn" }, `Selected: ${this.facts.selected}.`));
    if (this.facts.skipped) lines.push(make("p", { class: "warn" }, `Skipped so far: ${this.facts.skipped}.`));
    for (const [before, code] of this.facts.hints ?? []) lines.push(make("p", {}, `${before} `, make("code", {}, code)));
    return lines;
  }

  /* Opens the next or the previous stream of those that are shown. */
  step(by) {
    const { rows } = this.lanes;
    if (!rows.length) return;
    const at = rows.findIndex((stream) => stream.id === this.view.get("stream"));
    const next = rows[Math.min(Math.max(at < 0 ? 0 : at + by, 0), rows.length - 1)];
    this.lanes.open(next);
    this.lanes.reveal(next);
  }

  leave() {
    if (this.view.get("stream")) this.view.set({ stream: "" });
    else this.view.set({ from: "", to: "", low: "", high: "" });
  }

  receive() {
    const page = this;
    connect({
      hello(facts) {
        Object.assign(page.facts, facts);
        page.isFilterChanged = true;
        page.showName();
        page.offset = facts.now - Date.now() * 1000;
        page.isLost = false;
        if (facts.restart) page.streams.remove([...page.streams.byId.keys()]);
      },
      streams: (streams) => page.streams.put(streams),
      patches: (patches) => patches.forEach((patch) => page.streams.patch(patch)),
      gone({ ids, total }) {
        page.streams.remove(ids);
        page.streams.letGo = total;
      },
      facts: (facts) => Object.assign(page.facts, facts),
      lost() {
        page.isLost = true;
      },
    });
  }
}

async function start() {
  const facts = await readDocument();
  const page = new Page(facts);
  window.itl = page;
  if (facts.live) return page.receive();
  page.streams.put(facts.streams);
  page.streams.letGo = facts.let_go ?? 0;
  page.lanes.isFollowing = true;
  page.isFilterChanged = true;
  return page.showName();
}

start().catch((error) => {
  const notice = byId("notice");
  notice.hidden = false;
  notice.textContent = `This page cannot be shown: ${error.message}`;
});
