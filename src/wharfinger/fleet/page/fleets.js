// Fleets: slots and their instances, what the actor does, what happened with who and why, and what would happen next.

import { h, replace } from "../../page/assets/dom.js";
import { act } from "../../page/assets/acting.js";
import { get, paced, refreshed, session } from "../../page/assets/live.js";
import { ago, clock, count, plural, rate, seconds } from "../../page/assets/format.js";
import { stacked } from "../../page/assets/charts.js";
import { crumbs } from "../../page/assets/app.js";
import { workerTone } from "../../scheduling/page/overview.js";

const PHASES = { ready: "t-good", starting: "t-wait", granted: "t-queued", draining: "t-held", withdrawn: "t-gone", ended: "t-gone", crashed: "t-bad", revoked: "t-gone", unknown: "t-bad" };
const ROLLOUTS = { Completed: "t-good", Running: "t-accent", Paused: "t-wait", CanaryWaiting: "t-wait", Failed: "t-bad", RolledBack: "t-bad" };
const EFFECTS = {
  pause: "Updating stops until the fleet is resumed. Instances that crash come back all the same.",
  resume: "Updating goes on. After a rollout that stopped by itself, its deadline and the count of failed slots begin anew.",
  promote: "The open rollout goes on from its canary to the other slots.",
  abort: "The open rollout ends where it stands: what is updated stays updated.",
  undo: "The template that was completed last is wanted again; where it is wanted already, the one before. A rollout to it begins.",
};
const OUTCOMES = { completed: "t-good", failed: "t-bad", "rolled back": "t-bad", superseded: "t-gone", aborted: "t-gone" };

export function open({ node }) {
  crumbs("Fleets");
  const body = h("div", { class: "grid" });
  const plans = new Map();
  replace(node, h("h1", { class: "visually-hidden" }, "Fleets"), body);
  const said = h("p", { role: "status" }), when = h("p", { class: "note problem", hidden: true });
  body.before(said, when);
  let drawn = "", allowed = false;
  const acting = (tenant) => (verb) => act({ title: `${named(verb)} the rollout of ${tenant}`, effect: EFFECTS[verb], name: tenant, path: `/api/v1/fleets/${encodeURIComponent(tenant)}/actions/${verb}`, done(sentence) { said.className = "done"; replace(said, sentence); drawn = ""; soon(); } });
  const known = paced(async () => { allowed = (await session()).actions; drawn = ""; soon(); });
  const ask = async () => {
    const [{ asOf, current, fleets }, now] = await Promise.all([get("/api/v1/fleets"), get("/api/v1/overview")]);
    when.hidden = current !== false;
    when.textContent = `etcd does not answer now: this is how it was at ${clock(asOf)}.`;
    const named = new Set(fleets.map((one) => one.tenant));
    const byHand = now.workers.filter((one) => !named.has(one.tenant));
    const key = JSON.stringify([fleets, byHand, [...plans]]);
    if (key === drawn || body.contains(document.activeElement) && document.activeElement.tagName === "SUMMARY") return;
    drawn = key;
    replace(body, fleets.map((one) => fleet(one, plans, askPlan, allowed ? acting(one.tenant) : null)), byHand.length ? hands(byHand) : null, !fleets.length && !byHand.length ? h("p", { class: "empty" }, "There is no fleet, and no worker is registered: nothing is placed.") : null);
  };
  const askPlan = async (tenant) => {
    plans.set(tenant, { steps: [], note: "Planning" });
    try { plans.set(tenant, await get(`/api/v1/fleets/${encodeURIComponent(tenant)}/plan`)); } catch (error) { plans.set(tenant, { steps: null, note: error.message }); }
    soon();
  };
  const soon = paced(ask);
  known();
  return refreshed(soon, 2000, ["fleets", "overview"], ["fleets"]);
}

const named = (verb) => `${verb[0].toUpperCase()}${verb.slice(1)}`;

