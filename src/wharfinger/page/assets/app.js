// The frame around every view: addresses, navigation, namespace, theme, and whether what is shown is current.

import { drawing, h, icon, readable, replace } from "./dom.js";
import { address, get, post, session, Stream, viewBegins } from "./live.js";
import { age, count } from "./format.js";

// The entries of the menu, and their views: as the wings register them (`MenuEntry` of page/views.py).
const MENU = JSON.parse(document.getElementById("menu").textContent);
const VIEWS = MENU.flatMap((entry) => Object.entries(entry.views).map(([path, module]) => (
  { entry, module, path: new RegExp(`^${path.replace(/\{(\w+)\}/g, "(?<$1>[^/]+)")}$`) })));
const THEMES = ["auto", "light", "dark"];
const dark = matchMedia("(prefers-color-scheme: dark)");

const state = { view: null, namespace: "", params: new URLSearchParams(), turn: 0, status: null, up: true };
const stream = new Stream(heard);
const place = {
  view: h("main", { id: "view", tabindex: "-1" }),
  crumbs: h("nav", { class: "crumbs grow", "aria-label": "Where you are" }),
  banner: h("div", { role: "status", "aria-live": "polite" }),
  trouble: h("div", { role: "status", "aria-live": "polite" }),
  current: h("span", { class: "state" }, "connecting"),
  revision: h("span", {}, ""),
  nav: h("ul", {}),
  tally: h("span", { class: "tally", hidden: true }),
  namespace: h("select", { id: "namespace", onchange: () => setNamespace(place.namespace.value), onpointerdown: loadNamespaces, onfocus: loadNamespaces }, h("option", { value: "" }, "all namespaces")),
  theme: h("button", { class: "button quiet", type: "button", onclick: nextTheme }),
  cluster: h("span", { class: "clip" }, ""),
  leave: [false, true].map((small) => h("button", { class: `button quiet ${small ? "show-small" : ""}`, type: "button", hidden: true, onclick: signOut })),
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
          h("div", { class: "row" }, place.revision),
          place.leave[0])),
      h("div", { class: "main" },
        h("header", { class: "top" },
          place.crumbs,
          h("label", { class: "field", for: "namespace" }, h("span", { class: "hide-small" }, "Namespace"), place.namespace),
          h("button", { class: "button quiet hide-small", type: "button", title: "Keyboard (?)", "aria-label": "Keyboard shortcuts", onclick: showKeys }, h("kbd", {}, "?")),
          place.theme,
          place.leave[1]),
        place.banner,
        place.trouble,
        place.view)));
  place.namespace.setAttribute("aria-label", "Namespace");
}

function drawNav(active) {
  state.nav = active;
  const shown = MENU.filter((entry) => !entry.needs || active === entry || state.status?.[entry.needs]);
  replace(place.nav, shown.map((entry) =>
    h("li", {}, h("a", { href: link(entry.address), "aria-current": entry === active ? "page" : null },
      drawing([entry.icon]), h("span", {}, entry.title), entry.counts ? place.tally : null))));
  const bar = place.nav.parentElement, here = place.nav.querySelector("[aria-current]"); // on a phone the bar scrolls
  if (bar && here) bar.scrollLeft = here.getBoundingClientRect().left - bar.getBoundingClientRect().left + bar.scrollLeft - (bar.clientWidth - here.offsetWidth) / 2;
}

// An address with the namespace that is chosen; what is named in `params` joins it.
export const link = (path, params = {}) => address(path, { namespace: state.namespace, ...params });
export const podLink = (namespace, name, params = {}) => link(`/pods/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`, params);
export const splitPod = (key) => { const [space, name] = key.split(/\/(.*)/s); return [space, name ?? ""]; };
export const podAnchor = (key) => h("a", { class: "wrap", href: podLink(...splitPod(key)) }, key);
export const nodeLink = (name) => link(`/nodes/${encodeURIComponent(name)}`);
export const gangLink = (namespace, name) => link(`/gangs/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`);

