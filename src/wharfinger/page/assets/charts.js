// Small charts in SVG: drawn at the size that they have, and said in words for those who do not see them.

import { h, s, replace } from "./dom.js";

const HEIGHT = 64;

// A drawing as wide as its place, with a line and words where the pointer is; subclasses draw, and say what is at a place.
export class Chart {
  constructor(label, height) {
    this.label = label;
    this.height = height;
    this.svg = s("svg", { class: "chart", height, role: "img", "aria-label": label, preserveAspectRatio: "none" });
    this.tip = h("div", { class: "tip", hidden: true });
    this.box = h("div", { class: "chart-box" }, this.svg, this.tip);
    this.svg.addEventListener("pointermove", (event) => { if (this.scale) this.hover(event.clientX - this.svg.getBoundingClientRect().left); });
    this.svg.addEventListener("pointerleave", () => { this.tip.hidden = true; this.cursor?.setAttribute("visibility", "hidden"); });
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  // At so many pixels from the left: what it is, and [{name, tone}, figure] of each line.
  tell(at, words, figures) {
    for (const name of ["x1", "x2"]) this.cursor.setAttribute(name, at);
    this.cursor.setAttribute("visibility", "visible");
    replace(this.tip, h("span", { class: "muted" }, words), figures.map(([one, figure]) => h("span", { class: `key ${one.tone}` }, `${one.name} ${figure}`)));
    this.tip.hidden = false;
    const room = this.box.clientWidth - this.tip.offsetWidth;
    this.tip.style.transform = `translateX(${Math.min(Math.max(0, at - this.tip.offsetWidth / 2), Math.max(0, room))}px)`;
  }
}

// `series`: [{name, values, tone, format, area, bridged}], the oldest value first; null where nothing is known. A series
// that is bridged has a line over times of which nothing is known: what is measured now and then is no dots then.
export class TimeChart extends Chart {
  constructor({ label, slotSeconds = 5, height = HEIGHT }) {
    super(label, height);
    this.slot = slotSeconds;
    this.series = [];
    this.node = this.box;
  }

  update(series) {
    this.series = series;
    this.draw();
  }

  draw() {
    const width = Math.floor(this.node.clientWidth);
    if (!width || !this.series.length) return;
    const { height } = this, top = 6, base = height - 1;
    // Nothing is known of the time before the page looked: that part is left out, but three minutes are always shown.
    const whole = Math.max(...this.series.map((one) => one.values.length), 2);
    const known = Math.min(...this.series.map((one) => { const at = one.values.findIndex((value) => value !== null); return at < 0 ? whole : at; }));
    const skipped = Math.max(0, Math.min(known, whole - 36));
    const length = whole - skipped;
    const parts = this.series.map((one) => ({ ...one, values: one.values.slice(skipped) }));
    this.parts = parts;
    const largest = Math.max(...parts.flatMap((one) => one.values.map((value) => value ?? 0)), 1e-9);
    const x = (place) => (place * width) / (length - 1);
    const y = (value) => base - (value / largest) * (base - top);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const drawn = [s("line", { x1: 0, x2: width, y1: base + 0.5, y2: base + 0.5, class: "axis" })];
    for (const one of parts) {
      for (const run of runs(one.values, one.bridged)) {
        const points = run.map(([place, value]) => `${x(place).toFixed(1)} ${y(value).toFixed(1)}`);
        if (one.area) {
          const last = x(run[run.length - 1][0]).toFixed(1), first = x(run[0][0]).toFixed(1);
          drawn.push(s("path", { d: `M${points.join("L")}L${last} ${base}L${first} ${base}Z`, class: `area ${one.tone}` }));
        }
        if (run.length > 1) drawn.push(s("path", { d: `M${points.join("L")}`, class: `line ${one.tone}` }));
        else drawn.push(s("circle", { cx: x(run[0][0]), cy: y(run[0][1]), r: 2.5, class: `dot ${one.tone}` }));
      }
    }
    this.cursor = s("line", { y1: 0, y2: base, class: "cursor", visibility: "hidden" });
    replace(this.svg, ...drawn, this.cursor);
    this.scale = { width, length };
    const said = this.series.map((one) => `${one.name} now ${one.format(lastKnown(one.values))}`).join(", ");
    this.svg.setAttribute("aria-label", `${this.label}, the last ${Math.round((length * this.slot) / 60)} minutes: ${said}`);
  }

  hover(x) {
    const place = Math.round((x / this.svg.getBoundingClientRect().width) * (this.scale.length - 1));
    const before = Math.round((this.scale.length - 1 - place) * this.slot);
    const when = before < 60 ? `${before} s ago` : `${Math.round(before / 60)} min ago`;
    this.tell((place * this.scale.width) / (this.scale.length - 1), when, this.parts.map((one) => [one, one.format(one.values[place] ?? null)]));
  }
}

export function spark(values, { width = 96, height = 24, tone = "t-wait", label = "" } = {}) {
  if (!values || !values.length) return s("svg", { width, height, "aria-hidden": "true" });
  values = values.filter((value) => value !== null);
  if (values.length < 2) values = [values[0] ?? 0, values[0] ?? 0];
  const largest = Math.max(...values, 1);
  const points = values.map((value, place) =>
    `${((place * width) / Math.max(1, values.length - 1)).toFixed(1)} ${(height - 1 - (value / largest) * (height - 4)).toFixed(1)}`);
  return s("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, width, height, role: label ? "img" : null, "aria-label": label || null, "aria-hidden": label ? null : "true" },
    s("path", { d: `M${points.join("L")}L${width} ${height}L0 ${height}Z`, class: `area ${tone}` }),
    s("path", { d: `M${points.join("L")}`, class: `line ${tone}` }));
}

// Parts of a whole as one bar: [{name, value, tone}].
export function stacked(parts, label) {
  const total = parts.reduce((sum, one) => sum + one.value, 0);
  return h("div", { class: "stacked", role: "img", "aria-label": `${label}: ${parts.map((one) => `${one.value} ${one.name}`).join(", ")}` },
    parts.filter((one) => one.value).map((one) => h("span", { class: one.tone, style: { flexGrow: String(one.value / total), minWidth: "3px" } })));
}

export function meter(part, whole, label) {
  const share = whole ? part / whole : 0;
  const tone = share > 1 ? "t-bad" : share > 0.9 ? "t-wait" : "t-accent";
  return h("div", { class: "meter", role: "img", "aria-label": label },
    h("span", { class: tone, style: { width: `${Math.min(100, 100 * share)}%` } }));
}

function runs(values, bridged) {
  const found = [];
  let current = null;
  values.forEach((value, place) => {
    if (value === null || value === undefined) { if (!bridged) current = null; return; }
    if (!current) { current = []; found.push(current); }
    current.push([place, value]);
  });
  return found;
}

export const lastKnown = (values) => values.findLast((value) => value !== null && value !== undefined) ?? null;
