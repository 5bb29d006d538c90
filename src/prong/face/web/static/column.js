// One session on the page: its summary, and its parts behind tabs.

import { mountBytes } from "./bytes.js";
import { mountCost } from "./cost.js";
import { el, fill, inFrame } from "./dom.js";
import { count, money } from "./model.js";
import { mountSessions } from "./sessions.js";
import { mountTimeline } from "./timeline.js";
import { mountTranscript } from "./transcript.js";
import { mountTree } from "./tree.js";

let columns = 0;

export function mountColumn(parent, source, open, close) {
  columns += 1;
  const own = `c${columns}`;
  const title = el("h1", {}, "Prong");
  const summary = el("p", { class: "summary", role: "status" }, "Reading the session …");
  const shut = el("button", { type: "button", class: "shut", on: { click: close } }, "close");
  const tabs = el("div", { role: "tablist", "aria-label": "Parts of the session" });
  const column = el("article", { class: "column", "aria-label": "Session" }, el("header", {}, title, shut, summary), tabs);
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
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const names = [...parts.keys()];
    const now = names.findIndex((name) => !parts.get(name).panel.hidden);
    const next = names[(now + step + names.length) % names.length];
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

  const refresh = inFrame(() => {
    const { session, agents, requests } = source.state;
    title.textContent = session.title || session.id || "Prong";
    const parts_ = [session.id, session.model, session.live ? "live" : source.stored ? "a stored copy" : "ended",
      `${count(agents.size)} agents`, `${count(requests.length)} requests`, money(session.cost),
      session.saved ? `the cache saved ${money(session.saved)}` : "",
      session.holes ? `${count(session.holes)} gaps in its events` : "",
      session.damage ? `damaged at ${session.damage}; what follows is left out` : "",
      session.questions?.length ? `${count(session.questions.length)} questions wait for an answer in the terminal` : "",
      source.connected ? "" : "the server is gone; this is what it last told"];
    summary.textContent = parts_.filter(Boolean).join(" · ");
    for (const { panel, part } of parts.values()) if (!panel.hidden && !panel.classList.contains("sessions")) part.refresh();
  });
  return { refresh, select, remove: () => column.remove(), column, part: (name) => parts.get(name).part,
    closable: (may) => { shut.hidden = !may; } };
}
