// One report of replay, alone or beside another one: what is the same, what is not, and why.

import { h, replace } from "../../page/assets/dom.js";
import { get, refreshed } from "../../page/assets/live.js";
import { elapsed } from "../../page/assets/elapsed.js";
import { age, count, day, plural } from "../../page/assets/format.js";
import { crumbs, go, link, nodeLink, podLink, splitPod } from "../../page/assets/app.js";
import { ShareChart, changeOf, replayLink, share, toneOf, verdicts, words } from "./replay_parts.js";

const FEW = 20;
const LACKS = { compacted: "etcd keeps their state no more", future: "etcd was restored from a backup since", profile: "their configuration cannot be made here", overlay: "what their worker had assumed is not known", membership: "it is not known which workers shared the nodes", state: "etcd's state is not the one that was decided on", verdict: "a verdict of Reserve or Permit is not recorded", clock: "the time that was read is not recorded", extender: "an extender would have to be asked", plugin: "a plugin failed", record: "what their run recorded cannot be read" };

export function open({ node, names, params, namespace }) {
  const beside = params.get("beside") ?? "";
  crumbs(h("a", { href: link("/replays") }, "Replays"), names.name);
  const body = h("div", {});
  const others = h("select", { "aria-label": "Beside another report", onchange: () => go(replayLink(names.name, { beside: others.value })) });
  let drawn = "", listed = "";
  const show = async () => {
    const waiting = elapsed(beside ? "Reading both reports, and comparing them" : "Reading the report");
    if (!body.firstChild) replace(body, waiting.node);
    try {
      const found = await get(`/api/v1/replays/${encodeURIComponent(names.name)}`, { namespace, beside });
      const took = waiting.done();
      crumbs(h("a", { href: link("/replays") }, "Replays"), changeOf(found.report.change));
      replace(body, whole(found, others, namespace), took);
    } catch (error) { waiting.done(); replace(body, h("p", { class: "problem" }, error.message), h("p", { class: "section" }, h("a", { href: link("/replays") }, "All reports"))); }
  };
  // The list is small; the report is asked for again only when its file has changed.
  const look = async () => {
    const { replays } = await get("/api/v1/replays");
    const choices = replays.filter((one) => !one.problem && one.name !== names.name);
    const said = JSON.stringify(choices.map((one) => [one.name, one.made]));
    if (said !== listed) {
      listed = said;
      replace(others, h("option", { value: "" }, "nothing"), choices.map((one) => h("option", { value: one.name }, `${one.mode}, ${changeOf(one.change)}, ${day(one.made)}`)));
      others.value = beside;
    }
    const now = JSON.stringify(replays.filter((one) => [names.name, beside].includes(one.name)).map((one) => [one.name, one.modified, one.bytes]));
    if (now !== drawn) { drawn = now; await show(); }
  };
  const ask = () => look().catch((error) => { if (!drawn) replace(body, h("p", { class: "problem" }, error.message)); });
  replace(node, body);
  return refreshed(ask, 5000, ["overview"]);
}

function whole(found, others, namespace) {
  const { report, beside, between } = found;
  const { mode } = report;
  return [
    h("div", { class: "head" }, h("h1", {}, report.change.length ? changeOf(report.change) : "Nothing changed"), h("span", { class: `pill ${mode === "rerun" ? "t-held" : "t-accent"}` }, mode), h("span", { class: "grow" }), h("label", { class: "field" }, "Beside", others)),
    mode === "rerun" && report.change.length && !beside ? h("p", { class: "muted note" }, "A rerun with nothing changed is near to the record, but not the same: compare this one with that, under “Beside”.") : null,
    beside && beside.report.mode !== mode ? h("p", { class: "problem note" }, `One is a ${mode}, the other a ${beside.report.mode}: their figures do not mean the same.`) : null,
    report.stopped ? h("p", { class: "problem note" }, "Pods went on waking each other, and some were left undecided.") : null,
    beside ? h("div", { class: "compare" }, summary(found, "Here"), summary(beside, "Beside")) : summary(found, mode === "rerun" ? "Pods" : "Decisions"),
    beside ? against(between, beside) : null,
    overTime(found, namespace),
    mode === "rerun" ? atTheEnd(report, beside) : null,
    reasons(report),
    groups("Workloads that differ", "workload", report.workloads.filter(differs), mode),
    namespace ? null : groups("Namespaces that differ", "namespace", report.namespaces.filter(differs), mode),
    pods(report),
    mode === "rerun" ? evictions(report) : unreplayable(report),
    namespace ? null : groups("Profiles", "profile", Object.entries(report.profiles).map(([profile, counts]) => ({ profile, ...counts })), mode),
    mode === "shadow" && !namespace ? builds(report) : null,
    facts(found),
  ];
}

