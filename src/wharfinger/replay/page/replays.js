// Reports of replay: what the past would have looked like under a change, the newest first.

import { h, replace } from "../../page/assets/dom.js";
import { get, paced, passing, refreshed } from "../../page/assets/live.js";
import { ago, count, day, plural } from "../../page/assets/format.js";
import { crumbs } from "../../page/assets/app.js";
import { changeOf, replayLink, share, toneOf, verdictBar } from "./replay_parts.js";

export function open({ node, namespace }) {
  crumbs("Replays");
  const body = h("div", {});
  let drawn = "";
  replace(node, h("h1", { class: "visually-hidden" }, "Replays"), body);
  const ask = paced(async () => {
    try {
      const found = await get("/api/v1/replays", { namespace });
      const now = JSON.stringify(found);
      if (now === drawn) return;
      drawn = now;
      replace(body, shown(found));
    } catch (error) {
      if (passing(error)) throw error;
      drawn = "";
      replace(body, h("p", { class: "problem" }, error.message));
    }
  });
  return refreshed(ask, 5000, ["overview"]);
}

// How a report gets here; also where there is none yet.
function how(folder) {
  if (folder === null) return h("p", { class: "muted" }, "This page was started without a folder of reports. Start it with ", h("code", {}, "wharfinger ui --replays-dir DIR"), ", and keep reports there with ", h("code", {}, "wharfinger replay --keep-in DIR"), ".");
  return h("p", { class: "muted" }, "Recorded decisions, made again under a change: ", h("code", { class: "wrap" }, `wharfinger replay --since 24h --set PLUGIN.weight=N --keep-in ${quoted(folder)}`), ". With ", h("code", {}, "--mode rerun"), " consequences accumulate.");
}

const quoted = (path) => (/^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`);

function shown(found) {
  const left = found.omitted ? h("p", { class: "muted", style: { marginTop: "9px" } }, `${plural(found.omitted, "older report")} not listed`) : null;
  if (found.problem) return [h("p", { class: "problem" }, found.problem)];
  if (!found.replays.length) return h("div", { class: "card" }, h("p", { class: "empty" }, "No replay is kept here."), how(found.folder));
  const columns = ["when", "change", "mode", "decisions", "verdicts", "the same", "newly refused", "newly placed", "packing"];
  const right = ["decisions", "the same", "newly refused", "newly placed", "packing"];
  return [h("section", { class: "card scrolls", tabindex: "0", role: "region", "aria-label": "Reports of replay" },
    h("table", { class: "plain replays" },
      h("thead", {}, h("tr", {}, columns.map((name) => h("th", { class: right.includes(name) ? "right" : null }, name)))),
      h("tbody", {}, found.replays.map(row)))), left, h("div", { class: "section" }, how(found.folder))];
}

function row(one) {
  if (one.problem) return h("tr", {}, h("td", { class: "nowrap muted", title: day(one.modified) }, ago(one.modified)), h("td", { colspan: "8", class: "wrap" }, h("span", {}, one.name), h("span", { class: "muted" }, `: ${one.problem}`)));
  const { summary, packing } = one;
  const number = (verdict, label) => h("td", { class: "right", "data-label": label }, summary[verdict] ? h("b", { class: `told ${toneOf(verdict)}` }, count(summary[verdict])) : h("span", { class: "muted" }, "0"));
  return h("tr", {},
    h("td", { class: "nowrap", title: day(one.made) }, h("a", { href: replayLink(one.name) }, ago(one.made)), h("div", { class: "muted" }, day(one.made))),
    h("td", { class: "wrap" }, h("a", { href: replayLink(one.name), class: one.change.length ? "" : "muted" }, changeOf(one.change)), one.archive ? h("div", { class: "muted" }, `archive ${one.archive}`) : null),
    h("td", {}, h("span", { class: `pill ${one.mode === "rerun" ? "t-held" : "t-accent"}` }, one.mode)),
    h("td", { class: "right", "data-label": "decisions" }, count(one.decisions)),
    h("td", { class: "bar" }, verdictBar(summary, one.mode, "Verdicts")),
    h("td", { class: "right nowrap", "data-label": "the same" }, share(one.sameShare)),
    number("refused", "newly refused"), number("placed", "newly placed"),
    h("td", { class: "right nowrap", "data-label": "packing", title: one.mode === "rerun" ? "cpu in use at the end: in the record, and in the rerun" : "how full the chosen nodes are with the pod on them: recorded, and again" },
      packing.recorded === null && packing.again === null ? h("span", { class: "muted" }, "–") : `${share(packing.recorded)} → ${share(packing.again)}`));
}
