// Elements without markup: whatever others wrote becomes text, never anything else.

export function h(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  set(node, props);
  append(node, children);
  return node;
}

const SVG = "http://www.w3.org/2000/svg";

export function s(tag, props = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, said(name, value));
  }
  append(node, children);
  return node;
}

export function set(node, props) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(node.style, value);
    else if (name === "vars") for (const [key, one] of Object.entries(value)) node.style.setProperty(key, one);
    else if (name === "value") node.value = value;
    else if (name === "checked" || name === "disabled" || name === "hidden" || name === "selected") node[name] = Boolean(value);
    else node.setAttribute(name, value === true ? "" : said(name, value));
  }
  return node;
}

// What a browser reads out or shows in a box of its own is text of others, too; addresses have to stay as they are.
const said = (name, value) => (typeof value === "string" && name !== "href" && name !== "src" ? readable(value) : value);

export function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(readable(String(child))));
  }
  return node;
}

export function replace(node, ...children) {
  node.replaceChildren();
  return append(node, children);
}

// Control characters, characters that nobody sees, and marks that turn the direction of writing around are shown, not
// obeyed.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\u{e0000}-\u{e007f}]/gu;

export function readable(text) {
  return text.replace(HIDDEN, (char) => {
    const code = char.codePointAt(0).toString(16);
    return code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, "0")}`;
  });
}

export const icon = (name, size) => drawing(ICONS[name], size);

export function drawing(paths, size = 18) {
  return s("svg", { viewBox: "0 0 24 24", width: size, height: size, class: "icon", "aria-hidden": "true" },
    ...paths.map((d) => s("path", { d })));
}

const ICONS = {
  warn: ["M12 4l9 16H3z", "M12 10v4.5M12 17.2v.1"],
  ok: ["M12 3.5a8.5 8.5 0 1 0 0 17 8.5 8.5 0 0 0 0-17z", "M8.2 12.3l2.6 2.6 5-5.4"],
  leave: ["M13 5H5v14h8", "M10 12h10M16.5 8.500L20 12l-3.500 3.500"],
  out: ["M9 5H5v14h14v-4", "M13 5h6v6M19 5l-8.5 8.5"],
  close: ["M6 6l12 12M18 6L6 18"],
  sun: ["M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8z", "M12 2.5v2M12 19.5v2M2.5 12h2M19.5 12h2M5.3 5.3l1.4 1.4M17.3 17.3l1.4 1.4M5.3 18.7l1.4-1.4M17.3 6.7l1.4-1.4"],
  moon: ["M20 14.5A8.5 8.5 0 0 1 9.5 4 8.5 8.5 0 1 0 20 14.5z"],
  auto: ["M4 5h16v11H4z", "M9 20h6M12 16v4"],
  link: ["M10 14a4 4 0 0 0 5.7 0l3-3a4 4 0 0 0-5.7-5.7l-1 1", "M14 10a4 4 0 0 0-5.7 0l-3 3A4 4 0 0 0 11 18.7l1-1"],
};
