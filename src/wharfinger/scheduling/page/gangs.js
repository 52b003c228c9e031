// Every gang, those that wait first.

import { h, replace } from "../../page/assets/dom.js";
import { get, paced, refreshed } from "../../page/assets/live.js";
import { count, plural } from "../../page/assets/format.js";
import { VirtualTable } from "../../page/assets/table.js";
import { crumbs, gangLink, go } from "../../page/assets/app.js";
import { meter } from "../../page/assets/charts.js";

export function open({ node, namespace }) {
  crumbs("Gangs");
  const said = h("span", { class: "muted" });
  const table = new VirtualTable({
    label: "Gangs", empty: "No pod names a gang.", fills: true, onopen: (one) => go(gangLink(one.namespace, one.name)),
    columns: [
      { key: "name", title: "gang", width: innerWidth < 600 ? 150 : 230, grow: 1, sort: (one) => `${one.namespace}/${one.name}`, cell: (one) => h("a", { href: gangLink(one.namespace, one.name) }, `${one.namespace}/${one.name}`) },
      { key: "bound", title: "bound", width: innerWidth < 600 ? 110 : 150, sort: (one) => one.bound / Math.max(1, one.members), cell: (one) => h("div", { style: { display: "grid", gridTemplateColumns: "1fr auto", gap: "8px", alignItems: "center" } }, meter(one.bound, one.members, `${one.bound} of ${one.members} bound`), `${one.bound}/${one.members}`) },
      { key: "least", title: "at least", width: 90, align: "right", sort: (one) => one.minAvailable, cell: (one) => count(one.minAvailable || null) },
      { key: "missing", title: "missing", width: 90, align: "right", downFirst: true, sort: (one) => one.missing, cell: (one) => (one.missing ? count(one.missing) : "") },
      { key: "domain", title: "in one", width: 190, cell: (one) => one.topologyKeys.join(", ") },
      { key: "held", title: "waits for", width: 220, grow: 1, cell: (one) => one.held ?? (one.pending ? "room for all of its members" : "") },
    ],
  });
  replace(node, h("h1", { class: "visually-hidden" }, "Gangs"), h("div", { class: "toolbar" }, said), h("div", { class: "card flush" }, table.node));
  const ask = () => get("/api/v1/gangs", { namespace }).then((found) => { said.textContent = plural(found.count, "gang"); table.update(found.gangs); });
  return refreshed(paced(ask), 3000, [namespace ? `gangs?namespace=${namespace}` : "gangs", "overview"], ["gangs"]);
}
