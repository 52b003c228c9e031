// One gang: its members, the domains that they are in, and what is missing.

import { h, replace } from "../../page/assets/dom.js";
import { get, paced, passing } from "../../page/assets/live.js";
import { elapsed } from "../../page/assets/elapsed.js";
import { amount, count, plural } from "../../page/assets/format.js";
import { VirtualTable } from "../../page/assets/table.js";
import { stacked } from "../../page/assets/charts.js";
import { crumbs, go, link, nodeLink, podLink } from "../../page/assets/app.js";
import { podColumns } from "./pods.js";

export function open({ node, names }) {
  const title = `${names.namespace}/${names.name}`;
  crumbs(h("a", { href: link("/gangs") }, "Gangs"), title);
  const parts = { state: h("div", {}), domains: h("div", {}) };
  const table = new VirtualTable({ label: "Members", columns: podColumns(), height: "56vh", onopen: (pod) => go(podLink(pod.namespace, pod.name)) });
  replace(node, h("div", { class: "head" }, h("h1", {}, title)), h("div", { class: "grid halves" }, h("section", { class: "card" }, parts.state), h("section", { class: "card" }, parts.domains)),
    h("section", { class: "card flush section" }, h("header", {}, h("h2", {}, "Members")), h("div", { style: { height: "8px" } }), table.node));
  const base = `/api/v1/gangs/${encodeURIComponent(names.namespace)}/${encodeURIComponent(names.name)}`;
  let gang = null, decided = null, line = null, asking = false, again = false;
  const drawDomains = () => { if (gang) replace(parts.domains, domains(gang, decided, line)); };
  // Deciding again takes seconds on a large cluster: one question at a time, and only while somebody waits.
  const decide = async () => {
    if (asking) { again = true; return; }
    asking = true;
    const waiting = elapsed("Deciding what fits");
    if (!decided) { line = waiting.node; drawDomains(); }
    try { decided = await get(`${base}/domains`); } catch (error) { decided = { problem: error.message }; again ||= passing(error); }
    asking = false;
    line = waiting.done();
    drawDomains();
    if (again && !document.hidden) { again = false; timer = setTimeout(decide, 5000); }
  };
  let timer = 0;
  const ask = async () => {
    try {
      const found = await get(base);
      const missing = Math.max(0, found.minAvailable - found.members);
      replace(parts.state, h("header", {}, h("h2", {}, "Members")),
        h("div", { class: "figures" }, h("span", { class: "figure" }, `${count(found.bound)} of ${count(found.members)}`, h("small", {}, " bound")), found.minAvailable ? h("span", { class: "muted" }, `at least ${count(found.minAvailable)} together`) : null),
        stacked([{ name: "bound", value: found.bound, tone: "t-good" }, { name: "pending", value: found.pending, tone: "t-wait" }, { name: "missing", value: missing, tone: "t-gone" }], "Members"),
        h("div", { class: "legend" }, h("span", { class: "key t-good" }, `${count(found.bound)} bound`), h("span", { class: "key t-wait" }, `${count(found.pending)} pending`), missing ? h("span", { class: "key t-gone" }, `${count(missing)} missing`) : null),
        found.held ? h("p", { class: "problem section" }, found.held) : null,
        !found.held && found.placedAsOne ? h("p", { class: "muted section" }, "It waits for room for all of its members at once.") : null);
      if (found.refusal && !found.held) parts.state.append(refusal(found.refusal));
      gang = found;
      drawDomains();
      if (found.pending) decide();
      table.update(found.pods);
    } catch (error) {
      if (passing(error)) throw error;
      replace(parts.state, h("p", { class: "problem" }, error.message));
    }
  };
  const soon = paced(ask);
  soon();
  return { topics: [`gang:${title}`, "overview"], heard(what) { if (what === "gang" || what === "resync") soon(); }, close() { clearTimeout(timer); again = false; } };
}

