// The decision explorer: every plugin's verdict and score on every node, of a recorded decision that is made again.

import { h, readable, replace } from "../../page/assets/dom.js";
import { get, passing } from "../../page/assets/live.js";
import { elapsed } from "../../page/assets/elapsed.js";
import { count, plural } from "../../page/assets/format.js";
import { VirtualTable } from "../../page/assets/table.js";
import { go, nodeLink, podLink, setParams } from "../../page/assets/app.js";

const SIGNS = { 0: ["t-good", "✓", "passes"], "-1": ["t-gone", "–", "had nothing to look at"], "-2": ["t-gone", "·", "was not asked"] };

// On a phone there is no room for a column of each plugin: the reasons are one text.
const narrow = () => innerWidth < 600;

export function explorer({ base, names, told, attempt }) {
  const node = h("div", {});
  const params = new URLSearchParams(location.search);
  const state = { words: params.get("name") ?? "", show: params.get("show") ?? "all", plugin: params.get("plugin") ?? "" };
  const change = (changes) => { Object.assign(state, changes); setParams({ name: state.words, show: state.show === "all" ? "" : state.show, plugin: state.plugin }); filter(); };
  let found = null, rows = [], failed = false, closed = false, timer = 0;
  const head = h("div", {});
  const said = h("span", { class: "muted", role: "status" });
  const chooser = h("select", { "aria-label": "Attempt", onchange: () => go(podLink(names.namespace, names.name, { tab: "explorer", attempt: chooser.value })) });
  const search = h("input", { type: "search", placeholder: "Part of a node's name", "aria-label": "Part of a node's name", value: state.words, oninput: () => change({ words: search.value.trim() }) });
  const shown = h("div", { class: "segments", role: "group", "aria-label": "Nodes" });
  const plugin = h("select", { "aria-label": "Refused by", onchange: () => change({ plugin: plugin.value }) }, h("option", { value: "" }, "refused by any"));
  const table = new VirtualTable({ label: "Verdicts and scores by node", columns: [{ key: "node", title: "node", width: 160, cell: () => "" }], rowHeight: 28, headHeight: narrow() ? 36 : 172, fills: true, empty: "No node is like that.", onopen: (row) => go(nodeLink(found.names[row])) });
  replace(node, head, h("div", { class: "toolbar" }, h("label", { class: "field" }, "Attempt", chooser), shown, plugin, search, said), h("div", { class: "card flush" }, table.node));

  const drawShown = () => replace(shown, [["all", "all"], ["fits", "fit"], ["refused", "refused"]].map(([key, words]) =>
    h("button", { type: "button", "aria-pressed": String(state.show === key), onclick: () => { change({ show: key }); drawShown(); } }, words)));
  const drawChooser = () => {
    const numbers = [...new Set((told()?.attempts ?? []).filter((one) => one.nodes).map((one) => one.attempt))].sort((a, b) => b - a);
    replace(chooser, h("option", { value: "" }, "the newest"), numbers.map((number) => h("option", { value: number, selected: number === attempt() }, number)));
  };
  const filter = () => {
    if (!found) return;
    const words = state.words.toLowerCase();
    rows = [];
    found.names.forEach((name, row) => {
      if (words && !name.toLowerCase().includes(words)) return;
      if (state.show === "fits" && !found.feasible[row]) return;
      if (state.show === "refused" && found.feasible[row]) return;
      if (state.plugin && !(found.verdicts[state.plugin]?.[row] > 0)) return;
      rows.push(row);
    });
    said.textContent = plural(rows.length, "node");
    table.update(rows);
  };
  const load = async () => {
    clearTimeout(timer);
    const waiting = elapsed("Reading the cluster as it was then, and deciding again");
    if (!failed) replace(head, h("div", { style: { marginBottom: "12px" } }, waiting.node));
    let took = null;
    try {
      found = await get(`${base}/decision`, { attempt: attempt() || "" });
      took = waiting.done();
      failed = false;
    } catch (error) {
      waiting.done();
      failed = passing(error);
      if (closed) return;
      replace(head, h("p", { class: "problem", style: { marginBottom: "12px" } }, error.message, failed ? ". It is tried again." : null));
      if (failed) timer = setTimeout(load, 5000);
      return;
    }
    if (closed) return;
    replace(head, summary(found, took));
    const refusing = Object.keys(found.verdicts).filter((name) => found.verdicts[name].some((code) => code > 0));
    replace(plugin, h("option", { value: "" }, "refused by any"), refusing.map((name) => h("option", { value: name, selected: name === state.plugin }, `refused by ${name}`)));
    table.sorted ??= found.totals.some((one) => one !== null) ? { key: "total", down: true } : null;
    table.setColumns(narrow() ? columns(found).filter((one) => !one.vertical) : columns(found));
    filter();
  };
  drawShown();
  drawChooser();
  load();
  return { node, told: drawChooser, resync() { if (failed) load(); }, close() { closed = true; clearTimeout(timer); } };
}

