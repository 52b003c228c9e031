// Numbers as people read them.

const whole = new Intl.NumberFormat("en-US");

export function count(value) {
  return value === null || value === undefined ? "–" : whole.format(value);
}

export function plural(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

export function rate(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  return value >= 100 ? whole.format(Math.round(value)) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 0.001) return `${Math.round(value * 1e6)} µs`;
  if (value < 0.9995) return `${value < 0.01 ? (value * 1e3).toFixed(1) : Math.round(value * 1e3)} ms`;
  if (value < 60) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  return age(value);
}

export function age(value) {
  if (value === null || value === undefined) return "–";
  const total = Math.round(value);
  const days = Math.floor(total / 86400), hours = Math.floor(total / 3600) % 24, minutes = Math.floor(total / 60) % 60;
  if (days) return hours && days < 10 ? `${days} d ${hours} h` : `${days} d`;
  if (hours) return minutes && hours < 10 ? `${hours} h ${minutes} min` : `${hours} h`;
  if (minutes) return minutes < 10 && total % 60 ? `${minutes} min ${total % 60} s` : `${minutes} min`;
  return `${total} s`;
}

const UNITS = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

export function bytes(value) {
  let unit = 0, amount = value;
  while (Math.abs(amount) >= 1024 && unit < UNITS.length - 1) { amount /= 1024; unit += 1; }
  return `${trimmed(amount)}${UNITS[unit]}`;
}

function trimmed(amount) {
  return Math.abs(amount) >= 100 ? whole.format(Math.round(amount)) : String(Number(amount.toFixed(Math.abs(amount) >= 10 ? 1 : 2)));
}

export function amount(resource, value) {
  if (value === null || value === undefined) return "–";
  if (resource === "cpu") return value && Math.abs(value) < 1000 ? `${value}m` : trimmed(value / 1000);
  if (resource === "memory" || resource.endsWith("storage") || resource.startsWith("hugepages")) return bytes(value);
  return count(value);
}

export function requests(found) {
  const names = Object.keys(found);
  return names.length ? names.map((name) => `${amount(name, found[name])} ${name}`).join(", ") : "nothing";
}

export function percent(part, whole_) {
  if (!whole_) return "–";
  const value = (100 * part) / whole_;
  return `${value < 10 && value > 0 ? value.toFixed(1) : Math.round(value)} %`;
}

export function clock(text) {
  const time = new Date(text);
  return Number.isNaN(time.getTime()) ? "–" : time.toLocaleTimeString("en-GB", { hour12: false });
}

export function day(text) {
  const time = new Date(text);
  if (Number.isNaN(time.getTime())) return "–";
  return `${time.toLocaleDateString("en-CA")} ${time.toLocaleTimeString("en-GB", { hour12: false })}`;
}

export function ago(text) {
  const time = Date.parse(text);
  return Number.isNaN(time) ? "–" : `${age(Math.max(0, (Date.now() - time) / 1000))} ago`;
}
