// Thousands of nodes on one canvas: cells in groups, found again by place, moved along by keys.

import { readable } from "../../page/assets/dom.js";

const GAP = 1, TITLE = 20, BETWEEN = 14, LEAST = 6, MOST = 30;
const NAMED = 60; // so many cells at most have their names in them
const TALL = 34, WIDEST = 260;
const FONT = "600 12px system-ui, sans-serif";

export class NodeCanvas {
  constructor({ onhover, onopen, label }) {
    this.canvas = document.createElement("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", label);
    this.context = this.canvas.getContext("2d");
    this.groups = [];
    this.cells = [];
    this.colour = () => "#888";
    this.faded = null;
    this.chosen = -1;
    this.focus = -1;
    this.onhover = onhover;
    this.onopen = onopen;
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("pointerleave", () => onhover(-1, 0, 0));
    this.canvas.addEventListener("click", (event) => { const row = this.at(event); if (row >= 0) { this.focus = row; onopen(row); this.paint(); } });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("blur", () => { onhover(-1, 0, 0); this.paint(); });
  }

  // `groups`: [{title, rows}]; `width`, `height`: of the place that there is.
  // Few nodes have their names in their cells: `names`, by row.
  lay(groups, width, height, names = []) {
    this.groups = groups.map((group) => ({ ...group, title: readable(group.title) }));
    const titled = groups.length > 1 || groups[0]?.title;
    this.names = names.length <= NAMED ? names.map(readable) : null;
    let size = LEAST;
    let done = null;
    if (this.names) {
      done = this.withNames(width, titled);
    } else {
      for (size = MOST; size >= LEAST; size -= 1) {
        done = this.arrange(size, width, titled, height);
        if (done.height <= height) break;
      }
      size = Math.max(size, LEAST);
      this.wide = this.tall = size;
    }
    this.blocks = done.blocks;
    this.width = width;
    this.height = Math.max(done.height, this.names ? TALL - 4 : 40);
    this.cells = [];
    for (const block of this.blocks) {
      block.rows.forEach((row, index) => {
        this.cells[row] = { x: block.x + (index % block.columns) * this.wide, y: block.y + block.head + Math.floor(index / block.columns) * this.tall, block, index };
      });
    }
    const ratio = Math.min(3, window.devicePixelRatio || 1);
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${this.height}px`;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.paint();
  }

  // One group below the other, in cells as wide as the longest name.
  withNames(width, titled) {
    this.context.font = FONT;
    const longest = Math.max(...this.names.map((name) => this.context.measureText(name).width), 40);
    this.wide = Math.min(Math.ceil(longest) + 22, WIDEST, width);
    this.tall = TALL;
    const columns = Math.max(1, Math.floor(width / this.wide)), head = titled ? TITLE : 0;
    let y = 0;
    const blocks = this.groups.map((group) => {
      const block = { ...group, x: 0, y, columns, head, wide: width };
      y += head + Math.ceil(group.rows.length / columns) * TALL + BETWEEN;
      return block;
    });
    return { blocks, height: y - BETWEEN };
  }

  // Groups in rows that fill the width: in one row all blocks are as tall. The number of rows that is least tall is taken.
  arrange(size, width, titled, height) {
    const head = titled ? TITLE : 0;
    const most = Math.max(1, Math.floor(width / size));
    if (this.groups.length === 1) {
      const rows = this.groups[0].rows;
      return { blocks: [{ ...this.groups[0], x: 0, y: 0, columns: most, head, wide: most * size }], height: head + Math.ceil(rows.length / most) * size };
    }
    let best = null;
    for (let lines = 1; lines <= Math.min(this.groups.length, 48); lines += 1) {
      const tried = this.inRows(lines, size, width, head);
      if (!best || tried.height < best.height - 1) best = tried;
      if (best.height <= height) break;
    }
    return best;
  }

  inRows(lines, size, width, head) {
    const total = this.groups.reduce((sum, group) => sum + group.rows.length, 0), share = total / lines;
    const least = Math.ceil(72 / size), rows = [[]];
    let held = 0;
    this.groups.forEach((group, index) => {
      const row = rows[rows.length - 1], left = this.groups.length - index;
      if (row.length && rows.length < lines && (held + group.rows.length / 2 > share * rows.length || left <= lines - rows.length)) rows.push([group]);
      else row.push(group);
      held += group.rows.length;
    });
    const blocks = [];
    let y = 0;
    for (const row of rows) {
      const room = width - BETWEEN * (row.length - 1);
      const columns = (tall) => row.map((group) => Math.max(least, Math.ceil(group.rows.length / tall)));
      const wide = (tall) => columns(tall).reduce((sum, one) => sum + one, 0) * size;
      const longest = Math.max(...row.map((group) => group.rows.length), 1);
      let low = 1, high = longest;
      while (low < high) { const middle = (low + high) >> 1; if (wide(middle) <= room) high = middle; else low = middle + 1; }
      if (wide(low) > room + 1) return { blocks: [], height: Infinity };
      let x = 0;
      columns(low).forEach((count, index) => {
        blocks.push({ ...row[index], x, y, columns: count, head, wide: count * size });
        x += count * size + BETWEEN;
      });
      y += head + low * size + BETWEEN;
    }
    return { blocks, height: y - BETWEEN };
  }

  paint() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => { this.frame = 0; this.draw(); });
  }

  draw() {
    const { context, wide, tall } = this;
    if (!this.blocks) return;
    const style = getComputedStyle(this.canvas);
    context.clearRect(0, 0, this.width, this.height);
    context.font = FONT;
    context.textBaseline = "top";
    for (const block of this.blocks) {
      if (block.head) {
        context.fillStyle = style.color;
        const count = ` ${block.rows.length}`;
        const room = block.wide - context.measureText(count).width;
        context.fillText(clipped(context, block.title, room), block.x, block.y + 2);
        context.globalAlpha = 0.6;
        context.fillText(count, block.x + Math.min(room, context.measureText(block.title).width), block.y + 2);
        context.globalAlpha = 1;
      }
    }
    const edge = this.names ? 4 : tall > 9 ? GAP + 0.5 : GAP;
    const round = this.names ? 5 : tall >= 12 ? 2.5 : 0;
    // Cells of one colour are filled together: the state of the context changes a few dozen times, not 5,000.
    const byColour = new Map();
    for (let row = 0; row < this.cells.length; row += 1) {
      const cell = this.cells[row];
      if (!cell) continue;
      const faded = this.faded && !this.faded.has(row);
      const key = `${faded ? 1 : 0}${this.colour(row)}`;
      const list = byColour.get(key);
      if (list) list.push(cell); else byColour.set(key, [cell]);
    }
    for (const [key, cells] of byColour) {
      context.globalAlpha = key[0] === "1" ? 0.13 : 1;
      context.fillStyle = key.slice(1);
      context.beginPath();
      for (const cell of cells) {
        if (round) context.roundRect(cell.x, cell.y, wide - edge, tall - edge, round); else context.rect(cell.x, cell.y, wide - edge, tall - edge);
      }
      context.fill();
    }
    context.globalAlpha = 1;
    if (this.names) this.write(edge);
    this.ring(this.chosen, style.getPropertyValue("--accent"), 2);
    if (document.activeElement === this.canvas) this.ring(this.focus, style.color, 2);
  }

  // Names in black or white, whichever the colour below lets one read better.
  write(edge) {
    const { context } = this;
    context.textBaseline = "middle";
    this.cells.forEach((cell, row) => {
      context.globalAlpha = this.faded && !this.faded.has(row) ? 0.45 : 1;
      context.fillStyle = this.faded && !this.faded.has(row) ? getComputedStyle(this.canvas).color : inkOn(context, this.colour(row));
      context.fillText(clipped(context, this.names[row], this.wide - edge - 14), cell.x + 8, cell.y + (this.tall - edge) / 2 + 1);
    });
    context.globalAlpha = 1;
    context.textBaseline = "top";
  }

  ring(row, colour, width) {
    const cell = this.cells[row];
    if (!cell) return;
    this.context.strokeStyle = colour;
    this.context.lineWidth = width;
    const out = this.names ? -1 : 1.5, less = this.names ? 6 : -1.5;
    this.context.strokeRect(cell.x - out, cell.y - out, this.wide - less, this.tall - less);
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    for (const block of this.blocks ?? []) {
      const column = Math.floor((x - block.x) / this.wide), line = Math.floor((y - block.y - block.head) / this.tall);
      if (x < block.x || column >= block.columns || line < 0) continue;
      const index = line * block.columns + column;
      if (index < block.rows.length) return block.rows[index];
    }
    return -1;
  }

  hover(event) {
    this.onhover(this.at(event), event.clientX, event.clientY);
  }

  key(event) {
    const cell = this.cells[this.focus];
    if (event.key === "Enter" && cell) { event.preventDefault(); this.onopen(this.focus); return; }
    if (event.key === "Escape") { this.onopen(-1); return; }
    const across = { ArrowRight: 1, ArrowLeft: -1 }[event.key], down = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!across && !down) return;
    event.preventDefault();
    const order = this.blocks.flatMap((block) => block.rows);
    if (!cell) this.focus = order[0] ?? -1;
    else if (across) this.focus = order[Math.max(0, Math.min(order.length - 1, order.indexOf(this.focus) + across))];
    else {
      const next = cell.index + down * cell.block.columns;
      if (next >= 0 && next < cell.block.rows.length) this.focus = cell.block.rows[next];
      else {
        const beside = this.blocks[this.blocks.indexOf(cell.block) + down];
        if (beside) this.focus = beside.rows[down > 0 ? 0 : beside.rows.length - 1];
      }
    }
    const to = this.cells[this.focus];
    if (to) {
      const box = this.canvas.getBoundingClientRect();
      this.canvas.parentElement.scrollTo({ top: Math.max(0, to.y - 120) });
      this.onhover(this.focus, box.left + to.x + Math.min(this.wide, 60), this.canvas.getBoundingClientRect().top + to.y + this.tall, true);
    }
    this.paint();
  }
}

const inks = new Map();

function inkOn(context, colour) {
  let ink = inks.get(colour);
  if (!ink) {
    context.fillStyle = colour;
    const parts = /^#(..)(..)(..)/.exec(context.fillStyle)?.slice(1).map((one) => parseInt(one, 16) / 255) ?? [1, 1, 1];
    const [red, green, blue] = parts.map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
    ink = 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 ? "#0b1218" : "#ffffff";
    inks.set(colour, ink);
  }
  return ink;
}

function clipped(context, text, room) {
  if (context.measureText(text).width <= room) return text;
  let end = text.length;
  while (end > 1 && context.measureText(`${text.slice(0, end)}…`).width > room) end -= 1;
  return `${text.slice(0, end)}…`;
}
