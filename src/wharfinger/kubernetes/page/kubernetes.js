// The Kubernetes API's side: how old the copies are, and the binds that it does not show yet.

import { h, replace } from "../../page/assets/dom.js";
import { get, paced, refreshed } from "../../page/assets/live.js";
import { age, count, plural, seconds } from "../../page/assets/format.js";
import { VirtualTable } from "../../page/assets/table.js";
import { crumbs, go, nodeLink, podLink } from "../../page/assets/app.js";

const OLD = 60, BEHIND = 10;

export function open({ node, namespace }) {
  crumbs("Kubernetes");
  const parts = { copies: h("div", {}), kinds: h("div", { class: "chips" }), said: h("span", { class: "muted" }) };
  const table = new VirtualTable({
    label: "Promises, the oldest first", empty: "The Kubernetes API shows every bind.", height: "60vh", onopen: (one) => go(podLink(one.namespace, one.name)),
    columns: [
      { key: "pod", title: "pod", width: 230, grow: 2, sort: (one) => `${one.namespace}/${one.name}`, cell: (one) => h("a", { href: podLink(one.namespace, one.name) }, `${one.namespace}/${one.name}`) },
      { key: "node", title: "node", width: 170, grow: 1, sort: (one) => one.node, cell: (one) => h("a", { href: nodeLink(one.node) }, one.node) },
      { key: "age", title: "age", width: 110, align: "right", downFirst: true, sort: (one) => one.ageSeconds, cell: (one) => h("span", { class: one.ageSeconds > OLD ? "delta down" : "" }, seconds(one.ageSeconds)) },
      { key: "gang", title: "together", width: 96, align: "right", sort: (one) => one.together, cell: (one) => (one.together ? count(one.together) : "") },
      { key: "state", title: "state", width: 130, sort: (one) => (one.withdrawn ? 2 : one.ready ? 0 : 1), cell: (one) => h("span", { class: `pill ${one.withdrawn ? "t-bad" : one.ready ? "t-accent" : "t-wait"}` }, one.withdrawn ? "given up" : one.ready ? "sent" : "prepared") },
      { key: "why", title: "waits for, or what the API answered", width: 260, grow: 3, cell: (one) => one.answer ?? one.withdrawn ?? [...one.volumes.map((claim) => `volume of ${claim}`), ...one.calls].join(", ") },
    ],
  });
  replace(node, h("h1", { class: "visually-hidden" }, "Kubernetes"),
    h("section", { class: "card" }, h("header", {}, h("h2", {}, "Copies")), parts.copies, h("div", { style: { height: "10px" } }), parts.kinds),
    h("section", { class: "card flush section" }, h("header", {}, h("h2", { class: "grow" }, "Binds that the API does not show yet"), parts.said), h("div", { style: { height: "8px" } }), table.node));
  const ask = async () => {
    const found = await get("/api/v1/kubernetes", { namespace });
    if (!found.copied) { replace(parts.copies, h("p", { class: "muted" }, "etcd itself is the store of this cluster: no Kubernetes API is copied.")); table.update([]); return; }
    const old = found.importedSeconds > BEHIND;
    replace(parts.copies, h("div", { class: "figures" }, h("span", { class: "figure" }, age(found.importedSeconds), h("small", {}, " since the importer told how far it is")),
      h("span", { class: `pill ${old ? "t-bad" : "t-good"}` }, old ? "the copies are old: nothing is placed" : "current"), h("span", { class: `pill ${found.mayBind ? "t-good" : "t-wait"}` }, found.mayBind ? "may bind" : "may not bind")),
    found.hindered ? h("p", { class: "problem" }, found.hindered) : null);
    replace(parts.kinds, found.kinds.map((kind) => h("span", { class: "chip" }, `${kind.plural} ${count(kind.revision)}`)));
    parts.said.textContent = plural(found.count, "promise");
    table.update(found.promises);
  };
  return refreshed(paced(ask), 1000, ["kubernetes", "overview"], ["kubernetes"]);
}
