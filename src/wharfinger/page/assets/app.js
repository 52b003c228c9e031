// The frame around every view: addresses, navigation, namespace, theme, and whether what is shown is current.

import { h, icon, replace } from "./dom.js";
import { get, Stream } from "./live.js";
import { age, count } from "./format.js";

const VIEWS = [
  { path: /^\/$/, module: "overview", nav: "overview" },
  { path: /^\/alerts$/, module: "alerts", nav: "overview" },
  { path: /^\/map$/, module: "map", nav: "map" },
  { path: /^\/nodes\/([^/]+)$/, module: "map", nav: "map", names: ["node"] },
  { path: /^\/pending(?:\/([^/]+))?$/, module: "pending", nav: "pending", names: ["slug"] },
  { path: /^\/pods$/, module: "pods", nav: "pods" },
  { path: /^\/pods\/([^/]+)\/([^/]+)$/, module: "pod", nav: "pods", names: ["namespace", "name"] },
  { path: /^\/gangs$/, module: "gangs", nav: "gangs" },
  { path: /^\/gangs\/([^/]+)\/([^/]+)$/, module: "gang", nav: "gangs", names: ["namespace", "name"] },
  { path: /^\/fleets$/, module: "fleets", nav: "fleets" },
  { path: /^\/placements(?:\/([^/]+))?$/, module: "placements", nav: "placements", names: ["reference"] },
  { path: /^\/kubernetes$/, module: "kubernetes", nav: "kubernetes" },
];
const NAV = [
  ["overview", "/", "Overview"], ["map", "/map", "Map"], ["pending", "/pending", "Pending"],
  ["pods", "/pods", "Pods"], ["gangs", "/gangs", "Gangs"], ["fleets", "/fleets", "Fleets"],
  ["placements", "/placements", "Placements"], ["kubernetes", "/kubernetes", "Kubernetes"],
];
const THEMES = ["auto", "light", "dark"];
const dark = matchMedia("(prefers-color-scheme: dark)");

const state = { view: null, namespace: "", params: new URLSearchParams(), turn: 0, status: null, up: true };
const stream = new Stream(heard);
const place = {
  view: h("main", { id: "view", tabindex: "-1" }),
  crumbs: h("nav", { class: "crumbs grow", "aria-label": "Where you are" }),
  banner: h("div", { role: "status", "aria-live": "polite" }),
  current: h("span", { class: "state" }, "connecting"),
  revision: h("span", {}, ""),
  nav: h("ul", {}),
  tally: h("span", { class: "tally", hidden: true }),
  namespace: h("select", { id: "namespace", onchange: () => setNamespace(place.namespace.value) }, h("option", { value: "" }, "all namespaces")),
  theme: h("button", { class: "button quiet", type: "button", onclick: nextTheme }),
  cluster: h("span", { class: "clip" }, ""),
};

function frame() {
  const assets = new URL(".", import.meta.url).pathname;
  replace(document.getElementById("app"),
    h("div", { class: "frame" },
      h("div", { class: "rail" },
        h("a", { class: "brand", href: "/" }, h("img", { src: `${assets}mark.svg`, alt: "" }), "wharfinger"),
        h("nav", { "aria-label": "Views" }, place.nav),
        h("div", { class: "foot" },
          h("div", { class: "row" }, place.cluster),
          h("div", { class: "row" }, place.current),
          h("div", { class: "row" }, place.revision))),
      h("div", { class: "main" },
        h("header", { class: "top" },
          place.crumbs,
          h("label", { class: "field", for: "namespace" }, h("span", { class: "hide-small" }, "Namespace"), place.namespace),
          h("button", { class: "button quiet hide-small", type: "button", title: "Keyboard (?)", "aria-label": "Keyboard shortcuts", onclick: showKeys }, h("kbd", {}, "?")),
          place.theme),
        place.banner,
        place.view)));
  place.namespace.setAttribute("aria-label", "Namespace");
}

function drawNav(active) {
  state.nav = active;
  const shown = NAV.filter(([name]) => !["kubernetes", "placements"].includes(name) || active === name || state.status?.[name]);
  replace(place.nav, shown.map(([name, path, title]) =>
    h("li", {}, h("a", { href: link(path), "aria-current": name === active ? "page" : null },
      icon(name), h("span", {}, title), name === "pending" ? place.tally : null))));
}