function refusal(one) {
  return h("div", { class: "section" }, h("h3", {}, `Refused, attempt ${one.attempt}`), h("p", { class: "message" }, one.message),
    h("p", { class: "muted" }, [`on revision ${count(one.revision)}`, one.plugins.length ? `by ${one.plugins.join(", ")}` : null, `${plural(one.members, "member waits", "members wait")} with it`].filter(Boolean).join("; ")),
    one.nominated.length ? h("p", { class: "section" }, "Room is made for it on ", one.nominated.map((name, index) => [index ? ", " : "", h("a", { href: nodeLink(name) }, name)])) : null);
}

const free = (values) => Object.entries(values).filter(([name]) => name !== "ephemeral-storage").map(([name, value]) => `${amount(name, value)} ${name}`).join(", ");

function domains(found, decided, line) {
  const keys = found.topologyKeys;
  const rows = decided?.domains?.length ? decided.domains : found.offered;
  const judged = Boolean(decided?.domains?.length);
  return [h("header", {}, h("h2", {}, keys.length ? "Domains" : "Room")),
    h("p", { class: "muted" }, keys.length ? `All members go to nodes with one value of ${keys.join(" and ")}.` : "Its members may go anywhere."),
    found.domains.length ? h("p", { class: "section" }, "Bound: ", found.domains.map((one) => `${one.domain}: ${plural(one.members, "member")}`).join("; ")) : null,
    decided?.problem ? h("p", { class: "problem section" }, decided.problem) : null,
    found.pending && line ? h("div", { class: "section" }, line) : null,
    judged ? h("p", { class: "section" }, h("span", { class: `pill ${decided.fits ? "t-good" : decided.fits === null ? "t-gone" : "t-wait"}` }, decided.fits ? "fits now" : decided.fits === null ? "not all tried" : "fits nowhere now"), ` ${plural(decided.required, "member is", "members are")} needed at once; ${count(decided.pending)} wait.`) : null,
    judged && decided.profileServed.basis !== "served" ? h("p", { class: "problem section" }, decided.profileServed.sentence) : null,
    rows.length ? h("div", { class: "scrolls section", tabindex: "0", role: "region", "aria-label": "Domains" }, h("table", { class: "plain" },
      h("thead", {}, h("tr", {}, (judged ? ["domain", "fit", "what is missing", "nodes", "free"] : ["domain", "nodes", "free"]).map((one) => h("th", {}, one)))),
      h("tbody", {}, rows.slice(0, 60).map((one) => h("tr", {}, h("td", {}, one.domain ?? "anywhere"),
        judged ? [h("td", { class: "nowrap" }, one.tried ? h("span", { class: `pill ${one.missing ? "t-wait" : "t-good"}` }, `${count(one.fits)} of ${count(decided.required)}`) : h("span", { class: "muted" }, "not tried")), h("td", { class: "wrap" }, missing(one))] : null,
        h("td", {}, count(one.nodes)), h("td", {}, free(one.free))))))) : found.pending && keys.length ? h("p", { class: "problem section" }, `No node has ${keys.join(" and ")}.`) : null,
    judged && (decided.omitted || rows.length > 60) ? h("p", { class: "muted section" }, `and ${count(decided.omitted + Math.max(0, rows.length - 60))} more domains`) : null];
}

function missing(one) {
  if (!one.tried) return "";
  if (!one.missing) return "nothing";
  const lacks = Object.entries(one.lacks).map(([name, value]) => `${amount(name, value)} ${name}`);
  const refusals = Object.entries(one.refusals).flatMap(([plugin, reasons]) => Object.entries(reasons).map(([reason, nodes]) => `${plural(nodes, "node")}: ${reason} (${plugin})`));
  return [h("div", {}, `room for ${plural(one.missing, "member")}${lacks.length ? `: at least ${lacks.join(", ")}` : ""}`),
    one.message ? h("div", { class: "muted" }, one.message) : h("div", { class: "muted" }, "there are not enough members"), refusals.map((said) => h("div", { class: "muted" }, said))];
}