const differs = (counts) => [...Object.keys(words("shadow")), "evicted"].some((verdict) => verdict !== "same" && counts[verdict]);
const card = (title, ...inside) => h("section", { class: "card section" }, h("header", {}, h("h2", { class: "grow" }, title)), inside);
const scrolls = (label, ...inside) => h("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": label }, inside);
const heads = (...names) => h("thead", {}, h("tr", {}, names.map((name) => h("th", { class: name.startsWith("#") ? "right" : null }, name.replace("#", "")))));

function summary({ report }, title) {
  const { mode } = report;
  const unit = mode === "rerun" ? ["pod", "pods"] : ["decision", "decisions"];
  const { recorded, again } = report.packing ?? {};
  return h("section", { class: "card" }, h("header", {}, h("h2", { class: "grow" }, title)),
    h("div", { class: "figures" }, h("span", { class: "figure" }, share(report.sameShare), h("small", {}, " the same")), h("span", { class: "muted" }, plural(report.decisions, ...unit)),
      again !== null && again !== undefined ? h("span", { class: "muted" }, `chosen nodes ${share(recorded)} full, and would be ${share(again)}`) : null),
    verdicts(report.summary, mode, title));
}

function against(between, beside) {
  if (!between) return beside.report.mode === "rerun" ? h("p", { class: "muted note" }, "Where each pod ended is not in both reports, so only figures are beside each other.") : null;
  const only = [between.onlyHere ? `${plural(between.onlyHere, "pod")} only here` : null, between.onlyBeside ? `${plural(between.onlyBeside, "pod")} only beside` : null].filter(Boolean);
  const told = words("between");
  return card(`${plural(between.pods, "pod")} of both, the one beside taken for the record`, verdicts(between.summary, "between", "Pods of both"),
    only.length ? h("p", { class: "muted note" }, only.join(", ")) : null,
    between.differing.length ? few(between.differing, (rows) => scrolls("Pods that ended otherwise", h("table", { class: "plain" }, heads("pod", "", "beside", "here"),
      h("tbody", {}, rows.map((one) => h("tr", {}, h("td", { class: "wrap" }, podOf(one.pod)), h("td", {}, h("span", { class: `pill ${toneOf(one.verdict)}` }, told[one.verdict])), h("td", { class: "wrap" }, nodeOf(one.beside)), h("td", { class: "wrap" }, nodeOf(one.here))))))), 6) : null);
}

// --- over time ---

function overTime(found, namespace) {
  return found.report.mode === "rerun" ? useOverTime(found, namespace) : packingOverTime(found, namespace);
}

function packingOverTime({ report, beside }, namespace) {
  const line = (of, side, more) => ({ points: of.packingOverTime.map((one) => [Date.parse(one.time), one[side]]), figure: namespace ? null : of.packing[side], ...more });
  if (report.packingOverTime.length < 2) return null;
  const lines = [line(report, "recorded", { name: "recorded", tone: "t-gone", dashed: true }), line(report, "again", { name: beside ? "here" : "again", tone: "t-accent" })];
  if (beside?.report.mode === "shadow") lines.splice(1, 0, line(beside.report, "again", { name: "beside", tone: "t-held" }));
  return card("How full the chosen nodes are", h("p", { class: "muted" }, `Cpu and memory in use on the nodes that were chosen at each time, with the pod on them${ofAll(namespace)}.`),
    new ShareChart({ label: "Packing", lines, told: (at) => day(new Date(at).toISOString()), height: 200 }).node);
}

function useOverTime({ report, beside }, namespace) {
  const moments = report.overTime, others = beside?.report.mode === "rerun" ? beside.report.overTime : [];
  if (moments.length < 2) return null;
  const times = new Map([...moments, ...others].map((one) => [one.revision, one.time]));
  const told = (at) => (times.get(at) ? day(times.get(at)) : `revision ${count(at)}`);
  const chart = (figure, whole) => (name) => {
    const line = (of, side, more) => ({ points: of.map((one) => [one.revision, one[side][figure][name] === undefined ? null : one[side][figure][name] / whole]), ...more });
    const lines = [line(moments, "recorded", { name: "record", tone: "t-gone", dashed: true }), line(moments, "again", { name: others.length ? "here" : "rerun", tone: "t-accent" })];
    if (others.length) lines.splice(1, 0, line(others, "again", { name: "beside", tone: "t-held" }));
    return new ShareChart({ label: name, lines, told }).node;
  };
  const used = resources(moments), cut = used.filter((name) => moments.some((one) => name in one.again.fragmentation || name in one.recorded.fragmentation));
  return [
    card("In use", h("p", { class: "muted" }, `Of what all nodes offer${ofAll(namespace)}.`), h("div", { class: "charts" }, used.map(chart("use", 100)))),
    cut.length ? card("Fragmentation", h("p", { class: "muted" }, `Of what is free, the share on nodes where a pod that asks for it does not fit${ofAll(namespace)}.`), h("div", { class: "charts" }, cut.map(chart("fragmentation", 1)))) : null,
  ];
}

