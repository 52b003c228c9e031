// One pod: how it stands, its attempts on a timeline, decisions node by node, two attempts beside each other, what if.

import { h, icon, replace, s } from "../../page/assets/dom.js";
import { get, paced, passing } from "../../page/assets/live.js";
import { age, amount, clock, count, day, plural, requests, seconds } from "../../page/assets/format.js";
import { crumbs, gangLink, link, nodeLink, podLink, splitPod } from "../../page/assets/app.js";
import { explorer } from "./explorer.js";
import { difference } from "./difference.js";
import { whatIf } from "./whatif.js";
import { refusalBars } from "./pending.js";
import { tone, word } from "./pods.js";

const TABS = [["", "Attempts"], ["explorer", "Decision explorer"], ["difference", "Difference"], ["what-if", "What if"], ["fields", "Fields"]];
export const OUTCOMES = { bound: "t-good", refused: "t-wait", unschedulable: "t-wait", Unschedulable: "t-wait", waiting: "t-wait", contended: "t-held", running: "t-accent", terminated: "t-gone", gone: "t-gone" };
const STEPS = { place: "t-accent", bind: "t-good", waited: "t-gone", "backed off": "t-gone", record_refusal: "t-wait", evict: "t-bad", ask_extenders: "t-held" };
const stepName = (name) => name.replaceAll("_", " "); // activities are named as in code
export const outcomeTone = (outcome) => OUTCOMES[outcome] ?? "t-bad";

export function open({ node, names, params }) {
  const title = `${names.namespace}/${names.name}`;
  const base = `/api/v1/pods/${encodeURIComponent(names.namespace)}/${encodeURIComponent(names.name)}`;
  crumbs(h("a", { href: link("/pods") }, "Pods"), title);
  let pod = null, there = null, told = null, tab = params.get("tab") ?? "", attempt = Number(params.get("attempt")) || 0, open_ = null, timer = 0;
  const parts = { head: h("div", {}), facts: h("section", { class: "card" }), left: h("div", {}), tabs: h("nav", { class: "tabs", "aria-label": "Parts of this pod" }), body: h("div", {}) };
  replace(node, parts.head, parts.facts, parts.left, parts.tabs, parts.body);
  const context = { base, names, title, pod: () => pod, told: () => told, attempt: () => attempt };

  const drawTabs = () => replace(parts.tabs, TABS.map(([key, words]) => h("a", { href: podLink(names.namespace, names.name, { tab: key, attempt: key === "explorer" ? attempt || "" : "" }), "aria-current": key === tab ? "page" : null }, key === "explorer" ? [h("span", { class: "hide-small" }, words), h("span", { class: "show-small" }, "Explorer")] : words)));
  const drawHead = () => {
    replace(parts.head, h("div", { class: "head" }, h("h1", {}, title), pod ? h("span", { class: `pill ${tone(pod.state)}` }, pod.promised ? "promised" : word(pod.state)) : told?.state ? h("span", { class: "pill t-gone" }, told.state) : null,
      h("span", { class: "grow" }), told?.link ? h("a", { class: "button", href: told.link, target: "_blank", rel: "noopener noreferrer" }, icon("out", 15), "All runs in Temporal") : null));
    if (!pod) { replace(parts.facts, h("p", { class: "muted" }, there !== false || !told ? "" : told.attempts.length ? "The pod is gone; what is recorded of it is below." : "There is no pod of this name, and Temporal keeps no attempt of one.")); return; }
    const fact = (name, value) => (value === null || value === undefined || value === "" ? null : h("div", {}, h("dt", {}, name), h("dd", {}, value)));
    replace(parts.facts, h("dl", { class: "facts" },
      fact("Node", pod.node ? h("a", { href: nodeLink(pod.node) }, pod.node) : null),
      fact("Nominated to", pod.nominatedNode ? h("a", { href: nodeLink(pod.nominatedNode) }, pod.nominatedNode) : null),
      fact("Asks for", requests(pod.requests)), fact("Priority", pod.priorityClass ? `${count(pod.priority)} (${pod.priorityClass})` : count(pod.priority)),
      fact("Age", pod.ageSeconds === null ? null : age(pod.ageSeconds)), fact("Scheduler", pod.scheduler),
      fact("Gang", pod.gang ? h("a", { href: gangLink(pod.namespace, pod.gang) }, pod.gang) : null),
      fact("Controller", pod.controller ? pod.controller.join(" ") : null)),
    pod.held ? h("p", { class: "problem section" }, pod.held) : null,
    pod.gates.length ? h("p", { class: "problem section" }, `Held back by its scheduling gates: ${pod.gates.join(", ")}`) : null,
    pod.unsupported.length ? h("p", { class: "problem section" }, pod.unsupported.join("; ")) : null,
    pod.record ? h("div", { class: "section" }, h("p", { class: "message" }, h("b", {}, `Attempt ${pod.record.attempt}, ${pod.record.reason}: `), pod.record.message)) : null);
  };
  const drawBody = () => {
    open_?.close?.();
    const make = { "": () => attempts(context), explorer: () => explorer(context), difference: () => difference(context), "what-if": () => whatIf(context), fields: () => fields(context) }[tab] ?? (() => attempts(context));
    open_ = make();
    replace(parts.body, open_.node);
  };
  const askPod = async () => {
    const before = there;
    pod = await get(base, { optional: "1" });
    there = pod !== null;
    drawHead();
    if (there !== before) { if (tab === "fields") drawBody(); else open_?.told?.(); }
  };
  const askAttempts = async () => {
    let failed = null;
    try { told = await get(`${base}/attempts`); told.problem = null; } catch (error) {
      failed = error;
      told = error.code === 404 ? { attempts: [], missing: [], state: "", problem: null } : { attempts: [], missing: [], state: pod ? pod.state : "unknown", ...told, problem: error.message, away: passing(error) };
    }
    drawHead();
    open_?.told?.();
    if (failed && passing(failed)) throw failed;
  };
  const askLeft = async () => {
    try { replace(parts.left, preemption(await get(`${base}/preemption`))); } catch (error) { if (passing(error)) throw error; replace(parts.left, pod ? null : h("p", { class: "muted section" }, `Whether it was preempted cannot be said now: ${error.message}`)); }
  };
  const podSoon = paced(askPod), attemptsSoon = paced(askAttempts), leftSoon = paced(askLeft);
  drawTabs();
  drawHead();
  drawBody();
  podSoon();
  attemptsSoon();
  leftSoon();
  return {
    topics: [`pod:${title}`, "overview"],
    heard(name) {
      if (name !== "pod" && name !== "resync") return;
      clearTimeout(timer);
      podSoon();
      timer = setTimeout(() => { attemptsSoon(); leftSoon(); if (name === "resync") open_?.resync?.(); }, 400);
    },
    stays(to, next) {
      if (to.namespace !== names.namespace || to.name !== names.name) return false;
      tab = next.get("tab") ?? "";
      attempt = Number(next.get("attempt")) || 0;
      drawTabs();
      drawBody();
      return true;
    },
    close() { clearTimeout(timer); open_?.close?.(); },
  };
}

