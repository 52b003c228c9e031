// Every alert of the operations guide, quiet ones too.

import { h, replace } from "../dom.js";
import { get } from "../live.js";
import { crumbs, link } from "../app.js";

const TONES = { firing: "t-bad", quiet: "t-good", unknown: "t-gone" };

export function open({ node }) {
  crumbs(h("a", { href: link("/") }, "Overview"), "Alerts");
  const body = h("tbody", {});
  replace(node, h("h1", {}, "Alerts"), h("p", { class: "muted", style: { margin: "4px 0 14px" } }, "The alerts of the operations guide, evaluated on what this page sees in etcd and on the metrics of the workers."),
    h("div", { class: "card scrolls", tabindex: "0", role: "region", "aria-label": "Alerts" }, h("table", { class: "plain" }, h("thead", {}, h("tr", {}, ["alert", "state", "means", "found"].map((name) => h("th", {}, name)))), body)));
  const show = ({ alerts }) => replace(body, alerts.map((one) => h("tr", {},
    h("td", { class: "nowrap" }, one.link ? h("a", { href: link(one.link) }, one.name) : one.name),
    h("td", {}, h("span", { class: `pill ${TONES[one.state]}` }, one.state)), h("td", {}, one.means), h("td", { class: "wrap" }, one.value))));
  const ask = () => get("/api/v1/alerts").then(show);
  ask();
  const timer = setInterval(ask, 5000);
  return { topics: ["overview"], heard(name) { if (name === "resync") ask(); }, close() { clearInterval(timer); } };
}
