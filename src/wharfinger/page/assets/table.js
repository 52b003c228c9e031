// A table of any length: only the rows in sight exist, and scrolling fills the same elements anew.

import { h, readable, replace } from "./dom.js";
import { setParams } from "./app.js";

const AHEAD = 6;

// `columns`: [{key, title, width, sort(row), cell(row, element), grow, align, vertical}]; `remembers`: the parameter of
// the address that has the order, "key" or "-key" for downwards.
export class VirtualTable {
  constructor({ label, columns, rowHeight = 34, empty = "Nothing here", onopen = null, height = null, headHeight = 36, remembers = "sort", fills = false }) {
    this.label = label;
    this.rowHeight = rowHeight;
    this.empty = empty;
    this.onopen = onopen;
    this.rows = [];
    this.shown = [];
    this.remembers = remembers;
    const order = new URLSearchParams(location.search).get(remembers) ?? "";
    this.sorted = order ? { key: order.replace(/^-/, ""), down: order.startsWith("-") } : null;
    this.headHeight = headHeight;
    this.body = h("div", { class: "vbody", role: "rowgroup" });
    this.head = h("div", { class: "vhead", role: "rowgroup" });
    this.node = h("div", { class: "vtable", role: "table", "aria-label": label, tabindex: "0" }, this.head, this.body);
    if (height) this.node.style.maxHeight = height;
    this.fills = fills;
    this.pool = new Map();
    this.columns = [];
    this.node.addEventListener("scroll", () => this.schedule(), { passive: true });
    this.node.addEventListener("keydown", (event) => this.key(event));
    this.watcher = new ResizeObserver(() => { this.fit(); this.schedule(); });
    this.watcher.observe(this.node);
    if (fills) this.watcher.observe(document.documentElement);
    this.focused = -1;
    this.setColumns(columns);
  }

  // As tall as what is left of the window, so that there is nothing to scroll around it.
  fit() {
    if (!this.fills) return;
    const below = matchMedia("(max-width: 720px)").matches ? 88 : 42;
    const left = innerHeight - this.node.getBoundingClientRect().top - scrollY - below;
    this.node.style.maxHeight = `${Math.floor(left < 300 ? Math.max(240, innerHeight * 0.62) : left)}px`;
  }

  setColumns(columns) {
    this.columns = columns;
    const template = columns.map((one) => (one.grow ? `minmax(${one.width ?? 120}px, ${one.grow}fr)` : `${one.width}px`)).join(" ");
    const least = columns.reduce((sum, one) => sum + (one.width ?? 120), 0);
    this.node.style.setProperty("--columns", template);
    this.node.style.setProperty("--least", `${least}px`);
    replace(this.head, h("div", { class: "vrow vheads", role: "row", style: { height: `${this.headHeight}px` } },
      columns.map((one) => this.heading(one))));
    this.pool.forEach((row) => row.remove());
    this.pool.clear();
    this.schedule();
  }

  heading(column) {
    const classes = `vcell ${column.align === "right" ? "right" : ""} ${column.vertical ? "vertical" : ""}`;
    const state = this.sorted?.key === column.key ? (this.sorted.down ? "descending" : "ascending") : "none";
    if (!column.sort) return h("div", { class: classes, role: "columnheader", title: column.hint ?? null }, h("span", {}, column.title));
    return h("div", { class: classes, role: "columnheader", "aria-sort": state },
      h("button", { class: "sorter", type: "button", title: column.hint ?? `Sort by ${column.title}`, onclick: () => this.sortBy(column.key) },
        h("span", {}, column.title), h("span", { class: "arrow", "aria-hidden": "true" }, state === "none" ? "" : state === "descending" ? "↓" : "↑")));
  }

  sortBy(key, down = null) {
    const column = this.columns.find((one) => one.key === key);
    if (!column) return;
    const turned = this.sorted?.key === key ? !this.sorted.down : Boolean(column.downFirst);
    this.sorted = { key, down: down ?? turned };
    setParams({ [this.remembers]: `${this.sorted.down ? "-" : ""}${key}` });
    this.setColumns(this.columns);
    this.order();
  }

  update(rows) {
    this.rows = rows;
    this.order();
  }

