"""Plan mode: how it is entered, what it puts aside, and how it ends.

The mode itself is a state of the one policy that the whole tree of agents shares, so it binds forks
and shells that were there before. This module keeps what is around it: the mode to go back to, the
rules that are put aside, the plan file, and the user's word on the plan. All of that is noted in
the journal, so that a resumed session is where it was.
"""

from __future__ import annotations

import contextlib
import os
import os.path
import re
import unicodedata
from collections.abc import Callable, Sequence

import msgspec
from msgspec import convert
from msgspec.structs import replace

from prong.agent import OpenQuestions
from prong.config.place import read_mode
from prong.entry import CallId, Text, User
from prong.errors import NotPossibleNow
from prong.event import MAIN, Event, ModeChanged, PermissionAsked, Warned
from prong.host import Host
from prong.journal.note import ModeSet, PlanKept, StoredPlan
from prong.journal.recorder import Recorder
from prong.prompt import Prompt
from prong.question import PlanMode
from prong.system.path_form import real_path
from prong.text import load_text
from prong.tools.policy import Mode
from prong.tools.policy_box import PolicyBox
from prong.tools.rule import Rule
from prong.tools.tool import CallOutcome, Done, Failed, done

_WORDS, _LONGEST = 6, 48


class PlanState(msgspec.Struct, frozen=True, kw_only=True):
    """What plan mode has to remember."""

    before: Mode
    """The mode to go back to."""
    file: str = ""
    """The plan file, once it has a name."""
    rules: tuple[Rule, ...] = ()
    """Allow rules that were put aside."""


def read_plan(stored: StoredPlan | None) -> PlanState | None:
    """Take up what a journal has of plan mode; raises UsageError if this program cannot."""
    try:
        return None if stored is None else convert(stored, PlanState, from_attributes=True)
    except msgspec.ValidationError as error:
        raise NotPossibleNow(f"the session's plan mode cannot be taken up: {error}") from error


def is_broad(rule: Rule) -> bool:
    """Whether an allow rule gives so much that plan mode puts it aside: shells, any agent."""
    if rule.effect != "allow":
        return False
    return rule.covers("Bash") or (rule.covers("Agent") and rule.specifier is None)


def slug(words: str) -> str:
    """Make a readable name for a file out of the first words of a text."""
    ascii_only = unicodedata.normalize("NFKD", words).encode("ascii", "ignore").decode()
    found = re.findall(r"[a-z0-9]+", ascii_only.lower())[:_WORDS]
    name = ""
    for word in found:
        longer = f"{name}-{word}" if name else word[:_LONGEST]
        if len(longer) > _LONGEST:
            break
        name = longer
    return name or "plan"