// An address with the namespace that is chosen; what is named in `params` joins it.
export function link(path, params = {}) {
  const query = new URLSearchParams();
  if (state.namespace) query.set("namespace", state.namespace);
  for (const [name, value] of Object.entries(params)) if (value !== "" && value !== null && value !== undefined) query.set(name, value);
  return query.size ? `${path}?${query}` : path;
}

export const podLink = (namespace, name, params = {}) => link(`/pods/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`, params);
export const nodeLink = (name) => link(`/nodes/${encodeURIComponent(name)}`);
export const gangLink = (namespace, name) => link(`/gangs/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`);

export function go(address, { replaced = false } = {}) {
  if (address === location.pathname + location.search) return;
  history[replaced ? "replaceState" : "pushState"](null, "", address);
  open();
}

// Change parameters of the address without leaving the view.
export function setParams(changes) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === "" || value === null || value === undefined) query.delete(name); else query.set(name, value);
  }
  history.replaceState(null, "", query.size ? `${location.pathname}?${query}` : location.pathname);
}

export function crumbs(...parts) {
  replace(place.crumbs, parts.map((part, index) => [
    index ? h("span", { class: "muted", "aria-hidden": "true" }, "/") : null,
    part instanceof Node ? part : h("span", { class: "here clip" }, part)]));
  const words = parts.map((part) => (part instanceof Node ? part.textContent : part));
  document.title = `${words.reverse().join(" · ")} · wharfinger`;
}

async function open() {
  const turn = (state.turn += 1);
  const params = new URLSearchParams(location.search);
  state.params = params;
  state.namespace = params.get("namespace") ?? "";
  showNamespace();
  const found = VIEWS.map((one) => [one, location.pathname.match(one.path)]).find(([, match]) => match);
  const [view, match] = found ?? [{ module: "overview", nav: "overview" }, []];
  const names = Object.fromEntries((view.names ?? []).map((name, index) => [name, match[index + 1] === undefined ? "" : decodeURIComponent(match[index + 1])]));
  drawNav(view.nav);
  const module = await import(`./views/${view.module}.js`);
  if (turn !== state.turn) return;
  const before = state.view;
  if (before?.stays?.(view.module, names, params)) { stream.follow(["status", ...before.topics]); return; }
  before?.close?.();
  replace(place.view);
  state.view = module.open({ node: place.view, names, params, namespace: state.namespace });
  state.view.module = view.module;
  stream.follow(["status", ...(state.view.topics ?? [])]);
  scrollTo(0, 0);
}

export function follow(topics) {
  if (state.view) state.view.topics = topics;
  stream.follow(["status", ...topics]);
}

function heard(name, now, topic) {
  if (name === "connection") { state.up = now; state.starting = false; showStatus(); return; }
  if (name === "starting") { state.starting = true; showStatus(); return; }
  if (name === "status") {
    const changed = state.status?.kubernetes !== now.kubernetes || state.status?.placements !== now.placements;
    state.status = now;
    if (changed) drawNav(state.nav);
    showStatus();
    return;
  }
  if (name === "overview" || name === "pending") showTally(name === "overview" ? now.pods.waiting + now.pods.gated : null);
  state.view?.heard?.(name, now, topic);
}

function showTally(waiting) {
  if (waiting === null) return;
  place.tally.hidden = !waiting;
  place.tally.textContent = waiting > 9999 ? "9,999+" : count(waiting);
}

function showStatus() {
  const said = state.status;
  let word = "in step", tone = "good", banner = null;
  if (state.starting) { word = "waits for etcd"; tone = "wait"; banner = "etcd has not answered this page yet. Trying again."; }
  else if (!state.up) { word = "page is away"; tone = "bad"; banner = "This page's process does not answer: what is shown is as it was. Trying again."; }
  else if (said && !said.inStep) { word = "reading etcd"; tone = "wait"; banner = "Reading the cluster from etcd."; }
  else if (said && !said.etcd.answers) { word = "etcd is silent"; tone = "bad"; banner = `etcd has not answered for ${age(said.etcd.silentSeconds)}: what is shown is as it was.`; }
  else if (said?.temporal.answers === false) { word = "Temporal is silent"; tone = "wait"; banner = `Temporal has not answered for ${age(said.temporal.silentSeconds)}: attempts cannot be shown, and no new ones start.`; }
  place.current.className = `state ${tone}`;
  place.current.textContent = word;
  if (said) { place.revision.textContent = `revision ${count(said.revision)}`; place.cluster.textContent = said.cluster; place.cluster.title = said.cluster; }
  const wanted = banner ?? "";
  if (place.banner.dataset.said !== wanted) {
    place.banner.dataset.said = wanted;
    place.banner.className = banner ? `banner ${tone === "wait" ? "wait" : ""}` : "";
    replace(place.banner, banner ? [icon("warn"), h("span", {}, banner)] : null);
  }
}

