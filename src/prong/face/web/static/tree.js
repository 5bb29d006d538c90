// The agents of a session, each below the one that started it, with what it is at and has cost.

import { el, fill, inFrame } from "./dom.js";
import { brief, many, money, percent, treeOf } from "./model.js";

const ENDED = ["completed", "failed", "killed"];
const SIGNS = { waiting: "○", idle: "●", working: "◐", asking: "?", completed: "✓", failed: "✗", killed: "✗" };

export function mountTree(section, source, open) {
  const list = el("ul", { class: "tree", "aria-label": "Agents" });
  let known = [];
  fill(section, list);

  function branch({ agent, children }) {
    // Nobody has told how it ended, and it does nothing any more.
    const broken = source.state.session.broken && !ENDED.includes(agent.state);
    const facts = [broken ? `broken off, was ${agent.state}` : agent.state, agent.doing, many(agent.requests, "request"), `cache ${percent(agent.cached)}`,
      agent.last_cached === null ? "" : `last ${percent(agent.last_cached)}`, money(agent.cost),
      agent.target ? `on ${agent.target}` : "", agent.missed ? `missed: ${agent.missed}` : ""];
    return el("li", {},
      el("button", { type: "button", class: broken ? "killed" : agent.state, on: { click: () => open(agent.path) } },
        el("span", { class: "sign", "aria-hidden": "true" }, SIGNS[broken ? "killed" : agent.state] || "·"),
        el("span", { class: "path" }, agent.path), " ",
        el("span", { class: "title" }, brief(agent.title) || agent.type || (agent.kind === agent.path ? "" : agent.kind)), " ",
        el("span", { class: "facts" }, facts.filter(Boolean).join(" · "))),
      children.length ? el("ul", {}, children.map(branch)) : null);
  }

  return { refresh: inFrame(() => {
    // An agent that has changed is another value; as long as none is, all of it stays as it is.
    const agents = [...source.state.agents.values()];
    const now = [source.state.session.broken, ...agents];
    if (list.firstChild && now.length === known.length && now.every((each, place) => each === known[place])) return;
    known = now;
    const held = list.contains(document.activeElement) && document.activeElement.querySelector(".path")?.textContent;
    fill(list, ...treeOf(source.state).map(branch));
    if (!source.state.agents.size) fill(list, el("li", {}, "No events of this session were recorded; its bytes and its cost are known from the journal."));
    // Made anew under a keyboard user's hands: what had the focus has it again.
    if (held) [...list.querySelectorAll("button")].find((each) => each.querySelector(".path").textContent === held)?.focus();
  }) };
}
