// Time as it is drawn: what happens while nobody works takes next to no room. Pure.

// Seconds without anything at work that are drawn as they are; a longer pause is folded.
const SHORT = 10;

// Gives the pieces of time that are drawn whole, in order, and the place at which each is drawn.
// `busy` are pairs of a beginning and an end, in the order of their beginnings.
export function unpaused(busy, start, end) {
  const pieces = [{ start, end: start, at: 0 }];
  for (const [from, to] of busy) {
    const last = pieces.at(-1);
    if (from - last.end > SHORT) pieces.push({ start: from, end: to, at: 0 });
    else last.end = Math.max(last.end, to);
  }
  const last = pieces.at(-1);
  if (end - last.end > SHORT) pieces.push({ start: end, end, at: 0 });
  else last.end = Math.max(last.end, end);
  const whole = pieces.reduce((sum, piece) => sum + piece.end - piece.start, 0);
  // Seen at a glance, and together never more than a quarter of what is drawn.
  const fold = Math.max(0.01, whole / (40 + 4 * pieces.length));
  for (let place = 1; place < pieces.length; place += 1) {
    const before = pieces[place - 1];
    pieces[place].at = before.at + before.end - before.start + fold;
  }
  return pieces;
}

// Where a time is drawn; one within a pause stands at that pause's end.
export function placeOf(pieces, time) {
  let [low, high] = [0, pieces.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (time <= pieces[middle].end) high = middle;
    else low = middle + 1;
  }
  const { start, end, at } = pieces[low];
  return at + Math.min(Math.max(time, start), end) - start;
}
