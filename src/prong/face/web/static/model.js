// A session as the page knows it, and what follows from it. Pure: nothing here draws or asks.
//
// The server sends changes: everything after a revision, as it is now. `merge` takes one in. A
// stretch is the bytes of one entry (or of the head) at their place in every body that has them;
// a request is known by its last stretch, and its body is the way from there up to the head.

import { unpaused } from "./pause.js";

export function emptySession() {
  return {
    revision: 0, session: {}, agents: new Map(), transcripts: new Map(),
    stretches: [], requests: [], spans: new Map(), marks: [], links: [], counts: [], prices: {},
    questions: [], rows: [], misses: [], missed: new Map(), sent: 0, distinct: 0,
  };
}

export function merge(state, change) {
  state.revision = change.revision;
  state.session = change.session;
  if (change.questions) state.questions = change.questions;
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
    const depth = before ? before.depth + 1 : 1;
    state.distinct += size;
    state.stretches.push({ number, above, offset, size, kind, role, digest, depth, ends: 0, uses: 0 });
  }
  const requests = fresh(state.requests, change.requests);
  for (const request of requests) {
    state.requests.push(request);
    if (request.last < 0) continue;
    state.stretches[request.last].ends += 1;
    state.sent += request.size;
    state.rows.push(rowOf(state, request));
  }
  if (requests.length) countUses(state);
  for (const miss of fresh(state.misses, change.misses)) {
    state.misses.push(miss);
    state.missed.set(missKey(miss.agent, miss.digest, miss.read), miss);
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

// In how many requests each stretch is. One stands behind what it follows, so that a single way
// back through all of them counts, however long the bodies are.
function countUses({ stretches }) {
  for (const stretch of stretches) stretch.uses = stretch.ends;
  for (let at = stretches.length - 1; at >= 0; at -= 1) {
    const { above, uses } = stretches[at];
    if (above >= 0) stretches[above].uses += uses;
  }
}

// The stretches of a request's body, the head first.
export function segmentsOf(state, request) {
  const found = [];
  for (let at = request.last; at >= 0; at = state.stretches[at].above) found.push(state.stretches[at]);
  return found.reverse();
}

// A row for each request whose body is stored, in the order in which they were answered.
function rowOf(state, request) {
  const previous = state.rows.at(-1);
  let segments = null;
  return {
    number: request.number,
    agent: request.agent,
    size: request.size,
    // Put together for rows that are looked at: of a long session all would be very many.
    get segments() {
      segments ||= segmentsOf(state, request);
      return segments;
    },
    digest: state.stretches[request.last].digest,
    sharedWithPrevious: previous ? partOf(state, previous.request, request).offset : 0,
    marks: request.marked,
    ...boundaries(request),
    request,
  };
}

function missKey(agent, digest, read) {
  return `${agent} ${digest} ${read}`;
}

// How a request missed the cache, or null: events tell of it, by the prompt that was sent.
export function missOf(state, row) {
  return state.missed.get(missKey(row.agent, row.digest, row.request.usage.read)) || null;
}

export function missWords({ predicted, why }) {
  return `missed: it should have read ${count(predicted)} tokens${why ? `; ${why}` : ""}`;
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
  let [one, other] = [left.last, right.last];
  // One stands behind what it follows: the later of two cannot be in the other's way.
  while (one !== other) {
    if (one > other) one = state.stretches[one].above;
    else other = state.stretches[other].above;
  }
  const shared = other < 0 ? null : state.stretches[other];
  const offset = shared ? shared.offset + shared.size : 0;
  const entries = shared ? shared.depth : 0;
  return {
    offset,
    entries,
    relation: offset < Math.min(left.size, right.size) ? "differs"
      : left.size === right.size ? "same" : offset === left.size ? "extends" : "extended",
  };
}

// What of `prong explain` stretches tell. They are taken whole, also where the first bytes of two are the
// same, so that this is a most; and tokens go by bytes, so that it may be a few of a hundred off.
export function explained(state, left, right) {
  const { offset, relation } = partOf(state, left, right);
  const rewritten = relation === "differs" ? right.input - Math.round((right.input * offset) / right.size) : 0;
  const price = state.prices[right.model];
  return { relation, rewritten_tokens: rewritten, cost: price ? (rewritten * (price.write - price.read)) / 1e6 : null };
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

// Rows that a lane has at most. A fan-out of 256 is as many calls at once, and nobody would see its forks.
const DEEPEST = 6;

// Lanes of the timeline: one of each agent and below it as many as overlap, with their spans. While somebody
// works they reach up to now, if that is known: a long command tells nothing until it ends.
export function lanesOf(state, now = 0) {
  const lanes = [];
  const busy = [];
  const byAgent = new Map();
  const spans = [...state.spans.values()].sort((a, b) => a.opened.at - b.opened.at);
  const works = spans.some(({ opened, closed }) => !closed && opened.kind !== "agent");
  const last = spans.reduce((end, span) => Math.max(end, span.closed?.at || 0), Math.max(state.session.at || 0, works ? now : 0));
  for (const { opened, closed } of spans) {
    if (!byAgent.has(opened.agent)) byAgent.set(opened.agent, { bars: [], free: [], over: 0 });
    const own = byAgent.get(opened.agent);
    const [start, end] = [opened.at, closed ? closed.at : last];
    const nests = opened.kind === "agent" || opened.kind === "turn" || opened.kind === "fanout";
    const bar = { ...opened, start, end, first: closed?.first || 0, failed: Boolean(closed?.failed),
      open: !closed, done: closed?.details || {}, level: 0 };
    if (nests) {
      bar.level = -1;
    } else {
      // They come in the order in which they begin, so a level is free once its last has ended.
      while (bar.level < DEEPEST - 1 && own.free[bar.level] > start) bar.level += 1;
      if (own.free[bar.level] > start) own.over += 1;
      own.free[bar.level] = Math.max(own.free[bar.level] || 0, end);
      busy.push([start, end]);
    }
    own.bars.push(bar);
  }
  for (const [agent, { bars, free, over }] of byAgent) {
    lanes.push({ agent, bars, depth: Math.max(1, free.length), over });
  }
  const start = spans.length ? spans[0].opened.at : 0;
  return { lanes, start, end: last, pieces: unpaused(busy, start, last) };
}

// A text in which nothing is hidden and nothing turns round what stands beside it: for what somebody
// is to agree to. Characters that do so are shown by their numbers.
export const visible = (text) =>
  String(text ?? "").replace(/[^\P{C}\n\t]|[\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0]/gu,
    (char) => `\\u{${char.codePointAt(0).toString(16)}}`);

// A name of one line: models make up titles, and none is to fill the page.
export const brief = (text) => (text.length > 200 ? `${text.slice(0, 200)}…` : text);

// Below a dollar with the digits that a terminal shows: with fewer, what was paid and what would have
// been are often the same.
export function money(dollars) {
  if (dollars === null || dollars === undefined) return "price unknown";
  const amount = Math.abs(dollars);
  if (amount && amount < 0.01) return `$${dollars.toPrecision(2)}`;
  return `$${dollars.toFixed(amount && amount < 1 ? 4 : 2)}`;
}
export const count = (number) => (number ?? 0).toLocaleString("en");
export const many = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
export const waiting = (asks) => `${many(asks.length, "question")} ${asks.length === 1 ? "waits" : "wait"} for an answer`;
export const percent = (share) => (share === null || share === undefined ? "–" : `${Math.floor(share * 100)}%`);
// A time since the beginning, as exact as a step of a ruler.
export function clock(number, step) {
  const digits = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9));
  if (number < 120) return `${number.toFixed(digits)} s`;
  const shown = Number(number.toFixed(digits));
  const [hours, minutes] = [Math.floor(shown / 3600), Math.floor(shown / 60) % 60];
  const rest = (shown % 60).toFixed(digits).padStart(digits ? digits + 3 : 2, "0");
  return hours ? `${hours}:${String(minutes).padStart(2, "0")}:${rest} h` : `${minutes}:${rest} min`;
}
export const seconds = (number) => (number < 1 ? `${Math.round(number * 1000)} ms` : `${number.toFixed(1)} s`);
