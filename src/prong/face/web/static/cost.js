// What was paid, what the same would have cost without sharing, and the least it could have.

import { el, fill, inFrame } from "./dom.js";
import { count, money, percent } from "./model.js";
import { UNANSWERED } from "./source.js";

const FIRST = ["session", "fan"];

// All of it before its parts: below hundreds of agents nobody would look for it.
const rank = ({ kind }) => (FIRST.includes(kind) ? FIRST.indexOf(kind) : FIRST.length);

export function mountCost(section, source) {
  const table = el("tbody");
  let known = -1;
  const names = ["Whose", "Requests", "Tokens in", "Read", "Paid", "Without sharing", "Without a cache", "Least possible", "Estimated before"];
  fill(section, el("table", { class: "cost" }, el("caption", {}, "Cost in all, by fan-out and by agent"),
    el("thead", {}, el("tr", {}, names.map((name) => el("th", { scope: "col" }, name)))), table));
  return { refresh: inFrame(async () => {
    if (section.hidden || !source.state.revision || known === source.state.requests.length) return;
    known = source.state.requests.length;
    const told = await source.cost();
    if (!told) {
      known = -1;
      if (!table.firstChild) fill(table, el("tr", {}, el("td", { colspan: String(names.length) }, UNANSWERED)));
      return;
    }
    const lines = [...told].sort((a, b) => rank(a) - rank(b));
    const most = Math.max(1e-12, ...lines.filter((line) => line.kind !== "session").map((line) => line.unshared || line.cost || 0));
    fill(table, ...lines.map((line) => {
      const bar = el("meter", { min: "0", max: String(most), value: String(Math.min(most, line.cost || 0)), "aria-hidden": "true" });
      return el("tr", { class: line.kind }, el("th", { scope: "row" }, line.agent), el("td", {}, count(line.requests)),
        el("td", {}, count(line.input)),
        el("td", {}, line.usage.silent ? "not told" : percent(line.input ? line.usage.read / line.input : null)),
        el("td", {}, money(line.cost), " ", line.kind === "session" ? null : bar),
        ...[line.unshared, line.uncached, line.least].map((amount) => el("td", {}, money(amount))),
        el("td", {}, line.estimated === null ? "" : money(line.estimated)));
    }));
  }) };
}