class Planner:
    """Keeps plan mode for one session."""

    def __init__(
        self,
        policy: PolicyBox,
        *,
        root: str,
        recorder: Recorder,
        host: Host,
        questions: OpenQuestions,
        emit: Callable[[Event], None],
        shells: Callable[[], Sequence[str]] = tuple,
        words: str = "plan",
    ) -> None:
        """Take the tree's policy; `shells` names background commands.

        The main agent plans; `words` is the text by which it is told.
        """
        self._policy = policy
        self._root = root
        self._recorder = recorder
        self._host = host
        self._questions = questions
        self._emit = emit
        self._shells = shells
        self._words = words
        self._kept: PlanState | None = None
        self._said = ""
        self._heard = False
        """Whether plan mode is on, as far as the model knows."""

    @property
    def active(self) -> bool:
        """Whether plan mode is on."""
        return self._kept is not None

    @property
    def file(self) -> str:
        """The plan file; empty while plan mode is off or nobody has said anything in it."""
        return self._kept.file if self._kept else ""

    def start(
        self, *, wanted: str | None, recorded: str | None, kept: PlanState | None, otherwise: str
    ) -> None:
        """Begin in the mode that is asked for, or go on in that of a resumed session.

        `otherwise` is the mode that settings name. Raises UsageError if there is no such mode.
        """
        if recorded == "plan" and kept is not None:
            self.resume(kept)
            if wanted and read_mode(wanted) != "plan":
                self.change(read_mode(wanted))
        elif recorded and not wanted:
            self._policy.set_mode(read_mode(recorded))
        elif self._policy.policy.mode == "plan":
            usual = read_mode(recorded or otherwise)
            self.enter(before="default" if usual == "plan" else usual)

    def resume(self, kept: PlanState) -> None:
        """Be in plan mode as a stored session was; its rules are those of today's settings."""
        granted = tuple(rule for rule in kept.rules if rule.source == "session")
        aside = (*self._put_aside(kept.before), *granted)
        self._kept = replace(kept, rules=aside)
        # The file has its name from when the model was told.
        self._heard = bool(kept.file)
        self._apply(mode="plan", plan_file=kept.file)

    def change(self, mode: Mode) -> None:
        """Change the mode: into plan mode, out of it, or between others."""
        if mode == "plan":
            self.enter()
            return
        if self.active:
            self._leave(mode)
            return
        self._policy.set_mode(mode)
        self._tell(mode)

    def enter(self, *, before: Mode | None = None) -> None:
        """Enter plan mode; a session that begins in it says what the mode would be otherwise."""
        if self.active:
            return
        old = before or self._policy.policy.mode
        self._keep(PlanState(before=old, rules=self._put_aside(old)))
        self._apply(mode="plan", plan_file="")
        self._tell("plan")
        if shells := self._shells():
            listed = "; ".join(shells)
            self._emit(Warned(text=f"these commands began before plan mode and go on: {listed}"))

    def begin(self) -> CallOutcome:
        """Enter plan mode for the model."""
        if self.active:
            return Failed(f"plan mode is on already; the plan file is {self._named()}")
        if not self._questions.answerable:
            return Failed(
                "nobody is here who could approve a plan, so plan mode would never end; do the "
                "work, or answer with a plan if that is what was asked for"
            )
        self.enter()
        return done(self._instructions())

    async def propose(self, call_id: CallId) -> CallOutcome:
        """Put the plan before the user; their yes ends plan mode."""
        if not self.active:
            return Failed("plan mode is not on, so there is no plan to approve; do the work")
        while True:
            shown = await self._read()
            if isinstance(shown, Failed):
                return shown
            asked = PermissionAsked(
                request_id=self._questions.number(),
                call_id=call_id,
                tool="ExitPlanMode",
                title=f"Approve the plan {os.path.basename(self.file)}?",  # noqa: PTH119 - a host's path
                why="the plan is ready",
                plan=shown,
            )
            answer = await self._questions.ask(MAIN, asked, self._emit)
            if answer is None:
                return self._unanswered(shown)
            if not answer.allow:
                return Failed(_rejected(answer.text, self.file))
            if answer.text.strip():
                return await self._approved(answer.text, answer.mode, edited=True)
            # Nobody approves what they have not seen: a plan that changed meanwhile is shown anew.
            if not self.active or await self._read() == shown:
                return await self._approved(shown, answer.mode, edited=False)

    def reminder(self, prompt: Prompt, said: str | None = None) -> User | None:
        """Give what the model has to be told of the mode before it reads what the user said.

        `prompt` is its conversation: what that tells already is not told again.
        """
        self._said = self._said if said is None else said
        if not self.active:
            heard, self._heard = self._heard, False
            off = load_text("plan_off").format(mode=self._policy.policy.mode)
            return User((Text(off),), "reminder") if heard else None
        if self._stands(prompt):
            return None
        return User((Text(self._instructions()),), "reminder")

    def forget(self) -> None:
        """Heed that the conversation begins anew: it has heard of nothing."""
        self._heard = False

    def _instructions(self) -> str:
        self._heard = True
        return load_text(self._words).format(file=self._named())

    def _stands(self, prompt: Prompt) -> bool:
        """Whether a conversation tells of the plan file."""
        if not self.file:
            return False
        return any(
            kind == "reminder" and isinstance(entry, User) and self.file in entry.text
            for kind, entry in prompt.entries()
        )

    def _named(self) -> str:
        """Give the plan file, named after what the user said last."""
        assert self._kept is not None
        if not self._kept.file:
            path = _free(self._folder(), slug(self._said))
            self._keep(replace(self._kept, file=path))
            self._apply(mode="plan", plan_file=path)
        return self._kept.file

    def _folder(self) -> str:
        """Give the folder for plans: the project's, unless a link leads out of it."""
        folder = real_path(os.path.join(self._root, ".prong", "plans"))  # noqa: PTH118 - text
        root = real_path(self._root)
        if folder.startswith(root.rstrip("/") + "/"):
            _hide(folder)
            return folder
        self._emit(Warned(text=f"{folder} is not in the project, so the plan is kept elsewhere"))
        return real_path(os.path.join(self._host.storage.path, "plans"))  # noqa: PTH118 - text

    async def _read(self) -> str | Failed:
        name = self._named()
        try:
            data = await self._host.read(name)
        except OSError:
            data = b""
        plan = data.decode(errors="replace").strip()
        return plan or Failed(f"there is no plan yet; write it to {name} first, then call again")

    async def _approved(self, plan: str, mode: PlanMode, *, edited: bool) -> CallOutcome:
        plan = plan.strip()
        name = self.file
        if edited and name:
            await self._host.write(name, f"{plan}\n".encode())
        if self._kept is not None:
            self._leave(mode or self._kept.before)
            self._heard = False
        how = "approved the plan, with changes of their own" if edited else "approved the plan"
        return done(
            f"The user {how}. Plan mode is over; the permission mode is "
            f"{self._policy.policy.mode}. The plan is kept in {name}. Work by it, as it stands "
            f"here:\n\n{plan}",
            shown=f"plan approved: {name}",
        )

    def _unanswered(self, plan: str) -> CallOutcome:
        """End the turn with the plan: whoever asked for it can read it and go on later."""
        told = (
            "Nobody is here to approve the plan, so it was given as the answer of this turn. Plan "
            "mode stays on until the user approves the plan or changes the mode."
        )
        return Done((Text(told),), ends=plan)

    def _leave(self, mode: Mode) -> None:
        assert self._kept is not None
        rules = (*self._kept.rules, *self._policy.policy.rules)
        self._policy.revise(replace(self._policy.policy, mode=mode, rules=rules, plan_file=""))
        self._kept = None
        self._tell(mode)
        self._recorder.note(MAIN, PlanKept(None))

    def _put_aside(self, before: Mode) -> tuple[Rule, ...]:
        """Take broad rules out of the policy when coming from a mode that hardly ever asks."""
        policy = self._policy.policy
        if before != "auto":
            return ()
        aside = tuple(rule for rule in policy.rules if is_broad(rule))
        kept = tuple(rule for rule in policy.rules if not is_broad(rule))
        self._policy.revise(replace(policy, rules=kept))
        return aside

    def _apply(self, *, mode: Mode, plan_file: str) -> None:
        self._policy.revise(replace(self._policy.policy, mode=mode, plan_file=plan_file))

    def _keep(self, kept: PlanState) -> None:
        self._kept = kept
        self._recorder.note(MAIN, PlanKept(convert(kept, StoredPlan, from_attributes=True)))

    def _tell(self, mode: Mode) -> None:
        self._recorder.note(MAIN, ModeSet(mode))
        self._emit(ModeChanged(mode=mode))


def _rejected(feedback: str, file: str) -> str:
    said = f" They said: {feedback.strip()}" if feedback.strip() else ""
    return (
        f"The user rejected the plan.{said}\n\nPlan mode stays on. Improve the plan in {file}, or "
        f"ask what they want, and call ExitPlanMode again."
    )


def _hide(folder: str) -> None:
    """Make a folder that git ignores by itself; one that says otherwise stays as it is."""
    listing = os.path.join(folder, ".gitignore")  # noqa: PTH118 - text
    # Where nothing can be written, no plan can be either, and whoever writes it is told so.
    with contextlib.suppress(OSError):
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - text
        with open(listing, "x", encoding="utf-8") as file:  # noqa: PTH123 - text
            file.write("*\n")


def _free(folder: str, name: str) -> str:
    """Find a name in a folder that nothing has yet."""
    number = 1
    while True:
        tail = "" if number == 1 else f"-{number}"
        path = os.path.join(folder, f"{name}{tail}.md")  # noqa: PTH118 - text
        if not os.path.lexists(path):
            return path
        number += 1
