// The sessions of this folder, with a search; each can be opened here or beside another.

import { el, fill } from "./dom.js";
import { count, money } from "./model.js";
import { UNANSWERED } from "./source.js";

export function mountSessions(section, source, open) {
  const list = el("ul", { class: "sessions", "aria-label": "Sessions" });
  const search = el("input", { type: "search", placeholder: "Search titles, models, ids", "aria-label": "Search sessions", on: { input: () => draw() } });
  const found = el("p", { role: "status", class: "note" });
  let sessions = [];
  fill(section, el("div", { class: "bar" }, search), found, list);

  function draw() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = sessions.filter((each) => {
      const text = `${each.title} ${each.model} ${each.id}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
    found.textContent = `${count(chosen.length)} of ${count(sessions.length)} sessions of this folder`;
    fill(list, ...chosen.slice(0, 200).map((each) => el("li", {},
      el("button", { type: "button", class: "open", on: { click: () => open(each.id, { beside: false }) } }, each.title || each.id),
      el("button", { type: "button", "aria-label": `Open ${each.title || each.id} beside`, on: { click: () => open(each.id, { beside: true }) } }, "beside"),
      el("small", {}, `${each.id} · ${new Date(each.modified * 1000).toLocaleString()} · ${each.model} · ${count(each.entries)} ${each.entries === 1 ? "entry" : "entries"} · ${money(each.cost)}${each.damage ? ` · damaged: ${each.damage}` : ""}`))));
  }

  return { async refresh() {
    if (section.hidden) return;
    const told = await source.sessions();
    if (!told) {
      found.textContent = UNANSWERED;
      return;
    }
    sessions = told;
    draw();
  } };
}
