// The overview: what needs attention, pods by state, what happens a second, what waits, who works, how full it is.

import { h, icon, replace } from "../../page/assets/dom.js";
import { get, paced } from "../../page/assets/live.js";
import { age, amount, clock, count, percent, plural, rate, seconds } from "../../page/assets/format.js";
import { meter, spark, stacked, TimeChart } from "../../page/assets/charts.js";
import { crumbs, link, nodeLink, podAnchor } from "../../page/assets/app.js";

export const STATES = [
  ["bound", "bound", "t-good"], ["queued", "not tried yet", "t-queued"], ["waiting", "refused, waiting", "t-wait"],
  ["gated", "held back", "t-held"], ["terminating", "terminating", "t-gone"], ["finished", "finished", "t-gone"],
];

export function open({ node, namespace }) {
  const query = namespace ? `?namespace=${namespace}` : "";
  crumbs("Overview");
  const area = (tone, name, format = rate) => ({ tone, name, format, area: true, bridged: format === seconds });
  const charts = {
    bound: new TimeChart({ label: "Binds a second" }),
    refused: new TimeChart({ label: "Refusals a second" }),
    latency: new TimeChart({ label: "Time from first seen to bound" }),
  };
  const parts = {
    attention: h("div", {}), pods: h("div", {}), bound: h("div", { class: "figures" }), refused: h("div", { class: "figures" }),
    latency: h("div", { class: "figures narrow" }), reasons: h("ul", { class: "reasons" }), more: h("div", {}), room: h("div", {}),
    nodes: h("span", { class: "muted" }), workers: h("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": "Workers" }), preemptions: h("div", {}),
  };
  const card = (title, ...inside) => h("section", { class: "card" }, h("header", {}, h("h2", { class: "grow" }, title)), ...inside);
  replace(node,
    h("h1", { class: "visually-hidden" }, "Overview"),
    parts.attention,
    h("div", { class: "grid four" },
      card("Pods", parts.pods),
      card("Binds a second", parts.bound, charts.bound.node),
      card("Refusals a second", parts.refused, charts.refused.node),
      card("First seen to bound", parts.latency, charts.latency.node)),
    h("div", { class: "grid two section columns" },
      h("div", { class: "grid" },
        h("section", { class: "card" }, h("header", {}, h("h2", { class: "grow" }, "What waits, and why"), h("a", { href: link("/pending") }, "All reasons")), parts.reasons, parts.more),
        card("Workers", parts.workers)),
      h("div", { class: "grid" },
        h("section", { class: "card" }, h("header", {}, h("h2", { class: "grow" }, "Room"), parts.nodes, h("a", { href: link("/map") }, "Map")), parts.room),
        card("Preemptions", parts.preemptions))));

  const show = (now) => {
    attention(parts.attention, now.alerts);
    pods(parts.pods, now.pods);
    replace(parts.bound, h("span", { class: "figure" }, rate(now.rates.bound)), h("span", { class: "muted" }, now.ratesNote ?? `${rate(now.rates.created)} created a second`));
    replace(parts.refused, h("span", { class: "figure" }, rate(now.rates.refused)), h("span", { class: "muted" }, `${count(now.pending)} pending`));
    replace(parts.latency, h("span", { class: "figure" }, seconds(now.latency.p50), h("small", {}, " p50")), h("span", { class: "figure" }, seconds(now.latency.p99), h("small", {}, " p99")),
      now.latency.p50 === null ? h("span", { class: "muted" }, "no bind in 5 minutes") : null);
    reasons(parts.reasons, now.reasons);
    replace(parts.more, now.moreReasons ? h("p", { class: "muted", style: { paddingTop: "9px" } }, `and ${plural(now.moreReasons, "more reason")}`) : null);
    room(parts, now.nodes, namespace);
    workers(parts.workers, now.workers);
    preemptions(parts.preemptions, now.preemptions);
  };
  const trends = ({ series, slotSeconds }) => {
    if (!series) return;
    const perSecond = (values) => values.map((value) => (value === null ? null : value / slotSeconds));
    charts.bound.update([{ ...area("t-good", "bound"), values: perSecond(series.bound) }, { ...area("t-accent", "created"), area: false, values: perSecond(series.created) }]);
    charts.refused.update([{ ...area("t-wait", "refused"), values: perSecond(series.refused) }]);
    charts.latency.update([{ ...area("t-held", "p99", seconds), values: series.p99 }, { ...area("t-accent", "p50", seconds), area: false, values: series.p50 }]);
  };
  const params = { namespace };
  const ask = paced(() => Promise.all([get("/api/v1/overview", params).then(show), get("/api/v1/trends", params).then(trends)]));
  ask();
  return {
    topics: [`overview${query}`, `trends${query}`],
    heard(name, now) {
      if (name === "overview") show(now);
      else if (name === "trends") trends(now);
      else if (name === "resync") ask();
    },
  };
}

