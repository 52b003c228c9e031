// One staged update run: what it waits for now, its stages with their clusters, and what happened.

import { h, icon, replace } from "../../page/assets/dom.js";
import { act } from "../../page/assets/acting.js";
import { get, paced, passing, refreshed, session } from "../../page/assets/live.js";
import { age, ago, count, day, plural } from "../../page/assets/format.js";
import { stacked } from "../../page/assets/charts.js";
import { crumbs, link } from "../../page/assets/app.js";

export const PHASES = { running: "t-accent", waiting: "t-wait", paused: "t-bad", stopping: "t-wait", stopped: "t-gone", "rolling back": "t-bad", queued: "t-queued", planning: "t-queued", planned: "t-queued", succeeded: "t-good", failed: "t-bad", aborted: "t-bad", superseded: "t-gone", gone: "t-gone" };
const STAGES = { ended: "t-good", started: "t-accent", "not started": "t-queued", "rolling back": "t-bad", "rolled back": "t-gone" };
const MEMBERS = { updated: "t-good", removed: "t-good", updating: "t-accent", removing: "t-accent", failed: "t-bad", skipped: "t-gone", waiting: "t-queued", "waits for the rollback": "t-queued", "rolling back": "t-bad", "rolled back": "t-gone", "rollback failed": "t-bad" };

const UNMATCHED = "wharfinger.dev/unmatched"; // the stage of clusters that no stage of the strategy selects

export const runLink = (run) => link(run.namespace ? `/runs/${encodeURIComponent(run.namespace)}/${encodeURIComponent(run.run)}` : `/runs/${encodeURIComponent(run.run)}`);

export function open({ node, names }) {
  const name = names.name, namespace = names.namespace ?? "";
  const query = namespace ? `?namespace=${encodeURIComponent(namespace)}` : "";
  const path = `/api/v1/update-runs/${encodeURIComponent(name)}`;
  const title = namespace ? `${namespace}/${name}` : name;
  crumbs(h("a", { href: link("/placements") }, "Placements"), `run ${title}`);
  const head = h("div", {}), said = h("p", { role: "status" }), body = h("div", {});
  replace(node, head, said, body);
  let allowed = false, drawn = "";
  const doing = (one) => act({
    title: titleOf(one, name), name, path: `${path}/${one.verb}${query}`, effect: one.effect, fixed: one.verb === "approve" ? { stage: one.stage, when: one.when } : {},
    done(sentence) { said.className = "done"; replace(said, sentence); drawn = ""; soon(); },
  });
  const ask = async () => {
    try {
      const found = await get(path, namespace ? { namespace } : {});
      // While something inside has the focus, seconds that run down are no reason to draw anew.
      const key = JSON.stringify([found, allowed], (name, value) => (name === "leftSeconds" && body.contains(document.activeElement) ? null : value));
      if (key === drawn) return;
      drawn = key;
      replace(head, headOf(found, title));
      replace(body, waitsOf(found, allowed ? doing : null), stagesOf(found), historyOf(found));
    } catch (error) {
      if (passing(error)) throw error;
      drawn = "";
      replace(head, h("div", { class: "head" }, h("h1", {}, title)));
      replace(body, h("p", { class: "problem", role: "alert" }, error.message));
    }
  };
  const soon = paced(ask), known = paced(async () => { allowed = (await session()).actions; soon(); });
  known();
  return refreshed(soon, 2000, ["placements", "overview"], ["placements"]);
}

function headOf(found, title) {
  return h("div", { class: "head" }, h("h1", {}, title), h("span", { class: `pill ${PHASES[found.phase] ?? "t-gone"}` }, found.phase),
    found.state !== "Run" && !found.outcome && !["stopped", "planned"].includes(found.phase) ? h("span", { class: "pill t-wait" }, found.state === "Stop" ? "stopped by its state" : "planned only") : null,
    found.retries ? h("span", { class: "pill t-gone" }, plural(found.retries, "retry", "retries")) : null,
    h("span", { class: "grow" }), found.link ? h("a", { class: "button", href: found.link, target: "_blank", rel: "noopener noreferrer" }, icon("out", 15), "Run in Temporal") : null);
}

const WORDS = { approve: "Approve", stop: "Stop", resume: "Resume", retry: "Retry" };
const titleOf = (one, name) => (one.verb === "approve" ? `Approve ${one.key}` : `${WORDS[one.verb]} run ${name}`);

// What may be done with the whole run; approvals stand beside what waits for them.
function buttonsOf(found, doing) {
  const whole = doing ? found.actions.filter((one) => one.verb !== "approve") : [];
  if (!whole.length) return null;
  return h("div", { class: "chips section" }, whole.map((one) => h("button", { class: `button ${one.verb === "stop" ? "" : "primary"}`, type: "button", title: one.effect, onclick: () => doing(one) }, `${WORDS[one.verb]} the run`)));
}

