// The cluster map: every node a cell, grouped by a label, coloured by what is chosen; a node opens beside it.

import { h, icon, readable, replace } from "../../page/assets/dom.js";
import { get, paced, passing } from "../../page/assets/live.js";
import { ago, amount, clock, count, percent, plural } from "../../page/assets/format.js";
import { meter } from "../../page/assets/charts.js";
import { NodeCanvas } from "./nodemap.js";
import { crumbs, follow, go, link, podAnchor, podLink, setParams } from "../../page/assets/app.js";

const SHAPE = { cpu: "4", memory: "16Gi" };
const COLOURS = [["use", "Use"], ["fits", "Fragmentation for a pod"], ["taints", "Taints"], ["state", "State"]];
const BY_NAME = new Intl.Collator("en", { numeric: true });
const WORDS = ["--queued", "--held", "--wait", "--bad", "--good", "--gone"];

export function open({ node, names, params, namespace }) {
  const wanted = {
    by: params.get("by") ?? "use", resource: params.get("resource") ?? "", group: params.get("group") ?? "", selector: params.get("selector") ?? "",
    cpu: params.get("cpu") ?? SHAPE.cpu, memory: params.get("memory") ?? SHAPE.memory, extra: params.get("extra") ?? "",
  };
  let found = null, chosen = names.node ?? "", rows = null, stale = false, timer = 0, turn = 0, palette = {}, legendKey = "", refused = false;
  const tip = h("div", { class: "hover", hidden: true });
  const said = h("span", { class: "visually-hidden", "aria-live": "polite" });
  const canvas = new NodeCanvas({ label: "Map of the nodes", onhover: hover, onopen: (row) => choose(row < 0 ? "" : found.names[row]) });
  const box = h("div", { class: "canvas-box" }, canvas.canvas);
  const drawer = h("aside", { class: "drawer", "aria-label": "Node", hidden: true });
  const layout = h("div", { class: "map" }, box, drawer);
  const tally = h("span", { class: "muted", role: "status" });
  const problem = h("p", { class: "problem", hidden: true });
  const by = h("select", { "aria-label": "Colour by", onchange: () => { const [what, resource] = by.value.split("|"); change({ by: what, resource: resource ?? "" }); } });
  const group = h("select", { "aria-label": "Group by", onchange: () => change({ group: group.value }, true) });
  const selector = h("input", { type: "search", class: "grow", placeholder: "Labels: zone=a, pool in (gpu, cpu), !spot", value: wanted.selector, "aria-label": "Label selector of nodes", oninput: () => { clearTimeout(timer); timer = setTimeout(() => { change({ selector: selector.value.trim() }); selectSoon(); }, 180); } });
  const shape = h("span", { class: "field", hidden: true });
  const legend = h("span", { class: "scale" });
  replace(node, h("h1", { class: "visually-hidden" }, "Cluster map"),
    h("div", { class: "toolbar" }, h("label", { class: "field" }, "Colour", by), h("label", { class: "field" }, "Group", group), shape, selector, legend, tally),
    problem, layout, tip, said);
  // Free room is what pods of all namespaces leave.
  const scope = () => (wanted.by === "fits" ? "" : namespace);
  const crumbNow = () => (chosen ? crumbs(h("a", { href: link("/map") }, "Map"), chosen) : crumbs("Map"));
  crumbNow();

  // --- what is shown ---

  const load = async () => {
    const mine = (turn += 1);
    stale = false;
    const answer = await get("/api/v1/nodes", { namespace: scope() });
    if (mine !== turn) return;
    if ((answer.namespace ?? "") !== scope()) { soon(); return; }
    found = answer;
    choices();
    await select();
    lay();
  };

  function choices() {
    if (!wanted.resource || !found.resources.includes(wanted.resource)) wanted.resource = found.resources[0] ?? "cpu";
    replace(by, COLOURS.flatMap(([what, title]) => what === "use"
      ? [h("optgroup", { label: "Use of" }, found.resources.map((one) => h("option", { value: `use|${one}`, selected: wanted.by === "use" && wanted.resource === one }, one)))]
      : [h("option", { value: what, selected: wanted.by === what }, title)]));
    const keys = Object.entries(found.labels).filter(([, column]) => column.values.length < found.names.length || found.names.length < 2);
    replace(group, h("option", { value: "" }, "nothing"), keys.map(([key, column]) => h("option", { value: key, selected: key === wanted.group }, `${key} (${column.values.length})`)));
    group.value = keys.some(([key]) => key === wanted.group) ? wanted.group : "";
    replace(shape, ["cpu", "memory"].map((key) => h("label", { class: "field" }, key, h("input", { type: "text", size: "6", value: wanted[key], oninput: (event) => change({ [key]: event.target.value.trim() }) }))),
      extras().length ? h("label", { class: "field" }, "and", h("input", { type: "text", size: "22", placeholder: `${extras()[0]}=1`, value: wanted.extra, oninput: (event) => change({ extra: event.target.value.trim() }) })) : null);
  }

  const extras = () => found.resources.filter((one) => !["cpu", "memory", "pods", "ephemeral-storage"].includes(one));

  function change(changes, again = false) {
    const before = scope();
    Object.assign(wanted, changes);
    const shapes = wanted.by === "fits" ? { cpu: wanted.cpu, memory: wanted.memory, extra: wanted.extra } : { cpu: "", memory: "", extra: "" };
    setParams({ by: wanted.by === "use" ? "" : wanted.by, resource: wanted.by === "use" ? wanted.resource : "", group: wanted.group, selector: wanted.selector, ...shapes });
    if (scope() !== before) { soon(); follow(topics()); }
    if (again) lay(); else recolour();
  }

  async function select() {
    const asked = wanted.selector;
    problem.hidden = true;
    selector.removeAttribute("aria-invalid");
    if (!asked) rows = null;
    else {
      try {
        const answer = await get("/api/v1/node-matches", { selector: asked });
        if (asked !== wanted.selector) return;
        rows = new Set(answer.rows);
      } catch (error) {
        if (passing(error)) throw error;
        problem.hidden = false;
        problem.textContent = readable(error.message);
        selector.setAttribute("aria-invalid", "true");
      }
    }
    canvas.faded = rows;
    if (wanted.by === "fits") recolour(); else { canvas.paint(); totals(); }
  }

  function totals() {
    if (!found) return;
    const lost = found.lost.length ? `, ${plural(found.lost.length, "lost node")}` : "";
    tally.textContent = (rows ? `${count(rows.size)} of ${plural(found.names.length, "node")}` : plural(found.names.length, "node")) + lost;
    canvas.canvas.setAttribute("aria-label", readable(`Map of ${tally.textContent}, coloured by ${wanted.by === "use" ? `use of ${wanted.resource}` : wanted.by}; arrow keys move, Enter opens a node`));
  }

  function lay() {
    if (!found) return;
    const column = wanted.group ? found.labels[wanted.group] : null;
    const groups = column ? column.values.map((title) => ({ title, rows: [] })) : [{ title: "", rows: [] }];
    const without = { title: `without ${wanted.group}`, rows: [] };
    found.order ??= found.names.map((_, row) => row).sort((a, b) => BY_NAME.compare(found.names[a], found.names[b]));
    found.order.forEach((row) => (column ? groups[column.codes[row]] ?? without : groups[0]).rows.push(row));
    groups.sort((a, b) => BY_NAME.compare(a.title, b.title));
    if (without.rows.length) groups.push(without);
    canvas.faded = rows;
    canvas.chosen = found.names.indexOf(chosen);
    const small = matchMedia("(max-width: 720px)").matches;
    const tall = Math.max(320, small ? innerHeight * 0.62 : innerHeight - box.getBoundingClientRect().top - scrollY - 24);
    drawer.style.height = matchMedia("(max-width: 900px)").matches ? "" : `${tall}px`;
    const width = Math.max(120, box.clientWidth - 26);
    canvas.lay(groups, width, tall - 26, found.names);
    box.classList.toggle("few", canvas.height + 26 < tall); // no higher than what is in it
    box.style.height = canvas.height + 26 < tall ? "" : `${tall}px`;
    recolour();
  }

  // --- colours ---

  function recolour() {
    if (!found) return;
    const style = getComputedStyle(document.documentElement);
    const named = (name) => style.getPropertyValue(name).trim();
    palette = { steps: ramp([0, 1, 2, 3, 4].map((step) => named(`--scale-${step}`))), over: named("--scale-over"), good: named("--good"), bad: named("--bad"), wait: named("--wait"), empty: named("--scale-0"), words: WORDS.map(named) };
    canvas.canvas.style.color = named("--text");
    shape.hidden = wanted.by !== "fits";
    canvas.colour = colourOf();
    canvas.paint();
    totals();
  }

  function colourOf() {
    const step = (share) => palette.steps[Math.max(0, Math.min(palette.steps.length - 1, Math.round(share * (palette.steps.length - 1))))];
    const swatch = (colour, words) => h("span", { class: "key", vars: { "--tone": colour } }, words);
    if (wanted.by === "use") {
      const offered = found.allocatable[wanted.resource] ?? [], used = found.requested[wanted.resource] ?? [];
      show(`use ${wanted.resource}`, () => [h("span", {}, "0 %"), h("span", { class: "ramp" }), h("span", {}, "100 %"), swatch(palette.over, "over")]);
      return (row) => (used[row] > offered[row] ? palette.over : offered[row] ? step(used[row] / offered[row]) : palette.empty);
    }
    if (wanted.by === "state") {
      show("state", () => [swatch(palette.good, "ready"), swatch(palette.wait, "cordoned"), swatch(palette.bad, "not ready")]);
      return (row) => (!found.ready[row] ? palette.bad : found.unschedulable[row] ? palette.wait : palette.good);
    }
    if (wanted.by === "taints") {
      const values = found.taints.values;
      const colours = values.map((value, index) => (value ? palette.words[index % palette.words.length] : palette.empty));
      show(`taints ${values.join("|")}`, () => values.slice(0, 6).map((value, index) => swatch(colours[index], value ? (value.length > 44 ? `${value.slice(0, 43)}…` : value) : "none")));
      return (row) => colours[found.taints.codes[row]];
    }
    const [asks, wrong] = shapeOf();
    const copies = found.names.map((_, row) => fits(asks, row));
    const shown = rows ? copies.filter((_, row) => rows.has(row)) : copies;
    const most = Math.max(1, ...copies.map((one) => one.count));
    const total = shown.reduce((sum, one) => sum + one.count, 0), stranded = shown.filter((one) => !one.count && one.free).length;
    show(`fits ${JSON.stringify(asks)} ${total} ${stranded} ${most} ${rows?.size} ${wrong}`, () => [h("b", {}, `${count(total)} more ${total === 1 ? "fits" : "fit"}${rows ? " on the nodes chosen" : ""}`), wrong ? h("span", { class: "delta down" }, wrong) : null, namespace ? h("span", {}, "beside pods of all namespaces") : null, h("span", {}, "1"), h("span", { class: "ramp" }), h("span", {}, count(most)), swatch(palette.over, `free room that fits none: ${plural(stranded, "node")}`)]);
    return (row) => (copies[row].count ? step(0.15 + (0.85 * copies[row].count) / most) : copies[row].free ? palette.over : palette.empty);
  }

  function show(key, make) {
    if (legendKey === key + document.documentElement.dataset.theme) return;
    legendKey = key + document.documentElement.dataset.theme;
    replace(legend, make());
  }

  // What a pod of the form asks for, and what is wrong with it: then it fits nowhere.
  function shapeOf() {
    const asks = { pods: 1 }, wrong = [];
    const ask = (name, value, scale) => {
      if (!value) return;
      const units = quantity(value, scale);
      if (units === null) wrong.push(`${value} is no quantity`);
      else asks[name] = units;
    };
    ask("cpu", wanted.cpu, 1000);
    ask("memory", wanted.memory, 1);
    for (const part of wanted.extra.split(",").map((one) => one.trim()).filter(Boolean)) {
      const at = part.indexOf("="), name = at < 0 ? part : part.slice(0, at).trim();
      if (!found.resources.includes(name)) wrong.push(`no node offers ${name}`);
      ask(name, at < 0 ? "1" : part.slice(at + 1).trim(), 1);
    }
    if (wrong.length) asks.pods = Infinity;
    return [asks, wrong.join("; ")];
  }

  // How many such pods the node's free room holds, and whether more than a twentieth of its cpu is free.
  function fits(asks, row) {
    if (!found.ready[row] || found.unschedulable[row]) return { count: 0, free: false };
    let most = Infinity;
    for (const [resource, each] of Object.entries(asks)) {
      if (!each) continue;
      const free = (found.allocatable[resource]?.[row] ?? 0) - (found.requested[resource]?.[row] ?? 0);
      most = Math.min(most, Math.floor(free / each));
    }
    const offered = found.allocatable.cpu?.[row] ?? 0;
    return { count: Math.max(0, most === Infinity ? 0 : most), free: offered - (found.requested.cpu?.[row] ?? 0) > offered / 20 };
  }

  // --- one node ---

  function hover(row, x, y, spoken = false) {
    if (row < 0 || !found) { tip.hidden = true; return; }
    const lines = found.resources.filter((one) => found.allocatable[one][row]).slice(0, 6).map((one) => {
      const used = found.requested[one][row], offered = found.allocatable[one][row];
      return h("div", {}, `${one} ${amount(one, used)} of ${amount(one, offered)}, ${percent(used, offered)}`);
    });
    const taints = found.taints.values[found.taints.codes[row]];
    const notes = [found.ready[row] ? null : "not ready", found.unschedulable[row] ? "cordoned" : null, taints || null].filter(Boolean);
    replace(tip, h("b", {}, found.names[row]), lines, notes.map((one) => h("div", { class: "muted wrap" }, one)));
    tip.hidden = false;
    const left = Math.min(x + 14, innerWidth - tip.offsetWidth - 8), top = y + 18 + tip.offsetHeight > innerHeight ? y - tip.offsetHeight - 12 : y + 18;
    tip.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, top)}px)`;
    if (spoken) said.textContent = tip.textContent;
  }

  function choose(name) {
    if (name === chosen) return;
    go(name ? link(`/nodes/${encodeURIComponent(name)}`, keptParams()) : link("/map", keptParams()));
  }

  const keptParams = () => Object.fromEntries([...new URLSearchParams(location.search)].filter(([key]) => key !== "namespace"));

  function shown(name) {
    chosen = name;
    crumbNow();
    drawer.hidden = !name;
    layout.classList.toggle("opened", Boolean(name));
    if (found) lay();
    if (name) { refused = true; detail().catch(() => detailSoon()); }
  }

  // One node; why pods wait that are not there is asked for once, for it takes a decision.
  async function detail() {
    const name = chosen, refusals = refused;
    if (!name) return;
    try {
      const one = await get(`/api/v1/nodes/${encodeURIComponent(name)}`);
      if (name !== chosen) return;
      const kept = drawer.querySelector(".refused");
      replace(drawer, nodeDetail(one, () => choose("")), kept && !refusals ? kept : h("div", { class: "refused" }));
      if (refusals) {
        const answer = await get(`/api/v1/nodes/${encodeURIComponent(name)}/refusals`, { namespace });
        if (name !== chosen) return;
        refused = false;
        replace(drawer.querySelector(".refused"), refusedHere(answer.reasons));
      }
    } catch (error) {
      if (passing(error)) throw error;
      if (name === chosen) replace(drawer, h("div", { class: "head" }, h("h1", { class: "grow" }, name), closer(() => choose(""))), h("p", { class: "problem" }, error.message));
    }
  }

  const watcher = new ResizeObserver(() => { if (found && Math.abs((canvas.width ?? 0) - Math.max(120, box.clientWidth - 26)) > 1) lay(); });
  watcher.observe(box);
  const soon = paced(load), detailSoon = paced(detail), selectSoon = paced(select);
  const topics = () => [scope() ? `nodes?namespace=${scope()}` : "nodes", ...(chosen ? [`node:${chosen}`] : [])];
  soon();
  if (chosen) shown(chosen);
  const view = {
    topics: topics(),
    recolour() { legendKey = ""; recolour(); },
    heard(what, now, topic) {
      if (what === "resync") { soon(); if (chosen) detailSoon(); return; }
      if (what === "node" && topic === `node:${chosen}`) { detailSoon(); return; }
      if (what !== "nodes" || !found || topic !== topics()[0] || (found.namespace ?? "") !== scope()) return;
      if (now.layout !== found.layout) {
        if (!stale) { stale = true; soon(); }
        return;
      }
      for (const [row, ...used] of now.rows) used.forEach((value, index) => { found.requested[found.resources[index]][row] = value; });
      if (wanted.by === "fits") canvas.colour = colourOf();
      canvas.paint();
    },
    stays(to, next) {
      if ((next.get("namespace") ?? "") !== namespace) return false;
      shown(to.node ?? "");
      view.topics = topics();
      return true;
    },
    close() { watcher.disconnect(); turn += 1; },
  };
  return view;
}

const closer = (onclick) => h("button", { class: "button quiet", type: "button", "aria-label": "Close", onclick }, icon("close"));

function nodeDetail(one, close) {
  const resources = Object.keys(one.allocatable).filter((name) => one.allocatable[name]);
  const pods = one.pods.slice(0, 200);
  return [
    h("div", { class: "head" }, h("h1", { class: "grow", style: { fontSize: "17px" } }, one.name), closer(close)),
    h("div", { class: "chips" }, h("span", { class: `pill ${one.absent ? "t-bad" : one.ready ? "t-good" : "t-bad"}` }, one.absent ? "lost" : one.ready ? "ready" : "not ready"),
      one.unschedulable ? h("span", { class: "pill t-wait" }, "cordoned") : null, one.taints.map((taint) => h("span", { class: "chip" }, taint))),
    h("h2", {}, "Room"),
    h("div", { class: "room" }, resources.map((name) => [h("span", { class: "clip", title: name }, name), meter(one.requested[name] ?? 0, one.allocatable[name], `${name} requested`),
      h("span", { class: "right nowrap muted" }, `${amount(name, one.requested[name] ?? 0)} of ${amount(name, one.allocatable[name])}`)])),
    h("h2", {}, `${plural(one.pods.length, "pod")}${one.nominated.length ? `, ${one.nominated.length} nominated` : ""}`),
    h("ul", { class: "events" }, one.nominated.map((name) => h("li", { style: { display: "block" } }, "nominated: ", podAnchor(name))),
      pods.map((pod) => h("li", { style: { gridTemplateColumns: "minmax(0, 1fr) auto" } }, h("a", { class: "clip", href: podLink(pod.namespace, pod.name) }, `${pod.namespace}/${pod.name}`), h("span", { class: "muted nowrap" }, `${amount("cpu", pod.requests.cpu ?? 0)} cpu, ${amount("memory", pod.requests.memory ?? 0)}`))),
      one.pods.length > pods.length ? h("li", { class: "muted", style: { display: "block" } }, `and ${one.pods.length - pods.length} more`) : null),
    h("h2", {}, "Events since this page started"),
    one.events.length ? h("ul", { class: "events" }, one.events.slice(0, 40).map((event) => h("li", { title: ago(event.time) }, h("span", { class: "muted" }, clock(event.time)), h("span", {}, event.what), h("span", { class: "wrap" }, event.about.includes("/") ? podAnchor(event.about) : event.about)))) : h("p", { class: "muted" }, "None."),
    h("h2", {}, "Labels"),
    h("div", { class: "chips" }, Object.entries(one.labels).map(([key, value]) => h("span", { class: "chip" }, value ? `${key}=${value}` : key))),
  ];
}

function refusedHere(reasons) {
  if (!reasons.length) return null;
  return [h("h2", {}, "Why waiting pods are not here"), h("ul", { class: "events" }, reasons.map((one) => h("li", { style: { display: "block" } }, podAnchor(one.pod),
    h("div", { class: "muted wrap" }, one.held ? `held back: ${one.held}` : one.fits ? "would fit here: other nodes, or its gang, decide" : Object.entries(one.refusedBy).map(([plugin, said]) => `${plugin}: ${said.join(", ")}`).join("; ")))))];
}

// A quantity of Kubernetes in units of `1 / scale`.
function quantity(text, scale) {
  const match = /^([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$/.exec(text.trim());
  if (!match) return null;
  const factors = { m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50 };
  return Math.ceil(Number(match[1]) * (factors[match[2]] ?? 1) * scale) || 0;
}

function ramp(stops, size = 32) {
  const parsed = stops.map((stop) => [1, 3, 5].map((at) => parseInt(stop.slice(at, at + 2), 16)));
  return Array.from({ length: size }, (_, index) => {
    const at = (index / (size - 1)) * (parsed.length - 1), low = Math.floor(at), high = Math.min(parsed.length - 1, low + 1), part = at - low;
    return `rgb(${parsed[low].map((value, channel) => Math.round(value + (parsed[high][channel] - value) * part)).join(" ")})`;
  });
}
