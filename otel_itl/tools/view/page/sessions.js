/* Sessions as small multiples, those that have degraded first: mean latency and stalls of their requests, in order. */

import { Plot } from "./canvas.js";
import { make, makeHead } from "./dom.js";
import { formatDuration } from "./format.js";
import { makeSideName } from "./sides.js";
import { TableToggle } from "./tables.js";

const MAX_SHOWN = 24;

/* Requests by session of each side, in the order in which they started; the session with the worst end is first. */
export function groupSessions(streams) {
  const sessions = new Map();
  for (const stream of streams) {
    if (!stream.session) continue;
    const key = JSON.stringify([stream.side ?? 0, stream.session]);
    if (!sessions.has(key)) sessions.set(key, []);
    sessions.get(key).push(stream);
  }
  return [...sessions].map(([key, requests]) => {
    const [{ session: name, side }] = requests;
    requests.sort((a, b) => a.start - b.start);
    const last = requests.findLast((request) => request.ratio !== undefined);
    return {
      key, name, side, requests, ratio: last?.ratio ?? null, isDegraded: Boolean(requests.findLast((request) => request.turn)?.degraded),
      hasDegraded: requests.some((request) => request.degraded), scope: requests.findLast((request) => request.scope)?.scope,
      stalls: requests.reduce((sum, request) => sum + (request.stalls?.length ?? 0) + (request.more_stalls ?? 0), 0),
    };
  }).sort((a, b) => b.isDegraded - a.isDegraded || b.hasDegraded - a.hasDegraded || (b.ratio ?? 0) - (a.ratio ?? 0) || (a.name < b.name ? -1 : a.name > b.name ? 1 : a.side - b.side));
}

export class Sessions {
  constructor(section, page) {
    this.page = page;
    this.section = section;
    this.table = new TableToggle("sessions", () => this.makeRows());
    this.note = make("span", { class: "note" });
    this.list = make("div", { class: "multiples" });
    this.cards = new Map();
    section.append(makeHead("Sessions", { term: "session", note: this.note, tools: [this.table.button] }), this.list, this.table.box);
  }

  draw() {
    this.sessions = groupSessions(this.page.shown);
    this.section.hidden = this.sessions.length === 0;
    if (this.section.hidden) return;
    const shown = this.sessions.slice(0, MAX_SHOWN);
    const degraded = this.sessions.filter((session) => session.isDegraded).length;
    const more = this.sessions.length > MAX_SHOWN ? `, the first ${MAX_SHOWN} shown` : "";
    this.note.textContent = `${this.sessions.length}${degraded ? `, ${degraded} degraded` : ""}${more}; mean ITL of each request, in order`;
    const cards = shown.map((session) => this.cardOf(session));
    if (cards.length !== this.list.children.length || cards.some((card, place) => card.element !== this.list.children[place])) {
      this.list.replaceChildren(...cards.map((card) => card.element));
    }
    for (const key of this.cards.keys()) if (!shown.some((session) => session.key === key)) this.cards.delete(key);
    cards.forEach((card, place) => this.fill(card, shown[place]));
    this.table.update();
  }

  cardOf(session) {
    if (this.cards.has(session.key)) return this.cards.get(session.key);
    const plot = new Plot(54, "", () => this.page.refresh());
    plot.canvas.setAttribute("aria-hidden", "true");
    const { facts } = this.page;
    const of = facts.sides ? { side: facts.sides[session.side] } : {};
    const [title, badge, sub] = [make("span", {}, session.name, facts.sides ? " " : "", facts.sides ? makeSideName(facts, session.side) : ""), make("span"), make("div", { class: "sub" })];
    const { view } = this.page;
    const element = make("button", {
      class: "multiple", type: "button",
      onclick: () => view.toggle({ session: session.name, ...of }),
    }, make("div", { class: "title" }, title, badge), sub, plot.box);
    const card = { element, plot, badge, sub };
    this.cards.set(session.key, card);
    return card;
  }

  fill(card, session) {
    const { colors } = this.page.theme;
    card.element.classList.toggle("degraded", session.isDegraded);
    card.badge.className = session.isDegraded ? "badge bad" : session.ratio > 1.3 ? "badge warn" : "badge dim";
    card.badge.textContent = session.isDegraded ? `degraded ×${session.ratio?.toFixed(2) ?? ""}` : session.ratio ? `×${session.ratio.toFixed(2)}` : "–";
    const count = session.requests.length;
    const stalls = session.stalls ? `, ${session.stalls} stall${session.stalls === 1 ? "" : "s"}` : "";
    card.sub.textContent = `${count} request${count === 1 ? "" : "s"}${stalls}`;
    const context = card.plot.begin();
    const { width, height } = card.plot;
    const means = session.requests.map((request) => request.measures?.itl_mean ?? 0);
    const top = Math.max(...means, 1e-4);
    const step = Math.min((width - 2) / count, 26);
    context.fillStyle = colors.grid;
    context.fillRect(0, height - 1, width, 1);
    session.requests.forEach((request, place) => {
      const mean = means[place];
      const bar = (mean / top) * (height - 14);
      context.fillStyle = request.degraded ? colors.stall : request.end === undefined ? colors.faint : colors["itl-50"];
      context.fillRect(1 + place * step, height - 1 - Math.max(bar, 1), Math.max(step - 2, 1), Math.max(bar, 1));
      if (request.stalls?.length) {
        context.fillStyle = colors.stall;
        context.fillRect(1 + place * step, 2, Math.max(step - 2, 2), 4);
      }
    });
    context.fillStyle = colors.dim;
    context.textAlign = "right";
    context.fillText(formatDuration(Math.max(...means) * 1e6), width, 7);
  }

  makeRows() {
    const rows = (this.sessions ?? []).map((session) => {
      const means = session.requests.map((request) => request.measures?.itl_mean).filter((mean) => mean !== undefined);
      const name = this.page.facts.sides ? `${session.name} (${this.page.facts.sides[session.side]})` : session.name;
      return [name, session.isDegraded ? `degraded (${session.scope ?? "session"})` : session.hasDegraded ? "recovered" : "as before",
        session.requests.length, session.ratio?.toFixed(2) ?? "–", formatDuration(means.length ? means[0] * 1e6 : null),
        formatDuration(means.length ? means.at(-1) * 1e6 : null), session.stalls];
    });
    const columns = ["session", "state", "requests", "latency ratio", "first mean ITL", "last mean ITL", "stalls"];
    return { columns, rows, texts: 2, terms: { "latency ratio": "latency ratio" } };
  }
}
