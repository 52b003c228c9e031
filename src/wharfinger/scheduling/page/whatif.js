// What if: the pod, nodes or weights are changed in thought, and it is decided twice. Nothing is changed.

import { h, icon, replace } from "../../page/assets/dom.js";
import { get, passing, post } from "../../page/assets/live.js";
import { elapsed } from "../../page/assets/elapsed.js";
import { amount, count, plural, requests } from "../../page/assets/format.js";
import { nodeLink, setParams } from "../../page/assets/app.js";
import { refusalBars } from "./pending.js";

export function whatIf({ base, pod }) {
  const node = h("div", {}), result = h("div", { class: "result" });
  const form = { requests: [], labels: [], selector: [], tolerations: [], nodes: [], weights: [] };
  const box = h("form", { class: "card form", onsubmit: (event) => { event.preventDefault(); decide(); } });
  const button = h("button", { class: "button primary", type: "submit" }, "Decide again");
  replace(node, h("div", { class: "split" }, box, result));
  let ready = false, closed = false, timer = 0;

  const field = (props) => h("input", { type: "text", autocomplete: "off", spellcheck: "false", maxlength: "317", ...props });
  const remove = (list, one) => h("button", { class: "button quiet", type: "button", "aria-label": "Take this line away", onclick: () => { list.splice(list.indexOf(one), 1); draw(); } }, icon("close", 15));
  const more = (words, list, made) => h("div", {}, h("button", { class: "button quiet", type: "button", onclick: () => { list.push(made()); draw(); box.querySelector("[data-new]")?.focus(); } }, `+ ${words}`));
  const pair = (list, one, [left, right]) => h("div", { class: "pairs" }, field({ value: one.key, placeholder: left, "aria-label": left, oninput: (event) => { one.key = event.target.value; } }), field({ value: one.value, placeholder: right, "aria-label": right, oninput: (event) => { one.value = event.target.value; } }), remove(list, one));
  const effects = (one, any) => h("select", { "aria-label": "Effect", onchange: (event) => { one.effect = event.target.value; } }, [...(any ? [["", "any effect"]] : []), ["NoSchedule"], ["PreferNoSchedule"], ["NoExecute"]].map(([value, words]) => h("option", { value, selected: value === one.effect }, words ?? value)));

  function draw() {
    const now = pod();
    if (!now) { replace(box, h("p", { class: "muted" }, "The pod is not there: nothing can be decided for it.")); return; }
    replace(box,
      h("p", { class: "muted" }, "Suppose any of this, and see what would be decided on the present state. Nothing is changed."),
      h("fieldset", {}, h("legend", {}, "It asks for"), form.requests.map((one) => pair(form.requests, one, ["resource", "quantity, 0 for none"])), more("another resource", form.requests, () => ({ key: "", value: "" }))),
      h("fieldset", {}, h("legend", {}, "Its node selector"), form.selector.map((one) => pair(form.selector, one, ["label", "value, empty takes it away"])), more("a label that nodes must have", form.selector, () => ({ key: "", value: "" }))),
      h("fieldset", {}, h("legend", {}, "It tolerates"), form.tolerations.map((one) => h("div", { class: "trio" }, field({ value: one.key, placeholder: "taint", "aria-label": "Taint", oninput: (event) => { one.key = event.target.value; } }), field({ value: one.value, placeholder: "any value", "aria-label": "Value", oninput: (event) => { one.value = event.target.value; } }), effects(one, true), remove(form.tolerations, one))), more("a toleration", form.tolerations, () => ({ key: "", value: "", effect: "" }))),
      h("fieldset", {}, h("legend", {}, "Its labels"), form.labels.map((one) => pair(form.labels, one, ["label", "value, empty takes it away"])), more("a label", form.labels, () => ({ key: "", value: "" }))),
      h("fieldset", {}, h("legend", {}, "Its priority"), field({ type: "number", value: form.priority ?? "", placeholder: String(now.priority), "aria-label": "Priority", oninput: (event) => { form.priority = event.target.value; } })),
      h("fieldset", {}, h("legend", {}, "Nodes"), form.nodes.map((one) => h("div", { class: "form", style: { gap: "6px", borderLeft: "3px solid var(--edge)", paddingLeft: "10px" } },
        h("div", { class: "pairs" }, field({ value: one.name, placeholder: "name of a node", "aria-label": "Name of a node", oninput: (event) => { one.name = event.target.value; } }), h("select", { "aria-label": "Cordoned", onchange: (event) => { one.cordoned = event.target.value; } }, [["", "as it is"], ["no", "not cordoned"], ["yes", "cordoned"]].map(([value, words]) => h("option", { value, selected: value === one.cordoned }, words))), remove(form.nodes, one)),
        h("div", { class: "pairs" }, field({ value: one.label, placeholder: "label=value, label= takes it away", "aria-label": "Label of the node", oninput: (event) => { one.label = event.target.value; } }), field({ value: one.untaint, placeholder: "without taint (key)", "aria-label": "Taint to take away", oninput: (event) => { one.untaint = event.target.value; } }), h("span", {})),
        h("div", { class: "trio" }, field({ value: one.taint, placeholder: "with taint (key)", "aria-label": "Taint to add", oninput: (event) => { one.taint = event.target.value; } }), field({ value: one.taintValue, placeholder: "value", "aria-label": "Value of the taint", oninput: (event) => { one.taintValue = event.target.value; } }), effects(one, false), h("span", {})))),
        more("a node", form.nodes, () => ({ name: "", cordoned: "", label: "", untaint: "", taint: "", taintValue: "", effect: "NoSchedule" }))),
      form.served ? h("p", { class: "muted" }, form.served) : null,
      form.weights.length ? h("details", { open: form.weights.some((one) => Number(one.value) !== one.now) }, h("summary", {}, `Weights of profile ${form.profile}`), form.weights.map((one) => h("label", { class: "pairs" }, h("span", { class: "clip" }, one.plugin), field({ type: "number", min: "1", max: "100", value: one.value, oninput: (event) => { one.value = event.target.value; } }), h("span", { class: "muted" }, `now ${one.now}`)))) : null,
      h("div", { class: "submit" }, button));
  }

  function asked() {
    const pairs = (list, emptied) => Object.fromEntries(list.filter((one) => one.key.trim()).map((one) => [one.key.trim(), one.value.trim() === "" && emptied ? null : one.value.trim()]));
    const found = {};
    const amounts = Object.fromEntries(form.requests.filter((one) => one.key.trim() && one.value.trim()).map((one) => [one.key.trim(), one.value.trim()]));
    const changed = Object.entries(amounts).filter(([key, value]) => value !== form.was[key]);
    for (const key of Object.keys(form.was)) if (!(key in amounts)) changed.push([key, "0"]); // its line was taken away
    if (changed.length) found.requests = Object.fromEntries(changed);
    if (form.labels.length) found.labels = pairs(form.labels, true);
    if (form.selector.length) found.nodeSelector = pairs(form.selector, true);
    const tolerations = form.tolerations.filter((one) => one.key.trim()).map((one) => ({ key: one.key.trim(), value: one.value.trim(), effect: one.effect }));
    if (tolerations.length) found.tolerations = tolerations;
    if (form.priority) found.priority = Number(form.priority);
    const nodes = form.nodes.filter((one) => one.name.trim()).map((one) => {
      const told = { name: one.name.trim() };
      if (one.cordoned) told.cordoned = one.cordoned === "yes";
      const at = one.label.indexOf("="), key = (at < 0 ? one.label : one.label.slice(0, at)).trim();
      if (key) told.labels = { [key]: at < 0 ? "" : one.label.slice(at + 1).trim() || null };
      if (one.untaint.trim()) told.removeTaints = [one.untaint.trim()];
      if (one.taint.trim()) told.addTaints = [{ key: one.taint.trim(), value: one.taintValue.trim(), effect: one.effect }];
      return told;
    });
    if (nodes.length) found.nodes = nodes;
    const weights = form.weights.filter((one) => one.value && Number(one.value) !== one.now);
    if (weights.length) found.weights = Object.fromEntries(weights.map((one) => [one.plugin, Number(one.value)]));
    return found;
  }

  // The form as an address has it: what is supposed, as it is sent.
  function suppose(words) {
    let told;
    try { told = JSON.parse(words); } catch { return; }
    if (told === null || typeof told !== "object") return;
    const entries = (one) => Object.entries(one && typeof one === "object" ? one : {}).map(([key, value]) => ({ key, value: value === null ? "" : String(value) }));
    const list = (one) => (Array.isArray(one) ? one.filter((each) => each && typeof each === "object") : []);
    for (const { key, value } of entries(told.requests)) {
      const line = form.requests.find((one) => one.key === key);
      if (line) line.value = value; else form.requests.push({ key, value });
    }
    form.labels = entries(told.labels);
    form.selector = entries(told.nodeSelector);
    form.tolerations = list(told.tolerations).map((one) => ({ key: String(one.key ?? ""), value: String(one.value ?? ""), effect: String(one.effect ?? "") }));
    if (Number.isInteger(told.priority)) form.priority = String(told.priority);
    form.nodes = list(told.nodes).map((one) => {
      const [label] = entries(one.labels), [taint] = list(one.addTaints), cordoned = one.cordoned === true ? "yes" : one.cordoned === false ? "no" : "";
      return { name: String(one.name ?? ""), cordoned, label: label ? `${label.key}=${label.value}` : "", untaint: String(one.removeTaints?.[0] ?? ""), taint: String(taint?.key ?? ""), taintValue: String(taint?.value ?? ""), effect: String(taint?.effect ?? "NoSchedule") };
    });
    form.weighed = Object.fromEntries(entries(told.weights).map((one) => [one.key, one.value]));
  }

  async function decide() {
    const supposed = asked();
    setParams({ suppose: Object.keys(supposed).length ? JSON.stringify(supposed) : "" });
    button.disabled = true;
    const waiting = elapsed("Deciding twice");
    replace(result, waiting.node);
    try {
      const found = await post(`${base}/what-if`, supposed);
      replace(result, shown(found, waiting.done()));
    } catch (error) {
      waiting.done();
      replace(result, h("p", { class: "problem", role: "alert" }, error.message));
    }
    button.disabled = false;
  }

  async function begin() {
    const now = pod();
    if (ready) return;
    if (!now) { draw(); return; }
    ready = true;
    form.was = Object.fromEntries(Object.entries(now.requests).map(([key, value]) => [key, key === "cpu" ? (value % 1000 ? `${value}m` : String(value / 1000)) : amount(key, value).replaceAll(",", "")]));
    form.requests = Object.entries(form.was).map(([key, value]) => ({ key, value }));
    suppose(new URLSearchParams(location.search).get("suppose") ?? "null");
    draw();
    replace(result, h("p", { class: "empty" }, "The answer appears here."));
    weigh();
  }

  async function weigh() {
    try {
      const { profile, weights, profileServed } = await get(`${base}/weights`);
      form.profile = profile;
      form.served = `${profileServed.sentence[0].toUpperCase()}${profileServed.sentence.slice(1)}.`;
      form.weights = Object.entries(weights).map(([plugin, weight]) => ({ plugin, now: weight, value: form.weighed?.[plugin] ?? String(weight) }));
      draw();
    } catch (error) {
      if (passing(error) && !closed) timer = setTimeout(weigh, 5000); // until then, the form goes without weights
    }
  }
  begin();
  return { node, told: begin, close() { closed = true; clearTimeout(timer); } };
}