function fleet(one, plans, askPlan, acting) {
  const planned = plans.get(one.tenant);
  const head = ["slot", "state", "host", "runs", "should run", "waits for"].map((name) => h("th", {}, name));
  const missing = Math.max(0, one.replicas - one.ready);
  return h("section", { class: "card" },
    h("div", { class: "head" }, h("h1", { style: { fontSize: "16px" } }, one.tenant), h("span", { class: `pill ${ROLLOUTS[one.rollout] ?? "t-gone"}` }, one.rollout === "-" ? "no rollout" : one.rollout), one.deleting ? h("span", { class: "pill t-bad" }, "deleting") : null, h("span", { class: "grow" }),
      h("span", { class: "muted" }, `template ${count(one.revision || null)}${one.completed && one.completed !== one.revision ? `, ${one.completed} was completed last` : ""}`)),
    h("div", { class: "figures" }, h("span", { class: "figure" }, `${count(one.ready)} of ${count(one.replicas)}`, h("small", {}, " ready")), h("span", { class: "muted" }, `${count(one.updated)} updated, ${count(one.outdated)} outdated`)),
    stacked([{ name: "updated", value: Math.min(one.updated, one.ready), tone: "t-good" }, { name: "ready, outdated", value: Math.max(0, one.ready - one.updated), tone: "t-accent" }, { name: "not ready", value: missing, tone: "t-wait" }], `Slots of ${one.tenant}`),
    one.paused && one.lastChange?.who ? h("p", { class: "section" }, `Paused. The last change was by ${one.lastChange.who}${one.lastChange.why ? `: ${one.lastChange.why}` : ""}.`) : null,
    acting && one.verbs.length ? h("div", { class: "chips section" }, one.verbs.map((verb) => h("button", { class: "button", type: "button", title: EFFECTS[verb], onclick: () => acting(verb) }, named(verb)))) : null,
    one.phase ? h("p", { class: "section" }, one.phase) : null,
    [...one.waiting, ...one.hints].map((said) => h("p", { class: "muted", style: { marginTop: "5px" } }, said)),
    h("div", { class: "scrolls section", tabindex: "0", role: "region", "aria-label": `Slots of ${one.tenant}` }, h("table", { class: "plain" },
      h("thead", {}, h("tr", {}, head, ["attempts/s", "decision", "in flight", "active"].map((name) => h("th", { class: "right" }, name)))),
      h("tbody", {}, one.slots.map((slot) => h("tr", {},
        h("td", { class: "nowrap" }, String(slot.slot), h("span", { class: "muted" }, ` #${slot.incarnation}`)),
        h("td", {}, h("span", { class: `pill ${PHASES[slot.phase] ?? "t-gone"}` }, slot.phase), slot.unproven ? h("span", { class: "muted" }, " observed") : null),
        h("td", { class: "host" }, slot.host ?? "–"), h("td", {}, slot.revision ?? "–"), h("td", {}, slot.assignedRevision ?? "–"),
        h("td", { class: "muted waits" }, [slot.waitingFor, slot.crashes ? plural(slot.crashes, "crash", "crashes") : null, ...Object.entries(slot.problems).map(([kind, said]) => `${kind}: ${said}`), slot.exit ? Object.values(slot.exit).join(" ") : null].filter(Boolean).join("; ")),
        figures(slot.metrics)))))),
    h("div", { class: "grid halves section" },
      h("div", {}, h("h2", {}, "What happened"), one.history.length ? h("ul", { class: "reasons" }, one.history.map((past) => h("li", { style: { padding: "7px 0" } },
        h("b", {}, `template ${past.revision} `), past.outcome ? h("span", { class: `pill ${OUTCOMES[past.outcome] ?? "t-gone"}` }, past.outcome) : h("span", { class: "pill t-accent" }, past.wanted ? "wanted" : "open"),
        h("div", { class: "muted wrap" }, [past.who ? `${past.who}, ${ago(past.time)}` : ago(past.time), past.why, past.outcomeWhy].filter(Boolean).join(" · "))))) : h("p", { class: "muted" }, "Nothing yet."),
        one.changes.length ? h("div", { class: "section" }, h("h3", {}, "Changes of the fleet's object"), h("ul", { class: "reasons" }, one.changes.map((past) => h("li", { style: { padding: "5px 0" } }, h("b", {}, past.what), h("div", { class: "muted wrap" }, [past.who, past.why, `revision ${count(past.revision)}`].filter(Boolean).join(" · ")))))) : null),
      h("div", {}, h("h2", {}, "What would happen next"), planned
        ? [planned.note ? h("p", { class: "muted" }, planned.note) : null, planned.steps?.length ? h("ol", { class: "steps-list", style: { marginTop: "6px" } }, planned.steps.map((step) => [h("span", { class: "right muted" }, `${seconds(step.atLeastSeconds)}`), h("span", {}), h("span", { class: "wrap" }, step.what)])) : planned.steps && !planned.note ? h("p", { class: "muted" }, "Nothing: the fleet is as it should be.") : null]
        : h("button", { class: "button", type: "button", style: { marginTop: "7px" }, onclick: () => askPlan(one.tenant) }, "Plan it"))));
}

const figures = (metrics) => {
  const cell = (value) => h("td", { class: "right nowrap" }, value);
  return metrics.problem === null ? [cell(rate(metrics.attemptsPerSecond)), cell(seconds(metrics.decisionSeconds)), cell(count(metrics.inFlight)), cell(count(metrics.active))] : [cell("–"), cell("–"), cell("–"), cell("–")];
};

function hands(workers) {
  return h("section", { class: "card" }, h("header", {}, h("h2", { class: "grow" }, "Workers of no fleet, started by hand")),
    h("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": "Workers of no fleet" }, h("table", { class: "plain" },
      h("thead", {}, h("tr", {}, ["worker", "state", "host", "serves"].map((name) => h("th", {}, name)), ["attempts/s", "decision", "in flight", "active"].map((name) => h("th", { class: "right" }, name)))),
      h("tbody", {}, workers.map((one) => h("tr", {}, h("td", { class: "nowrap" }, `${one.tenant}/${one.slot}`, h("span", { class: "muted" }, ` #${one.incarnation}`)),
        h("td", {}, h("span", { class: `pill ${workerTone(one.state)}` }, one.state), one.waitingFor ? h("div", { class: "muted waits" }, one.waitingFor) : null), h("td", { class: "host" }, `${one.host}`, h("span", { class: "muted" }, ` pid ${one.pid}`)), h("td", { class: "wrap" }, one.schedulers.join(", ")), figures(one.metrics)))))));
}
