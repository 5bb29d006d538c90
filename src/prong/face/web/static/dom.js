// Makes elements. Text of models, tools and files comes in as text nodes and in no other way.

export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "on") for (const [event, act] of Object.entries(value)) made.addEventListener(event, act);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

export function fill(parent, ...children) {
  parent.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));
}

// Text follows the system's light and dark by itself; what was painted has to be painted anew.
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const box of document.querySelectorAll(".scrolled")) box.dispatchEvent(new Event("repaint"));
});

// Lets a function run once in the next frame, however often it is asked for.
export function inFrame(draw) {
  let waits = false;
  return () => {
    if (waits) return;
    waits = true;
    requestAnimationFrame(() => {
      waits = false;
      draw();
    });
  };
}

// A pen for a canvas of so many pixels of the page, with nothing on it.
export function sizedPen(canvas, width, height) {
  const scale = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  return pen;
}

// How much of a picture's width its rows' names have; a narrow window is mostly for the picture.
export const labelWidth = (width) => Math.round(Math.min(170, Math.max(96, width * 0.3)));

// Names of rows: the end of a path tells agents apart.
export function labelled(text, left) {
  const most = Math.floor((left - 6) / 7.3);
  return text.length > most ? `…${text.slice(1 - most)}` : text;
}

// A canvas that fills a box that scrolls: only what is seen is drawn, however much there is.
export function scrolledCanvas(label, draw) {
  const canvas = el("canvas", { role: "img", "aria-label": label });
  const space = el("div", { class: "space" });
  const box = el("div", { class: "scrolled", role: "group", tabindex: "0", "aria-label": label }, canvas, space);
  const paint = inFrame(() => {
    const [width, height] = [box.clientWidth, box.clientHeight];
    if (!width || !height) return;
    draw(sizedPen(canvas, width, height), { width, height, left: labelWidth(width), top: box.scrollTop });
  });
  box.addEventListener("scroll", paint);
  new ResizeObserver(paint).observe(box);
  box.addEventListener("repaint", paint);
  return {
    box, canvas, paint,
    setHeight(total) {
      box.style.height = `${total + 4}px`;
      space.style.height = `${Math.max(0, total - box.clientHeight)}px`;
    },
  };
}

// Colours by name, from the style sheet, so that light and dark are decided there alone.
export function colours() {
  const style = getComputedStyle(document.documentElement);
  const known = new Map();
  return (name) => {
    if (!known.has(name)) known.set(name, style.getPropertyValue(`--${name}`).trim());
    return known.get(name);
  };
}

// A window onto a line from 0 on (bytes, seconds): zoom and pan, by buttons, keys and wheel.
export function lineWindow(changed) {
  const view = { from: 0, to: 1, end: 1, whole: true };
  const set = (from, to) => {
    const least = view.end / 1e6;
    const span = Math.min(view.end, Math.max(least, to - from));
    view.from = Math.min(Math.max(0, from), view.end - span);
    view.to = view.from + span;
    view.whole = span >= view.end;
    changed();
  };
  const zoom = (factor, at = (view.from + view.to) / 2) =>
    set(at - (at - view.from) * factor, at + (view.to - at) * factor);
  const pan = (share) => {
    const move = (view.to - view.from) * share;
    set(view.from + move, view.to + move);
  };
  return {
    view, set, zoom, pan,
    fit: () => set(0, view.end),
    setEnd(end) {
      view.end = Math.max(end, 1e-3);
      // What is looked at stays, unless the line has become shorter than that: a pause that is folded.
      const span = view.whole ? view.end : Math.min(view.end, view.to - view.from);
      view.from = Math.min(view.from, view.end - span);
      view.to = view.from + span;
      view.whole ||= span >= view.end;
    },
    controls(noun) {
      const button = (text, label, act) =>
        el("button", { type: "button", "aria-label": label, on: { click: act } }, text);
      return el("span", { class: "zoom", role: "group", "aria-label": `Zoom of the ${noun}` },
        button("−", "zoom out", () => zoom(2)), button("+", "zoom in", () => zoom(0.5)),
        button("‹", "move left", () => pan(-0.25)), button("›", "move right", () => pan(0.25)),
        button("all", "show all", () => set(0, view.end)));
    },
    listen(box, place) {
      box.addEventListener("wheel", (event) => {
        if (event.ctrlKey || event.metaKey) {
          event.preventDefault();
          zoom(event.deltaY > 0 ? 1.25 : 0.8, place(event));
        } else if (event.deltaX || event.shiftKey) {
          event.preventDefault();
          pan((event.deltaX || event.deltaY) / 600);
        }
      }, { passive: false });
      box.addEventListener("keydown", (event) => {
        const act = { "+": () => zoom(0.5), "-": () => zoom(2), ArrowLeft: () => pan(-0.1),
          ArrowRight: () => pan(0.1), 0: () => set(0, view.end) }[event.key];
        if (act) {
          event.preventDefault();
          act();
        }
      });
    },
  };
}