function shown(found, took) {
  const after = found.after;
  const verdict = found.sameNode ? (after.node ? `The same node: ${after.node}` : "Refused, as it is now") : after.node ? (found.before.node ? `Another node: ${after.node} in the place of ${found.before.node}` : `It would fit: on ${after.node}`) : `It would be refused; now it fits on ${found.before.node}`;
  const tone = found.sameNode ? "t-gone" : after.node ? "t-good" : "t-bad";
  return [
    h("section", { class: "card", role: "status" }, h("div", { class: "head", style: { margin: 0 } }, h("span", { class: `pill ${tone}` }, found.sameNode ? "no difference" : "differs"), h("b", { class: "wrap" }, verdict)),
      h("p", { class: "muted", style: { marginTop: "6px" } }, `On revision ${count(found.revision)}, by ${found.profile}. ${plural(found.nodesGained.count, "more node fits", "more nodes fit")}, ${plural(found.nodesLost.count, "no longer fits", "no longer fit")}.`),
      h("p", { class: found.profileServed.basis === "served" ? "muted" : "problem", style: { marginTop: "6px" } }, `${found.profileServed.sentence[0].toUpperCase()}${found.profileServed.sentence.slice(1)}.`), took),
    h("div", { class: "compare section" }, decision("As it is", found.before), decision("As it would be", after)),
  ];
}