  order() {
    const column = this.sorted && this.columns.find((one) => one.key === this.sorted.key);
    if (column?.sort) {
      const keyed = this.rows.map((row, place) => [column.sort(row), place, row]);
      const turn = this.sorted.down ? -1 : 1;
      keyed.sort((a, b) => {
        if (a[0] === null || a[0] === undefined) return b[0] === null || b[0] === undefined ? a[1] - b[1] : 1;
        if (b[0] === null || b[0] === undefined) return -1;
        return (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0) * turn || a[1] - b[1];
      });
      this.shown = keyed.map((one) => one[2]);
    } else {
      this.shown = this.rows;
    }
    this.node.setAttribute("aria-rowcount", String(this.shown.length + 1));
    this.body.style.height = this.shown.length ? `${this.shown.length * this.rowHeight}px` : "";
    this.pool.forEach((row) => { row.at = -1; row.hidden = true; });
    if (!this.shown.length) {
      this.pool.forEach((row) => row.remove());
      this.pool.clear();
      replace(this.body, h("div", { class: "vempty", role: "row" }, h("div", { role: "cell" }, this.empty)));
    } else if (this.body.querySelector(".vempty")) {
      replace(this.body);
    }
    this.schedule();
  }

  schedule() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => { this.frame = 0; this.draw(); });
  }

  draw() {
    if (!this.shown.length) return;
    const top = Math.max(0, this.node.scrollTop - this.headHeight);
    const first = Math.max(0, Math.floor(top / this.rowHeight) - AHEAD);
    const last = Math.min(this.shown.length, Math.ceil((top + this.node.clientHeight) / this.rowHeight) + AHEAD);
    const size = Math.max(last - first, this.pool.size);
    // A row's element is chosen by its place modulo the pool's size, so scrolling by one row fills one element.
    for (let slot = this.pool.size; slot < size; slot += 1) {
      const row = this.line();
      this.pool.set(slot, row);
      this.body.append(row);
    }
    const used = this.pool.size;
    for (let place = first; place < last; place += 1) {
      const row = this.pool.get(place % used);
      if (row.at !== place) this.fill(row, place);
      if (row.hidden) row.hidden = false;
    }
    if (last - first < used) for (const row of this.pool.values()) if (!row.hidden && (row.at < first || row.at >= last)) row.hidden = true;
  }

  line() {
    const row = h("div", { class: "vrow", role: "row", style: { height: `${this.rowHeight}px` } },
      this.columns.map((one) => h("div", { class: `vcell ${one.align === "right" ? "right" : ""} ${one.class ?? ""}`, role: "cell" })));
    row.at = -1;
    row.hidden = true;
    if (this.onopen) {
      row.classList.add("opens");
      row.addEventListener("click", (event) => {
        if (event.target.closest("a,button") || String(getSelection())) return;
        this.onopen(this.shown[row.at]);
      });
    }
    return row;
  }

  fill(row, place) {
    row.at = place;
    row.style.transform = `translateY(${place * this.rowHeight}px)`;
    row.setAttribute("aria-rowindex", String(place + 2));
    if (this.focused >= 0) row.classList.toggle("focused", place === this.focused);
    const data = this.shown[place];
    const cells = row.children;
    for (let column = 0; column < this.columns.length; column += 1) {
      const cell = cells[column], told = this.columns[column].cell(data, cell);
      if (told === undefined) continue;
      if (typeof told === "string") {
        if (cell.said === told) continue;
        cell.textContent = readable(told);
        cell.said = told;
      } else { replace(cell, told); cell.said = undefined; }
    }
  }

  key(event) {
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15, Home: -1e9, End: 1e9 };
    if (event.target !== this.node) return;
    if (event.key === "Enter" && this.onopen && this.shown[this.focused]) { this.onopen(this.shown[this.focused]); return; }
    if (!(event.key in steps) || !this.shown.length) return;
    event.preventDefault();
    this.focused = Math.min(this.shown.length - 1, Math.max(0, this.focused + steps[event.key]));
    const top = this.focused * this.rowHeight;
    if (top < this.node.scrollTop) this.node.scrollTop = top;
    const room = this.node.clientHeight - this.headHeight - this.rowHeight;
    if (top > this.node.scrollTop + room) this.node.scrollTop = top - room;
    this.pool.forEach((row) => row.classList.toggle("focused", row.at === this.focused));
    this.schedule();
  }
}