const ofAll = (namespace) => (namespace ? ", by pods of all namespaces" : "");
const resources = (moments) => [...new Set(moments.flatMap((one) => ["recorded", "again"].flatMap((side) => Object.entries(one[side].use).filter(([, value]) => value).map(([name]) => name))))].slice(0, 8);

function atTheEnd(report, beside) {
  const last = report.overTime.at(-1), other = beside?.report.mode === "rerun" ? beside.report.overTime.at(-1) : null;
  if (!last) return null;
  const figure = (of, side, kind, name, whole) => (of?.[side][kind][name] === undefined ? "–" : share(of[side][kind][name] / whole));
  const row = (title, kind, name, whole) => h("tr", {}, h("th", { scope: "row" }, title), h("td", { class: "right" }, figure(last, "recorded", kind, name, whole)), other ? h("td", { class: "right" }, figure(other, "again", kind, name, whole)) : null, h("td", { class: "right" }, figure(last, "again", kind, name, whole)));
  const names = resources(report.overTime);
  return card("At the end", scrolls("At the end", h("table", { class: "plain" }, heads(...["", "#record", other ? "#beside" : null, other ? "#here" : "#rerun"].filter((one) => one !== null)),
    h("tbody", {}, names.map((name) => row(`${name} in use`, "use", name, 100)), names.filter((name) => name in last.again.fragmentation || name in last.recorded.fragmentation).map((name) => row(`free ${name} that pods do not fit on`, "fragmentation", name, 1))))));
}

// --- tables ---

// The first rows, and a button for all of them.
function few(rows, table, most = FEW) {
  const box = h("div", {}, table(rows.slice(0, most)));
  if (rows.length > most) box.append(h("button", { class: "button more", type: "button", onclick: () => replace(box, table(rows)) }, `Show all ${count(rows.length)}`));
  return box;
}

function groups(title, what, rows, mode) {
  if (!rows.length) return null;
  const told = Object.keys(words(mode)).filter((verdict) => verdict === "same" || rows.some((one) => one[verdict]));
  return card(title, few(rows, (some) => scrolls(title, h("table", { class: "plain" }, heads(what, ...told.map((verdict) => `#${verdict}`)),
    h("tbody", {}, some.map((one) => h("tr", {}, h("th", { scope: "row", class: "wrap" }, one[what]), told.map((verdict) => h("td", { class: "right" }, one[verdict] ? count(one[verdict]) : h("span", { class: "muted" }, "0"))))))))));
}

function reasons({ reasons: rows, mode }) {
  if (!rows.length) return null;
  return card("Why pods are refused, or were", few(rows, (some) => h("ul", { class: "whys" }, some.map((one) =>
    h("li", {}, h("b", { title: mode === "rerun" ? "pods" : "decisions" }, count(one.decisions)), h("span", {}, h("span", { class: `pill ${toneOf(one.verdict)}` }, words(mode)[one.verdict] ?? one.verdict)), h("span", { class: "wrap" }, one.message || "–"))))));
}

function unreplayable({ unreplayable: rows }) {
  if (!rows.length) return null;
  return card("Cannot be made again", scrolls("Cannot be made again", h("table", { class: "plain" }, heads("#decisions", "because", "for example"),
    h("tbody", {}, rows.map((one) => h("tr", {}, h("td", { class: "right" }, count(one.decisions)), h("td", { class: "wrap" }, LACKS[one.lack] ?? one.lack), h("td", { class: "wrap" }, one.examples.map((each) => [h("div", {}, podOf(each.pod)), h("div", { class: "muted" }, each.detail)]))))))));
}

function evictions({ evictions: rows, evictionCount }) {
  if (!rows.length) return null;
  return card(`Evicted for others: ${count(evictionCount)}`, few(rows, (some) => scrolls("Evicted for others", h("table", { class: "plain" }, heads("victim", "for"), h("tbody", {}, some.map((one) => h("tr", {}, h("td", { class: "wrap" }, podOf(one.victim)), h("td", { class: "wrap" }, podOf(one.preemptor)))))))));
}

function builds({ builds: rows }) {
  if (!rows.length) return null;
  return card("Who decided", scrolls("Who decided", h("table", { class: "plain" }, heads("build", "packages", "#decisions"),
    h("tbody", {}, rows.map((one) => h("tr", {}, h("td", { class: "wrap" }, one.build || "an earlier release"), h("td", { class: "wrap" }, Object.entries(one.packages).map(([name, version]) => `${name} ${version}`).join(", ") || "–"), h("td", { class: "right" }, count(one.decisions))))))));
}

