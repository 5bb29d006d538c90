// When agents did what: a lane each, requests split into waiting and streaming, tools, questions,
// the wait for a leading fork, and arrows from a dispatch to its fork and from an end to its notice.

import { colours, el, fill, inFrame, lineWindow, scrolledCanvas } from "./dom.js";
import { count, lanesOf, money, seconds } from "./model.js";

const BAR = 14;
const GAP = 8;
const LEFT = 150;

export function mountTimeline(section, source) {
  let found = { lanes: [], start: 0, end: 0 };
  let places = [];
  const hovered = el("p", { class: "hovered" }, "Point at a bar. Ctrl and the wheel zoom; so do + and −.");
  const picture = scrolledCanvas("Timeline: a lane per agent", draw);
  const across = lineWindow(picture.paint);
  const table = el("tbody");
  const details = el("details", { on: { toggle: () => refresh() } }, el("summary", {}, "As a table"),
    el("table", {}, el("caption", {}, "What agents did"),
      el("thead", {}, el("tr", {}, ["Agent", "What", "Began after", "Took"].map((name) => el("th", { scope: "col" }, name)))), table));
  fill(section, el("div", { class: "bar" }, across.controls("timeline"),
    el("span", { class: "legend" }, ["waiting", "streaming", "tool", "asks", "held"].map((name) => el("span", { class: `key ${name}` }, name)))),
  picture.box, hovered, details);
  across.listen(picture.box, (event) => timeAt(event.offsetX));
  picture.box.addEventListener("mousemove", (event) => {
    const box = picture.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const hit = places.findLast((each) => x >= each.x && x <= each.x + each.width && y >= each.y && y <= each.y + BAR);
    if (hit) hovered.textContent = words(hit.bar);
  });

  function timeAt(x) {
    const { from, to } = across.view;
    return from + ((x - LEFT) / Math.max(1, picture.box.clientWidth - LEFT)) * (to - from);
  }

  function words(bar) {
    const parts = [`${bar.agent}: ${bar.kind} ${bar.name}`, bar.open ? "still goes on" : seconds(bar.end - bar.start)];
    if (bar.kind === "request" && bar.first) parts.push(`waited ${seconds(bar.first - bar.start)}, streamed ${seconds(bar.end - bar.first)}`);
    if (bar.done.input_tokens) parts.push(`${count(bar.done.input_tokens)} tokens in`);
    if (bar.done.cost !== undefined) parts.push(money(bar.done.cost));
    if (bar.details.title) parts.push(String(bar.details.title));
    return parts.join(", ");
  }

  function draw(pen, { width, height, top }) {
    const colour = colours();
    const { from, to } = across.view;
    const x = (time) => LEFT + ((time - found.start - from) / (to - from)) * (width - LEFT);
    pen.font = "12px ui-monospace, monospace";
    pen.textBaseline = "middle";
    places = [];
    const where = new Map();
    let y = GAP - top;
    for (const lane of found.lanes) {
      const tall = lane.depth * (BAR + 2) + GAP + 6;
      if (y + tall > 0 && y < height) drawLane(pen, colour, lane, { x, y, width });
      for (const bar of lane.bars) where.set(bar.key, y + 6 + Math.max(0, bar.level) * (BAR + 2) + BAR / 2);
      y += tall;
    }
    drawLinks(pen, colour, where, { x, width });
    pen.fillStyle = colour("ground");
    pen.clearRect(0, 0, LEFT - 2, height);
    y = GAP - top;
    pen.fillStyle = colour("ink");
    for (const lane of found.lanes) {
      pen.fillText(lane.agent.slice(-20), 2, y + 6 + BAR / 2);
      y += lane.depth * (BAR + 2) + GAP + 6;
    }
  }

  function drawLane(pen, colour, lane, { x, y }) {
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
        pen.fillText(bar.name, left + 3, at + BAR / 2);
        pen.restore();
      }
      places.push({ x: left, y: at, width, bar });
    }
  }

  function drawLinks(pen, colour, where, { x }) {
    pen.strokeStyle = colour("ink");
    pen.globalAlpha = 0.5;
    for (const link of source.state.links) {
      const [a, b] = [where.get(link.source), where.get(link.target)];
      if (a === undefined || b === undefined) continue;
      const [left, right] = [x(link.left), x(link.arrived)];
      pen.beginPath();
      pen.moveTo(left, a);
      pen.bezierCurveTo(left + 20, a, right - 20, b, right, b);
      pen.moveTo(right - 5, b - 3);
      pen.lineTo(right, b);
      pen.lineTo(right - 5, b + 3);
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }

  const refresh = inFrame(() => {
    found = lanesOf(source.state);
    across.setEnd(Math.max(0.001, found.end - found.start));
    picture.setHeight(found.lanes.reduce((sum, lane) => sum + lane.depth * (BAR + 2) + GAP + 6, 2 * GAP));
    picture.paint();
    if (!details.open) return;
    const bars = found.lanes.flatMap((lane) => lane.bars).sort((a, b) => a.start - b.start);
    fill(table, ...bars.slice(-300).map((bar) => el("tr", {}, el("th", { scope: "row" }, bar.agent),
      el("td", {}, `${bar.kind} ${bar.name}`), el("td", {}, seconds(bar.start - found.start)),
      el("td", {}, bar.open ? "still goes on" : seconds(bar.end - bar.start)))));
  });
  return { refresh };
}
