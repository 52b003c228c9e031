// Every alert, quiet ones too, what they are evaluated on, and those that Prometheus evaluates.

import { h, replace } from "../../page/assets/dom.js";
import { get, paced, passing, refreshed } from "../../page/assets/live.js";
import { count } from "../../page/assets/format.js";
import { crumbs, link } from "../../page/assets/app.js";

const TONES = { firing: "t-bad", quiet: "t-good", unknown: "t-wait", unused: "t-gone", notEvaluated: "t-gone" };
const WORDS = { notEvaluated: "Prometheus'", unused: "not in use" };

export function open({ node }) {
  crumbs(h("a", { href: link("/") }, "Overview"), "Alerts");
  const body = h("tbody", {}), sources = h("section", { class: "card section" });
  replace(node, h("h1", {}, "Alerts"), h("p", { class: "muted", style: { margin: "4px 0 14px" } }, "Alerts that are states are evaluated on what this page sees in etcd and on the metrics of workers, hubs and etcd. Those of rates are evaluated by Prometheus alone."),
    h("div", { class: "card scrolls", tabindex: "0", role: "region", "aria-label": "Alerts" }, h("table", { class: "plain" }, h("thead", {}, h("tr", {}, ["alert", "state", "means", "found"].map((name) => h("th", {}, name)))), body)), sources);
  const show = (found) => {
    replace(body, found.alerts.map((one) => h("tr", {},
      h("td", { class: "nowrap", title: one.expression || null }, one.link ? h("a", { href: link(one.link) }, one.name) : one.name),
      h("td", { class: "nowrap" }, h("span", { class: `pill ${one.state === "firing" && one.severity !== "critical" ? "t-wait" : TONES[one.state]}` }, WORDS[one.state] ?? one.state)), h("td", {}, one.means.replaceAll("`", "")), h("td", { class: "wrap" }, one.value))));
    replace(sources, h("header", {}, h("h2", {}, "What they are evaluated on")), ["workers", "hubs", "etcd"].map((name) => source(name, found.sources[name])), h("p", { class: "muted section" }, `${found.sources.agents[0].toUpperCase()}${found.sources.agents.slice(1)}.`));
  };
  const ask = () => get("/api/v1/alerts").then(show).catch((error) => {
    if (passing(error)) throw error;
    replace(sources, h("p", { class: "problem", role: "alert" }, error.message));
  });
  return refreshed(paced(ask), 5000, ["overview"], ["overview"]);
}

function source(name, one) {
  const wrong = [...one.problems.map((each) => `${each.address} ${each.problem}`), ...(one.unhealthy ?? []).map((each) => `${each.address} says ${each.says}`)];
  return h("div", { class: "section" }, h("p", {}, h("b", {}, `${name}: `), one.known ? `metrics of ${count(one.read)} of ${count(one.known)} are read` : "none is known"),
    wrong.map((said) => h("p", { class: "muted wrap" }, said)));
}