// --- pods ---

function podOf(said) {
  const [namespace, name] = splitPod(said);
  return name ? h("a", { href: podLink(namespace, name) }, h("span", { class: "muted" }, `${namespace}/`), name) : said;
}

const nodeOf = (name) => (name ? h("a", { href: nodeLink(name) }, name) : h("span", { class: "muted" }, "no node"));

function pods({ pods: rows, mode }) {
  if (!rows.length) return null;
  return card("Pods that differ most", h("p", { class: "muted" }, `${plural(rows.length, "pod")}, each with both explanations.`),
    few(rows, (some) => h("ul", { class: "differing" }, some.map((one) => h("li", {}, difference(mode === "rerun" ? lived(one) : one, mode))))));
}

// A pod of a rerun in the form of one of a shadow: nothing is scored of the rerun but the total.
function lived(one) {
  const said = (node, total, message, scores) => ({ node, total, message, scores, rejectors: [], victims: [], nominatedNode: "", domain: "" });
  return { ...one, differs: [], recorded: said(one.recorded, one.recordedTotal, one.recordedMessage, one.recordedScores), again: said(one.again, one.againTotal, one.evicted ? `evicted for another pod. ${one.message}` : one.message, {}) };
}

function difference(one, mode) {
  const where = (said) => [said.node || "no node", said.total === null ? null : h("span", { class: "muted" }, ` ${count(said.total)}`)];
  const details = h("details", {}, h("summary", {}, h("span", { class: "wrap name" }, one.pod), h("span", { class: `pill ${toneOf(one.verdict)}` }, words(mode)[one.verdict] ?? one.verdict), h("span", { class: "wrap" }, where(one.recorded), " → ", where(one.again))));
  // Made when it is opened: most never are.
  details.addEventListener("toggle", () => { if (details.open && details.children.length === 1) details.append(explained(one, mode)); });
  return details;
}

function explained(one, mode) {
  const names = [...new Set([...Object.keys(one.recorded.scores), ...Object.keys(one.again.scores)])];
  const side = (title, said, other) => h("div", {}, h("h3", {}, title), h("table", { class: "plain" }, h("tbody", {},
    fact("node", nodeOf(said.node)), said.total === null ? null : fact("total", count(said.total), other.total === null || mode === "rerun" ? null : said.total - other.total),
    names.filter((name) => name in said.scores).map((name) => fact(name, count(said.scores[name]), name in other.scores ? said.scores[name] - other.scores[name] : null)),
    said.message ? fact("message", said.message) : null, said.rejectors.length ? fact("refused by", said.rejectors.join(", ")) : null, said.nominatedNode ? fact("nominated to", nodeOf(said.nominatedNode)) : null,
    said.victims.length ? fact("victims", said.victims.map((pod) => h("div", {}, podOf(pod)))) : null, said.domain ? fact("domain", said.domain) : null)));
  return h("div", { class: "inside" }, h("p", {}, h("a", { href: podLink(...splitPod(one.pod)) }, "The pod, with its attempts"), one.differs.length ? h("span", { class: "muted" }, `  ${one.differs.join(", ")} differ`) : null),
    h("div", { class: "compare" }, side("Recorded", one.recorded, one.again), side(mode === "rerun" ? "Rerun" : "Again", one.again, one.recorded)),
    one.workflowId ? h("p", { class: "muted wrap" }, `Revision ${count(one.revision)}, profile ${one.profile}, run ${one.runId} of ${one.workflowId}`) : null);
}

function fact(name, value, delta = null) {
  return h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "wrap" }, value, delta ? h("span", { class: "muted" }, `  ${delta > 0 ? "+" : ""}${count(delta)}`) : null));
}

function facts(found) {
  const { report } = found;
  const told = { made: day(found.made), since: report.since ? day(report.since) : null, until: report.since ? (report.until ? day(report.until) : "when it was made") : null, archive: found.archive, cluster: found.cluster, build: found.build, runs: count(report.runs), took: age(report.seconds), "state listed at revision": report.revision ? count(report.revision) : null, gaps: report.gaps.length ? report.gaps.map((gap) => `${count(gap.after)} to ${count(gap.before)}${gap.restored ? ", etcd was restored" : ""}`).join("; ") : null, "runs that the archive lacks": report.lost ? count(report.lost) : null };
  return card("How it was made", h("dl", { class: "facts" }, Object.entries(told).filter(([, value]) => value).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    found.command ? h("p", { class: "note" }, h("code", { class: "wrap" }, found.command)) : null);
}