function attention(node, alerts) {
  const key = JSON.stringify([alerts.firing, alerts.unknown.length, alerts.quiet]);
  if (node.dataset.key === key) return;
  node.dataset.key = key;
  if (alerts.firing.length) {
    replace(node, h("div", { class: "attention" }, alerts.firing.map((one) => {
      const inside = [icon("warn", 20), h("span", { class: "means" }, one.means), h("span", { class: "value" }, `${one.name}: ${one.value}`)];
      const tone = one.severity === "critical" ? "t-bad" : "t-wait";
      return one.link ? h("a", { class: `alert ${tone}`, href: link(one.link) }, inside) : h("div", { class: `alert ${tone}` }, inside);
    })));
    return;
  }
  const unknown = alerts.unknown.length ? `, ${alerts.unknown.length} not known without metrics` : "";
  replace(node, h("p", { class: "calm" }, icon("ok"), h("span", {}, "Nothing needs attention."), h("a", { href: link("/alerts") }, `${plural(alerts.quiet, "alert is", "alerts are")} quiet${unknown}`)));
}

function pods(node, states) {
  const total = Object.values(states).reduce((sum, value) => sum + value, 0);
  replace(node,
    h("div", { class: "figures" }, h("span", { class: "figure" }, count(total)), h("span", { class: "muted" }, `${percent(states.bound, total - states.finished)} bound`)),
    stacked(STATES.map(([key, name, tone]) => ({ name, tone, value: states[key] })), "Pods by state"),
    h("div", { class: "legend" }, STATES.filter(([key]) => states[key]).map(([key, name, tone]) =>
      h("a", { class: `key ${tone}`, href: link("/pods", { state: key }) }, h("b", {}, count(states[key])), name))));
}

export function reasonRow(one, { namespaceLink = link, current = false, trend = true } = {}) {
  return h("a", { class: "reason", href: namespaceLink(`/pending/${encodeURIComponent(one.slug)}`), "aria-current": current ? "true" : null },
    h("div", { style: { minWidth: "0" } },
      h("div", { class: "title" }, one.title),
      h("div", { class: "detail" }, [one.plugins.length ? one.plugins.join(", ") : one.reason, one.oldestSeconds !== null ? `oldest ${age(one.oldestSeconds)}` : null].filter(Boolean).join(" · "))),
    trend ? h("div", { class: "trend" }, spark(one.trend)) : null,
    h("div", { class: "number" }, count(one.count)));
}

function reasons(node, found) {
  replace(node, found.length ? found.map((one) => h("li", {}, reasonRow(one))) : h("li", { class: "empty" }, "No pod waits for a node."));
}

function room(parts, nodes, namespace) {
  const notes = [namespace ? "by pods of all namespaces" : null, plural(nodes.count, "node"), nodes.notReady ? `${nodes.notReady} not ready` : null, nodes.unschedulable ? `${nodes.unschedulable} cordoned` : null, nodes.lost ? `${nodes.lost} lost` : null];
  parts.nodes.textContent = notes.filter(Boolean).join(", ");
  replace(parts.room, h("div", { class: "room" }, nodes.resources.filter((one) => one.allocatable).map((one) => [
    h("span", { class: "clip", title: one.resource }, one.resource),
    meter(one.requested, one.allocatable, `${one.resource}: ${percent(one.requested, one.allocatable)} requested`),
    h("span", { class: "right nowrap" }, h("b", {}, percent(one.requested, one.allocatable)), h("span", { class: "muted" }, `  ${amount(one.resource, one.requested)} of ${amount(one.resource, one.allocatable)}`))])));
}

export const workerTone = (state) => ({ ready: "t-good", draining: "t-held", withdrawn: "t-gone" }[state] ?? "t-wait");

function workers(node, found) {
  if (!found.length) { replace(node, h("p", { class: "empty" }, "No worker is registered: nothing is placed.")); return; }
  const figure = (one, key, format) => (one.metrics.problem === null ? format(one.metrics[key]) : "–");
  replace(node, h("table", { class: "plain" },
    h("thead", {}, h("tr", {}, ["worker", "state", "host"].map((name) => h("th", {}, name)), ["attempts/s", "decision", "in flight", "active"].map((name) => h("th", { class: "right" }, name)))),
    h("tbody", {}, found.slice(0, 64).map((one) => h("tr", { title: one.metrics.problem ? `metrics: ${one.metrics.problem}` : null },
      h("td", { class: "nowrap" }, `${one.tenant}/${one.slot}`, h("span", { class: "muted" }, ` #${one.incarnation}`)),
      h("td", {}, h("span", { class: `pill ${workerTone(one.state)}` }, one.state), one.waitingFor ? h("div", { class: "muted waits" }, one.waitingFor) : null),
      h("td", { class: "host" }, one.host),
      h("td", { class: "right" }, figure(one, "attemptsPerSecond", rate)),
      h("td", { class: "right nowrap" }, figure(one, "decisionSeconds", seconds)),
      h("td", { class: "right nowrap" }, figure(one, "inFlight", count)),
      h("td", { class: "right" }, figure(one, "active", count)))))));
}

function preemptions(node, found) {
  if (!found.length) { replace(node, h("p", { class: "empty" }, "No room was made by preemption since this page started.")); return; }
  replace(node, h("ul", { class: "reasons" }, found.map((one) =>
    h("li", { style: { padding: "7px 0" } }, h("span", { class: "muted nowrap" }, `${clock(one.time)}  `), podAnchor(one.pod), " on ", h("a", { class: "wrap", href: nodeLink(one.node) }, one.node)))));
}
