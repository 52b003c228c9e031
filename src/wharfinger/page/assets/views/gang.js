// One gang: its members, the domains that they are in, and what is missing.

import { h, replace } from "../dom.js";
import { get } from "../live.js";
import { amount, count, plural } from "../format.js";
import { VirtualTable } from "../table.js";
import { stacked } from "../charts.js";
import { crumbs, go, link, podLink } from "../app.js";
import { podColumns } from "./pods.js";

export function open({ node, names }) {
  const title = `${names.namespace}/${names.name}`;
  crumbs(h("a", { href: link("/gangs") }, "Gangs"), title);
  const parts = { state: h("div", {}), domains: h("div", {}) };
  const table = new VirtualTable({ label: "Members", columns: podColumns(), height: "56vh", onopen: (pod) => go(podLink(pod.namespace, pod.name)) });
  replace(node, h("div", { class: "head" }, h("h1", {}, title)), h("div", { class: "grid halves" }, h("section", { class: "card" }, parts.state), h("section", { class: "card" }, parts.domains)),
    h("section", { class: "card flush section" }, h("header", {}, h("h2", {}, "Members")), h("div", { style: { height: "8px" } }), table.node));
  const ask = async () => {
    try {
      const found = await get(`/api/v1/gangs/${encodeURIComponent(names.namespace)}/${encodeURIComponent(names.name)}`);
      const missing = Math.max(0, found.minAvailable - found.members);
      replace(parts.state, h("header", {}, h("h2", {}, "Members")),
        h("div", { class: "figures" }, h("span", { class: "figure" }, `${count(found.bound)} of ${count(found.members)}`, h("small", {}, " bound")), found.minAvailable ? h("span", { class: "muted" }, `at least ${count(found.minAvailable)} together`) : null),
        stacked([{ name: "bound", value: found.bound, tone: "t-good" }, { name: "pending", value: found.pending, tone: "t-wait" }, { name: "missing", value: missing, tone: "t-gone" }], "Members"),
        h("div", { class: "legend" }, h("span", { class: "key t-good" }, `${count(found.bound)} bound`), h("span", { class: "key t-wait" }, `${count(found.pending)} pending`), missing ? h("span", { class: "key t-gone" }, `${count(missing)} missing`) : null),
        found.held ? h("p", { class: "problem section" }, found.held) : null,
        !found.held && found.placedAsOne ? h("p", { class: "muted section" }, "It waits for room for all of its members at once.") : null);
      replace(parts.domains, h("header", {}, h("h2", {}, "Domains")),
        found.topologyKeys.length
          ? [h("p", { class: "muted" }, `All members go to nodes with one value of ${found.topologyKeys.join(" and ")}.`),
            found.domains.length ? h("p", { class: "section" }, found.domains.map((one) => `${one.domain}: ${plural(one.members, "member")}`).join("; ")) : null,
            h("div", { class: "scrolls section", tabindex: "0", role: "region", "aria-label": "Domains" }, h("table", { class: "plain" }, h("thead", {}, h("tr", {}, ["domain", "nodes", "free"].map((one) => h("th", {}, one)))),
              h("tbody", {}, found.offered.slice(0, 40).map((one) => h("tr", {}, h("td", {}, one.domain), h("td", {}, count(one.nodes)), h("td", {}, Object.entries(one.free).filter(([name]) => name !== "ephemeral-storage").map(([name, value]) => `${amount(name, value)} ${name}`).join(", ")))))))]
          : h("p", { class: "muted" }, "Its members may go anywhere."));
      table.update(found.pods);
    } catch (error) {
      replace(parts.state, h("p", { class: "problem" }, error.message));
    }
  };
  ask();
  return { topics: [`gang:${title}`, "overview"], heard(what) { if (what === "gang" || what === "resync") ask(); } };
}
