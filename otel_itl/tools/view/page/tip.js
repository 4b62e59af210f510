/* The note beside the pointer: what is under it, and the glossary's sentence for a term. */

import { byId } from "./dom.js";

export class Tip {
  constructor(glossary) {
    this.box = byId("tip");
    this.glossary = glossary;
    for (const kind of ["pointerover", "focusin"]) document.addEventListener(kind, (event) => this.explain(event));
    for (const kind of ["pointerout", "focusout"]) document.addEventListener(kind, (event) => event.target.closest?.("[data-term]") && this.hide());
  }

  show(text, x, y) {
    this.box.textContent = text;
    this.box.hidden = false;
    const { width, height } = this.box.getBoundingClientRect();
    const left = x + 14 + width > window.innerWidth ? Math.max(x - width - 10, 4) : x + 14;
    const top = y + 16 + height > window.innerHeight ? Math.max(y - height - 10, 4) : y + 16;
    this.box.style.left = `${left}px`;
    this.box.style.top = `${top}px`;
  }

  hide() {
    this.box.hidden = true;
  }

  explain(event) {
    const element = event.target.closest?.("[data-term]");
    const sentence = element && this.glossary[element.dataset.term];
    if (!sentence) return;
    const box = element.getBoundingClientRect();
    element.setAttribute("aria-description", sentence);
    this.show(`${element.dataset.term}: ${sentence}`, box.left - 8, box.bottom - 8);
  }
}
