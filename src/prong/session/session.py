"""A session: one conversation with a user, and everything that works for it.

Callers put messages in and read events. The main agent is driven by one task (`driver`) that waits
for its inbox, runs the loop, and says how the turn ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, cast

import anyio
import anyio.to_thread

from prong.agent import Agent, Life, Turn, Verdict, compact
from prong.agent.spec import AgentTypes
from prong.config.place import Place, read_mode
from prong.cost import Ledger, Total, total
from prong.cost.receipt import Receipt
from prong.entry import Text, Usage, User, plain, user_text
from prong.errors import Interrupted, JournalError, UsageError
from prong.event import (
    Answer,
    Command,
    Event,
    Interrupt,
    Say,
    SessionFinished,
    SessionStarted,
    SetMode,
    Warned,
)
from prong.host.escape import escaped
from prong.host.guardian import GUARDIAN
from prong.journal import store
from prong.journal.note import Titled
from prong.journal.store import SessionInfo
from prong.journal.write import Journal
from prong.prompt import Prompt, outline
from prong.session import sidecar
from prong.session.bus import Bus, Subscription
from prong.session.planning import Planner
from prong.team.result import ForkResult
from prong.team.supervisor import Supervisor
from prong.text import load_text
from prong.tools.base import Failed, Reads
from prong.tools.policy import Mode
from prong.tools.skill import render as render_skill
from prong.tools.structured import StructuredOutput

MAIN = "main"
"""The path of a session's main agent."""


