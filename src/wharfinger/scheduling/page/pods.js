// A list of pods, by namespace, state, labels and name.

import { h, replace } from "../../page/assets/dom.js";
import { get, paced, passing, refreshed } from "../../page/assets/live.js";
import { age, count, plural, requests } from "../../page/assets/format.js";
import { VirtualTable } from "../../page/assets/table.js";
import { crumbs, go, nodeLink, podLink, setParams } from "../../page/assets/app.js";
import { STATES } from "./overview.js";

export const tone = (state) => STATES.find((one) => one[0] === state)?.[2] ?? "t-gone";
export const word = (state) => STATES.find((one) => one[0] === state)?.[1] ?? state;

export function podColumns() {
  return [
    { key: "name", title: "pod", width: innerWidth < 600 ? 190 : 250, grow: 2, sort: (pod) => `${pod.namespace}/${pod.name}`, cell: (pod) => h("a", { href: podLink(pod.namespace, pod.name), title: `${pod.namespace}/${pod.name}` }, h("span", { class: "muted" }, `${pod.namespace}/`), pod.name) },
    { key: "state", title: "state", width: 158, sort: (pod) => pod.state, cell: (pod) => h("span", { class: `pill ${tone(pod.state)}` }, word(pod.state)) },
    { key: "node", title: "node, or refused by", width: 170, grow: 1, sort: (pod) => pod.node ?? "", cell: (pod) => (pod.node ? h("a", { href: nodeLink(pod.node), title: pod.node }, pod.node) : pod.plugins.length ? h("span", { class: "muted", title: pod.plugins.join(", ") }, pod.plugins.join(", ")) : "") },
    { key: "priority", title: "priority", width: 104, align: "right", downFirst: true, sort: (pod) => pod.priority, cell: (pod) => count(pod.priority) },
    { key: "asks", title: "asks for", width: 210, grow: 1, cell: (pod) => requests(pod.requests) },
    { key: "age", title: "age", width: 100, align: "right", sort: (pod) => pod.created, cell: (pod) => (pod.created ? age((Date.now() - Date.parse(pod.created)) / 1000) : "–") },
  ];
}

export function open({ node, namespace, params }) {
  crumbs("Pods");
  let timer = 0, turn = 0;
  const wanted = { state: params.get("state") ?? "", selector: params.get("selector") ?? "", name: params.get("name") ?? "" };
  const table = new VirtualTable({ label: "Pods", columns: podColumns(), empty: "No pod is like that.", fills: true, onopen: (pod) => go(podLink(pod.namespace, pod.name)) });
  const said = h("span", { class: "muted", role: "status" });
  const problem = h("p", { class: "problem", hidden: true });
  const name = h("input", { type: "search", placeholder: "Part of the name", value: wanted.name, "aria-label": "Part of the name", oninput: () => later({ name: name.value.trim() }) });
  const selector = h("input", { type: "text", class: "grow", placeholder: "Labels: app=web, tier in (a, b), !canary", value: wanted.selector, "aria-label": "Label selector", oninput: () => later({ selector: selector.value.trim() }) });
  const states = h("div", { class: "segments", role: "group", "aria-label": "State" });
  const drawStates = () => replace(states, [["", "all"], ...STATES.slice(0, 4)].map(([key, title]) =>
    h("button", { type: "button", "aria-pressed": String(wanted.state === key), onclick: () => { wanted.state = key; setParams({ state: key }); drawStates(); soon(); } }, title)));
  replace(node, h("h1", { class: "visually-hidden" }, "Pods"), h("div", { class: "toolbar" }, name, selector, states, said), problem, h("div", { class: "card flush" }, table.node));
  drawStates();
  const later = (changes) => {
    Object.assign(wanted, changes);
    setParams(changes);
    clearTimeout(timer);
    timer = setTimeout(soon, 180);
  };
  const ask = async () => {
    const mine = (turn += 1);
    try {
      const found = await get("/api/v1/pods", { namespace, ...wanted, limit: 5000 });
      if (mine !== turn) return;
      problem.hidden = true;
      selector.removeAttribute("aria-invalid");
      said.textContent = plural(found.count, "pod") + (found.omitted ? `, the first ${count(found.pods.length)} shown` : "");
      table.update(found.pods);
    } catch (error) {
      if (mine !== turn) return;
      if (passing(error)) throw error;
      problem.hidden = false;
      problem.textContent = error.message;
      selector.setAttribute("aria-invalid", "true");
    }
  };
  const soon = paced(ask);
  return refreshed(soon, 5000, [namespace ? `pods?namespace=${namespace}` : "pods", "overview"], ["pods"]);
}
