// Two attempts beside each other: what was recorded otherwise, and which nodes were judged otherwise.

import { h, replace } from "../../page/assets/dom.js";
import { get, passing } from "../../page/assets/live.js";
import { elapsed } from "../../page/assets/elapsed.js";
import { count, day, plural } from "../../page/assets/format.js";
import { nodeLink, setParams } from "../../page/assets/app.js";
import { outcomeTone } from "./pod.js";

const KINDS = { opened: ["t-good", "fits now"], closed: ["t-bad", "no longer fits"], otherReasons: ["t-wait", "other reasons"], otherTotal: ["t-accent", "other total"] };

export function difference({ base, told }) {
  const node = h("div", {}), body = h("div", {});
  const params = new URLSearchParams(location.search);
  let first = Number(params.get("first")) || 0, second = Number(params.get("second")) || 0, drawn = "", timer = 0, failed = false, closed = false;
  const selects = [0, 1].map((side) => h("select", { "aria-label": side ? "Second attempt" : "First attempt", onchange: (event) => { if (side) second = Number(event.target.value); else first = Number(event.target.value); setParams({ first, second }); load(); } }));
  const toolbar = h("div", { class: "toolbar", hidden: true }, h("label", { class: "field" }, "Attempt", selects[0]), h("label", { class: "field" }, "and", selects[1]));
  replace(node, toolbar, body);
  const draw = () => {
    const numbers = [...new Set((told()?.attempts ?? []).map((one) => one.attempt))].sort((a, b) => a - b);
    toolbar.hidden = numbers.length < 2;
    if (numbers.length < 2) { replace(body, h("p", { class: "empty" }, told() ? `A difference needs two attempts, and ${numbers.length ? "one is" : "none is"} recorded of this pod.` : "Asking Temporal")); return; }
    if (!numbers.includes(first)) first = numbers[numbers.length - 2];
    if (!numbers.includes(second)) second = numbers[numbers.length - 1];
    selects.forEach((select, side) => { replace(select, numbers.map((number) => h("option", { value: number }, number))); select.value = String(side ? second : first); });
    if (drawn !== `${first} ${second}`) load();
  };
  const load = async () => {
    clearTimeout(timer);
    const again = failed && drawn === `${first} ${second}`;
    drawn = `${first} ${second}`;
    failed = false;
    setParams({ first, second });
    const mine = drawn;
    const waiting = elapsed("Reading the cluster as it was then, and deciding both again");
    if (!again) replace(body, waiting.node);
    try {
      const found = await get(`${base}/difference`, { first, second });
      const took = waiting.done();
      if (mine === drawn) replace(body, took, shown(found));
    } catch (error) {
      waiting.done();
      if (mine !== drawn || closed) return;
      failed = passing(error);
      replace(body, h("p", { class: "problem" }, error.message, failed ? ". It is tried again." : null));
      if (failed) timer = setTimeout(load, 5000);
    }
  };
  draw();
  return { node, told: draw, resync() { if (failed) load(); }, close() { closed = true; clearTimeout(timer); } };
}

function side(one, other) {
  const row = (name, value, before) => h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "wrap" }, value ?? "–", before !== undefined && before !== value && typeof value === "number" ? h("span", { class: `delta ${value > before ? "up" : "down"}` }, `  ${value > before ? "+" : ""}${count(value - before)}`) : null));
  return h("section", { class: "card" }, h("header", {}, h("h2", { class: "grow" }, `Attempt ${one.attempt}`), h("span", { class: `pill ${outcomeTone(one.outcome)}` }, one.outcome)),
    h("table", { class: "plain" }, h("tbody", {}, row("started", day(one.started)), row("node", one.node ?? "none"), row("revision", count(one.revision)), row("nodes", one.nodes, other?.nodes), row("nodes that fit", one.feasible, other?.feasible), row("profile", `${one.profile ?? ""} ${(one.profileDigest ?? "").slice(0, 12)}`),
      one.message ? row("message", one.message) : null, one.ranking.length ? row("best nodes", one.ranking.map((best) => `${best.node} ${best.total}`).join(", ")) : null)));
}

function shown(found) {
  const nodes = found.nodes;
  const judged = (one) => (one.feasible ? `fits${one.total === null ? "" : `, total ${one.total}`}` : Object.entries(one.refusedBy).map(([plugin, reason]) => `${plugin}: ${reason}`).join("; ") || "refused");
  return [
    h("div", { class: "compare" }, side(found.first), side(found.second, found.first)),
    h("section", { class: "card section" }, h("header", {}, h("h2", {}, "Nodes refused, by reason")),
      found.refusals.length ? h("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": "Nodes refused, by reason" }, h("table", { class: "plain" }, h("thead", {}, h("tr", {}, ["plugin", "reason"].map((one) => h("th", {}, one)), ["before", "after", "change"].map((one) => h("th", { class: "right" }, one)))),
        h("tbody", {}, found.refusals.map((one) => h("tr", {}, h("td", {}, one.plugin), h("td", { class: "wrap" }, one.reason), h("td", { class: "right" }, count(one.before)), h("td", { class: "right" }, count(one.after)), h("td", { class: `right delta ${one.after < one.before ? "up" : "down"}` }, `${one.after > one.before ? "+" : ""}${count(one.after - one.before)}`)))))) : h("p", { class: "muted" }, "The same numbers.")),
    h("section", { class: "card section" }, h("header", {}, h("h2", {}, "Nodes that were judged otherwise")),
      nodes ? [h("p", { class: "chips", style: { marginBottom: "10px" } }, Object.entries(KINDS).map(([kind, [toned, words]]) => h("span", { class: `pill ${toned}` }, `${count(nodes.counts[kind])} ${words}`)), nodes.added.length ? h("span", { class: "chip" }, `${plural(nodes.added.length, "node")} came`) : null, nodes.removed.length ? h("span", { class: "chip" }, `${plural(nodes.removed.length, "node")} went`) : null),
        h("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": "Nodes that were judged otherwise" }, h("table", { class: "plain" }, h("tbody", {}, nodes.changed.map((one) => h("tr", {}, h("td", {}, h("a", { href: nodeLink(one.node) }, one.node)), h("td", {}, h("span", { class: `pill ${KINDS[one.kind][0]}` }, KINDS[one.kind][1])), h("td", { class: "wrap" }, judged(one.before)), h("td", { class: "wrap" }, judged(one.after)))))))]
        : h("p", { class: "problem" }, found.note)),
  ];
}
