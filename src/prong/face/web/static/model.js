// A session as the page knows it, and what follows from it. Pure: nothing here draws or asks.
//
// The server sends changes: everything after a revision, as it is now. `merge` takes one in. A
// stretch is the bytes of one entry (or of the head) at their place in every body that has them;
// a request is known by its last stretch, and its body is the way from there up to the head.

export function emptySession() {
  return {
    revision: 0, session: {}, agents: new Map(), transcripts: new Map(),
    stretches: [], requests: [], spans: new Map(), marks: [], links: [], counts: [], prices: {},
    rows: [],
  };
}

export function merge(state, change) {
  state.revision = change.revision;
  state.session = change.session;
  Object.assign(state.prices, change.prices);
  for (const agent of change.agents) state.agents.set(agent.path, agent);
  for (const [path, place, item] of change.items) {
    if (!state.transcripts.has(path)) state.transcripts.set(path, []);
    state.transcripts.get(path)[place] = item;
  }
  for (const [above, size, kind, role, digest] of fresh(state.stretches, change.stretches)) {
    const number = state.stretches.length;
    const before = state.stretches[above];
    const offset = before ? before.offset + before.size : 0;
    state.stretches.push({ number, above, offset, size, kind, role, digest, uses: 0 });
  }
  for (const request of fresh(state.requests, change.requests)) {
    state.requests.push(request);
    for (const stretch of segmentsOf(state, request)) stretch.uses += 1;
    if (request.last >= 0) state.rows.push(rowOf(state, request));
  }
  for (const span of change.spans) state.spans.set(span.opened.key, span);
  for (const name of ["marks", "links", "counts"]) {
    state[name].push(...fresh(state[name], change[name]));
  }
  return state;
}

// What of a list is not there yet; a change that was sent twice adds nothing.
function fresh(known, sent) {
  return sent.rows.slice(Math.max(0, known.length - sent.from));
}

// The stretches of a request's body, the head first. `uses` says in how many requests each is.
export function segmentsOf(state, request) {
  const found = [];
  for (let at = request.last; at >= 0; at = state.stretches[at].above) found.push(state.stretches[at]);
  return found.reverse();
}

// A row for each request whose body is stored, in the order in which they were answered.
function rowOf(state, request) {
  const previous = state.rows.at(-1);
  return {
    number: request.number,
    agent: request.agent,
    size: request.size,
    segments: segmentsOf(state, request),
    sharedWithPrevious: previous ? partOf(state, previous.request, request).offset : 0,
    marks: request.marked,
    ...boundaries(request),
    request,
  };
}

// Up to which byte a request was read from the cache, and up to which written to it. The provider
// counts tokens, so a byte is told in proportion; where it says nothing, nothing is told.
export function boundaries(request) {
  const { usage, input, written, size } = request;
  if (!input || usage.silent) return { readTo: null, writtenTo: null };
  return {
    readTo: Math.round((size * usage.read) / input),
    writtenTo: Math.round((size * (usage.read + written)) / input),
  };
}

// Where two bodies part: the first byte that one has and the other has not.
export function partOf(state, left, right) {
  let other = right.last;
  const seen = new Set();
  for (let at = left.last; at >= 0; at = state.stretches[at].above) seen.add(at);
  while (other >= 0 && !seen.has(other)) other = state.stretches[other].above;
  const shared = other < 0 ? null : state.stretches[other];
  const offset = shared ? shared.offset + shared.size : 0;
  const entries = segmentsOf(state, { last: other }).length;
  return {
    offset,
    entries,
    whole: offset === left.size && offset === right.size,
    tokens: right.input && right.size ? Math.round((right.input * offset) / right.size) : 0,
  };
}

// What a stretch of a request is, in tokens and dollars, by what the provider counted for all of it.
export function shareOf(state, request, segment) {
  if (!request.input || !request.size) return { tokens: null, cost: null };
  const tokens = Math.round((request.input * segment.size) / request.size);
  const price = state.prices[request.model];
  const { readTo, writtenTo } = boundaries(request);
  if (!price || readTo === null) return { tokens, cost: null };
  const end = segment.offset + segment.size;
  const within = (from, to) =>
    Math.max(0, Math.min(end, to) - Math.max(segment.offset, from)) / Math.max(1, segment.size);
  const dollars =
    within(0, readTo) * price.read + within(readTo, writtenTo) * price.write
    + within(writtenTo, request.size) * price.input;
  return { tokens, cost: (tokens * dollars) / 1e6 };
}

// Agents as a tree, in the order in which they began.
export function treeOf(state) {
  const nodes = new Map();
  for (const agent of state.agents.values()) nodes.set(agent.path, { agent, children: [] });
  const roots = [];
  for (const node of nodes.values()) {
    const above = nodes.get(node.agent.parent);
    (above && above !== node ? above.children : roots).push(node);
  }
  return roots;
}

// Lanes of the timeline: one of each agent and below it as many as overlap, with their spans.
export function lanesOf(state) {
  const lanes = [];
  const byAgent = new Map();
  const spans = [...state.spans.values()].sort((a, b) => a.opened.at - b.opened.at);
  const last = spans.reduce((end, span) => Math.max(end, span.closed?.at || 0), state.session.at || 0);
  for (const { opened, closed } of spans) {
    if (!byAgent.has(opened.agent)) byAgent.set(opened.agent, { bars: [], free: [] });
    const own = byAgent.get(opened.agent);
    const [start, end] = [opened.at, closed ? closed.at : last];
    const nests = opened.kind === "agent" || opened.kind === "turn" || opened.kind === "fanout";
    const bar = { ...opened, start, end, first: closed?.first || 0, failed: Boolean(closed?.failed),
      open: !closed, done: closed?.details || {}, level: 0 };
    if (nests) {
      bar.level = -1;
    } else {
      // They come in the order in which they begin, so a level is free once its last has ended.
      while (own.free[bar.level] > start) bar.level += 1;
      own.free[bar.level] = end;
    }
    own.bars.push(bar);
  }
  for (const [agent, { bars, free }] of byAgent) {
    lanes.push({ agent, bars, depth: Math.max(1, free.length) });
  }
  return { lanes, start: spans.length ? spans[0].opened.at : 0, end: last };
}

export const money = (dollars) =>
  dollars === null || dollars === undefined ? "price unknown"
  : dollars && Math.abs(dollars) < 0.01 ? `$${dollars.toPrecision(2)}` : `$${dollars.toFixed(2)}`;
export const count = (number) => (number ?? 0).toLocaleString("en");
export const percent = (share) => (share === null || share === undefined ? "–" : `${Math.floor(share * 100)}%`);
export const seconds = (number) => (number < 1 ? `${Math.round(number * 1000)} ms` : `${number.toFixed(1)} s`);