function waitsOf(found, doing) {
  const approvals = new Map((doing ? found.actions : []).filter((one) => one.verb === "approve").map((one) => [one.key, () => doing(one)]));
  const members = found.stages.flatMap((stage) => stage.members);
  const done = members.filter((one) => one.state === "updated").length, failed = members.filter((one) => one.state.includes("failed")).length, moving = members.filter((one) => one.state === "updating").length;
  const facts = [["Delivers", h("a", { href: link(`/placements/${encodeURIComponent(found.placement)}`) }, found.placement)], ["Snapshot", found.snapshot ? count(found.snapshot) : "a new one"], ["Strategy", found.strategy], ["State", found.state], ["Delivers now", found.delivers ? "yes" : "no"]];
  return h("section", { class: "card" },
    h("dl", { class: "facts" }, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    members.length ? h("div", { class: "section" }, stacked([{ name: "updated", value: done, tone: "t-good" }, { name: "updating", value: moving, tone: "t-accent" }, { name: "failed", value: failed, tone: "t-bad" }, { name: "to come", value: members.length - done - moving - failed, tone: "t-queued" }], "Clusters of this run"),
      h("div", { class: "legend" }, h("span", { class: "key t-good" }, `${count(done)} updated`), h("span", { class: "key t-accent" }, `${count(moving)} updating`), failed ? h("span", { class: "key t-bad" }, `${count(failed)} failed`) : null, h("span", { class: "key t-queued" }, `${count(members.length - done - moving - failed)} to come`))) : null,
    found.rollback ? h("p", { class: "problem section" }, `It rolls back because of ${found.rollback}`) : null,
    found.outcome ? h("p", { class: "section" }, found.why ? `Ended as ${found.outcome}: ${found.why}` : `Ended as ${found.outcome}.`)
      : h("div", { class: "section" }, h("h2", {}, "Waits for"), found.waits.length
        ? h("ul", { class: "reasons" }, found.waits.map((wait) => waitOf(wait, approvals.get(wait.kind === "approval" ? wait.key : ""))), found.moreWaits ? h("li", { class: "muted" }, `and ${count(found.moreWaits)} more`) : null)
        : h("p", { class: "muted" }, "Nothing: it goes on.")),
    found.note ? h("p", { class: "problem section" }, found.note) : null,
    found.unmatched.length && !found.stages.some((stage) => stage.stage === UNMATCHED) ? h("p", { class: "muted section" }, `In no stage: ${found.unmatched.join(", ")}`) : null,
    buttonsOf(found, doing));
}

function waitOf(wait, approve) {
  const left = wait.kind === "time" ? (wait.leftSeconds > 0 ? `, about ${age(wait.leftSeconds)} are left` : ", whose end is due") : "";
  const more = [wait.since ? `for at least ${ago(wait.since).replace(" ago", "")}, since ${day(wait.since)}` : null, wait.deadlineSeconds ? `it has ${age(wait.deadlineSeconds)} in all` : null].filter(Boolean);
  return h("li", { style: { padding: "8px 0" } },
    h("div", { class: "chips", style: { alignItems: "center" } }, h("span", { class: `pill ${wait.kind === "approval" || wait.kind === "pause" ? "t-wait" : wait.kind === "cluster" ? "t-accent" : "t-queued"}` }, wait.kind),
      h("span", { class: "wrap grow" }, `${wait.sentence}${left}`),
      approve ? h("button", { class: "button primary", type: "button", onclick: approve }, `Approve ${wait.key}`) : null),
    more.length ? h("div", { class: "muted", style: { marginTop: "3px" } }, more.join("; ")) : null);
}

function stagesOf(found) {
  return found.stages.map((stage, index) => h("section", { class: "card section" },
    h("header", {}, h("h2", { class: "grow" }, `${index + 1}. ${stage.stage}`), h("span", { class: `pill ${STAGES[stage.state] ?? "t-gone"}` }, stage.state)),
    h("p", { class: "muted" }, tasksOf(stage)),
    stage.approvals.map((one) => h("p", { class: "muted wrap" }, `${one.approval} was approved${one.who ? ` by ${one.who}` : ""}, ${ago(one.time)}${one.why ? `: ${one.why}` : ""}`)),
    clusters(stage.members, `Clusters of stage ${stage.stage}`)))
    .concat(found.removed.length ? [h("section", { class: "card section" }, h("header", {}, h("h2", {}, "Removal")), h("p", { class: "muted" }, "Clusters that are not chosen any more, cleared after the last stage."), clusters(found.removed, "Clusters that it is removed from"))] : []);
}

function tasksOf(stage) {
  const parts = [stage.maxConcurrency ? `${count(stage.maxConcurrency)} at a time` : null, stage.failures ? `${plural(stage.failures, "failure")} allowed, then ${stage.onFailure}` : stage.onFailure ? `on a failure: ${stage.onFailure}` : null,
    stage.deadlineSeconds ? `each within ${age(stage.deadlineSeconds)}` : null, stage.before.length ? `before: ${stage.before.join(", ")}` : null, stage.after.length ? `after: ${stage.after.join(", ")}` : null];
  return parts.filter(Boolean).join(" · ");
}

function clusters(members, label) {
  if (!members.length) return h("p", { class: "empty" }, "No cluster.");
  return h("div", { class: "scrolls section", tabindex: "0", role: "region", "aria-label": label }, h("table", { class: "plain" },
    h("thead", {}, h("tr", {}, ["cluster", "state", "had", "why"].map((name) => h("th", {}, name)))),
    h("tbody", {}, members.map((one) => h("tr", {},
      h("td", {}, one.online === undefined || one.online === null ? one.cluster : h("span", { class: `state ${one.online && !one.problem ? "good" : "bad"}` }, one.cluster)),
      h("td", {}, h("span", { class: `pill ${MEMBERS[one.state] ?? "t-gone"}` }, one.state)),
      h("td", { class: "muted" }, one.had === undefined ? "" : one.had ? `snapshot ${one.had}` : "nothing"),
      h("td", { class: "wrap" }, [one.why, one.problem].filter(Boolean).join("; ")))))));
}

function historyOf(found) {
  return h("section", { class: "card section" }, h("header", {}, h("h2", {}, "What happened")), found.history.length
    ? h("ul", { class: "reasons" }, found.history.map((one) => h("li", { style: { padding: "7px 0" } }, h("b", {}, one.what), h("div", { class: "muted wrap" }, [one.time ? `${ago(one.time)}, ${day(one.time)}` : null, one.who, one.why].filter(Boolean).join(" · ")))))
    : h("p", { class: "muted" }, "Nothing is recorded yet."));
}
