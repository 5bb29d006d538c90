// The ruler above a picture: where on its line a thing is. It is for eyes alone; tables have the same.

import { colours, el, sizedPen } from "./dom.js";

const HIGH = 18;
const APART = 90;

// A round step for ticks that are at least so far apart.
export function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= least * 0.999);
}

// `name` stands at its left; `words` tells a place of the line, known to a step.
export function mountRuler(name, words) {
  const canvas = el("canvas", { class: "ruler", "aria-hidden": "true" });

  // Draws pieces of the line, each from where it is drawn on; most lines are of one.
  function draw({ width, left, from, to, pieces }) {
    const pen = sizedPen(canvas, width, HIGH);
    const colour = colours();
    const scale = (width - left) / (to - from);
    const step = roundStep(APART / scale);
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.fillStyle = colour("soft");
    pen.fillText(name, 3, HIGH / 2);
    let free = left;
    for (const { start, end, at } of pieces) {
      const x = (value) => left + (at + value - start - from) * scale;
      const seen = Math.max(start, start + from - at);
      for (let turn = Math.ceil(seen / step - 1e-9); turn * step <= end && x(turn * step) <= width; turn += 1) {
        const tick = Math.max(0, turn * step);
        const text = words(tick, step);
        pen.fillRect(x(tick), HIGH - 5, 1, 5);
        if (x(tick) < free || x(tick) + pen.measureText(text).width > width) continue;
        pen.fillText(text, x(tick) + 3, HIGH / 2 - 1);
        free = x(tick) + pen.measureText(text).width + 12;
      }
    }
  }

  return { canvas, draw };
}
