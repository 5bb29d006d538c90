"""Commands that the user of an editor types with a slash."""

from __future__ import annotations

from prong.command import Say, UseSkill
from prong.errors import ProngError
from prong.face.acp.editor_answer import PromptResult
from prong.face.acp.editor_session import EditorSession, OpenPrompt
from prong.face.acp.session_update import CommandHint, CommandsUpdate, OfferedCommand
from prong.face.slash import COMMANDS, Show, read_slash
from prong.face.wish import shown
from prong.session import Session

_ELSEWHERE = frozenset({"help", "resume", "rewind", "branch", "quit", "background"})
"""What an editor has ways of its own for, or what is about a terminal."""


def offered(session: Session) -> CommandsUpdate:
    """List the commands, then the skills, that can be typed."""
    found: dict[str, OfferedCommand] = {}
    for one in COMMANDS:
        if one.name not in _ELSEWHERE and one.name not in found:
            hint = CommandHint(hint=one.takes) if one.takes else None
            found[one.name] = OfferedCommand(name=one.name, description=one.help, input=hint)
    for name, told in session.records.skills.items():
        hint = CommandHint(hint="what it is about")
        found.setdefault(name, OfferedCommand(name=name, description=told, input=hint))
    return CommandsUpdate(available_commands=tuple(found.values()))


def is_command(session: Session, text: str) -> bool:
    """Whether a message is a command: a path, say, also begins with a slash."""
    name = text.partition(" ")[0].strip()
    if not name.startswith("/"):
        return False
    word = name.removeprefix("/")
    known = {one.name for one in COMMANDS} - _ELSEWHERE
    return word in known or session.records.skill(word) is not None


async def obey(editor: EditorSession, prompt: OpenPrompt, text: str) -> PromptResult:
    """Do what a line with a slash says; a turn that it begins is waited for.

    Raises RpcFailed if that turn has failed.
    """
    session = editor.session
    try:
        for step in read_slash(text, session.view()):
            if isinstance(step, Show):
                lines = await shown(session, step)
                await editor.say("```\n" + "\n".join(lines) + "\n```\n")
            elif isinstance(step, Say | UseSkill):
                said = step.all_parts if isinstance(step, Say) else step
                return await editor.prompt(prompt, said)
            elif not await editor.carry_out(step):
                break
    except ProngError as error:
        await editor.say(f"{error}\n")
    return await editor.prompt(prompt, None)
