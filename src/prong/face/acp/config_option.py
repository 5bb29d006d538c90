"""What the user of an editor can choose for a session: mode, model, effort."""

from __future__ import annotations

from collections.abc import Iterable

from prong.command import Command, SetEffort, SetMode, SetModel
from prong.errors import UnknownName
from prong.face.acp.editor_answer import ModeChoice, ModeState
from prong.face.acp.session_update import ConfigOption, OptionValue

_MODES = (
    ModeChoice(id="default", name="Default", description="Asks before it changes or runs anything"),
    ModeChoice(id="acceptEdits", name="Accept edits", description="Changes files without asking"),
    ModeChoice(id="plan", name="Plan", description="Only reads, until you approve a plan"),
    ModeChoice(id="auto", name="Auto", description="Asks only for what could do harm"),
    ModeChoice(
        id="dontAsk", name="Do not ask", description="Refuses what it would have to ask for"
    ),
    ModeChoice(
        id="bypassPermissions", name="Bypass permissions", description="Does everything unasked"
    ),
)
_EFFORTS = ("low", "medium", "high")
_USUAL = "usual"
"""Stands for the effort that the model takes by itself; it cannot be gone back to."""


def mode_state(mode: str) -> ModeState:
    """Give the modes, for editors that know no options."""
    return ModeState(current_mode_id=mode, available_modes=_MODES)


def config_options(
    *, mode: str, model: str, effort: str, models: Iterable[str] = ()
) -> tuple[ConfigOption, ...]:
    """Give everything that can be chosen, with what is."""
    modes = tuple(
        OptionValue(value=one.id, name=one.name, description=one.description) for one in _MODES
    )
    names = dict.fromkeys([model, *models])
    levels = dict.fromkeys([effort or _USUAL, *_EFFORTS])
    return (
        ConfigOption(
            id="mode", name="Permissions", category="mode", current_value=mode, options=modes
        ),
        ConfigOption(
            id="model",
            name="Model",
            category="model",
            current_value=model,
            options=tuple(OptionValue(value=name, name=name) for name in names),
        ),
        ConfigOption(
            id="effort",
            name="Effort",
            category="thought_level",
            current_value=effort or _USUAL,
            options=tuple(OptionValue(value=one, name=one.capitalize()) for one in levels),
        ),
    )


def command_for(option: str, value: str) -> Command:
    """Give the command that chooses a value.

    Raises UnknownName if there is no such option.
    """
    match option:
        case "mode":
            return SetMode(value)
        case "model":
            return SetModel(value)
        case "effort":
            return SetEffort(value)
        case _:
            raise UnknownName(f"there is no option {option!r}; there are mode, model and effort")
