// Where a session comes from: this machine's server, or the file that the page itself is.

import { emptySession, explained, merge } from "./model.js";

export const UNANSWERED = "The page's server does not answer.";

// What the server answers to beside the cookie, which browsers send to every port of this machine.
// It came behind the address's `#`; this tab keeps it, and nobody sees it in the address.
function key() {
  if (location.hash.length > 1) {
    sessionStorage.setItem("prong-key", location.hash.slice(1));
    history.replaceState(null, "", "/");
  }
  return sessionStorage.getItem("prong-key") || "";
}

// A session of the server: all of it, and then what changes, by one stream.
export function liveSource(id, changed) {
  const state = emptySession();
  const query = id ? `&session=${encodeURIComponent(id)}` : "";
  const ownKey = key();
  const stream = new EventSource(`/api/events?after=0&key=${encodeURIComponent(ownKey)}${query}`);
  const source = { state, connected: true, stored: false, acting: { state: "off" } };
  let heard = 0;
  stream.onmessage = (event) => {
    const change = JSON.parse(event.data);
    source.connected = true;
    if (change.revision > state.revision) merge(state, change);
    heard = performance.now();
    changed();
  };
  // Come back after a break, it need not have anything new to tell.
  stream.onopen = () => {
    source.connected = true;
    changed();
  };
  stream.addEventListener("acting", (event) => {
    source.acting = JSON.parse(event.data);
    changed();
  });
  stream.onerror = async () => {
    const shut = stream.readyState === EventSource.CLOSED;
    // A stream does not tell why it was refused; who is let in is told by any other question.
    if (shut && !state.revision) source.refusal = await refusal().catch(() => "");
    Object.assign(source, { connected: false, shut });
    changed();
  };
  const refusal = async () => {
    const answer = await fetch(`/api/cost?x=1${query}`, { headers: { "x-prong-key": ownKey } });
    return answer.ok || answer.status === 403 ? "" : answer.text();
  };
  const post = async (path, body) => {
    const answer = await fetch(`${path}?x=1${query}`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-prong-key": ownKey },
      body: JSON.stringify(body),
    });
    if (!answer.ok) return { type: "refused", why: await answer.text() };
    return answer.json();
  };
  const get = async (path) => {
    const answer = await fetch(path, { headers: { "x-prong-key": ownKey } });
    if (!answer.ok) throw new Error(await answer.text());
    return answer.json();
  };
  return Object.assign(source, {
    explain: (a, b) => get(`/api/explain?a=${a}&b=${b}${query}`).catch(() => null),
    entry: (digest) => fetch(`/api/entry/${digest}?x=1${query}`, { headers: { "x-prong-key": ownKey } })
      .then((answer) => answer.text()).catch(() => UNANSWERED),
    // By the server's clock: this browser's may be another machine's. 0 if the session does not go on.
    now: () => (state.session.live && source.connected ? state.session.now + (performance.now() - heard) / 1000 : 0),
    // Null if nobody answers.
    cost: () => get(`/api/cost?x=1${query}`).catch(() => null),
    sessions: () => get("/api/sessions").then((told) => told.sessions).catch(() => null),
    // Asks the session's own user; what is decided comes by the stream.
    ask: () => post("/api/control", {}).catch(() => ({ type: "refused", why: "the page's server did not answer" })),
    act: (id, command, asked = 0) => post("/api/act", { id, command, asked }).catch(() => ({
      type: "unknown", why: "the page's server did not answer; press again, it is done at most once" })),
    close: () => stream.close(),
  });
}

// A session that stands in the page's own file.
export function storedSource(data) {
  const state = merge(emptySession(), data.change);
  return {
    state, connected: true, stored: true, acting: { state: "off" },
    explain: async (a, b) => explained(state, state.requests[a - 1], state.requests[b - 1]), cost: async () => data.cost, sessions: async () => [], close() {},
  };
}
