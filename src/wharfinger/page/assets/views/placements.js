// Placements: clusters by placements, with the state of each; one placement opens its verdicts.

import { h, replace } from "../dom.js";
import { act } from "../acting.js";
import { get, session } from "../live.js";
import { count, plural } from "../format.js";
import { crumbs, link } from "../app.js";

const STANDS = { available: ["t-good", "✓"], failed: ["t-bad", "✕"], applying: ["t-wait", "…"], leaving: ["t-gone", "–"], chosen: ["t-queued", "·"] };
const STATES = { fulfilled: "t-good", unfulfilled: "t-wait", undecided: "t-queued", deleting: "t-gone", unreadable: "t-bad" };
const placementLink = (reference) => link(`/placements/${encodeURIComponent(reference)}`);

export function open({ node, names }) {
  return names.reference ? one(node, names.reference) : all(node);
}

function all(node) {
  crumbs("Placements");
  const body = h("div", {}), said = h("p", { role: "status", class: "muted" });
  let allowed = false;
  session().then((one) => { allowed = one.actions; }).catch(() => {});
  replace(node, h("h1", { class: "visually-hidden" }, "Placements"), said, body);
  const approve = (run) => act({ title: `Approve a stage of ${run.run}`, name: run.run, path: `/api/v1/update-runs/${encodeURIComponent(run.run)}/approve${run.namespace ? `?namespace=${encodeURIComponent(run.namespace)}` : ""}`, fields: [["stage", "Stage", ""], ["when", "It may", ["before", "after"]]], done(sentence) { replace(said, sentence); } });
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
      found.runs.length ? h("section", { class: "card section" }, h("header", {}, h("h2", {}, "Update runs")), h("div", { class: "chips" }, found.runs.map((run) => allowed ? h("button", { class: "button", type: "button", onclick: () => approve(run) }, `approve a stage of ${run.run}`) : h("span", { class: "chip" }, `${run.placement}: ${run.run}`)))) : null);
  };
  return polled("/api/v1/placements", show, body);
}

function one(node, reference) {
  crumbs(h("a", { href: link("/placements") }, "Placements"), reference);
  const body = h("div", {});
  replace(node, h("div", { class: "head" }, h("h1", {}, reference)), body);
  const show = (found) => replace(body,
    h("section", { class: "card" }, h("div", { class: "head", style: { margin: 0 } }, h("span", { class: `pill ${found.decided ? "t-good" : "t-wait"}` }, found.decided ? "fulfilled" : "unfulfilled"), h("span", { class: `pill ${found.settled ? "t-good" : "t-accent"}` }, found.settled ? "settled" : "rolling out"), found.behind ? h("span", { class: "pill t-wait" }, "changed since it was decided") : null, h("span", { class: "muted" }, found.snapshot ? `snapshot ${count(found.snapshot)}${found.pinned ? `, pinned to ${found.pinned}` : ""}` : "no snapshot yet")),
      found.message ? h("p", { class: "message", style: { marginTop: "8px" } }, found.message) : null,
      h("div", { class: "chips", style: { marginTop: "8px" } }, found.conditions.map((condition) => h("span", { class: `pill ${condition.status === "True" ? "t-good" : condition.status === "False" ? "t-wait" : "t-gone"}`, title: condition.message }, condition.reason)))),
    h("section", { class: "card scrolls section", tabindex: "0", role: "region", "aria-label": "Members" }, h("table", { class: "plain" }, h("thead", {}, h("tr", {}, ["member", "state", "why it is chosen, or not", "conditions"].map((name) => h("th", {}, name)))),
      h("tbody", {}, found.members.map((member) => h("tr", {}, h("td", {}, h("span", { class: `state ${member.online ? "good" : "bad"}` }, member.member)), h("td", { class: "wrap" }, member.state, member.message ? h("div", { class: "muted" }, member.message) : null), h("td", { class: "wrap" }, member.why), h("td", {}, member.conditions.map((condition) => condition.reason).join(", ")))),
        found.notChosen.map((member) => h("tr", {}, h("td", {}, member.member), h("td", { class: "muted" }, "not chosen"), h("td", { class: "wrap", colspan: "2" }, member.why)))))));
  return polled(`/api/v1/placements/${encodeURIComponent(reference)}`, show, body);
}

function polled(path, show, body) {
  const ask = () => get(path).then(show).catch((error) => replace(body, h("p", { class: "problem" }, error.message)));
  ask();
  const again = setInterval(() => { if (!document.hidden) ask(); }, 3000);
  return { topics: ["overview"], heard(what) { if (what === "resync") ask(); }, close() { clearInterval(again); } };
}