export function go(to, { replaced = false } = {}) {
  if (to === location.pathname + location.search) return;
  history[replaced ? "replaceState" : "pushState"](null, "", to);
  open();
}

// The address with other parameters.
const changed = (changes) => address(location.pathname, changes, new URLSearchParams(location.search));

// Change parameters of the address without leaving the view.
export function setParams(changes) {
  history.replaceState(null, "", changed(changes));
}

export function crumbs(...parts) {
  replace(place.crumbs, parts.map((part, index) => [
    index ? h("span", { class: "muted", "aria-hidden": "true" }, "/") : null,
    part instanceof Node ? part : h("span", { class: "here clip" }, part)]));
  const words = parts.map((part) => readable(part instanceof Node ? part.textContent : String(part)));
  document.title = `${words.reverse().join(" · ")} · wharfinger`;
}

async function open() {
  const turn = (state.turn += 1);
  const params = new URLSearchParams(location.search);
  state.params = params;
  state.namespace = params.get("namespace") ?? "";
  showNamespace();
  const [view, names] = viewAt(location.pathname);
  drawNav(view.entry);
  let module = NOWHERE;
  try {
    if (view.module) module = await import(`../../${view.module}`);
  } catch {
    if (turn !== state.turn) return;
    showTrouble([`${view.module.split("/").at(-1)}: this page's process does not answer`]);
    setTimeout(() => { if (turn === state.turn) location.reload(); }, 4000); // what is kept of a failed import differs
    return;
  }
  if (turn !== state.turn) return;
  const before = state.view;
  if (before?.module === view.module && before.stays?.(names, params)) { stream.follow([statusTopic(), ...before.topics]); return; }
  before?.close?.();
  replace(place.view);
  viewBegins(showTrouble);
  showTrouble([]);
  state.view = module.open({ node: place.view, names, params, namespace: state.namespace });
  state.view.module = view.module;
  stream.follow([statusTopic(), ...(state.view.topics ?? [])]);
  scrollTo(0, 0);
}

// Of the namespace that is chosen, because the number of its waiting pods is in it.
const statusTopic = () => (state.namespace ? `status?namespace=${state.namespace}` : "status");

const NOWHERE = {
  open({ node }) {
    crumbs("No such page");
    replace(node, h("h1", {}, "There is no such page"), h("p", { class: "muted section" }, "No view has the address ", h("code", { class: "wrap" }, location.pathname), "."),
      h("p", { class: "section" }, h("a", { class: "button", href: link("/") }, "Overview")));
    return { topics: [] };
  },
};

function viewAt(path) {
  for (const view of VIEWS) {
    const match = path.match(view.path);
    if (!match) continue;
    try {
      return [view, Object.fromEntries(Object.entries(match.groups ?? {}).map(([name, part]) => [name, decodeURIComponent(part)]))];
    } catch { break; } // a sign of per cent that begins no byte
  }
  return [{}, {}];
}

export function follow(topics) {
  if (state.view) state.view.topics = topics;
  stream.follow([statusTopic(), ...topics]);
}

function heard(name, now, topic) {
  if (name === "connection") { state.up = now; state.starting = false; showStatus(); return; }
  if (name === "starting") { state.starting = true; showStatus(); return; }
  if (name === "status") {
    const redrawn = MENU.some(({ needs }) => needs && state.status?.[needs] !== now[needs]);
    const came = state.status && ((now.etcd.answers && !state.status.etcd.answers) || (now.inStep && !state.status.inStep) || (now.temporal.answers && state.status.temporal.answers === false));
    state.status = now;
    if (redrawn) drawNav(state.nav);
    showStatus();
    showTally(now[MENU.find((entry) => entry.counts)?.counts]);
    if (came) state.view?.heard?.("resync", null, ""); // what could not be read meanwhile
    return;
  }
  if (name === "resync") loadNamespaces();
  state.view?.heard?.(name, now, topic);
}

