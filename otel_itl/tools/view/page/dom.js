/* Makes elements. Text goes in as text nodes only: nothing of a stream is ever parsed as HTML. */

export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") element.className = value;
    else if (name === "term") describeTerm(element, value);
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function describeTerm(element, name) {
  element.dataset.term = name;
  element.classList.add("term");
  element.tabIndex = 0;
}

export const byId = (id) => document.getElementById(id);

/* The head of a panel: its title, which is a term of the glossary or plain text, a note, a legend and buttons. */
export function makeHead(title, { term, note, tools = [], legend = [] } = {}) {
  return make(
    "div", { class: "head" },
    make("h2", {}, make("span", term ? { term } : {}, title)),
    note ?? null,
    legend.length ? make("div", { class: "legend" }, ...legend.map(makeLegendEntry)) : null,
    tools.length ? make("div", { class: "tools" }, ...tools) : null,
  );
}

function makeLegendEntry([key, text, term]) {
  return make("span", term ? { "data-term": term } : {}, make("i", { class: `k-${key}`, "aria-hidden": "true" }), text);
}

export function makeButton(text, onclick, properties = {}) {
  return make("button", { type: "button", onclick, ...properties }, text);
}
