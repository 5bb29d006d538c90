// What was said and done in one agent's conversation. Calls and thoughts are folded.

import { el, fill, inFrame } from "./dom.js";
import { brief, count, money, seconds } from "./model.js";

const LATEST = 400;

export function mountTranscript(section, source) {
  const choice = el("select", { on: { change: () => show(choice.value) } });
  const list = el("ol", { class: "transcript" });
  const earlier = el("p", { class: "note" });
  let agent = "";
  let drawn = [];
  fill(section, el("label", { class: "bar" }, "Agent ", choice), earlier, list);

  function show(path) {
    agent = path;
    drawn = [];
    fill(list);
    refresh();
  }

  const refresh = inFrame(() => {
    const paths = [...source.state.transcripts.keys()];
    if (!agent && paths.length) agent = paths[0];
    if (choice.options.length !== paths.length) {
      fill(choice, ...paths.map((path) => el("option", { value: path }, path)));
    }
    choice.value = agent;
    const items = source.state.transcripts.get(agent) || [];
    const first = Math.max(0, items.length - LATEST);
    earlier.textContent = first ? `${count(first)} earlier items are not shown; 'prong show' has them all.`
      : source.state.session.recorded === 0 ? "No events of this session were recorded; 'prong show' has what was said."
      : items.length || !source.state.revision ? "" : "Nothing was said yet.";
    items.forEach((item, place) => {
      if (place < first || !item || drawn[place]?.item === item) return;
      const made = el("li", {}, drawItem(item));
      if (drawn[place]) putInPlace(drawn[place].node, made);
      else list.append(made);
      drawn[place] = { item, node: made };
    });
    while (list.children.length > LATEST) list.firstChild.remove();
  });
  return { refresh, show };
}

// What was unfolded stays so, and what had the focus has it again.
function putInPlace(before, made) {
  const [old, next] = [before, made].map((one) => one.querySelector("details"));
  const held = before.contains(document.activeElement);
  if (old && next) next.open = old.open;
  before.replaceWith(made);
  if (held) made.querySelector("summary")?.focus();
}

function drawItem(item) {
  switch (item.type) {
    case "said":
      return el("section", { class: `said ${item.kind}` }, el("h3", {}, item.kind), el("pre", {}, item.text));
    case "replied":
      return el("section", { class: "replied" },
        el("h3", {}, "reply", el("small", {}, ` ${count(item.usage.output)} tokens, ${money(item.cost)}`)),
        item.thinking ? folded("thinking", item.thinking) : null, el("pre", {}, item.text));
    case "partial_reply":
      return el("section", { class: "replied" }, el("h3", {}, "reply that was broken off"), el("pre", {}, item.text));
    case "called":
      return el("details", { class: `called ${item.state}` },
        el("summary", {}, el("code", {}, item.name), " ", el("span", { class: "title" }, brief(besideName(item))), " ", el("small", {}, `${item.state} ${item.state === "running" ? "" : seconds(item.duration)}`)),
        item.arguments ? el("pre", { class: "arguments" }, item.arguments) : null,
        el("pre", {}, ...diffLines(item.shown || item.text)));
    case "restarted":
      return el("p", { class: "note" }, `New prompt: ${item.reason}. ${item.detail}`);
    case "turn_ended":
      return el("p", { class: "note" }, `The turn ended: ${item.why}. ${item.detail}`);
    case "accounted":
      return el("section", { class: "receipts" }, el("h3", {}, "receipts"),
        el("ul", {}, item.receipts.map((receipt) => el("li", {}, receipt.text))));
    default:
      return el("p", { class: "note" }, String(item.type));
  }
}

// Titles of many tools begin with the tool's name, which stands there already.
export const besideName = ({ name, title }) => (title.startsWith(`${name} `) ? title.slice(name.length + 1) : title);

function folded(name, text) {
  return el("details", {}, el("summary", {}, name), el("pre", {}, text));
}

export function diffLines(text) {
  if (!/^(\+\+\+|---|@@) /m.test(text)) return [text];
  return text.split("\n").map((line) => {
    const kind = line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : "";
    return el("span", { class: kind }, `${line}\n`);
  });
}
