"""What a person can do, as values: the only way into a session for every face.

`await session.send(command)` gives an `Outcome`. What a person could get wrong is `Refused`, never
an exception. Commands are read from JSON by their `type`, so that they can come over a pipe.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from prong.entry import Part, Text
from prong.question import Answer


class _Command(msgspec.Struct, frozen=True, tag_field="type"):
    """What all commands share."""


class Say(_Command, frozen=True, tag="say"):
    """A message of the user; while a turn runs it joins at the next turn boundary."""

    text: str = ""
    parts: tuple[Part, ...] = ()
    """What follows the text: more text, or pictures."""

    @property
    def all_parts(self) -> tuple[Part, ...]:
        """The whole message."""
        return (Text(self.text), *self.parts) if self.text else self.parts


class Unsay(_Command, frozen=True, tag="unsay"):
    """Take back a message that waits; accepted with its text. Refused if it was taken in."""

    message_id: str = ""
    """Empty for the one that was said last."""


class RunShell(_Command, frozen=True, tag="run_shell"):
    """Run a command line of the user's own: nobody is asked, and the model is told what it gave.

    Accepted when it has ended; refused while a turn runs. An interrupt stops it.
    """

    line: str


OWN_COMMAND = "Shell"
"""What events call the tool that has run a command line of the user's own."""


class UseSkill(_Command, frozen=True, tag="use_skill"):
    """Start a skill by its name, as a message of the user."""

    name: str
    arguments: str = ""


class Interrupt(_Command, frozen=True, tag="interrupt"):
    """Stop the turn that runs; background tasks go on. Refused if nothing runs."""


class SetMode(_Command, frozen=True, tag="set_mode"):
    """Change the permission mode."""

    mode: str


class SetModel(_Command, frozen=True, tag="set_model"):
    """Go on with another model, which has to read the conversation anew."""

    model: str


EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""Words by which models are told how hard to think; each knows some of them."""


class SetEffort(_Command, frozen=True, tag="set_effort"):
    """Let the model think harder or less hard; it has to read the conversation anew."""

    effort: str
    """One of `EFFORTS`, or a word that only the server knows."""


class Branch(_Command, frozen=True, tag="branch"):
    """Copy the session under a new id, which is given back; this one stays as it is.

    The copy has the same bytes, so it reads the same cache.
    """

    before: int = 0
    """The number of a message before which the copy ends, from 1; 0 for all of it.

    The message's text is given back."""


class Fork(_Command, frozen=True, tag="fork"):
    """Split off one fork per directive; accepted with their task ids."""

    directives: tuple[str, ...]
    isolation: str | None = None
    """`worktree`, `remote`, or `remote:NAME` for a machine of the settings."""


class Tell(_Command, frozen=True, tag="tell"):
    """Send a message to a child by name or task id; it goes on from where it was."""

    to: str
    text: str


class Stop(_Command, frozen=True, tag="stop"):
    """Stop a background task and everything it started."""

    task_id: str


class LeadTeam(_Command, frozen=True, tag="lead_team"):
    """Do as the leader of the team: send to a member or `*`, ask one to end, answer its plan.

    A member can also be ended at once, and its pane taken out of sight and back; and the team can
    be deleted.
    """

    action: Literal["send", "end", "approve", "reject", "kill", "hide", "show", "delete"]
    member: str = ""
    text: str = ""
    """What is said, or why."""
    force: bool = False
    """Whether members that are at work are ended at once, so that the team can be deleted."""


class Background(_Command, frozen=True, tag="background"):
    """Let what is waited for go on in the background: agents, and commands of the main agent."""

    task_id: str | None = None
    """Only this: an agent; a command, by the id of its call; or the commands that an agent waits
    for which nobody waits for itself."""


class MergeBranches(_Command, frozen=True, tag="merge"):
    """Bring the branches of children into the current one; or only show that, take the last merge
    back, or remove worktrees and branches that are merged.
    """

    action: Literal["merge", "preview", "undo", "clean"] = "merge"
    slugs: tuple[str, ...] = ()
    """Which, in this order; none for all."""
    commit: bool = True
    """Whether what a child left uncommitted is taken too, as a commit of its branch."""


class ManagePlugins(_Command, frozen=True, tag="plugins"):
    """Look after the user's plug-ins; what changes counts in sessions that begin afterwards.

    One that would run or widen something is refused with what that is, until it is `approved`.
    """

    action: Literal["list", "add", "remove", "update"] = "list"
    words: tuple[str, ...] = ()
    """To add: a source, and names of plug-ins if it is a marketplace; else names."""
    approved: bool = False


class Compact(_Command, frozen=True, tag="compact"):
    """Replace the conversation by a summary; accepted when that is done."""

    focus: str = ""


class Clear(_Command, frozen=True, tag="clear"):
    """Start over with an empty conversation."""


class Rename(_Command, frozen=True, tag="rename"):
    """Give the session a name; without one, the model is asked for a title."""

    title: str = ""


class Aside(_Command, frozen=True, tag="aside"):
    """Ask something beside the conversation; accepted with the answer."""

    question: str


class Suggest(_Command, frozen=True, tag="suggest"):
    """Ask the model, beside the conversation, what the user may want to say next."""


class Remember(_Command, frozen=True, tag="remember"):
    """Keep now, beside the conversation, what later sessions of the project should know."""


class SetMemory(_Command, frozen=True, tag="set_memory"):
    """Keep notes for later sessions from now on, or no longer."""

    on: bool


class Leave(_Command, frozen=True, tag="leave"):
    """Say that nobody is here any more to answer: what waits for an answer is refused."""


class TakeUp(_Command, frozen=True, tag="take_up"):
    """Go on with a message, or the work on one, that a kill or an error left unanswered."""


Command: TypeAlias = (
    Say
    | Unsay
    | RunShell
    | UseSkill
    | Answer
    | Interrupt
    | SetMode
    | SetModel
    | SetEffort
    | Branch
    | Fork
    | Tell
    | Stop
    | LeadTeam
    | Background
    | MergeBranches
    | ManagePlugins
    | Compact
    | Clear
    | Rename
    | Aside
    | Suggest
    | Remember
    | SetMemory
    | Leave
    | TakeUp
)


class Accepted(msgspec.Struct, frozen=True, tag_field="type", tag="accepted"):
    """The command was carried out, or is on its way."""

    text: str = ""
    """What there is to say about it."""
    ids: tuple[str, ...] = ()
    """Of what was started or moved."""


class Refused(msgspec.Struct, frozen=True, tag_field="type", tag="refused"):
    """The command was not carried out; nothing has changed."""

    why: str


Outcome: TypeAlias = Accepted | Refused