class Session:
    """One conversation; made by `prong.open_session`."""

    def __init__(  # noqa: PLR0913 - the parts of a session, each of its own kind
        self,
        *,
        agent: Agent,
        bus: Bus,
        life: Life,
        journal: Journal,
        place: Place,
        supervisor: Supervisor,
        planner: Planner,
        started: SessionStarted,
        switch: Callable[[Session, str], None],
    ) -> None:
        """Use `prong.open_session`."""
        self.agent = agent
        self.journal = journal
        self.tasks = supervisor.services.board
        self.started = started
        """How the session began."""
        self.supervisor = supervisor
        self.planner = planner
        self._outbox = supervisor.services.board.outbox
        self._place = place
        self._life = life
        self._bus = bus
        self._switch = switch
        self.warnings: list[str] = []
        """Everything the user was warned of so far."""
        self._notes: list[User] = []
        self._watching = True

    @property
    def id(self) -> str:
        """The session's id, by which it can be resumed."""
        return self.journal.session

    @property
    def model(self) -> str:
        """The model that answers."""
        return self.agent.prompt.head.model

    @property
    def mode(self) -> Mode:
        """The permission mode."""
        return self.agent.policy.policy.mode

    @property
    def empty(self) -> bool:
        """Whether nothing stands in the conversation."""
        return not self.agent.prompt.depth

    @property
    def types(self) -> AgentTypes:
        """The types of agents that can be started."""
        return self._place.types

    @property
    def ledger(self) -> Ledger:
        """Every request so far."""
        return self.agent.ledger

    @property
    def usage(self) -> Usage:
        """All tokens so far."""
        return self.ledger.usage

    @property
    def cost(self) -> float | None:
        """Dollars so far; None when a price is unknown."""
        return self.ledger.cost

    @property
    def last(self) -> Turn | None:
        """The last turn that ended."""
        return self._life.last

    @property
    def structured(self) -> bytes | None:
        """The answer as JSON, if a schema was given and the model has answered."""
        tool = self.agent.kit.get(StructuredOutput.name)
        return tool.answer if isinstance(tool, StructuredOutput) else None

    @property
    def busy(self) -> bool:
        """Whether a turn runs or is about to."""
        return self._life.working or len(self.agent.inbox) > 0

    def events(self) -> Subscription:
        """Listen to everything that happens from now on."""
        return self._bus.subscribe()

    def outline(self) -> str:
        """Draw the conversation as the model sees it, one line per entry."""
        return outline(self.agent.prompt)

    async def run(self, text: str, *, wait_tasks: bool = True) -> Turn:
        """Say something and wait for the end of the work on it.

        With `wait_tasks` that is when no background task runs any more and what they reported has
        been worked on too; without it, the end of this turn. Cancelling the caller interrupts the
        turn.
        """
        taken_in: list[int] = []

        def over(message: User) -> bool:
            # A message that is neither waiting nor taken could not be stored: its turn has failed.
            ended = self._life.ended > taken_in[0] if taken_in else True
            return ended and not self.agent.inbox.holds(message)

        try:
            message = await self.say(text, taken=lambda: taken_in.append(self._life.ended))
            if message is None:
                return Turn(text="", why="refused", detail="a hook refused the message")
            await self._bus.until(lambda: over(message))
            assert self.last is not None
            if wait_tasks and self.last.why in {"done", "cut_off"}:
                await self.wait_settled()
            return self.last
        except anyio.get_cancelled_exc_class():
            self.interrupt()
            raise

    async def say(self, text: str, *, taken: Callable[[], None] | None = None) -> User | None:
        """Say something without waiting for an answer; None if a hook refused it.

        While a turn runs it joins at the next turn boundary. `taken` is called once it stands in
        the conversation.

        Raises UsageError if the session has ended.
        """
        self._must_live()
        verdict = await self.agent.hooks.fire("UserPromptSubmit", {"prompt": text})
        self._must_live()
        if verdict.block is not None:
            self.warn(f"a hook refused the message: {verdict.block}")
            return None
        self.heed(verdict)
        notes, self._notes = self._notes, []
        for note in notes:
            self.agent.inbox.put(note)
        if (reminder := self.planner.reminder(text)) is not None:
            self.agent.inbox.put(reminder)
        message = user_text(text)
        self.agent.inbox.put(message, taken=taken)
        return message

    def take_up(self) -> bool:
        """Go on with a message, or the work on one, that was left unanswered by a kill or an error.

        The user is told of it. Gives whether there is such a thing.
        """
        self._must_live()
        said = None if self.busy else self._life.take_up()
        if said is not None:
            line = " ".join(said.split())
            what = f"to {line[:60]!r}" if line else "to what it was told"
            self.warn(f"the last turn has no answer {what}; it goes on now")
        return said is not None

    def warn(self, text: str) -> None:
        """Tell the user something; kept for faces that come later."""
        self.warnings.append(text)
        self._emit(Warned(text=text))

    async def tell_escaped(self, what: str) -> None:
        """Tell the user of processes that do not end with this session."""
        for one in await anyio.to_thread.run_sync(escaped, self.id):
            self.warn(f"This session's process {one}, {what}.")

    def heed(self, verdict: Verdict) -> None:
        """Take over what hooks want to say to the user, and to the model with the next message."""
        for warning in verdict.warnings:
            self.warn(warning)
        self._notes += [User((Text(note),), "reminder") for note in verdict.context]

    def collect(self) -> None:
        """Put notices before the agent, less those that wait for their siblings."""
        held = self.supervisor.held
        self._watching = self.tasks.collect(MAIN, self.agent.inbox, hold=held)

    async def fork(
        self,
        directives: Sequence[str],
        *,
        notify: bool = False,
        isolation: Literal["worktree"] | None = None,
    ) -> list[ForkResult]:
        """Split the main agent by hand: one fork per directive, all from its conversation as it is.

        Waits for all of them. With `notify` the conversation is told of their reports as well.
        `isolation` gives each a worktree of its own.

        Raises UsageError if that is not a list of texts, or the session has ended.
        """
        self._may_fork(directives)
        children = await self.supervisor.fork(
            self.agent, directives, notify=notify, isolated=isolation is not None
        )
        return await self.supervisor.wait(children)

    async def start_forks(
        self, directives: Sequence[str], *, isolation: Literal["worktree"] | None = None
    ) -> list[str]:
        """Fork by hand without waiting; their reports come as notices. Gives the task ids."""
        self._may_fork(directives)
        children = await self.supervisor.fork(
            self.agent, directives, notify=True, isolated=isolation is not None
        )
        return [child.spec.task_id for child in children]

    async def message(self, task_id: str, text: str) -> str:
        """Send a message to a child by name or id; it goes on from where it was.

        Raises UsageError if there is no such child.
        """
        self._must_live()
        outcome = await self.supervisor.send(self.agent.path, task_id, text)
        if isinstance(outcome, Failed):
            raise UsageError(outcome.why)
        return plain(outcome.parts)

    async def stop(self, task_id: str) -> str:
        """Stop a background task and everything it started.

        Raises UsageError if it does not run.
        """
        outcome = await self.tasks.stop(task_id)
        if isinstance(outcome, Failed):
            raise UsageError(outcome.why)
        return plain(outcome.parts)

    def to_background(self, task_id: str | None = None) -> list[str]:
        """Let the agent that is waited for, or all of them, go on in the background.

        Nothing restarts. Gives their task ids.
        """
        return self.supervisor.to_background(task_id)

    def receipts(self) -> list[Receipt]:
        """Give the receipts of all children so far."""
        return self.supervisor.roster.receipts()

    async def aside(self, question: str, *, purpose: str = "aside") -> str:
        """Ask something beside the conversation: it reads the same cache and leaves no trace.

        Raises BudgetSpent if a bound of the session has been reached.
        """
        self._must_live()
        return await sidecar.ask(self.agent, self.snapshot, question, purpose=purpose)

    async def title(self) -> str:
        """Give the session's name; without one, the model is asked for a title beside it."""
        if not self.journal.tally.title:
            named = await sidecar.title(self.agent, self.snapshot)
            self.journal.note(self.agent.path, Titled(named))
        return self.journal.tally.title

    @property
    def wants_title(self) -> bool:
        """Whether a face should see to a title: there is none, and settings do not forbid it."""
        allowed = self._place.settings.values.get("titles") is not False
        return allowed and not self.journal.tally.title

    async def suggest(self) -> str:
        """Ask the model, beside the conversation, what the user may want to say next."""
        return await self.aside(load_text("suggest"), purpose="suggestion")

    @property
    def snapshot(self) -> Prompt:
        """The conversation as it stood when the last turn ended."""
        now, before = self.agent.prompt, self._life.snapshot
        if before is not None and (self.busy or now.extends(before)):
            return before
        return sidecar.sendable(now)

    async def wait_settled(self) -> None:
        """Wait until no turn runs, nothing waits for the agent, and no background task runs."""
        await self._bus.until(
            lambda: (
                not self.busy
                and not self.tasks.running()
                and not (self._watching and self._outbox.pending(self.agent.path))
            )
        )

    def send(self, command: Command) -> None:
        """Take a command of a face, other than `Say`, for which there is `say`.

        Raises UsageError if it makes no sense now.
        """
        match command:
            case Answer():
                if not self.agent.desk.settle(command):
                    raise UsageError(f"nothing waits for an answer to {command.request_id!r}")
            case Interrupt():
                self.interrupt()
            case SetMode(mode=mode):
                self.set_mode(mode)
            case Say():
                raise UsageError("use session.say(), which can wait for hooks")

    def leave(self) -> None:
        """Say that nobody is here any more to answer; what waits for an answer is refused."""
        self.agent.desk.leave()

    def interrupt(self) -> bool:
        """Stop the turn that runs, if one does; background tasks go on."""
        return self._life.interrupt()

    def set_mode(self, mode: str) -> None:
        """Change the permission mode for the whole tree of agents.

        Into plan mode and out of it too: what plan mode put aside comes back. The model is told
        with the next message, or at the next turn boundary while a turn runs.

        Raises UsageError if there is no such mode.
        """
        self.planner.change(read_mode(mode))
        if self._life.working and (note := self.planner.reminder()) is not None:
            self.agent.inbox.put(note)

    @property
    def plan_file(self) -> str:
        """The plan file; empty outside of plan mode and before the first message in it."""
        return self.planner.file

    async def compact(self, focus: str = "") -> None:
        """Replace the conversation by a summary of it, now; an interrupt stops that.

        Raises Interrupted, BudgetSpent, or ProviderError if there is no summary; nothing is changed
        then.
        """
        self._must_be_idle("compact")
        if not self.agent.prompt.depth:
            return
        sidecar.must_afford(self.agent)
        async with self._life.hold() as scope:
            await compact(self.agent, detail="the user asked for it", focus=focus)
        if scope.cancelled_caught:
            raise Interrupted("the compaction was stopped; the conversation is as it was")

    def clear(self) -> None:
        """Start over with an empty conversation; the old one stays in the journal."""
        self._must_be_idle("clear")
        head, context = self.agent.prompt.head, self.agent.context
        self.agent.restart(Prompt(head), reason="clear", detail="the user cleared it")
        # Whoever remembers nothing has read nothing.
        context.reads = Reads()
        context.todos = ()

    def set_model(self, model: str) -> None:
        """Go on with another model, which has to read the conversation anew.

        Raises UsageError or Unauthorised if the model cannot be used.
        """
        self._must_be_idle("change the model")
        self._switch(self, model)

    def others(self) -> list[SessionInfo]:
        """List the sessions of this folder, the latest first."""
        return store.sessions(self._place.cwd, self._place.store)

    def other(self, wanted: str) -> SessionInfo:
        """Find a session by id or name.

        Raises NoSuchSession.
        """
        return store.find(wanted, self._place.cwd, self._place.store)

    def skill(self, name: str, arguments: str) -> str | None:
        """Give the text of a skill that the user starts by name; None if there is none."""
        for skill in self._place.skills:
            if skill.name == name and skill.for_user:
                return render_skill(skill, arguments)
        return None

    def totals(self) -> dict[str, Total]:
        """Sum up what each agent has used, by its path."""
        paths = dict.fromkeys(row.agent for row in self.ledger.rows)
        return {path: total(r for r in self.ledger.rows if r.agent == path) for path in paths}

    async def drive(self) -> None:
        """Run turns whenever something waits; runs in the session's task group to its end."""
        await self._life.live(until=self._turn_ended)

    async def _turn_ended(self, turn: Turn) -> bool:
        """See to it that notices survive; the session goes on until it is closed."""
        del turn
        try:
            await self._outbox.sync()
        except JournalError as error:
            self.warn(str(error))
        return False

    async def finish(self) -> None:
        """Say goodbye: stop what runs, store what there is."""
        await self._life.stop()
        await self.agent.recorder.sync()
        if GUARDIAN.pid is not None:
            await self.tell_escaped("which it started, has left its group and goes on running")
        self._emit(SessionFinished(cost=self.cost, usage=self.usage))
        self._bus.close()

    def _may_fork(self, directives: object) -> None:
        self._must_live()
        given = cast("Sequence[object]", directives) if isinstance(directives, Sequence) else ()
        texts = [one for one in given if isinstance(one, str) and one.strip()]
        if isinstance(directives, str) or not texts or len(texts) < len(given):
            raise UsageError("fork takes a list of directives, each a text that says what to do")
        if self.agent.lineage.origin == "coordinator":
            raise UsageError("forks are off: a coordinator's workers start from nothing")

    def _must_live(self) -> None:
        if self._life.stopped or self._bus.closed:
            raise UsageError("the session has ended; open another, or resume it")

    def _must_be_idle(self, what: str) -> None:
        if self.busy:
            raise UsageError(f"cannot {what} while a turn runs; interrupt it or wait for its end")

    def _emit(self, event: Event) -> None:
        self._bus.emit(self.agent.path, event)
