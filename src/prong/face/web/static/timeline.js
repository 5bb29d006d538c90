// When agents did what: a lane each, requests split into waiting and streaming, tools, questions,
// the wait for a leading fork, and arrows from a dispatch to its fork and from an end to its notice.

import { colours, el, fill, inFrame, labelWidth, labelled, lineWindow, scrolledCanvas } from "./dom.js";
import { clock, count, lanesOf, money, seconds, visible } from "./model.js";
import { placeOf } from "./pause.js";
import { mountRuler } from "./ruler.js";

const LOOK = 1000;
const BAR = 14;
const GAP = 8;
const TABLE = 300;
const HINT = "Point at a bar. Ctrl and the wheel zoom; so do + and −.";
const UNKNOWN = "No events of this session were recorded, so that its times are not known.";
const KEYS = { waiting: "request: waits", streaming: "request: streams", tool: "tool", asks: "question to you", held: "waits for the leading fork" };

export function mountTimeline(section, source) {
  let found = { lanes: [], start: 0, end: 0, pieces: [] };
  let places = [];
  let waits = false;
  const hovered = el("p", { class: "hovered" }, HINT);
  const picture = scrolledCanvas("Timeline: a lane per agent", draw);
  const across = lineWindow(picture.paint);
  const ruler = mountRuler("since the start", clock);
  const table = el("tbody");
  const details = el("details", { on: { toggle: () => refresh() } }, el("summary", {}, "As a table"),
    el("table", {}, el("caption", {}, "What agents did"),
      el("thead", {}, el("tr", {}, ["Agent", "What", "Began after", "Took"].map((name) => el("th", { scope: "col" }, name)))), table));
  fill(section, el("div", { class: "bar" }, across.controls("timeline"),
    el("span", { class: "legend" }, Object.entries(KEYS).map(([name, words]) => el("span", { class: `key ${name}` }, words)),
      el("span", {}, "red frame: failed · lines above: agent, turn and fan-out · arrows: dispatch and notice · dashes: a pause, folded"))),
  ruler.canvas, picture.box, hovered, details);
  across.listen(picture.box, (event) => timeAt(event.offsetX));
  picture.box.addEventListener("mousemove", (event) => {
    const box = picture.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const hit = places.findLast((each) => x >= each.x && x <= each.x + each.width && y >= each.y && y <= each.y + BAR);
    if (hit) hovered.textContent = words(hit.bar);
  });

  function timeAt(x) {
    const { from, to } = across.view;
    const left = labelWidth(picture.box.clientWidth);
    return from + ((x - left) / Math.max(1, picture.box.clientWidth - left)) * (to - from);
  }

  function took(bar) {
    const time = seconds(bar.end - bar.start);
    return !bar.open ? time : source.state.session.live ? `goes on, ${time} so far` : "no end is known";
  }

  function words(bar) {
    const parts = [`${bar.agent}: ${bar.kind} ${visible(bar.name)}`, took(bar), ...course(bar)];
    if (bar.done.input_tokens) parts.push(`${count(bar.done.input_tokens)} tokens in`);
    if (bar.done.cost !== undefined) parts.push(money(bar.done.cost));
    if (bar.details.title) parts.push(visible(bar.details.title));
    return parts.join(", ");
  }

  function draw(pen, { width, height, left, top }) {
    const colour = colours();
    const { from, to } = across.view;
    const x = (time) => left + ((placeOf(found.pieces, time) - from) / (to - from)) * (width - left);
    pen.font = "12px ui-monospace, monospace";
    pen.textBaseline = "middle";
    places = [];
    const where = new Map();
    let y = GAP - top;
    for (const lane of found.lanes) {
      const tall = lane.depth * (BAR + 2) + GAP + 6;
      if (y + tall > 0 && y < height) drawLane(pen, colour, lane, { x, y, edge: left });
      for (const bar of lane.bars) where.set(bar.key, y + 6 + Math.max(0, bar.level) * (BAR + 2) + BAR / 2);
      y += tall;
    }
    drawLinks(pen, colour, where, { x, height });
    drawPauses(pen, colour, { x, height });
    pen.clearRect(0, 0, left - 2, height);
    y = GAP - top;
    pen.fillStyle = colour("ink");
    for (const lane of found.lanes) {
      pen.fillText(labelled(lane.agent, left), 2, y + 6 + BAR / 2);
      if (lane.over) pen.fillText(labelled(`+${count(lane.over)} at once`, left), 2, y + 8 + BAR * 1.5);
      y += lane.depth * (BAR + 2) + GAP + 6;
    }
    const since = found.pieces.map((piece) => ({ start: piece.start - found.start, end: piece.end - found.start, at: piece.at }));
    ruler.draw({ width, left, from, to, pieces: since });
  }

  // A line down the picture where time was left out; the ruler goes on behind it.
  function drawPauses(pen, colour, { x, height }) {
    pen.strokeStyle = colour("soft");
    pen.setLineDash([4, 4]);
    pen.beginPath();
    for (const [place, piece] of found.pieces.entries()) {
      if (!place) continue;
      const middle = (x(found.pieces[place - 1].end) + x(piece.start)) / 2;
      pen.moveTo(middle, 0);
      pen.lineTo(middle, height);
    }
    pen.stroke();
    pen.setLineDash([]);
  }

  function drawLane(pen, colour, lane, { x, y, edge }) {
    for (const bar of lane.bars) {
      const [left, right] = [x(bar.start), x(bar.end)];
      const width = Math.max(1, right - left);
      if (bar.level < 0) {
        pen.fillStyle = colour("line");
        pen.fillRect(left, y + (bar.kind === "agent" ? 0 : 2), width, 2);
        continue;
      }
      const at = y + 6 + bar.level * (BAR + 2);
      const split = bar.first ? x(bar.first) : right;
      if (bar.kind === "request") {
        pen.fillStyle = colour("waiting");
        pen.fillRect(left, at, Math.max(1, split - left), BAR);
        pen.fillStyle = colour("streaming");
        if (bar.first) pen.fillRect(split, at, Math.max(1, right - split), BAR);
      } else {
        pen.fillStyle = colour(bar.kind === "permission" || bar.kind === "question" ? "asks" : bar.kind === "held" ? "held" : "tool");
        pen.fillRect(left, at, width, BAR);
      }
      if (bar.failed) {
        pen.strokeStyle = colour("bad");
        pen.lineWidth = 2;
        pen.strokeRect(left + 1, at + 1, Math.max(1, width - 2), BAR - 2);
      }
      if (width > 40) {
        pen.save();
        pen.beginPath();
        pen.rect(left, at, width, BAR);
        pen.clip();
        pen.fillStyle = colour("ink");
        pen.fillText(bar.name, Math.max(left, edge) + 3, at + BAR / 2);
        pen.restore();
      }
      places.push({ x: left, y: at, width, bar });
    }
  }

  function drawLinks(pen, colour, where, { x, height }) {
    pen.strokeStyle = colour("ink");
    pen.lineWidth = 1;
    pen.globalAlpha = 0.5;
    for (const link of source.state.links) {
      const [a, b] = [where.get(link.source), where.get(link.target)];
      if (a === undefined || b === undefined) continue;
      // Those of forks that are further up or down would lie over each other and over all that is seen.
      const fork = link.kind === "dispatch" ? b : a;
      if (fork < 0 || fork > height) continue;
      const [left, right] = [x(link.left), x(link.arrived)];
      pen.beginPath();
      pen.moveTo(left, a);
      const bend = Math.max(0, Math.min(20, (right - left) / 2));
      pen.bezierCurveTo(left + bend, a, right - bend, b, right, b);
      pen.moveTo(right - 5, b - 3);
      pen.lineTo(right, b);
      pen.lineTo(right - 5, b + 3);
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }

  // What goes on grows, also while nothing is told of it.
  function lookAgain() {
    if (waits) return;
    waits = true;
    setTimeout(() => {
      waits = false;
      if (section.isConnected && !section.hidden) refresh();
    }, LOOK);
  }

  const refresh = inFrame(() => {
    const now = source.now?.() || 0;
    found = lanesOf(source.state, now);
    if (now && found.end >= now) lookAgain();
    across.setEnd(Math.max(0.001, placeOf(found.pieces, found.end)));
    picture.setHeight(found.lanes.reduce((sum, lane) => sum + lane.depth * (BAR + 2) + GAP + 6, 2 * GAP));
    picture.paint();
    if (source.state.session.recorded === 0) hovered.textContent = UNKNOWN;
    else if (hovered.textContent === UNKNOWN) hovered.textContent = HINT;
    if (!details.open) return;
    const bars = found.lanes.flatMap((lane) => lane.bars).sort((a, b) => a.start - b.start);
    fill(table, ...bars.slice(-TABLE).map((bar) => el("tr", {}, el("th", { scope: "row" }, bar.agent),
      el("td", {}, `${bar.kind} ${bar.name}`), el("td", {}, seconds(bar.start - found.start)),
      el("td", {}, [took(bar), course(bar).join(", ")].filter(Boolean).join(": ")))),
    bars.length > TABLE ? el("tr", {}, el("td", { colspan: "4" }, `${count(bars.length - TABLE)} earlier ones are in the picture alone.`)) : null);
  });
  return { refresh };
}

// What the colours and the frame of a bar say.
function course(bar) {
  const split = bar.kind === "request" && bar.first
    ? [`waited ${seconds(bar.first - bar.start)}`, `streamed ${seconds(bar.end - bar.first)}`] : [];
  return bar.failed ? [...split, "failed"] : split;
}
