/* Where the streams come from: the document in the page, or the server's events, which go on. */

import { byId } from "./dom.js";

/* The document in the page itself; one that is `live` has no streams, as a server has them. */
export async function readDocument() {
  const bytes = Uint8Array.from(atob(byId("data").textContent.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).json();
}

/* Connects to the server's events; the browser connects again by itself where the connection is lost. */
export function connect(handlers) {
  const events = new EventSource(`events${location.search}`);
  for (const [name, handle] of Object.entries(handlers)) {
    if (name !== "lost") events.addEventListener(name, (event) => handle(JSON.parse(event.data)));
  }
  events.addEventListener("error", () => handlers.lost());
}
