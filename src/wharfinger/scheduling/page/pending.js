// What waits: the reasons with their trend; a reason opens its pods and what would help.

import { h, replace } from "../../page/assets/dom.js";
import { get, paced, passing } from "../../page/assets/live.js";
import { elapsed } from "../../page/assets/elapsed.js";
import { age, amount, count, plural, requests } from "../../page/assets/format.js";
import { TimeChart } from "../../page/assets/charts.js";
import { VirtualTable } from "../../page/assets/table.js";
import { crumbs, gangLink, go, link, nodeLink, podLink } from "../../page/assets/app.js";
import { reasonRow } from "./overview.js";

export function open({ node, names, namespace }) {
  const query = namespace ? `?namespace=${namespace}` : "";
  let slug = names.slug ?? "", reasons = [], shownKey = "";
  const list = h("ul", { class: "reasons" });
  const total = h("span", { class: "muted" });
  const detail = h("div", {});
  const room = innerWidth < 720 ? 0 : innerWidth < 1400 ? 1 : 2; // what a table has beside the list of reasons
  const table = new VirtualTable({
    label: "Pods that wait for this reason, the oldest first", height: "60vh", empty: "No pod waits for this any more.",
    onopen: (pod) => go(podLink(pod.namespace, pod.name)),
    columns: [
      { key: "name", title: "pod", width: [170, 200, 240][room], grow: 2, sort: (pod) => `${pod.namespace}/${pod.name}`, cell: (pod) => h("a", { href: podLink(pod.namespace, pod.name) }, `${pod.namespace}/${pod.name}`) },
      { key: "age", title: "waits for", width: 100, align: "right", sort: (pod) => pod.created, cell: (pod) => (pod.created ? age((Date.now() - Date.parse(pod.created)) / 1000) : "–") },
      { key: "priority", title: "priority", width: 86, align: "right", downFirst: true, sort: (pod) => pod.priority, cell: (pod) => count(pod.priority) },
      ...(room < 2 ? [] : [{ key: "attempts", title: "attempts", width: 92, align: "right", downFirst: true, sort: (pod) => pod.attempts ?? 0, cell: (pod) => count(pod.attempts) }]),
      { key: "asks", title: "asks for", width: 200, grow: 1, cell: (pod) => requests(pod.requests) },
      { key: "nominated", title: "nominated, or gang", width: 150, cell: (pod) => (pod.nominatedNode ? h("a", { href: nodeLink(pod.nominatedNode) }, pod.nominatedNode) : pod.gang ? h("a", { href: gangLink(pod.namespace, pod.gang) }, `gang ${pod.gang}`) : "") },
    ],
  });
  const chart = new TimeChart({ label: "Pods that wait for this", height: 54 });
  replace(node, h("div", { class: "split why" },
    h("section", { class: "card flush list" }, h("header", {}, h("h1", { class: "grow", style: { fontSize: "15px" } }, "Why pods wait"), total), h("div", { style: { height: "6px" } }), list),
    detail));

  const drawList = () => {
    const sum = (found) => found.reduce((whole, one) => whole + one.count, 0), untried = sum(reasons.filter((one) => one.reason === "NotTried"));
    total.textContent = plural(sum(reasons) - untried, "pod") + (untried ? `, ${count(untried)} not tried yet` : "");
    const focused = document.activeElement?.closest?.(".list a")?.getAttribute("href");
    replace(list, reasons.length ? reasons.map((one) => h("li", {}, reasonRow(one, { current: one.slug === slug, trend: false }))) : h("li", { class: "empty" }, "No pod waits for a node."));
    if (focused) list.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  };
  const show = (now) => {
    reasons = now.reasons;
    drawList();
    if (slug && parts && !parts.named && reasons.some((one) => one.slug === slug)) { parts.named = true; crumbNow(); }
    if (!slug && reasons.length && matchMedia("(min-width: 901px)").matches) select(reasons[0].slug, false);
    const chosen = reasons.find((one) => one.slug === slug);
    if (chosen && parts?.gone) select(slug);
    if (chosen?.trend) chart.update([{ name: "waiting", tone: "t-wait", values: chosen.trend, format: count, area: true }]);
    const key = chosen ? `${chosen.count} ${chosen.oldest}` : "";
    if (slug && key !== shownKey) soon();
  };
  const frameOf = () => {
    const parts = { title: h("h1", { class: "sentence" }), facts: h("p", { class: "muted" }), message: h("p", { class: "message" }), help: h("div", {}) };
    replace(detail,
      h("section", { class: "card" }, parts.title, parts.facts, h("div", { style: { height: "8px" } }), chart.node, h("div", { style: { height: "10px" } }), parts.message),
      h("section", { class: "card section" }, h("header", {}, h("h2", { class: "grow" }, "What would help")), parts.help),
      h("section", { class: "card flush section" }, h("header", {}, h("h2", {}, "Pods, the oldest first")), h("div", { style: { height: "8px" } }), table.node));
    return parts;
  };
  let parts = null;
  const fill = async () => {
    const wanted = slug;
    try {
      const found = await get(`/api/v1/pending/${encodeURIComponent(wanted)}`, { namespace, limit: 5000 });
      if (wanted !== slug) return;
      shownKey = `${found.count} ${found.oldest}`;
      replace(parts.title, found.title);
      replace(parts.facts, [plural(found.count, "pod"), found.plugins.length ? `refused by ${found.plugins.join(", ")}` : found.reason, found.oldestSeconds === null ? null : `the oldest waits for ${age(found.oldestSeconds)}`].filter(Boolean).join(" · "));
      replace(parts.message, found.message ? [h("span", { class: "muted" }, `${found.oldest}: `), found.message] : null);
      table.update(found.pods);
    } catch (error) {
      if (wanted !== slug) return;
      if (error.code !== 404) throw error;
      parts.gone = true;
      replace(detail, h("section", { class: "card" }, h("p", { class: "empty" }, "No pod waits for this now.")));
    }
  };
  const soon = paced(fill);
  const askHelp = async () => {
    const wanted = slug;
    const into = parts;
    const waiting = elapsed("Deciding on the present state");
    if (!into.helped) replace(into.help, waiting.node);
    try {
      const found = await get(`/api/v1/pending/${encodeURIComponent(wanted)}/help`, { namespace });
      if (into !== parts) return;
      into.helped = true;
      replace(into.help, help(found), waiting.done());
    } catch (error) {
      waiting.done();
      if (into !== parts || error.code === 404) return;
      if (passing(error)) throw error;
      replace(into.help, h("p", { class: "problem" }, error.message));
    }
  };
  const helpSoon = paced(askHelp);
  const crumbNow = () => {
    const words = reasons.find((one) => one.slug === slug)?.title ?? "Reason";
    crumbs(h("a", { href: link("/pending") }, "Pending"), words.charAt(0).toUpperCase() + words.slice(1));
  };
  const select = (chosen, pushed = true) => {
    slug = chosen;
    shownKey = "";
    if (!pushed) history.replaceState(null, "", link(`/pending/${encodeURIComponent(slug)}`));
    crumbNow();
    parts = frameOf();
    drawList();
    fill().catch(() => soon());
    askHelp().catch(() => helpSoon());
  };
  crumbs("Pending");
  if (slug) select(slug);
  else replace(detail, null);
  const ask = paced(() => get("/api/v1/pending", { namespace }).then(show));
  ask();
  return {
    topics: [`pending${query}`],
    heard(name, now) {
      if (name === "pending") show(now);
      else if (name === "resync") { ask(); if (slug) soon(); }
    },
    stays(to, params) {
      if ((params.get("namespace") ?? "") !== namespace) return false;
      if (to.slug) select(to.slug);
      return Boolean(to.slug);
    },
  };
}

