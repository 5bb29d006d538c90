"""What a person types, as values: a buffer, keys, pastes, recall and completion.

Nothing here reads a terminal or writes to one, except `external`, which starts the user's editor. A
face decodes keys (`key`), looks up what they mean (`keymap`), and has what it needs in a `Buffer`.
"""
