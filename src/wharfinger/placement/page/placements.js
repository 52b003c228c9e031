// Placements: clusters by placements, with the state of each; update runs with what they wait for. One placement opens
// its verdicts, the plan of its rollout, and what happened.

import { h, replace } from "../../page/assets/dom.js";
import { get, paced, passing, refreshed } from "../../page/assets/live.js";
import { ago, count, plural } from "../../page/assets/format.js";
import { crumbs, link } from "../../page/assets/app.js";
import { PHASES, runLink } from "./run.js";

const STANDS = { available: ["t-good", "✓"], failed: ["t-bad", "✕"], applying: ["t-wait", "…"], leaving: ["t-gone", "–"], chosen: ["t-queued", "·"] };
const STATES = { fulfilled: "t-good", unfulfilled: "t-wait", undecided: "t-queued", deleting: "t-gone", unreadable: "t-bad" };
const placementLink = (reference) => link(`/placements/${encodeURIComponent(reference)}`);

export function open({ node, names, namespace }) {
  return names.reference ? one(node, names.reference) : all(node, namespace);
}

function all(node, namespace) {
  crumbs("Placements");
  const body = h("div", {});
  replace(node, h("h1", { class: "visually-hidden" }, "Placements"), body);
  const show = (found) => {
    if (!found.count) { replace(body, h("p", { class: "empty" }, "There is no placement here: this etcd is no hub's, or nothing is placed.")); return; }
    const members = found.members;
    replace(body, h("div", { class: "legend", style: { marginBottom: "12px" } }, Object.entries(STANDS).map(([word, [tone]]) => h("span", { class: `key ${tone}` }, word)), h("span", {}, `${plural(found.count, "placement")} on ${plural(members.length, "member")}`)),
      h("section", { class: "card scrolls", tabindex: "0", role: "region", "aria-label": "Clusters by placements" }, h("table", { class: "plain matrix" },
        h("thead", {}, h("tr", {}, h("th", {}, "placement"), h("th", {}, "state"), members.map((member) => h("th", { class: "member", title: member.name }, h("span", { class: `state ${member.reachable ? "good" : member.online ? "wait" : "bad"}` }, member.name))), h("th", {}, "why"))),
        h("tbody", {}, found.placements.map((row) => h("tr", {},
          h("td", { class: "nowrap" }, h("a", { href: placementLink(row.placement) }, row.placement), row.type ? h("span", { class: "muted" }, `  ${row.type}`) : null),
          h("td", {}, h("span", { class: `pill ${STATES[row.state]}` }, row.state)),
          members.map((member) => { const stands = row.on[member.name]; return h("td", {}, stands ? h("span", { class: `mark ${STANDS[stands][0]}`, title: `${member.name}: ${stands}${row.troubles[member.name] ? `, ${row.troubles[member.name]}` : ""}`, role: "img", "aria-label": stands }, STANDS[stands][1]) : null); }),
          h("td", { class: "wrap" }, Object.entries(row.troubles).map(([member, said]) => h("div", {}, `${member}: ${said}`)), row.state === "fulfilled" ? null : row.why)))))),
      found.runs.length ? runs(found.runs) : null);
  };
  return polled("/api/v1/placements", show, body, { namespace });
}

function runs(found) {
  return h("section", { class: "card section" }, h("header", {}, h("h2", {}, "Update runs")),
    h("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": "Update runs" }, h("table", { class: "plain" },
      h("thead", {}, h("tr", {}, ["run", "placement", "phase", "clusters", "waits for, or how it ended"].map((name) => h("th", {}, name)))),
      h("tbody", {}, found.map((run) => h("tr", {},
        h("td", {}, h("a", { href: runLink(run) }, run.namespace ? `${run.namespace}/${run.run}` : run.run)),
        h("td", {}, h("a", { href: placementLink(run.placement) }, run.placement)),
        h("td", {}, h("span", { class: `pill ${PHASES[run.phase] ?? "t-gone"}` }, run.phase)),
        h("td", { class: "nowrap" }, run.members ? `${count(run.membersDone)} of ${count(run.members)}` : "–"),
        h("td", { class: "wrap" }, run.why)))))));
}

function one(node, reference) {
  crumbs(h("a", { href: link("/placements") }, "Placements"), reference);
  const body = h("div", {}), past = h("div", {});
  replace(node, h("div", { class: "head" }, h("h1", {}, reference)), body);
  let read = null;
  const history = paced(async () => {
    let failed = null;
    try { read = await get(`/api/v1/placements/${encodeURIComponent(reference)}/history`); } catch (error) {
      failed = error;
      read = { snapshots: [], attempts: [], rollouts: [], ...read, note: error.message };
    }
    replace(past, happened(read));
    if (failed && passing(failed)) throw failed;
  });
  history();
  const show = (found) => replace(body,
    h("section", { class: "card" }, h("div", { class: "head", style: { margin: 0 } }, h("span", { class: `pill ${found.decided ? "t-good" : "t-wait"}` }, found.decided ? "fulfilled" : "unfulfilled"), delivered(found), found.behind ? h("span", { class: "pill t-wait" }, "changed since it was decided") : null, h("span", { class: "muted" }, found.snapshot ? `snapshot ${count(found.snapshot)}${found.pinned ? `, pinned to ${found.pinned}` : ""}` : "no snapshot yet")),
      found.message ? h("p", { class: "message", style: { marginTop: "8px" } }, found.message) : null,
      h("div", { class: "chips", style: { marginTop: "8px" } }, found.conditions.map((condition) => h("span", { class: `pill ${condition.status === "True" ? "t-good" : condition.status === "False" ? "t-wait" : "t-gone"}`, title: condition.message }, condition.reason)))),
    h("section", { class: "card scrolls section", tabindex: "0", role: "region", "aria-label": "Members" }, h("table", { class: "plain" }, h("thead", {}, h("tr", {}, ["member", "state", "why it is chosen, or not", "conditions"].map((name) => h("th", {}, name)))),
      h("tbody", {}, found.members.map((member) => h("tr", {}, h("td", {}, h("span", { class: `state ${member.online ? "good" : "bad"}` }, member.member)), h("td", { class: "wrap" }, member.state, member.message ? h("div", { class: "muted" }, member.message) : null), h("td", { class: "wrap" }, member.why), h("td", {}, member.conditions.map((condition) => condition.reason).join(", ")))),
        found.notChosen.map((member) => h("tr", {}, h("td", {}, member.member), h("td", { class: "muted" }, "not chosen"), h("td", { class: "wrap", colspan: "2" }, member.why)))))),
    h("div", { class: "grid halves section" }, h("section", { class: "card" }, follows(found)), h("section", { class: "card" }, past)));
  return polled(`/api/v1/placements/${encodeURIComponent(reference)}`, show, body);
}