function help(found) {
  const lacks = (one) => Object.entries(one.lacks).map(([name, value]) => `${amount(name, value)} ${name}`).join(", ");
  const parts = [];
  if (found.held) return h("div", { class: "grid" }, h("p", {}, `${found.held[0].toUpperCase()}${found.held.slice(1)}.`), found.events.length ? h("div", {}, h("h3", {}, "It is tried when"), h("div", { class: "chips", style: { marginTop: "7px" } }, found.events.map((one) => h("span", { class: "chip" }, one.event)))) : null);
  if (found.gang) {
    const [space] = found.pod.split("/");
    parts.push(h("p", {}, found.fitsNow ? ["Alone, the oldest of them would fit on ", h("a", { href: nodeLink(found.fitsNow) }, found.fitsNow), ". But i"] : "I", "ts gang waits for room for all of its members at once: ", h("a", { href: gangLink(space, found.gang) }, `gang ${found.gang}`), " shows how many fit where. What is below is about each pod alone."));
  } else if (found.fitsNow) parts.push(h("p", {}, "The oldest of them fits now on ", h("a", { href: nodeLink(found.fitsNow) }, found.fitsNow), ": it will be tried again."));
  const useful = found.oneMoreNode.filter((one) => one.pods);
  parts.push(h("div", {}, h("h3", {}, "One more node"),
    useful.length
      ? h("ul", { class: "bars", style: { marginTop: "8px" } }, useful.map((one) => h("li", {},
        h("span", { class: "clip", title: one.like }, "like ", h("a", { href: nodeLink(one.like) }, one.like)),
        h("span", { class: "bar" }, h("span", { style: { width: `${(100 * one.pods) / found.tried}%`, background: "var(--good)" } })),
        h("span", { class: "nowrap" }, `takes ${one.pods} of ${found.tried}`))))
      : h("p", { class: "muted" }, "No node of a kind that there is would take one of them.")));
  if (found.nearest.length) {
    parts.push(h("div", {}, h("h3", {}, "Nodes that lack least for the oldest"),
      h("table", { class: "plain" }, h("tbody", {}, found.nearest.map((one) => h("tr", {}, h("td", {}, h("a", { href: nodeLink(one.node) }, one.node)), h("td", {}, `lacks ${lacks(one)}`)))))));
  }
  const refusals = Object.entries(found.refusals).flatMap(([plugin, reasons]) => Object.entries(reasons).map(([reason, nodes]) => [plugin, reason, nodes]));
  if (refusals.length) parts.push(h("div", {}, h("h3", {}, "Nodes that refuse the oldest now"), refusalBars(refusals)));
  if (found.events.length) {
    parts.push(h("div", {}, h("h3", {}, "It is tried again when"), h("div", { class: "chips", style: { marginTop: "7px" } }, found.events.map((one) => h("span", { class: "chip", title: one.plugin }, one.event)))));
  }
  return h("div", { class: "grid" }, parts);
}

export function refusalBars(refusals) {
  const largest = Math.max(...refusals.map((one) => one[2]), 1);
  return h("ul", { class: "bars", style: { marginTop: "8px" } }, refusals.sort((a, b) => b[2] - a[2]).slice(0, 12).map(([plugin, reason, nodes]) => h("li", {},
    h("span", { class: "clip", title: plugin }, plugin),
    h("span", { class: "bar", role: "img", "aria-label": `${nodes} nodes` }, h("span", { style: { width: `${(100 * nodes) / largest}%` } })),
    h("span", { class: "right" }, h("b", {}, count(nodes)), h("span", { class: "muted" }, `  ${reason}`)))));
}
