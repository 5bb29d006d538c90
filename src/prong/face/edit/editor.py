"""A line editor as a value: keys go in, and what is left for the face to do comes out.

`press(key, sources)` gives the editor as it is afterwards and a deed, empty if there is nothing to
do. While a menu of proposals or a search is open, keys are for it first.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from prong.face.edit.buffer import Buffer
from prong.face.edit.complete import Completion, Sources, accept, complete
from prong.face.edit.key import PASTE, TEXT, KeyPress
from prong.face.edit.keymap import meaning, press
from prong.face.edit.recall import HistorySearch, Recall

_NOTHING = ""


class Editor(msgspec.Struct, frozen=True):
    """What is being typed, and what is open around it."""

    buffer: Buffer = Buffer()
    recall: Recall = Recall()
    search: HistorySearch | None = None
    menu: Completion | None = None
    chosen: int = -1
    """Which proposal of the menu is marked; -1 for none."""
    offered: Sources = Sources()
    """What there was to choose from when the menu was opened."""
    ghost: str = ""
    """What may be meant, shown while nothing is typed: Tab or Right takes it."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been typed, and nothing is open."""
        return not self.buffer.text and self.search is None

    @property
    def hint(self) -> str:
        """What is shown in the place of what is typed; empty once something is."""
        return "" if self.buffer.text or self.menu is not None else self.ghost

    def hinted(self, ghost: str) -> Editor:
        """Show what may be meant, or with an empty text no longer."""
        return replace(self, ghost=ghost)

    def press(self, key: KeyPress, sources: Sources) -> tuple[Editor, str]:
        """Take a key in; gives the editor afterwards, and what the face has to do."""
        if self.search is not None:
            return self._search(self.search, key)
        if key.name == PASTE and not key.text:
            # So terminals paste what was copied and is no text.
            return self, "picture"
        if key.name in {TEXT, PASTE}:
            changed = self.buffer.insert if key.name == TEXT else self.buffer.paste
            return self._narrowed(changed(key.text)), _NOTHING
        action = meaning(key.name)
        if self.hint and action in {"complete", "right"}:
            return self.typed(self.hint), _NOTHING
        if self.hint and action == "escape":
            return self.hinted(""), _NOTHING
        if self.menu is not None and action in {"up", "down", "complete", "send", "escape"}:
            return self._choose(self.menu, action)
        if (edited := press(self.buffer, action)) is not None:
            narrows = action == "erase left"
            return self._narrowed(edited) if narrows else self._with(edited), _NOTHING
        return self._act(action, sources)

    def typed(self, text: str) -> Editor:
        """Put a text in the place of all that was typed."""
        return self._with(self.buffer.cleared(text))

    def sent(self, said: str) -> Editor:
        """Begin anew after something was sent, and remember it."""
        return Editor(self.buffer.cleared(), self.recall.add(said))

    def older(self) -> Editor:
        """Show what was said before."""
        recall = self.recall.older(self.buffer.text)
        return self if recall == self.recall else self._recalled(recall)

    def newer(self) -> Editor:
        """Come back from what was said before."""
        return self if self.recall.at < 0 else self._recalled(self.recall.newer())

    def _recalled(self, recall: Recall) -> Editor:
        return Editor(self.buffer.cleared(recall.text), recall)

    def _with(self, buffer: Buffer) -> Editor:
        recall = self.recall
        if buffer.text != self.buffer.text and recall.at >= 0:
            recall = Recall(recall.said)
        return Editor(buffer, recall)

    def _act(self, action: str, sources: Sources) -> tuple[Editor, str]:
        match action:
            case "send":
                more = self.buffer.enter()
                return (self, "send") if more is None else (self._with(more), _NOTHING)
            case "up" if self.buffer.line:
                return self._with(self.buffer.up()), _NOTHING
            case "down" if "\n" in self.buffer.text[self.buffer.cursor :]:
                return self._with(self.buffer.down()), _NOTHING
            case "up" | "older":
                return self, "older"
            case "down" | "newer":
                return self.newer(), _NOTHING
            case "complete":
                return self._complete(sources), _NOTHING
            case "search":
                looking = HistorySearch(self.recall.said, before=self.buffer.text)
                return replace(self, search=looking, menu=None), _NOTHING
            case "leave" if self.buffer.text:
                return self._with(self.buffer.erase_right()), _NOTHING
            case "interrupt" if self.buffer.text:
                # What is cleared can be had back: it goes where killed text goes.
                cleared = self.buffer.finish()
                kills = (cleared.text, *cleared.kills)
                return Editor(replace(cleared.cleared(), kills=kills), self.recall), _NOTHING
            case _:
                return self, action

    def _complete(self, sources: Sources) -> Editor:
        found = complete(self.buffer, sources)
        if not found.candidates:
            return self
        buffer = accept(self.buffer, found)
        if len(found.candidates) == 1:
            return self._with(buffer)
        menu = complete(buffer, sources)
        return replace(self._with(buffer), menu=menu, offered=sources)

    def _extended(self) -> Editor | None:
        """Write what all proposals of the open menu have in common, if that is more than is there.

        Of a single one that is all of it.
        """
        found = self._complete(self.offered)
        return found if found.buffer.text != self.buffer.text else None

    def _narrowed(self, buffer: Buffer) -> Editor:
        """Go on with another text; a menu that is open has what this one can become."""
        edited = self._with(buffer)
        if self.menu is None:
            return edited
        menu = complete(buffer, self.offered)
        return replace(edited, menu=menu, offered=self.offered) if menu.candidates else edited

    def _choose(self, menu: Completion, action: str) -> tuple[Editor, str]:
        count = len(menu.candidates)
        match action:
            case "complete" if self.chosen < 0 and (found := self._extended()) is not None:
                return found, _NOTHING
            case "up" | "down" | "complete":
                step = -1 if action == "up" else 1
                start = self.chosen if self.chosen >= 0 or step > 0 else 0
                return replace(self, chosen=(start + step) % count), _NOTHING
            case "send" if self.chosen >= 0 or not self._names_one(menu):
                taken = menu.candidates[max(0, self.chosen)]
                return self._with(accept(self.buffer, menu, taken)), _NOTHING
            case "send":
                return replace(self, menu=None).press(KeyPress("enter"), Sources())
            case _:
                return replace(self, menu=None, chosen=-1), _NOTHING

    def _names_one(self, menu: Completion) -> bool:
        """Whether the word that stands there is one of the proposals, and not a part of some."""
        return self.buffer.text[menu.start : menu.end] in {one.text for one in menu.candidates}

    def _search(self, search: HistorySearch, key: KeyPress) -> tuple[Editor, str]:
        action = meaning(key.name)
        if key.name in {TEXT, PASTE}:
            return replace(self, search=search.typed(key.text.replace("\n", " "))), _NOTHING
        match action:
            case "search":
                return replace(self, search=search.again()), _NOTHING
            case "erase left":
                return replace(self, search=search.erased()), _NOTHING
            case "interrupt" | "escape":
                return self.typed(search.before), _NOTHING
            case _:
                found = self.typed(search.found) if search.found else self.typed(search.before)
                # Whoever sends from within the search has seen what is sent.
                return (found, "send") if action == "send" and search.found else (found, _NOTHING)