// A placement that update runs deliver is settled for rolling updates, whatever a run has still to do.
function delivered({ plan, settled }) {
  if (plan.external && plan.ready < plan.target) return h("span", { class: "pill t-accent" }, `${count(plan.ready)} of ${count(plan.target)} delivered`);
  return h("span", { class: `pill ${settled ? "t-good" : "t-accent"}` }, settled ? "settled" : "rolling out");
}

const WORDS = { add: "place on", update: "update", strategy: "apply anew on", remove: "remove from", release: "release on" };

function follows({ placement, plan, run }) {
  const namespace = placement.startsWith("ns/") ? placement.split("/")[1] : null;
  const list = (words, names) => (names.length ? h("p", { class: "muted section wrap" }, `${words}: ${names.join(", ")}`) : null);
  return [h("header", {}, h("h2", {}, "What would happen next")),
    h("p", {}, `${count(plan.ready)} of ${count(plan.target)} ready${plan.external ? "" : `; at least ${count(plan.floor)}, at most ${count(plan.ceiling)} at any time`}.`),
    plan.trouble ? h("p", { class: "problem section" }, plan.trouble) : null,
    plan.external ? h("p", { class: "section" }, "Update runs deliver it", run ? [": ", h("a", { href: runLink({ run, namespace }) }, run)] : ": none has begun.") : null,
    plan.waves?.length ? h("ol", { class: "section" }, plan.waves.map((wave) => h("li", { class: "wrap" }, Object.entries(wave).map(([kind, names]) => `${WORDS[kind] ?? kind} ${names.join(", ")}`).join("; "))))
      : plan.waves ? h("p", { class: "muted section" }, plan.heldByBudget.length || plan.waiting.length || plan.away.length || plan.failed.length ? "Nothing can follow before what is named below has changed." : "Nothing: everything is where it shall be.") : null,
    list("The result is awaited of", plan.waiting), list("Without an agent", plan.away), list("Failed", plan.failed), list("Held by the budget", plan.heldByBudget), list("Would go on waiting", plan.waitsThen),
    plan.decidedAnew ? h("p", { class: "section wrap" }, `A new decision would change its members (${plan.decidedAnew.condition})${plan.decidedAnew.added.length ? `; + ${plan.decidedAnew.added.join(", ")}` : ""}${plan.decidedAnew.removed.length ? `; - ${plan.decidedAnew.removed.join(", ")}` : ""}`) : null];
}

function happened(found) {
  const runs = [...found.rollouts.map((one) => ({ ...one, kind: "rollout" })), ...found.attempts.map((one) => ({ ...one, kind: "decision" }))].sort((a, b) => (a.time < b.time ? 1 : -1));
  return [h("header", {}, h("h2", {}, "What happened")),
    found.note ? h("p", { class: "problem section" }, `Decisions and rollouts are not shown: ${found.note}`) : null,
    found.snapshots.length ? h("ul", { class: "reasons" }, found.snapshots.map((one) => h("li", { style: { padding: "7px 0" } }, h("b", {}, `snapshot ${one.number} `), one.pinned ? h("span", { class: "pill t-accent" }, "pinned") : one.wanted ? h("span", { class: "pill t-good" }, "wanted") : null,
      h("div", { class: "muted wrap" }, [one.time ? `taken ${ago(one.time)}` : null, plural(one.objects, "object"), one.members.length ? `on ${one.members.join(", ")}` : "on no cluster"].filter(Boolean).join(" · "))))) : null,
    runs.length ? h("ul", { class: "reasons" }, runs.map((one) => h("li", { style: { padding: "7px 0" } }, h("b", {}, `${one.kind} `), h("span", { class: `pill ${["fulfilled", "settled", "unchanged"].includes(one.outcome) ? "t-good" : one.outcome === "running" ? "t-accent" : "t-gone"}` }, one.outcome), h("div", { class: "muted wrap" }, [ago(one.time), one.why].filter(Boolean).join(" · "))))) : found.note ? null : h("p", { class: "muted" }, "Temporal keeps no run of it.")];
}

function polled(path, show, body, params = {}) {
  const ask = () => get(path, params).then(show).catch((error) => {
    if (passing(error)) throw error;
    replace(body, h("p", { class: "problem" }, error.message));
  });
  return refreshed(paced(ask), 3000, ["placements", "overview"], ["placements"]);
}