function decision(title, one) {
  const refusals = Object.entries(one.refusals).flatMap(([plugin, reasons]) => Object.entries(reasons).map(([reason, nodes]) => [plugin, reason, nodes]));
  return h("section", { class: "card" }, h("header", {}, h("h2", { class: "grow" }, title), h("span", { class: `pill ${one.node ? "t-good" : "t-wait"}` }, one.node ? "placed" : "refused")),
    h("p", {}, one.node ? h("a", { class: "wrap", href: nodeLink(one.node) }, one.node) : h("span", { class: "message" }, one.message)),
    h("p", { class: "muted" }, `asks for ${requests(one.requests)}; ${count(one.feasible)} of ${count(one.nodes)} nodes fit`),
    one.nominatedNode ? h("p", { class: "section" }, `Room would be made on ${one.nominatedNode}: ${count(one.victimCount)} would leave (${one.victims.join(", ")})`) : null,
    one.ranking.length ? h("table", { class: "plain section" }, h("tbody", {}, one.ranking.map((row) => h("tr", {}, h("td", {}, h("a", { href: nodeLink(row.node) }, row.node)), h("td", { class: "right", title: Object.entries(row.plugins).map(([name, score]) => `${name} ${score}`).join(", ") }, row.total))))) : null,
    refusals.length ? h("div", { class: "section" }, refusalBars(refusals)) : null);
}
