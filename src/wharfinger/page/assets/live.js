// What the server says: answers to questions, and the stream of what changed.

export class Refused extends Error {
  constructor(code, reason, message) {
    super(message);
    this.code = code;
    this.reason = reason;
  }
}

let known = null;

// Who looks, and what it may do; asked once.
export async function session() {
  known ??= get("/api/v1/session");
  return known;
}

export async function get(path, params = {}, signal = undefined) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) if (value !== "" && value !== null && value !== undefined) query.set(name, value);
  const asked = query.size ? `${path}?${query}` : path;
  return read(await fetch(asked, { headers: { Accept: "application/json" }, signal }));
}

export async function post(path, body, signal = undefined) {
  const { mark } = await session();
  const headers = { "Content-Type": "application/json", Accept: "application/json" };
  if (mark) headers["X-Wharfinger-Mark"] = mark;
  return read(await fetch(path, { method: "POST", headers, body: JSON.stringify(body), signal }));
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
        setTimeout(() => { if (this.source === source) this.again(); }, 1500);
      }
    };
    for (const name of ["status", "overview", "trends", "pending", "nodes", "pod", "node", "gang", "fleets"]) {
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
