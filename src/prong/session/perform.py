"""Carries out commands: each thing a person can do to a session is done here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from anyio import to_thread

from prong.agent import OpenQuestions, compact
from prong.agent.speaker import speaking
from prong.command import (
    Accepted,
    Aside,
    Background,
    Branch,
    Clear,
    Command,
    Compact,
    Fork,
    Interrupt,
    LeadTeam,
    Leave,
    ManagePlugins,
    MergeBranches,
    Outcome,
    Refused,
    Remember,
    Rename,
    RunShell,
    Say,
    SetEffort,
    SetMemory,
    SetMode,
    SetModel,
    Stop,
    Suggest,
    TakeUp,
    Tell,
    Unsay,
    UseSkill,
)
from prong.config.place import read_mode
from prong.entry import Image, Part, Text, User, plain
from prong.errors import BadInput, NotPossibleNow, ProngError, UnknownName
from prong.event import PermissionAsked, TitleChanged, TodosChanged, Warned
from prong.journal.note import Titled
from prong.prompt import Prompt
from prong.question import Answer
from prong.session import sidecar
from prong.session.hook_event import switch_model, tell_cleared
from prong.session.intake import new_prompt_id
from prong.session.move import change_effort
from prong.session.offshoot import copy_session
from prong.session.parts import Parts
from prong.session.records import Records
from prong.session.shellout import run_shell
from prong.session.skill_start import SkillTask, say_skill, start_skill
from prong.team import by_hand
from prong.team.child import Child
from prong.text import load_text
from prong.tools.skill import known_variables
from prong.tools.skill_text import SkillUse, headed, plain_text
from prong.tools.tool import CallOutcome as ToolOutcome
from prong.tools.tool import Failed

_DONE = Accepted()
_NOTHING_WAITED_FOR = "nothing is waited for that could go on in the background"


async def perform(parts: Parts, command: Command) -> Outcome:
    """Carry out a command; what a person could get wrong is refused."""
    try:
        return await _perform(parts, command)
    except ProngError as error:
        return Refused(str(error))


async def _perform(parts: Parts, command: Command) -> Outcome:
    match command:
        case Say() | UseSkill() | Unsay() | RunShell():
            return await _from_user(parts, command)
        case Fork():
            children = await fork(parts, command.directives, isolation=command.isolation)
            return Accepted(ids=tuple(child.spec.task_id for child in children))
        case MergeBranches() | ManagePlugins():
            return Accepted(await _outside(parts, command))
        case Tell():
            return Accepted(await tell(parts, command.to, command.text))
        case Stop():
            return Accepted(await stop(parts, command.task_id))
        case LeadTeam():
            return Accepted(await _lead_team(parts, command))
        case Compact() | Clear() | SetModel():
            return await _begun_anew(parts, command)
        case Branch(before=before):
            session, text = await copy_session(parts, before)
            return Accepted(text, ids=(session,))
        case Rename() | Aside() | Suggest() | Remember():
            return Accepted(await _beside(parts, command))
        case _:
            return _at_once(parts, command)


async def _begun_anew(parts: Parts, command: Compact | Clear | SetModel) -> Outcome:
    """Carry out what makes a new prompt of the conversation, which hooks are told of."""
    match command:
        case Compact(focus=focus):
            return await _compact(parts, focus)
        case Clear():
            cleared = _clear(parts)
            if isinstance(cleared, Accepted):
                await tell_cleared(parts)
            return cleared
        case SetModel(model=model):
            parts.must_be_idle("change the model")
            return Accepted(await switch_model(parts, model))


async def _beside(parts: Parts, command: Rename | Aside | Suggest | Remember) -> str:
    """Carry out what asks the model beside the conversation."""
    match command:
        case Rename(title=title):
            return await rename(parts, title)
        case Aside(question=question):
            return await aside(parts, question)
        case Suggest():
            return await aside(parts, load_text("suggest"), purpose="suggestion")
        case Remember():
            parts.must_live()
            kept = await parts.memory.keep(parts.snapshot)
            # The event tells what was kept.
            return "" if kept else "nothing was said since notes were last asked for"


def _at_once(
    parts: Parts,
    command: (Answer | Interrupt | SetMode | SetEffort | SetMemory | Background | Leave | TakeUp),
) -> Outcome:
    """Carry out a command for which nobody has to wait."""
    match command:
        case Answer(request_id=request_id):
            return _answer(parts.agent.questions, command, request_id)
        case Interrupt():
            return _DONE if parts.life.interrupt() else Refused("nothing runs")
        case SetMode() | SetEffort() | SetMemory():
            return _set(parts, command)
        case Background(task_id=name):
            moved = parts.supervisor.to_background(name)
            return Accepted(ids=tuple(moved)) if moved else Refused(_NOTHING_WAITED_FOR)
        case Leave():
            parts.agent.questions.leave()
            return _DONE
        case TakeUp():
            return _take_up(parts)


def _answer(questions: OpenQuestions, answer: Answer, request_id: str) -> Outcome:
    """Deliver an answer, and say which rules were stored."""
    _, asked = questions.pending.get(request_id, ("", None))
    if not questions.settle(answer):
        return Refused(f"nothing waits for an answer to {request_id!r}")
    if answer.remember == "project" and answer.allow and isinstance(asked, PermissionAsked):
        return Accepted(f"stored in {asked.file}: {', '.join(asked.suggestion)}")
    return _DONE


async def _from_user(parts: Parts, command: Say | UseSkill | Unsay | RunShell) -> Outcome:
    """Carry out what puts something of the user before the model, or takes it back."""
    match command:
        case Say():
            return _said(parts, await say(parts, command.all_parts))
        case UseSkill():
            used = await use_skill(parts, command)
            return Accepted(used.said) if isinstance(used, SkillTask) else _said(parts, used)
        case Unsay(message_id=message_id):
            return _unsay(parts, message_id)
        case RunShell(line=line):
            return await run_shell(parts, line)


def _unsay(parts: Parts, message_id: str) -> Outcome:
    """Take back a message that waits."""
    taken = parts.intake.withdraw(message_id)
    if taken is None:
        return Refused("no such message waits; it was put before the model already")
    return Accepted(taken[1], ids=taken[:1])


def _said(parts: Parts, said: User | Refused) -> Outcome:
    """Say what came of a message: one that has to wait has an id."""
    return said if isinstance(said, Refused) else Accepted(ids=parts.intake.named(said))


def _set(parts: Parts, command: SetMode | SetEffort | SetMemory) -> Outcome:
    """Change what holds from now on."""
    match command:
        case SetMode(mode=mode):
            return _set_mode(parts, mode)
        case SetEffort(effort=effort):
            parts.must_be_idle("change the effort")
            change_effort(parts.agent, effort)
        case SetMemory(on=on):
            parts.must_live()
            parts.memory.switch(on=on)
    return _DONE


def _take_up(parts: Parts) -> Outcome:
    """Go on with a message, or the work on one, that a kill or an error left unanswered."""
    parts.must_live()
    said = None if parts.busy else parts.life.take_up()
    if said is None:
        return Refused("no message waits for an answer")
    line = " ".join(said.split())
    what = f"to {line[:60]!r}" if line else "to what it was told"
    told = f"the last turn has no answer {what}; it goes on now"
    parts.agent.emit(Warned(text=told))
    return Accepted(told)


async def say(
    parts: Parts, message: Sequence[Part], *, taken: Callable[[], None] | None = None
) -> User | Refused:
    """Put a message before the main agent without waiting for an answer.

    `taken` is called once it stands in the conversation.
    Raises UsageError if the session has ended, nothing is said, or a picture cannot be shown.
    """
    parts.must_live()
    if not message:
        raise BadInput("the message is empty")
    message = [_sound(part) for part in message]
    prompt_id = new_prompt_id()
    why = await parts.intake.consult(message, prompt_id)
    if why is None and parts.servers is not None:
        from prong.session.server_message import with_resources

        message = await with_resources(parts, message)
    # Hooks and servers may take their time.
    parts.must_live()
    if why is not None:
        return Refused(why)
    return parts.intake.put(message, prompt_id=prompt_id, taken=taken, queued=parts.busy)


def _sound(part: Part) -> Part:
    """Give a part of a message; raises BadInput: a broken picture would be sent ever after."""
    if not isinstance(part, Image):
        return part
    from prong.tools.files.picture import check_image

    found = check_image(part)
    if isinstance(found, str):
        raise BadInput(f"a picture of the message cannot be shown to the model: {found}")
    return found


async def use_skill(
    parts: Parts,
    command: UseSkill,
    *,
    more: str = "",
    taken: Callable[[], None] | None = None,
) -> User | SkillTask | Refused:
    """Put a skill before the main agent, with what it allows for the turn that takes it up.

    One that asks for an agent of its own is given to that. Hooks are asked about the text before
    anything in it is run.
    """
    parts.must_live()
    if parts.servers is not None:
        from prong.session.server_message import is_server_prompt, server_prompt

        if is_server_prompt(parts, command.name):
            written = await server_prompt(parts, command.name, command.arguments)
            if isinstance(written, Refused):
                return written
            return await say(parts, told_with(more, written), taken=taken)
    skill = Records(parts).skill(command.name)
    if skill is None:
        return Refused(f"there is no command /{command.name}; /help lists them")
    use = SkillUse(skill, command.arguments)
    written = headed(skill, plain_text(use, known_variables(parts.agent.context)))
    prompt_id = new_prompt_id()
    if (why := await parts.intake.consult(told_with(more, written), prompt_id)) is not None:
        return Refused(why)
    parts.must_live()
    text = await say_skill(parts, use)
    if not text:
        return Refused(f"the skill {skill.name} was stopped")
    parts.must_live()
    # Whoever waits for a value of a type has it from the conversation.
    begun = None if more else start_skill(parts, use, text)
    if begun is not None:
        return begun

    def begin() -> None:
        parts.agent.policy.lend(skill.allows)
        parts.agent.policy.bar(skill.forbids)
        if taken is not None:
            taken()

    message = told_with(more, text)
    return parts.intake.put(message, prompt_id=prompt_id, taken=begin, queued=parts.busy)


def told_with(more: str, message: str | Sequence[Part]) -> tuple[Part, ...]:
    """Put more to a message; to a text, as part of that text."""
    if isinstance(message, str):
        return (Text(f"{message}\n\n{more}" if more else message),)
    return (*message, Text(more)) if more else tuple(message)


async def fork(
    parts: Parts,
    directives: Sequence[str],
    *,
    notify: bool = True,
    isolation: str | None = None,
    more: str = "",
) -> list[Child]:
    """Split the main agent, one fork per directive; each is told `more` as well.

    Raises UsageError if that is not a list of texts, or forks are not possible.
    """
    parts.must_live()
    given = cast("object", directives)
    texts = [*cast("Sequence[object]", given)] if isinstance(given, Sequence) else []
    bad = isinstance(given, str) or not all(isinstance(t, str) and t.strip() for t in texts)
    if bad or not texts:
        raise BadInput("fork takes a list of directives, each a text that says what to do")
    return by_hand.fork(
        parts.supervisor,
        parts.agent,
        directives,
        notify=notify,
        isolation=isolation or "",
        more=more,
    )


async def _merge(parts: Parts, command: MergeBranches) -> str:
    """Bring the work of children together, while nobody else works on the files."""
    from prong.session.integration import integrate

    parts.must_live()
    if command.action != "preview":
        parts.must_be_idle("merge")
    return await integrate(parts.agent.context.host, command)


async def _outside(parts: Parts, command: MergeBranches | ManagePlugins) -> str:
    """Carry out what changes files of the user and no conversation."""
    parts.must_live()
    if isinstance(command, MergeBranches):
        return await _merge(parts, command)
    from prong.session.plugin_catalogue import manage

    return await to_thread.run_sync(manage, command, parts.place.home)


async def tell(parts: Parts, to: str, text: str) -> str:
    """Send a message to a child or a member of the team, which goes on from where it was.

    Raises UsageError if there is no such child.
    """
    parts.must_live()
    outcome = None
    if parts.leader is not None:
        with speaking(parts.agent.path):
            outcome = await parts.leader.tell(to, text)
    return _text(outcome or await parts.supervisor.send(parts.agent.path, to, text))


async def stop(parts: Parts, task_id: str) -> str:
    """Stop a background task and everything it started, or a member of the team at once.

    Raises UsageError if it does not run.
    """
    outcome = None
    if parts.leader is not None:
        with speaking(parts.agent.path):
            outcome = await parts.leader.stop(task_id)
    return _text(outcome or await parts.agent.context.tasks.stop(task_id))


def _text(outcome: ToolOutcome) -> str:
    if isinstance(outcome, Failed):
        raise UnknownName(outcome.why)
    return plain(outcome.parts)


async def _lead_team(parts: Parts, command: LeadTeam) -> str:
    """Do as the leader of the team, which is the person's word as much as the main agent's.

    Raises UsageError if there is no team, or it cannot be.
    """
    parts.must_live()
    if parts.leader is None:
        raise NotPossibleNow("this session leads no team; start one with --team")
    with speaking(parts.agent.path):
        led, name, text = parts.leader.must_lead(), command.member, command.text
        match command.action:
            case "send":
                if not text.strip():
                    raise BadInput("the message is empty")
                await led.tell(name, text)
                return f"sent to {'all' if name == '*' else name}"
            case "end":
                await led.ask_to_end(name, text)
                return f"{name} is asked to end"
            case "approve" | "reject" as answer:
                await led.answer_plan(name, approve=answer == "approve", feedback=text)
                return f"{name} is told"
            case "kill":
                return await stop(parts, name)
            case "hide" | "show" as action:
                return await led.detached.arrange(led, name, action)
            case "delete":
                return _text(await parts.leader.delete(force=command.force))


async def aside(parts: Parts, question: str, *, purpose: str = "aside") -> str:
    """Ask something beside the conversation: it reads the same cache and leaves no trace.

    Raises ProviderError if there is no answer, UsageError if the session has ended.
    """
    parts.must_live()
    return await sidecar.ask(parts.agent, parts.snapshot, question, purpose=purpose)


async def rename(parts: Parts, title: str) -> str:
    """Name the session; without a name the one it has stays, or the model is asked for one.

    Raises ProviderError if the model gives none.
    """
    now = parts.journal.tally.title
    if not title and now:
        return now
    named = title or await sidecar.title(parts.agent, parts.snapshot)
    parts.journal.note(parts.agent.path, Titled(named))
    parts.agent.emit(TitleChanged(title=named))
    return named


def _set_mode(parts: Parts, mode: str) -> Outcome:
    """Change the permission mode for the whole tree of agents.

    Into plan mode and out of it too: what plan mode put aside comes back. The model is told
    with the next message, or at the next turn boundary while a turn runs.
    """
    parts.planner.change(read_mode(mode))
    prompt = parts.agent.conversation.prompt
    if parts.life.working and (note := parts.planner.reminder(prompt)) is not None:
        parts.agent.inbox.put(note)
    return _DONE


async def _compact(parts: Parts, focus: str) -> Outcome:
    """Replace the conversation by a summary of it, now; an interrupt stops that."""
    parts.must_be_idle("compact")
    if not parts.agent.conversation.prompt.depth:
        return Refused("there is nothing to compact")
    sidecar.must_afford(parts.agent)
    async with parts.life.hold() as scope:
        told = "the user asked for it"
        await compact(parts.agent, detail=told, trigger="manual", focus=focus)
    if scope.cancelled_caught:
        return Refused("the compaction was stopped; the conversation is as it was")
    return _DONE


def _clear(parts: Parts) -> Outcome:
    """Start over with an empty conversation; the old one stays in the journal."""
    parts.must_be_idle("clear")
    agent, context = parts.agent, parts.agent.context
    if not agent.conversation.prompt.depth:
        return Refused("there is nothing to clear")
    parts.memory.begin(parts.snapshot)
    agent.restart(Prompt(agent.upcoming.head), reason="clear", detail="the user cleared it")
    had_todos = bool(context.todos)
    context.forget()
    parts.planner.forget()
    if had_todos:
        agent.emit(TodosChanged(todos=()))
    return _DONE
