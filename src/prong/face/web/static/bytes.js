// The byte map: a row per request, x = offset in its body. Equal bytes in equal places are one
// stretch with one colour, so what siblings share is a band that runs down all of them.

import { colours, el, fill, inFrame, labelWidth, labelled, lineWindow, scrolledCanvas } from "./dom.js";
import { count, missOf, missWords, money, partOf, percent, shareOf } from "./model.js";
import { mountRuler } from "./ruler.js";

const ROW = 18;
const TABLE = 500;
const KINDS = ["head", "user", "reply", "results", "notice", "directive"];

export function mountBytes(section, source) {
  const chosen = [];
  const rows = source.state.rows;
  let tabled = "";
  const hovered = el("p", { class: "hovered" }, "Point at a stretch to see what it is; press two rows to compare them.");
  const sum = el("p", { class: "sum" });
  const verdict = el("div", { class: "verdict", role: "status" });
  const peek = el("div");
  const table = el("tbody");
  const unfolded = el("details", { on: { toggle: () => refresh() } }, el("summary", {}, "As a table"),
    el("table", {}, el("caption", {}, "Requests whose bodies are stored"),
      el("thead", {}, el("tr", {}, ["Request", "Agent", "Bytes", "Shared with the one before",
        "Read", "Written", "Missed", "Cost", "Compare"].map((name) => el("th", { scope: "col" }, name)))),
      table));
  const picture = scrolledCanvas("Byte map: a row per request", draw);
  const across = lineWindow(picture.paint);
  const ruler = mountRuler("byte", count);
  fill(section,
    el("div", { class: "bar" }, across.controls("byte map"), legend()),
    sum, ruler.canvas, picture.box, hovered, verdict, peek, unfolded);
  across.listen(picture.box, (event) => byteAt(event.offsetX));
  picture.box.addEventListener("mousemove", point);
  picture.box.addEventListener("click", (event) => {
    const row = rowAt(event);
    if (!row) return;
    look(row, segmentAt(row, event) || row.segments.at(-1));
    choose(row.number);
  });

  function byteAt(x) {
    const { from, to } = across.view;
    const left = labelWidth(picture.box.clientWidth);
    return from + ((x - left) / Math.max(1, picture.box.clientWidth - left)) * (to - from);
  }

  function rowAt(event) {
    const y = event.clientY - picture.canvas.getBoundingClientRect().top + picture.box.scrollTop;
    return rows[Math.floor(y / ROW)];
  }

  function segmentAt(row, event) {
    const byte = byteAt(event.clientX - picture.canvas.getBoundingClientRect().left);
    return row?.segments.find((each) => byte >= each.offset && byte < each.offset + each.size);
  }

  // Offers the bytes of a stretch, and all stretches of its row; either is made when somebody opens it.
  function look(row, segment) {
    const text = el("pre");
    fill(peek, source.stored ? null : el("details", { on: { toggle: async () => {
      if (!text.textContent) text.textContent = await source.entry(segment.digest);
    } } }, el("summary", {}, `Bytes of request ${row.number} from ${count(segment.offset)} on: ${segment.kind}, ${count(segment.size)} bytes`), text),
    stretches(row));
  }

  // What pointing at a row tells, for who cannot point.
  function stretches(row) {
    const [name, body] = [`Stretches of request ${row.number}`, el("tbody")];
    const beyond = row.segments.length - TABLE;
    const draw = () => fill(body, ...row.segments.slice(-TABLE).map((segment) => {
      const { tokens, cost } = shareOf(source.state, row.request, segment);
      return el("tr", {}, el("th", { scope: "row" }, segment.kind), [count(segment.offset), count(segment.size), `about ${count(tokens)}`,
        readWords(row, segment), `about ${money(cost)}`, `${segment.uses} of ${rows.length}`].map((each) => el("td", {}, each)));
    }), beyond > 0 ? el("tr", {}, el("td", { colspan: "7" }, `${count(beyond)} earlier ones are in the picture alone.`)) : null);
    return el("details", { on: { toggle: draw } }, el("summary", {}, `${name}: ${count(row.segments.length)}`),
      el("table", {}, el("caption", {}, name), el("thead", {}, el("tr", {}, ["Kind", "From byte", "Bytes", "Tokens", "Cache", "Price", "In requests"]
        .map((each) => el("th", { scope: "col" }, each)))), body));
  }

  function draw(pen, { width, height, left, top }) {
    const colour = colours();
    const { from, to, end } = across.view;
    const scale = (width - left) / (to - from);
    const first = Math.max(0, Math.floor(top / ROW));
    const last = Math.min(rows.length, Math.ceil((top + height) / ROW));
    pen.font = "12px ui-monospace, monospace";
    pen.textBaseline = "middle";
    for (let place = first; place < last; place += 1) {
      drawRow(pen, colour, rows[place], place * ROW - top, { before: rows[place - 1], from, to, scale, width, left });
    }
    ruler.draw({ width, left, from, to, pieces: [{ start: 0, end, at: 0 }] });
  }

  function drawRow(pen, colour, row, y, { before, from, to, scale, width, left: names }) {
    const x = (byte) => names + (byte - from) * scale;
    pen.save();
    pen.beginPath();
    pen.rect(names, y - 1, width - names, ROW + 1);
    pen.clip();
    let drawn = -Infinity;
    for (const segment of row.segments) {
      const [start, end] = [segment.offset, segment.offset + segment.size];
      if (end < from || start > to) continue;
      const right = x(end);
      // Many small ones in one pixel are one pixel; what only this request has is never lost.
      if ((segment.uses > 1) && right - drawn < 0.5) continue;
      const left = Math.max(x(start), (segment.uses > 1) ? drawn : -Infinity);
      pen.fillStyle = colour(`${kindOf(segment)}${segment.number % 2 ? "-b" : "-a"}`);
      // What the row above has too is one piece with it; between others there is a gap.
      const joined = before?.segments[segment.depth - 1] === segment;
      const high = joined ? ROW : (segment.uses > 1) ? ROW - 2 : ROW / 2 - 1;
      pen.fillRect((segment.uses > 1) ? left : Math.min(left, x(to) - 2), y + ROW - 1 - high,
        Math.max((segment.uses > 1) ? 0.5 : 2, right - left), high);
      drawn = right;
    }
    pen.fillStyle = colour("ink");
    for (const mark of row.marks || []) {
      if (mark >= from && mark <= to) pen.fillRect(Math.min(x(mark) - 1, width - 2), y, 2, 5);
    }
    if (row.readTo !== null) pen.fillRect(x(0), y + ROW - 3, (row.readTo) * scale, 2);
    if (row.writtenTo !== null && row.writtenTo > row.readTo) {
      pen.setLineDash([3, 3]);
      pen.strokeStyle = colour("ink");
      pen.beginPath();
      pen.moveTo(x(row.readTo), y + ROW - 2);
      pen.lineTo(x(row.writtenTo), y + ROW - 2);
      pen.stroke();
    }
    pen.restore();
    const isChosen = chosen.includes(row.number);
    pen.fillStyle = colour("line");
    if (isChosen) pen.fillRect(0, y, names - 4, ROW);
    const missed = missOf(source.state, row);
    pen.fillStyle = colour(missed ? "bad" : "ink");
    const number = `${isChosen ? "▸" : " "}${row.number}${missed ? "!" : " "}`;
    pen.fillText(number + labelled(row.agent, names - pen.measureText(number).width), 2, y + ROW / 2);
  }

  function point(event) {
    const row = rowAt(event);
    const byte = byteAt(event.clientX - picture.canvas.getBoundingClientRect().left);
    const segment = segmentAt(row, event);
    if (!segment) return;
    const share = shareOf(source.state, row.request, segment);
    hovered.textContent = `Request ${row.number} of ${row.agent}: ${segment.kind} at byte ${count(segment.offset)}, `
      + `${count(segment.size)} bytes, about ${count(share.tokens)} tokens, ${readWords(row, segment)}, about ${money(share.cost)}; `
      + `in ${segment.uses} of ${rows.length} requests. Byte ${count(Math.floor(byte))}. `
      + `The request: ${count(row.request.input)} tokens, ${money(row.request.cost)}`
      + (missOf(source.state, row) ? `; ${missWords(missOf(source.state, row))}.` : ".");
  }

  async function choose(number) {
    const known = chosen.indexOf(number);
    if (known >= 0) chosen.splice(known, 1);
    else chosen.push(number);
    if (chosen.length > 2) chosen.shift();
    refresh();
    if (chosen.length < 2) {
      fill(verdict);
      return;
    }
    const [a, b] = chosen;
    const [left, right] = [a, b].map((each) => source.state.requests[each - 1]);
    const part = partOf(source.state, left, right);
    fill(verdict, ...partWords(left, right, part));
    const told = await source.explain(a, b);
    if (told && chosen[0] === a && chosen[1] === b) fill(verdict, ...partWords(left, right, part), ...explainWords(left, right, told));
  }

  function partWords(left, right, part) {
    const rest = Math.max(left.size, right.size) - part.offset;
    const margin = Math.max(20, rest);
    return [
      el("p", {}, `Requests ${left.number} (${left.agent}) and ${right.number} (${right.agent}) share `
        + `their first ${part.entries} stretches, ${count(part.offset)} bytes (${percent(part.offset / Math.max(1, right.size))} of the second)`
        + ({ same: "; they are the same.", differs: `; they part in what begins at byte ${count(part.offset)}.` }[part.relation] || ".")),
      part.relation === "same" ? null : el("button", { type: "button", on: {
        click: () => across.set(part.offset - margin, part.offset + margin) } }, "Look at that place"),
    ];
  }

  function explainWords(left, right, told) {
    const found = told.difference;
    const words = [];
    // Only the bytes themselves tell it, and what is told without them is a bound.
    const exact = told.first_byte !== undefined;
    if (exact && told.relation === "differs") words.push(el("p", {}, `The first differing byte is ${count(told.first_byte)}.`));
    if (found) {
      const where = found.byte >= 0 ? `, byte ${count(found.byte)} of it` : "";
      words.push(el("p", {}, `First difference in ${found.section}: ${found.path}${where}`));
      words.push(el("dl", {}, el("dt", {}, `Request ${left.number} there`), el("dd", {}, found.left || "(nothing)"),
        el("dt", {}, `Request ${right.number} there`), el("dd", {}, found.right || "(nothing)")));
    }
    if (told.relation === "differs") {
      words.push(el("p", {}, `Written instead of read: ${exact ? "" : "at most about "}${count(told.rewritten_tokens)} tokens, ${money(told.cost)} more.`));
    } else if (told.relation === "extends") {
      words.push(el("p", {}, "The second goes on where the first ends: all of the first can be read."));
    } else if (told.relation === "extended") {
      words.push(el("p", {}, "The second is the beginning of the first: all of it can be read."));
    }
    return words;
  }

  function tableRow(row) {
    return el("tr", {},
      el("th", { scope: "row" }, String(row.number)), el("td", {}, row.agent), el("td", {}, count(row.size)),
      el("td", {}, `${count(row.sharedWithPrevious)} (${percent(row.sharedWithPrevious / Math.max(1, row.size))})`),
      el("td", {}, row.request.usage.silent ? "not told" : count(row.request.usage.read)),
      el("td", {}, count(row.request.written)), missCell(row), el("td", {}, money(row.request.cost)),
      el("td", {}, el("button", { type: "button", "aria-pressed": String(chosen.includes(row.number)),
        "aria-label": `Compare request ${row.number}`, on: { click: () => {
          look(row, row.segments.at(-1));
          choose(row.number);
        } } }, "compare")));
  }

  function missCell(row) {
    const missed = missOf(source.state, row);
    return missed ? el("td", { class: "missed" }, `! ${missWords(missed)}`) : el("td");
  }

  const refresh = inFrame(() => {
    const { revision, sent, distinct } = source.state;
    const empty = Boolean(revision) && !rows.length;
    for (const each of [ruler.canvas, picture.box, hovered]) each.hidden = empty;
    sum.textContent = empty ? "No request of this session is stored yet."
      : rows.length > 1 ? `These requests have ${count(sent)} bytes: ${count(distinct)} of them (${percent(distinct / sent)}) are new, `
        + "the others stand in the same place of an earlier request." : "";
    across.setEnd(rows.reduce((most, row) => Math.max(most, row.size), 1));
    picture.setHeight(rows.length * ROW);
    picture.paint();
    // Hundreds of rows that nobody looks at would take more time than the picture.
    const now = `${rows.length} ${chosen} ${source.state.misses.length}`;
    if (!unfolded.open || now === tabled) return;
    tabled = now;
    const beside = source.state.requests.length - rows.length;
    const held = table.contains(document.activeElement) && document.activeElement.getAttribute("aria-label");
    fill(table, ...rows.slice(-TABLE).map(tableRow),
    rows.length > TABLE ? el("tr", {}, el("td", { colspan: "9" }, `${count(rows.length - TABLE)} earlier ones are in the picture alone.`)) : null,
    beside ? el("tr", {}, el("td", { colspan: "9" }, `${count(beside)} requests beside the conversations are not stored.`)) : null);
    // Made anew under a keyboard user's hands: what had the focus has it again.
    if (held) [...table.querySelectorAll("button")].find((each) => each.getAttribute("aria-label") === held)?.focus();
  });
  return { refresh, choose };
}

function readWords({ readTo, writtenTo }, { offset, size }) {
  return readTo === null ? "not told"
    : offset + size <= readTo ? "read" : offset < readTo ? "read in part"
    : offset < writtenTo ? "written" : "neither read nor written";
}

function kindOf(segment) {
  return KINDS.includes(segment.kind) ? segment.kind : segment.role === "assistant" ? "reply" : "user";
}

function legend() {
  const names = { head: "head: instructions and tools", user: "user", reply: "replies", results: "results of tools", notice: "notices", directive: "directives to forks" };
  return el("span", { class: "legend" },
    Object.entries(names).map(([kind, name]) => el("span", { class: `key ${kind}` }, name)),
    el("span", {}, "full height: shared · no gap: with the row above · half: of this one alone · line below: read from the cache · dashes: written to it · ticks above: cache marks · !: missed the cache"));
}