// --- namespace, theme, keyboard ---

async function loadNamespaces() {
  try {
    const { namespaces } = await get("/api/v1/namespaces");
    replace(place.namespace, h("option", { value: "" }, "all namespaces"), namespaces.map((name) => h("option", { value: name }, name)));
    showNamespace();
  } catch { setTimeout(loadNamespaces, 3000); }
}

function showNamespace() {
  if (state.namespace && ![...place.namespace.options].some((one) => one.value === state.namespace)) {
    place.namespace.append(h("option", { value: state.namespace }, state.namespace));
  }
  place.namespace.value = state.namespace;
}

function setNamespace(namespace) {
  const query = new URLSearchParams(location.search);
  if (namespace) query.set("namespace", namespace); else query.delete("namespace");
  go(query.size ? `${location.pathname}?${query}` : location.pathname);
}

function themeNow() {
  try { return localStorage.getItem("theme") ?? "auto"; } catch { return "auto"; }
}

function nextTheme() {
  const next = THEMES[(THEMES.indexOf(themeNow()) + 1) % THEMES.length];
  try { localStorage.setItem("theme", next); } catch { /* a browser that keeps nothing */ }
  showTheme();
}

function showTheme() {
  const theme = themeNow();
  document.documentElement.dataset.theme = theme === "auto" ? (dark.matches ? "dark" : "light") : theme;
  replace(place.theme, icon({ auto: "auto", light: "sun", dark: "moon" }[theme]));
  place.theme.setAttribute("aria-label", `Colours: ${theme}`);
  place.theme.title = `Colours: ${theme}`;
  state.view?.recolour?.();
}

function showKeys() {
  const rows = [["g o", "Overview"], ["g m", "Map"], ["g p", "Pending"], ["g d", "Pods"], ["g g", "Gangs"], ["g f", "Fleets"], ["/", "Search in the view"], ["t", "Light, dark or as the system"], ["?", "This help"], ["arrows, Enter", "In tables and the map: move, open"]];
  const dialog = h("dialog", { "aria-label": "Keyboard" }, h("h1", {}, "Keyboard"),
    h("dl", {}, rows.map(([keys, what]) => [h("dt", {}, keys.split(" ").map((one) => [h("kbd", {}, one), " "])), h("dd", {}, what)])),
    h("form", { method: "dialog" }, h("button", { class: "button primary" }, "Close")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

let prefix = 0;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input,select,textarea,dialog")) return;
  const paths = { o: "/", m: "/map", p: "/pending", d: "/pods", g: "/gangs", f: "/fleets" };
  if (prefix && Date.now() - prefix < 1200 && event.key in paths) { prefix = 0; event.preventDefault(); go(link(paths[event.key])); place.view.focus(); return; }
  prefix = event.key === "g" ? Date.now() : 0;
  if (event.key === "?") showKeys();
  else if (event.key === "t") nextTheme();
  else if (event.key === "/") { const field = place.view.querySelector("input[type=search]"); if (field) { event.preventDefault(); field.focus(); } }
});

document.addEventListener("click", (event) => {
  const anchor = event.target.closest?.("a[href]");
  if (!anchor || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || anchor.target) return;
  const address = new URL(anchor.href, location.href);
  if (address.origin !== location.origin || address.pathname.startsWith("/api/") || anchor.getAttribute("href").startsWith("#")) return;
  event.preventDefault();
  go(address.pathname + address.search);
});

addEventListener("popstate", open);
dark.addEventListener("change", showTheme);
showTheme();
frame();
showTheme();
loadNamespaces();
open();
