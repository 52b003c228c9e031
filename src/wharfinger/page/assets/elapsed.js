// How long the server has been working on a question that may take seconds, and how long it took.

import { h } from "./dom.js";
import { age } from "./format.js";

const FROM = 1; // seconds: whatever is quicker needs no figure

// A line for the time until the answer: `words`, and behind them the elapsed seconds, once a second. `done` ends it, and
// answers a line that says how long it took, or null. Screen readers are told the words, not every second.
export function elapsed(words) {
  const began = performance.now(), passed = () => (performance.now() - began) / 1000;
  const figure = h("span", { class: "elapsed", "aria-hidden": "true" });
  const node = h("p", { class: "muted" }, h("span", { role: "status" }, words), figure);
  const timer = setInterval(() => {
    if (!node.isConnected) { clearInterval(timer); return; } // another view is open, or something else is shown here
    figure.textContent = `, for ${age(Math.floor(passed()))} so far`;
  }, 1000);
  return {
    node,
    done() {
      clearInterval(timer);
      const took = passed();
      return took < FROM ? null : h("p", { class: "muted took" }, `The answer took ${took < 10 ? `${took.toFixed(1)} s` : age(took)}.`);
    },
  };
}
