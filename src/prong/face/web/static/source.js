// Where a session comes from: this machine's server, or the file that the page itself is.

import { emptySession, merge } from "./model.js";

// A session of the server: all of it, and then what changes, by one stream.
export function liveSource(id, changed) {
  const state = emptySession();
  const query = id ? `&session=${encodeURIComponent(id)}` : "";
  const stream = new EventSource(`/api/events?after=0${query}`);
  const source = { state, connected: true, stored: false };
  stream.onmessage = (event) => {
    const change = JSON.parse(event.data);
    source.connected = true;
    if (change.revision > state.revision) merge(state, change);
    changed();
  };
  stream.onerror = () => {
    source.connected = false;
    changed();
  };
  const get = async (path) => {
    const answer = await fetch(path);
    if (!answer.ok) throw new Error(await answer.text());
    return answer.json();
  };
  return Object.assign(source, {
    explain: (a, b) => get(`/api/explain?a=${a}&b=${b}${query}`).catch(() => null),
    entry: async (digest) => (await fetch(`/api/entry/${digest}?x=1${query}`)).text(),
    cost: () => get(`/api/cost?x=1${query}`),
    sessions: async () => (await get("/api/sessions")).sessions,
    close: () => stream.close(),
  });
}

// A session that stands in the page's own file.
export function storedSource(data) {
  return {
    state: merge(emptySession(), data.change), connected: true, stored: true,
    explain: async () => null, cost: async () => data.cost, sessions: async () => [], close() {},
  };
}