function summary(found, took) {
  const recorded = decided(found.recorded), again = found.recomputed ? decided(found.recomputed) : "not decided";
  const verdict = found.same === null ? "cannot be told" : found.same ? "the same as recorded" : "not as recorded";
  return h("section", { class: "card", style: { marginBottom: "14px" } },
    h("div", { class: "head", style: { margin: "0 0 6px" } }, h("span", { class: `pill ${found.same ? "t-good" : "t-wait"}` }, verdict), h("span", {}, found.same ? recorded : `recorded: ${recorded}; now: ${again}`)),
    h("p", { class: "muted" }, `Attempt ${found.attempt} on ${count(found.names.length)} nodes of revision ${count(found.revision)}, by profile ${found.profileName} (${found.profile.slice(0, 12)}).`),
    found.differs.length ? h("p", { class: "muted" }, `Differs: ${found.differs.join(", ")}.`) : null,
    found.lacks.map((lack) => h("p", { class: "problem" }, `It cannot be told whether it is the same: ${lack}. wharfinger replay goes through the worker's earlier decisions and may know more.`)),
    found.notes.map((note) => h("p", { class: "muted" }, `${note}.`)), took);
}

function decided(one) {
  if (one.node !== null) return one.score === null ? one.node : `${one.node}, total ${one.score}`;
  return `refused${one.nominatedNode ? `, nominated to ${one.nominatedNode}` : ""}: ${one.message}`;
}

// Marks are made once for each column of a row's element and then only changed: scrolling makes no elements.
function columns(found) {
  const mark = (cell) => cell.firstChild ?? cell.appendChild(h("span", { class: "mark" }));
  const filters = Object.keys(found.verdicts), scorers = Object.keys(found.scoresByPlugin).filter((name) => found.scoresByPlugin[name].some((one) => one !== null));
  const largest = Object.fromEntries(scorers.map((name) => [name, Math.max(1, ...found.scoresByPlugin[name].map((one) => one ?? 0))]));
  const texts = new Map();
  const refusals = (row) => {
    let known = texts.get(row);
    if (known === undefined) { known = refusalText(row); texts.set(row, known); }
    return known;
  };
  const refusalText = (row) => filters.filter((name) => found.verdicts[name][row] > 0).map((name) => `${name}: ${found.reasons[found.verdicts[name][row] - 1]}`).join("; ");
  return [
    { key: "node", title: "node", width: narrow() ? 130 : 190, grow: 1, sort: (row) => found.names[row], cell: (row) => found.names[row] },
    { key: "verdict", title: "verdict", width: 96, sort: (row) => (found.feasible[row] ? 0 : found.examined[row] ? 1 : 2), cell: (row, cell) => {
      const pill = cell.firstChild ?? cell.appendChild(h("span", {}));
      const words = found.feasible[row] ? "fits" : found.examined[row] ? "refused" : "not looked at";
      if (pill.said === words) return;
      pill.said = words;
      pill.className = `pill ${{ fits: "t-good", refused: "t-wait" }[words] ?? "t-gone"}`;
      pill.textContent = words;
    } },
    { key: "total", title: "total", width: 74, align: "right", downFirst: true, sort: (row) => found.totals[row], cell: (row) => (found.totals[row] === null ? "" : String(found.totals[row])) },
    ...filters.map((name) => ({ key: `f:${name}`, title: name, width: 30, vertical: true, class: "verdict", hint: `Filter ${name}`, downFirst: true, sort: (row) => Math.max(found.verdicts[name][row], -1), cell: (row, cell) => {
      const code = found.verdicts[name][row], [toned, sign, words] = SIGNS[code] ?? ["t-bad", "✕", found.reasons[code - 1]];
      const one = mark(cell);
      if (one.code === code) return;
      one.code = code;
      one.className = `mark ${toned}`;
      one.textContent = sign;
      one.title = readable(`${name} ${words}`);
    } })),
    ...scorers.map((name) => ({ key: `s:${name}`, title: name, width: 44, vertical: true, align: "right", hint: `Score ${name}`, downFirst: true, sort: (row) => found.scoresByPlugin[name][row], cell: (row, cell) => {
      const score = found.scoresByPlugin[name][row];
      const share = score === null ? 0 : Math.round((8 * score) / largest[name]);
      if (cell.share !== share) { cell.share = share; cell.style.background = share ? `color-mix(in srgb, var(--accent) ${share * 4}%, transparent)` : ""; }
      return score === null ? "" : String(score);
    } })),
    { key: "why", title: "refused by", width: 260, grow: 2, sort: refusals, cell: refusals },
  ];
}