// --- who left for whom ---

const FROM = { record: "the record of the pod that it leaves for", pod: "its own condition", history: "its last state in etcd's history", temporal: "Temporal's record of later attempts on its node" };

function preemption({ there, left, victims, note }) {
  const cards = [];
  if (left) {
    const who = left.preemptor ? h("a", { href: podLink(...splitPod(left.preemptor), left.attempt ? { attempt: left.attempt } : {}) }, left.preemptor) : "another pod";
    cards.push(h("section", { class: "card section" }, h("header", {}, h("h2", { class: "grow" }, there ? "It has to leave" : "It was evicted"), h("span", { class: "pill t-bad" }, "preempted")),
      h("p", {}, there ? "For " : "It left for ", who, left.preemptor && !left.preemptorThere ? " (which is gone, too)" : "", ", from node ", h("a", { href: nodeLink(left.node) }, left.node), left.time ? `, ${day(left.time)}` : "", left.attempt ? `, by attempt ${left.attempt}` : "", "."),
      left.message ? h("p", { class: "message section" }, left.message) : null,
      h("div", { class: "chips section", style: { alignItems: "center" } }, h("span", { class: "muted grow" }, `Known from ${FROM[left.knownFrom]}.`), left.link ? h("a", { class: "button", href: left.link, target: "_blank", rel: "noopener noreferrer" }, icon("out", 15), "That attempt in Temporal") : null)));
  }
  if (victims.length) {
    cards.push(h("section", { class: "card section" }, h("header", {}, h("h2", {}, "Who left for it")), victims.map((one) => h("div", { class: "section" },
      h("p", {}, `Attempt ${one.attempt}: ${plural(one.count, "pod leaves", "pods leave")} `, h("a", { href: nodeLink(one.node) }, one.node), "."),
      h("div", { class: "chips", style: { marginTop: "6px" } }, one.pods.map((victim) => h("a", { class: "chip", href: podLink(...splitPod(victim.pod)) }, victim.pod, victim.there ? null : h("span", { class: "muted" }, " gone"))), one.count > one.pods.length ? h("span", { class: "muted" }, `and ${count(one.count - one.pods.length)} more`) : null)))));
  }
  if (note && !left && !there) cards.push(h("p", { class: "muted section" }, `${note[0].toUpperCase()}${note.slice(1)}.`));
  return cards;
}

