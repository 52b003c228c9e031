// What the server says: answers to questions, and the stream of what changed.

export class Refused extends Error {
  constructor(code, reason, message) {
    super(message);
    this.code = code;
    this.reason = reason;
  }
}

let known = null;

// Who looks, and what it may do; asked once, and again where that failed.
export async function session() {
  known ??= get("/api/v1/session");
  const asked = known;
  try {
    return await asked;
  } catch (error) {
    if (known === asked) known = null;
    throw error;
  }
}

// An address with these parameters; what is empty is left out.
export function address(path, params, query = new URLSearchParams()) {
  for (const [name, value] of Object.entries(params)) {
    if (value === "" || value === null || value === undefined) query.delete(name); else query.set(name, value);
  }
  return query.size ? `${path}?${query}` : path;
}

export async function get(path, params = {}, signal = undefined) {
  return read(await sent(address(path, params), { headers: { Accept: "application/json" }, signal }));
}

export async function post(path, body, signal = undefined) {
  try {
    return await marked(path, body, signal);
  } catch (error) {
    if (error.code !== 403 || !error.message.includes(MARK)) throw error;
    known = null; // the process was started anew, and has other marks
    return marked(path, body, signal);
  }
}

const MARK = "X-Wharfinger-Mark";

async function marked(path, body, signal) {
  const { mark } = await session();
  const headers = { "Content-Type": "application/json", Accept: "application/json" };
  if (mark) headers[MARK] = mark;
  return read(await sent(path, { method: "POST", headers, body: JSON.stringify(body), signal }));
}

async function sent(path, how) {
  try {
    return await fetch(path, how);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(503, "Away", "this page's process does not answer");
  }
}

// Whether asking again may bring another answer: something does not answer for now.
export const passing = (error) => error instanceof Refused && error.code >= 500;

const AGAIN = 2000;
let view = { problems: new Map(), say() {} };

// Another view is open from now on; `say` is given what it cannot read, a list of sentences.
export function viewBegins(say) {
  view = { problems: new Map(), say };
}

// `ask`, so that it may be called at every change: one question at a time, then a pause that grows with what it took.
// What cannot be read is told above the view, which keeps what it has, and is asked for again as long as it is open.
export function paced(ask) {
  const mine = view, key = {};
  let busy = false, wanted = false;
  return async function asked() {
    wanted = busy;
    if (busy || mine !== view) return;
    busy = true;
    const began = performance.now();
    let failed = false;
    try {
      await ask();
      mine.problems.delete(key);
    } catch (error) {
      if (!(error instanceof Refused)) reportError(error);
      failed = true;
      mine.problems.set(key, error.message);
    }
    if (mine !== view) return;
    mine.say([...new Set(mine.problems.values())]);
    setTimeout(() => { busy = false; if (wanted || failed) asked(); }, failed ? AGAIN : Math.min(5000, Math.max(100, 2 * (performance.now() - began))));
  };
}

// What a view answers that asks again every so many milliseconds while it is looked at, and when a topic of `names` came.
export function refreshed(ask, every, topics, names = []) {
  const again = setInterval(() => { if (!document.hidden) ask(); }, every);
  ask();
  return { topics, heard(name) { if (name === "resync" || names.includes(name)) ask(); }, close() { clearInterval(again); } };
}

async function read(response) {
  if (response.status === 401) {
    location.reload(); // the session has ended: the door says how to come in
    return new Promise(() => {});
  }
  if (response.status === 204) return null;
  let body = null;
  try {
    body = await response.json();
  } catch {
    throw new Refused(response.status, "Unreadable", "the answer cannot be read");
  }
  if (!response.ok) throw new Refused(response.status, body.error, body.message);
  return body;
}

// One connection; the topics are those of the view that is open. `listen` gets (name, now, topic), and is told
// "resync" when something was missed, and "connection" with true or false.
export class Stream {
  constructor(listen) {
    this.listen = listen;
    this.source = null;
    this.topics = "";
    this.up = null;
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) this.pause(); else this.resume();
    });
  }

  follow(topics) {
    const wanted = topics.join(",");
    if (wanted === this.topics && this.source) return;
    this.topics = wanted;
    this.open();
  }

  open() {
    this.source?.close();
    const source = new EventSource(`/api/v1/stream?topics=${encodeURIComponent(this.topics)}`);
    this.source = source;
    let opened = false;
    source.onopen = () => {
      if (opened) this.listen("resync", null, "");
      opened = true;
      this.say(true);
    };
    source.onerror = () => {
      this.say(false);
      if (source.readyState === EventSource.CLOSED) {
        setTimeout(() => { if (this.source === source) this.again(); }, 200);
      }
    };
    for (const name of new Set(this.topics.split(",").map((topic) => topic.split(/[:?]/, 1)[0]))) {
      source.addEventListener(name, (event) => {
        const said = JSON.parse(event.data);
        this.listen(name, said.now, said.topic);
      });
    }
    source.addEventListener("resync", () => this.listen("resync", null, ""));
  }

  async again() {
    try {
      await get("/api/v1/status");
    } catch (error) {
      if (error instanceof Refused && error.reason === "Starting") this.listen("starting", null, "");
      if (error instanceof Refused === false || error.code >= 500) {
        setTimeout(() => this.again(), 1500);
        return;
      }
    }
    this.open();
    this.listen("resync", null, "");
  }

  pause() {
    this.source?.close();
    this.source = null;
  }

  resume() {
    if (this.source || !this.topics) return;
    this.open();
    this.listen("resync", null, "");
  }

  say(up) {
    if (this.up === up) return;
    this.up = up;
    this.listen("connection", up, "");
  }
}
