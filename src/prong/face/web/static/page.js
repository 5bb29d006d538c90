// The page: one session, or two beside each other.

import { mountColumn } from "./column.js";
import { liveSource, storedSource } from "./source.js";

const place = document.getElementById("columns");
const embedded = document.getElementById("session-data");
const shown = [];

function open(id, { beside }) {
  if (!beside) for (const each of shown.splice(0)) remove(each);
  if (shown.length > 1) remove(shown.pop());
  const entry = {};
  const changed = () => {
    entry.column?.refresh();
    nameTab();
  };
  entry.source = embedded ? storedSource(JSON.parse(embedded.textContent)) : liveSource(id, changed);
  entry.column = mountColumn(place, entry.source, open, () => {
    shown.splice(shown.indexOf(entry), 1);
    remove(entry);
    settle();
  });
  shown.push(entry);
  entry.column.refresh();
  settle();
}

// Says what this tab of the browser shows, among others.
function nameTab() {
  const names = shown.map(({ source: { state: { session } } }) => (session.title || session.id || "").slice(0, 60));
  document.title = [...names.filter(Boolean), "Prong"].join(" · ");
}

function remove({ source, column }) {
  source.close();
  column.remove();
}

function settle() {
  for (const { column } of shown) column.closable(shown.length > 1);
  nameTab();
}

open("", { beside: false });

// For programs that look at the page, tests among them: the model behind the pictures.
window.__prong = {
  rows: (number = 0) => shown[number].source.state.rows,
  state: (number = 0) => shown[number].source.state,
};