// --- attempts ---

function attempts({ told, names }) {
  const node = h("div", {});
  const opened = new Set();
  const draw = () => {
    const now = told();
    if (!now) { replace(node, h("p", { class: "muted" }, "Asking Temporal")); return; }
    if (now.problem && !now.attempts.length) { replace(node, h("p", { class: "problem" }, now.away ? "What is recorded cannot be read now." : `What is recorded cannot be read: ${now.problem}`)); return; }
    const newest = [...now.attempts].reverse();
    if (newest.length && !opened.size) opened.add(newest[0].runId);
    replace(node,
      now.missing.map((one) => h("p", { class: "muted", style: { marginBottom: "10px" } }, one)),
      newest.length ? h("section", { class: "card" }, h("header", {}, h("h2", {}, "Over time")), timeline(now.attempts)) : h("p", { class: "empty" }, now.held || "No attempt is recorded yet."),
      newest.length ? h("section", { class: "card section" }, h("ul", { class: "attempts" }, newest.map((one) => h("li", {}, attemptRow(one, names, opened))))) : null);
  };
  draw();
  return { node, told: draw };
}

function timeline(found) {
  const begin = Math.min(...found.map((one) => Date.parse(one.started)));
  const end = Math.max(...found.map((one) => (one.ended ? Date.parse(one.ended) : Date.now())), begin + 1);
  const narrow = innerWidth < 720;
  const width = narrow ? 340 : 1000, lane = 13, shown = found.slice(-40), height = 26 + Math.min(shown.length, 8) * (lane + 4);
  const x = (time) => ((time - begin) / (end - begin)) * (width - 8) + 4;
  const ticks = (narrow ? [0, 1] : [0, 0.25, 0.5, 0.75, 1]).map((part) => begin + part * (end - begin));
  const long = end - begin > 86400000;
  return s("svg", { class: "timeline", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${found.length} attempts from ${day(new Date(begin).toISOString())} to ${day(new Date(end).toISOString())}` },
    ticks.map((time, index) => s("text", { x: x(time), y: height - 4, "text-anchor": index === 0 ? "start" : index === ticks.length - 1 ? "end" : "middle" }, long ? day(new Date(time).toISOString()) : clock(new Date(time).toISOString()))),
    shown.map((one, index) => {
      const from = x(Date.parse(one.started)), to = x(one.ended ? Date.parse(one.ended) : Date.now()), y = (index % 8) * (lane + 4);
      return s("g", { class: outcomeTone(one.outcome) }, s("title", {}, `attempt ${one.attempt}: ${one.outcome}`), s("rect", { x: from, y, width: Math.max(3, to - from), height: lane, rx: 3 }));
    }));
}

function attemptRow(one, names, opened) {
  const took = one.ended ? (Date.parse(one.ended) - Date.parse(one.started)) / 1000 : null;
  const sum = one.steps.reduce((total, step) => total + Math.sqrt(step.seconds ?? 0), 0) || 1;
  const inside = h("div", { class: "inside" });
  const details = h("details", { class: "attempt", open: opened.has(one.runId) },
    h("summary", {}, h("b", {}, one.attempt), h("span", {}, h("span", { class: `pill ${outcomeTone(one.outcome)}` }, one.outcome)),
      h("span", { class: "clip" }, one.node ? `on ${one.node}` : one.message || one.cause),
      h("span", { class: "steps wide", role: "img", "aria-label": one.steps.map((step) => `${stepName(step.name)} ${seconds(step.seconds)}`).join(", ") || "no steps" }, one.steps.map((step) => h("span", { class: STEPS[step.name] ?? "t-gone", title: `${stepName(step.name)}: ${seconds(step.seconds)}`, style: { flexGrow: String(Math.sqrt(step.seconds ?? 0) / sum) } }))),
      h("span", { class: "muted right wide nowrap" }, took === null ? "goes on" : seconds(took)), h("span", { class: "muted wide", "aria-hidden": "true" }, "▾")), inside);
  const fill = () => { if (!inside.firstChild) replace(inside, attemptDetail(one, names)); };
  if (opened.has(one.runId)) fill();
  details.addEventListener("toggle", () => { if (details.open) { opened.add(one.runId); fill(); } else opened.delete(one.runId); });
  return details;
}

function attemptDetail(one, names) {
  const refusals = Object.entries(one.refusals).flatMap(([plugin, reasons]) => Object.entries(reasons).map(([reason, nodes]) => [plugin, reason, nodes]));
  const plugins = one.ranking.length ? Object.keys(one.ranking[0].plugins ?? {}) : [];
  const explore = podLink(names.namespace, names.name, { tab: "explorer", attempt: one.attempt });
  return [
    h("div", { class: "chips" }, h("span", { class: "chip" }, `${day(one.started)}`), h("span", { class: "chip" }, one.cause), one.computation.revision ? h("span", { class: "chip" }, `revision ${count(one.computation.revision)}`) : null,
      one.nodes ? h("span", { class: "chip" }, `${count(one.feasible)} of ${count(one.nodes)} nodes fit`) : null, one.computation.approximate ? h("span", { class: "chip" }, "approximate") : null, one.notes.map((note) => h("span", { class: "chip" }, note))),
    one.message ? h("p", { class: "message" }, one.message) : null,
    one.nominatedNode ? h("div", {}, h("h3", {}, "Who left for it"), h("p", {}, `Nominated to `, h("a", { href: nodeLink(one.nominatedNode) }, one.nominatedNode), `: ${plural(one.victimCount, "pod has", "pods have")} to leave.`),
      h("div", { class: "chips", style: { marginTop: "6px" } }, one.victims.map((victim) => h("a", { class: "chip", href: podLink(...splitPod(victim)) }, victim)))) : null,
    refusals.length ? h("div", {}, h("h3", {}, "Nodes refused, by reason (a node may have several)"), refusalBars(refusals)) : null,
    one.ranking.length ? h("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": "Best nodes" }, h("table", { class: "plain" }, h("thead", {}, h("tr", {}, h("th", {}, "best nodes"), h("th", { class: "right" }, "total"), plugins.map((name) => h("th", { class: "right" }, name)))),
      h("tbody", {}, one.ranking.map((row) => h("tr", {}, h("td", {}, h("a", { href: nodeLink(row.node) }, row.node)), h("td", { class: "right" }, h("b", {}, row.total)), plugins.map((name) => h("td", { class: "right" }, row.plugins[name] ?? ""))))))) : null,
    one.steps.length ? h("div", {}, h("h3", {}, "Steps"), h("div", { class: "steps-list", style: { marginTop: "6px" } }, one.steps.map((step) => [h("span", { class: `key ${STEPS[step.name] ?? "t-gone"}` }, stepName(step.name)), h("span", { class: "right nowrap" }, step.seconds === null ? `since ${clock(step.started)}` : seconds(step.seconds)), h("span", { class: "muted wrap" }, [step.tries > 1 ? `${step.tries} tries` : "", step.detail].filter(Boolean).join(", "))]))) : null,
    h("div", { class: "chips" }, one.nodes ? h("a", { class: "button", href: explore }, "Explore this decision") : null, one.link ? h("a", { class: "button", href: one.link, target: "_blank", rel: "noopener noreferrer" }, icon("out", 15), "Run in Temporal") : null),
  ];
}

// --- fields ---

function fields({ pod }) {
  const node = h("section", { class: "card" });
  const now = pod();
  if (!now) { replace(node, h("p", { class: "muted" }, "The pod is not there.")); return { node }; }
  const list = (values) => (values?.length ? h("div", { class: "chips" }, values.map((one) => h("span", { class: "chip" }, one))) : null);
  const pairs = (values) => list(Object.entries(values).map(([key, value]) => (value ? `${key}=${value}` : key)));
  const rows = [["uid", now.uid], ["created at revision", count(now.createRevision)], ["changed at revision", count(now.modRevision)], ["requests", list(Object.entries(now.requests).map(([name, value]) => `${name} ${amount(name, value)}`))], ["labels", pairs(now.labels)],
    ["node selector", pairs(now.nodeSelector)], ["required node terms", list(now.requiredNodeTerms.map((one) => one.join(" and ")))], ["preferred node terms", list(now.preferredNodeTerms.map((one) => `${one.weight}: ${one.term.join(" and ")}`))],
    ["tolerations", list(now.tolerations)], ["required affinity", now.requiredAffinity || null], ["required anti-affinity", now.requiredAntiAffinity || null], ["preferred affinity", now.preferredAffinity || null], ["spread over", list(now.spreadConstraints)], ["host ports", list(now.hostPorts)], ["claims", list(now.claims)],
    ["preemption", now.preemptionPolicy], ["condition", now.condition ? `PodScheduled=${now.condition.status} ${now.condition.reason}: ${now.condition.message}` : null]];
  replace(node, h("p", { class: "muted", style: { marginBottom: "10px" } }, "What scheduling reads of it, decoded; nothing else of the object leaves the server."),
    h("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": "Fields" }, h("table", { class: "plain" }, h("tbody", {}, rows.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "wrap" }, value)))))));
  return { node };
}