function showTally(waiting) {
  if (waiting === null || waiting === undefined) return;
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
  if (said) { place.revision.textContent = `revision ${count(said.revision)}`; place.cluster.textContent = readable(said.cluster); place.cluster.title = said.cluster; }
  const wanted = banner ?? "";
  if (place.banner.dataset.said !== wanted) {
    place.banner.dataset.said = wanted;
    place.banner.className = banner ? `banner ${tone === "wait" ? "wait" : ""}` : "";
    replace(place.banner, banner ? [icon("warn"), h("span", {}, banner)] : null);
  }
}

// What the open view cannot read for now.
function showTrouble(problems) {
  const wanted = problems.map((one) => one.replace(/ for \d+ s$/, "")).join("; "); // what counts up is in the banner
  if (place.trouble.dataset.said === wanted) return;
  place.trouble.dataset.said = wanted;
  place.trouble.className = wanted ? "trouble" : "";
  replace(place.trouble, wanted ? [icon("warn"), h("span", {}, `Cannot be read now: ${wanted}. It is tried again until it can be.`)] : null);
}

// --- the session ---

async function showSession() {
  try {
    const one = await session();
    for (const button of place.leave) {
      button.hidden = !one.signOut; // a token or a certificate is sent anew each time
      button.title = `Sign out ${one.viewer}`;
      button.setAttribute("aria-label", readable(`Sign out ${one.viewer}`));
      replace(button, icon("leave", 16), button === place.leave[0] ? h("span", { class: "clip" }, `Sign out (${one.viewer})`) : null);
    }
  } catch { setTimeout(showSession, 3000); }
}

async function signOut() {
  try {
    await post("/sign-out", {});
    location.assign("/");
  } catch (error) { showTrouble([`signing out: ${error.message}`]); }
}

// --- namespace, theme, keyboard ---

let loading = false;

async function loadNamespaces() {
  if (loading) return;
  loading = true;
  try {
    const { namespaces } = await get("/api/v1/namespaces");
    const known = [...place.namespace.options].slice(1).map((one) => one.value).filter((one) => one !== state.namespace || namespaces.includes(one));
    if (known.join() === namespaces.join()) return;
    replace(place.namespace, h("option", { value: "" }, "all namespaces"), namespaces.map((name) => h("option", { value: name }, name)));
    showNamespace();
  } catch {
    setTimeout(loadNamespaces, 3000);
  } finally { loading = false; }
}

function showNamespace() {
  if (state.namespace && ![...place.namespace.options].some((one) => one.value === state.namespace)) {
    place.namespace.append(h("option", { value: state.namespace }, state.namespace));
  }
  place.namespace.value = state.namespace;
}

const setNamespace = (namespace) => go(changed({ namespace }));

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
  const rows = [...MENU.filter((entry) => entry.key).map((entry) => [`g ${entry.key}`, entry.title]), ["/", "Search in the view"], ["t", "Light, dark or as the system"], ["?", "This help"], ["arrows, Enter", "In tables and the map: move, open"]];
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
  const entry = MENU.find((one) => one.key === event.key);
  if (prefix && Date.now() - prefix < 1200 && entry) { prefix = 0; event.preventDefault(); go(link(entry.address)); place.view.focus(); return; }
  prefix = event.key === "g" ? Date.now() : 0;
  if (event.key === "?") showKeys();
  else if (event.key === "t") nextTheme();
  else if (event.key === "/") { const field = place.view.querySelector("input[type=search]"); if (field) { event.preventDefault(); field.focus(); } }
});

document.addEventListener("click", (event) => {
  const anchor = event.target.closest?.("a[href]");
  if (!anchor || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || anchor.target) return;
  const to = new URL(anchor.href, location.href);
  if (to.origin !== location.origin || to.pathname.startsWith("/api/") || anchor.getAttribute("href").startsWith("#")) return;
  event.preventDefault();
  go(to.pathname + to.search);
});

addEventListener("popstate", open);
dark.addEventListener("change", showTheme);
showTheme();
frame();
showTheme();
showSession();
loadNamespaces();
setInterval(() => { if (!document.hidden) loadNamespaces(); }, 20_000);
open();
