// What both views of replay share: verdicts with their colours and words, and lines over time.

import { h, s, replace } from "../../page/assets/dom.js";
import { count } from "../../page/assets/format.js";
import { link } from "../../page/assets/app.js";
import { Chart, lastKnown, stacked } from "../../page/assets/charts.js";

const TONES = { same: "t-good", figures: "t-figures", elsewhere: "t-accent", refused: "t-bad", evicted: "t-evicted", placed: "t-held", otherwise: "t-wait", unreplayable: "t-gone" };
const WORDS = {
  shadow: { same: "the same", figures: "same node, other figures", elsewhere: "on another node", refused: "newly refused", placed: "newly placed", otherwise: "refused otherwise", unreplayable: "cannot be made again" },
  rerun: { same: "on the same node", elsewhere: "on another node", refused: "bound in the record only", evicted: "evicted in the rerun only", placed: "bound in the rerun only", otherwise: "bound in neither", unreplayable: "a plugin failed" },
  between: { same: "on the same node in both", elsewhere: "on another node", refused: "bound beside only", evicted: "evicted here only", placed: "bound here only", otherwise: "bound in neither" },
};

export const toneOf = (verdict) => TONES[verdict] ?? "t-gone";
export const words = (mode) => WORDS[mode] ?? WORDS.shadow;
export const replayLink = (name, params = {}) => link(`/replays/${encodeURIComponent(name)}`, params);
export const changeOf = (change) => (change?.length ? change.join(", ") : "nothing changed");

// A share with one decimal, but never 100 % of what is not all, nor 0 % of what is not nothing.
export function share(value) {
  if (value === null || value === undefined) return "–";
  const percent = 100 * value;
  return `${percent === 0 || percent === 100 ? percent : Math.min(99.9, Math.max(0.1, percent)).toFixed(1)} %`;
}

export function verdictBar(summary, mode, label) {
  return stacked(Object.entries(words(mode)).map(([verdict, name]) => ({ name, tone: toneOf(verdict), value: summary[verdict] ?? 0 })), label);
}

// Bar and counts.
export function verdicts(summary, mode, label) {
  const total = Object.keys(words(mode)).reduce((sum, verdict) => sum + (summary[verdict] ?? 0), 0);
  return [
    verdictBar(summary, mode, label),
    h("div", { class: "legend" }, Object.entries(words(mode)).filter(([verdict]) => summary[verdict] || verdict === "same").map(([verdict, name]) =>
      h("span", { class: `key ${toneOf(verdict)}` }, h("b", {}, count(summary[verdict] ?? 0)), name, h("span", {}, total ? `(${share((summary[verdict] ?? 0) / total)})` : "")))),
  ];
}

const TOPS = [0.04, 0.1, 0.2, 0.4, 0.6, 1];

// Lines of shares over time. `lines`: [{name, tone, dashed, points: [[x, share or null]], figure}]; `figure` stands in the
// legend, else the last value. `told(x)`: what an x is.
export class ShareChart extends Chart {
  constructor({ label, lines, told, height = 150 }) {
    super(label, height);
    this.told = told;
    this.lines = lines.filter((one) => one.points.some(([, value]) => value !== null && value !== undefined));
    this.node = h("figure", { class: "shares" }, h("figcaption", {}, label), this.box,
      h("div", { class: "legend" }, this.lines.map((one) => h("span", { class: `key ${one.tone}` }, `${one.name} `, h("b", {}, share(one.figure ?? last(one.points)))))));
  }

  draw() {
    const width = Math.floor(this.box.clientWidth);
    if (!width || !this.lines.length) return;
    const { height } = this, left = 42, top = 8, base = height - 20, right = width - 4;
    const all = this.lines.flatMap((one) => one.points);
    const first = Math.min(...all.map(([x]) => x)), final = Math.max(...all.map(([x]) => x));
    const largest = Math.max(...all.map(([, value]) => value ?? 0));
    const most = TOPS.find((one) => one >= largest) ?? largest;
    const x = (value) => left + ((value - first) / Math.max(1e-9, final - first)) * (right - left);
    const y = (value) => base - (value / most) * (base - top);
    const drawn = [0, most / 2, most].flatMap((value) => [
      s("line", { x1: left, x2: right, y1: y(value), y2: y(value), class: "axis" }),
      s("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, `${Number((100 * value).toFixed(2))} %`)]);
    drawn.push(s("text", { x: left, y: height - 4 }, this.told(first)), s("text", { x: right, y: height - 4, "text-anchor": "end" }, this.told(final)));
    for (const one of this.lines) {
      let pen = "M";
      const d = one.points.map(([at, value]) => {
        if (value === null || value === undefined) { pen = "M"; return ""; }
        const step = `${pen}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
        pen = "L";
        return step;
      }).join("");
      drawn.push(s("path", { d, class: `line ${one.tone} ${one.dashed ? "dashed" : ""}` }));
    }
    this.cursor = s("line", { y1: top, y2: base, class: "cursor", visibility: "hidden" });
    replace(this.svg, ...drawn, this.cursor);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("aria-label", `${this.label}: ${this.lines.map((one) => `${one.name} from ${share(one.points.find(([, value]) => value !== null)?.[1])} to ${share(last(one.points))}`).join(", ")}`);
    this.scale = { x, first, final, left, right };
  }

  hover(place) {
    const { x, first, final, left, right } = this.scale;
    const wanted = first + (Math.min(right, Math.max(left, place)) - left) / Math.max(1, right - left) * (final - first);
    const near = (points) => points.reduce((best, one) => (Math.abs(one[0] - wanted) < Math.abs(best[0] - wanted) ? one : best));
    const at = near(this.lines[0].points)[0];
    this.tell(x(at), this.told(at), this.lines.map((one) => [one, share(near(one.points)[1])]));
  }
}

const last = (points) => lastKnown(points.map(([, value]) => value));
