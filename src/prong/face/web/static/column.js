// One session on the page: its summary, and its parts behind tabs.

import { mountActing } from "./acting.js";
import { mountBytes } from "./bytes.js";
import { mountCost } from "./cost.js";
import { el, fill, inFrame } from "./dom.js";
import { many, money, waiting } from "./model.js";
import { mountSessions } from "./sessions.js";
import { mountTimeline } from "./timeline.js";
import { mountTranscript } from "./transcript.js";
import { mountTree } from "./tree.js";

let columns = 0;

// Only what is new is put there: a screen reader may say it each time.
function put(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

export function mountColumn(parent, source, open, close) {
  columns += 1;
  const own = `c${columns}`;
  const title = el("h1", {}, "Prong");
  // What a screen reader says by itself is how the session stands, and not each number that counts up.
  const standing = el("span", { role: "status" }, "Reading the session …");
  const numbers = el("span");
  const summary = el("p", { class: "summary" }, standing, numbers);
  const shut = el("button", { type: "button", class: "shut", on: { click: close } }, "close");
  const tabs = el("div", { role: "tablist", "aria-label": "Parts of the session" });
  const acts = el("section", { class: "acting", "aria-label": "Acting", hidden: true });
  const column = el("article", { class: "column", "aria-label": "Session" }, el("header", {}, title, shut, summary), acts, tabs);
  const acting = mountActing(acts, source);
  const parts = new Map();
  parent.append(column);

  function add(name, mount) {
    const panel = el("section", { role: "tabpanel", id: `${own}-${name}`, "aria-label": name, class: name.toLowerCase(), hidden: true });
    const tab = el("button", { type: "button", role: "tab", id: `${own}-tab-${name}`, "aria-controls": panel.id, "aria-selected": "false", tabindex: "-1", on: { click: () => select(name) } }, name);
    tabs.append(tab);
    column.append(panel);
    parts.set(name, { tab, panel, part: mount(panel) });
  }

  function select(name) {
    for (const [each, { tab, panel }] of parts) {
      const here = each === name;
      tab.setAttribute("aria-selected", String(here));
      tab.tabIndex = here ? 0 : -1;
      panel.hidden = !here;
    }
    parts.get(name).part.refresh();
  }

  tabs.addEventListener("keydown", (event) => {
    const names = [...parts.keys()];
    const now = names.findIndex((name) => !parts.get(name).panel.hidden);
    const to = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: -1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = names.at(to % names.length);
    select(next);
    parts.get(next).tab.focus();
  });
  add("Bytes", (panel) => mountBytes(panel, source));
  add("Agents", (panel) => mountTree(panel, source, (path) => {
    select("Transcript");
    parts.get("Transcript").part.show(path);
  }));
  add("Timeline", (panel) => mountTimeline(panel, source));
  add("Cost", (panel) => mountCost(panel, source));
  add("Transcript", (panel) => mountTranscript(panel, source));
  if (!source.stored) add("Sessions", (panel) => mountSessions(panel, source, open));
  select("Bytes");

  // Without anything read there is nothing to say of a session, not even that it has ended.
  function tellUnread() {
    if (source.connected) return;
    if (!source.shut) {
      put(standing, "The server does not answer; is 'prong web' still running?");
      return;
    }
    if (source.refusal) {
      put(standing, `This session cannot be shown: ${source.refusal}. Choose another under Sessions.`);
      return;
    }
    put(standing, "This tab was not let in: open the address that 'prong web' has printed, with all that follows its '?'.");
    for (const part of [acts, tabs, ...[...parts.values()].map(({ panel }) => panel)]) part.remove();
  }

  const refresh = inFrame(() => {
    const { revision, session, agents, requests, questions } = source.state;
    if (!revision) {
      tellUnread();
      return;
    }
    put(title, session.title || session.id || "Prong");
    // Who is not told by the server any more does not know whether it is live.
    const goes = session.live ? (source.connected ? "live" : "") : source.stored ? "a stored copy" : session.broken ? "" : "ended";
    const stands = [session.id, session.model, goes, session.broken ? "broken off: its process has ended without a word" : "",
      session.damage ? `damaged at ${session.damage}; what follows is left out` : "",
      session.live && questions.length ? waiting(questions) : "",
      source.connected ? "" : source.shut ? "the server does not let this tab in: open the address that 'prong web' has printed"
      : "the server is gone; this is what it last told"];
    const counted = [
      // Of a session without a record of its events neither is known here.
      session.recorded ? many(agents.size, "agent") : "no record of its events",
      many(requests.length, "request"), session.recorded ? money(session.cost) : "",
      // Writing costs more than not caching, until it is read for the first time.
      session.saved > 0 ? `the cache saved ${money(session.saved)}` : session.saved < 0 ? `the cache cost ${money(-session.saved)} more so far` : "",
      session.holes ? `${many(session.holes, "gap")} in its events` : ""];
    put(standing, stands.filter(Boolean).join(" · "));
    put(numbers, counted.filter(Boolean).map((each) => ` · ${each}`).join(""));
    acting.refresh();
    for (const { panel, part } of parts.values()) if (!panel.hidden && !panel.classList.contains("sessions")) part.refresh();
  });
  return { refresh, select, remove: () => column.remove(), column, part: (name) => parts.get(name).part,
    closable: (may) => { shut.hidden = !may; } };
}
