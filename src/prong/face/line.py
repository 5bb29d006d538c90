"""Events as lines of text, for faces that write lines."""

from __future__ import annotations

from collections.abc import Sequence

from prong.command import Background, Command, Outcome, Refused, Say
from prong.entry import Usage
from prong.errors import BadInput, UnknownName
from prong.event import (
    AgentRested,
    CacheMissed,
    CommandTaken,
    ControlChanged,
    Event,
    LineChanged,
    MemoryKept,
    ModeChanged,
    PermissionAsked,
    Progressed,
    PromptMoved,
    QuestionAsked,
    ReceiptIssued,
    ReplyDiscarded,
    SessionStarted,
    TaskFinished,
    TaskStarted,
    TodosChanged,
    ToolFinished,
    ToolStarted,
    Warned,
    WorkKept,
)
from prong.face.output import printable
from prong.foreign_number import whole_number
from prong.question import Question
from prong.system.console import is_dumb

_SHOWN_LINES = 12
_PREVIEWED = 30
"""Lines of a change that are shown before somebody asks for all of them."""
BROKEN_OFF = "… broken off; the model does not remember this reply"
"""What stands below a text of which no conversation has anything."""
BOXES = {"pending": "[ ]", "in_progress": "[~]", "completed": "[x]"}


_RESTS = {
    "work": "sleeps",
    "plan": "its plan waits: /team approve or reject NAME",
    "end": "ends",
}
"""What is said of a member of a team that does nothing."""


def describe(event: Event) -> list[tuple[str, str]]:
    """Say an event in lines, each with a style; events that are not worth a line give none."""
    match event:
        case ToolStarted():
            return [(f"* {event.title}", "bold")]
        case ToolFinished():
            return _finished(event)
        case TodosChanged():
            return [(f"  {BOXES[todo.status]} {todo.content}", "") for todo in event.todos]
        case Warned():
            return [(f"! {event.text}", "bad")]
        case ReplyDiscarded():
            return [(f"({describe_retry(event)})", "bad")]
        case LineChanged():
            return [(f"({event.text or 'it is at work there'})", "dim")]
        case CacheMissed():
            return [(f"! cache missed: {event.why}", "bad")]
        case _:
            return [(text, "dim") for text in _noted(event)]


def describe_outcome(command: Command, outcome: Outcome) -> list[tuple[str, str]]:
    """Say what came of a command, as far as no event does."""
    if isinstance(outcome, Refused):
        match command:
            case Say():
                # A warning has told it already.
                return []
            case Background():
                return [(f"({outcome.why})", "")]
            case _:
                return [(outcome.why, "bad")]
    return [(outcome.text, "")] if outcome.text else []


def describe_forks(ids: Sequence[str]) -> list[tuple[str, str]]:
    """Say that forks work, and how to reach them."""
    match ids:
        case []:
            return []
        case [one]:
            return [(f"{one} works in the background; /tell {one} TEXT", "")]
        case _:
            return [(f"{', '.join(ids)} work in the background; /tell ID TEXT reaches one", "")]


def _noted(event: Event) -> list[str]:
    match event:
        case SessionStarted():
            verb = "resumed" if event.resumed else "session"
            told = f"{event.model} · {event.mode} · {verb} {event.session_id}"
            return [f"prong · {told} · /help"]
        case TaskStarted():
            return [f"{event.task_id} started: {event.title}"]
        case TaskFinished():
            return [f"{event.task_id} {event.status}: {event.summary}"]
        case ReceiptIssued():
            return [f"receipt: {event.text}"]
        case WorkKept():
            return [describe_work(event)]
        case MemoryKept():
            return [f"({describe_kept(event)})"]
        case ControlChanged() | CommandTaken():
            return [f"({_from_outside(event)})"]
        case PromptMoved():
            return [f"(new prompt, {event.reason}: {event.detail})"]
        case _:
            return _changed_state(event)


def _changed_state(event: Event) -> list[str]:
    match event:
        case AgentRested(waits=waits):
            return [_RESTS[waits]]
        case ModeChanged():
            return [f"(permission mode {event.mode})"]
        case _:
            return []


def _from_outside(event: ControlChanged | CommandTaken) -> str:
    """Say what another process may do, or has done."""
    if isinstance(event, CommandTaken):
        said = " ".join(event.text.split())
        told = [f"process {event.pid}: {event.command}", event.target, few_words(said)]
        return " ".join(word for word in told if word)
    told = f"may act in this session, its page shows {event.code}; '/web act off' ends that"
    return f"process {event.pid} {told if event.acts else 'acts in this session no longer'}"


def few_words(text: str, most: int = 300) -> str:
    """Give a text's beginning, if it is long."""
    return text if len(text) <= most else f"{text[:most]}…"


def describe_retry(event: ReplyDiscarded) -> str:
    """Say why a try was given up, and when the next one comes."""
    soon = round(event.retry_in)
    return f"{event.why}; again {f'in {soon} s' if soon else 'at once'}"


def describe_end(why: str, detail: str) -> str:
    """Say why a turn has ended, where its last reply does not."""
    return f"({detail})" if why == "done" else f"({why.replace('_', ' ')}: {detail})"


def describe_work(event: WorkKept) -> str:
    """Say where a child's work is, and how much of it there is."""
    if event.away:
        machine, _, folder = event.path.partition(":")
        told = f"the work of {event.task_id} is still on {machine}, in {folder}"
        how = f"once {machine} can be reached, a message to {event.task_id} brings it"
        return f"{told}: {how} as {event.branch}"
    much = f"{counted(len(event.commits), 'commit')}, {counted(len(event.files), 'file')}"
    rest = ", not all committed" if event.uncommitted else ""
    where = f" in {event.path}" if event.path else ""
    return f"work kept on {event.branch} ({much}{rest}){where}"


def describe_kept(event: MemoryKept) -> str:
    """Say what was kept for later sessions, where, and what it cost."""
    changes = {"kept": event.added, "replaced": event.replaced, "dropped": event.dropped}
    done = [f"{verb} {counted(len(notes), 'note')}" for verb, notes in changes.items() if notes]
    cost = "" if event.cost is None else f", ${event.cost:.4f}"
    rest = f"; left out: {event.left_out}" if event.left_out else ""
    if not done:
        return f"nothing new to keep for later sessions{cost}{rest}"
    return f"{', '.join(done)} for later sessions in {event.path}{cost}{rest}"


def progress_bar(event: Progressed, width: int = 24, *, badge: str = "") -> str:
    """Show how far a model on this machine has come with its weights or with a prompt.

    The badge takes its columns from the bar: a line that wraps cannot be drawn over.
    """
    width = max(4, width - len(badge))
    share = min(1.0, event.done / event.total) if event.total else 1.0
    full = round(share * width)
    what = "loading the model" if event.what == "load" else "reading the prompt"
    count = f"{share:.0%}" if event.what == "load" else f"{event.done:,} of {event.total:,} tokens"
    return f"{badge}{what} [{'#' * full}{'.' * (width - full)}] {count}"


_PRINTED = 12
"""Lines of what a call had printed that are shown once it was interrupted."""


def _finished(event: ToolFinished) -> list[tuple[str, str]]:
    if event.interrupted:
        # Whatever cut it off has a line of its own; of what was printed the end says most.
        lines = printable(event.shown).splitlines()
        return [(f"  {line}", "dim") for line in lines[-_PRINTED:]]
    if event.failed:
        return [(f"  failed: {line}", "bad") for line in few(event.text, 4)]
    if event.shown:
        change = event.shown.startswith("--- ")
        return [(f"  {line}", diff_style(line) if change else "") for line in few(event.shown, 40)]
    return [(f"  {line}", "dim") for line in few(event.text, 4)]


def few(text: str, limit: int) -> list[str]:
    """Give the first lines of a text, and how many more there are."""
    lines = printable(text).splitlines() or ["(nothing)"]
    if len(lines) <= limit:
        return lines
    return [*lines[:limit], f"… {counted(len(lines) - limit, 'more line')}"]


def diff_style(line: str) -> str:
    """Give the style of a line of a diff."""
    if line.startswith("+"):
        return "good"
    return "bad" if line.startswith("-") else "dim"


def dumb() -> bool:
    """Whether the terminal says that it understands nothing but text."""
    return is_dumb()


def describe_question(
    asked: PermissionAsked | QuestionAsked, *, whole: bool = False
) -> list[tuple[str, str]]:
    """Say what is asked, with what can be answered, in lines with a style each.

    Of a long change the beginning is shown unless the `whole` of it is wanted.
    """
    if isinstance(asked, PermissionAsked) and asked.plan:
        return [(f"{asked.title}\n\n{asked.plan}\n", "bold")]
    if isinstance(asked, PermissionAsked):
        lines = [(f"may it? {asked.title}", "bold"), (f"  {asked.why}", "bold")]
        if asked.preview:
            lines += _change(asked, whole=whole)
        if asked.suggestion:
            rules = ", ".join(asked.suggestion)
            lines.append((f"  for the rest of this session: {rules}", "bold"))
        if asked.file:
            lines.append((f"  always: the same, stored in {asked.file}", "bold"))
        return lines
    return [(_choices(asked), "bold")]


def _change(asked: PermissionAsked, *, whole: bool) -> list[tuple[str, str]]:
    change = printable(asked.preview).splitlines()
    kept = change if whole or len(change) <= _PREVIEWED else change[:_PREVIEWED]
    lines = [(f"  {line}", diff_style(line)) for line in kept]
    if more := len(change) - len(kept):
        lines.append((f"  … {counted(more, 'more line')}; v shows all of them", "bold"))
    if len(change) > _SHOWN_LINES:
        # What it is about may have left the screen.
        lines.append((f"may it? {asked.title}", "bold"))
    return lines


def _choices(asked: QuestionAsked) -> str:
    lines: list[str] = []
    for question in asked.questions:
        lines.append(question.question)
        for number, option in enumerate(question.options, 1):
            more = f" - {option.description}" if option.description else ""
            lines.append(f"  {number}. {option.label}{more}")
    if len(asked.questions) > 1:
        lines.append("(answers separated by ;)")
    return "\n".join(lines)


def chosen(asked: QuestionAsked, line: str) -> str:
    """Turn what the user typed into answers, a line each; numbers stand for options.

    Raises UsageError if that is not one good answer for each question.
    """
    count = len(asked.questions)
    given = [part.strip() for part in (line.split(";") if count > 1 else [line])]
    if len(given) != count or not all(given):
        wanted = "one answer" if count == 1 else f"{count} answers, separated by ;"
        raise BadInput(f"this needs {wanted}: the number of an option, or words of your own")
    pairs = zip(asked.questions, given, strict=True)
    return "\n".join(_picked(question, text) for question, text in pairs)


def _picked(question: Question, text: str) -> str:
    labels = [option.label for option in question.options]
    if not labels:
        return text
    words = [word.strip() for word in text.split(",")]
    numbers = {word: whole_number(word) or 0 for word in words if word.isdecimal()}
    if set(words) - set(numbers) and not question.multiple:
        return text
    if wrong := [word for word, number in numbers.items() if not 0 < number <= len(labels)]:
        raise UnknownName(f"there is no option {wrong[0][:20]}; there are 1 to {len(labels)}")
    if len(words) > 1 and not question.multiple:
        raise BadInput(f"only one can be chosen: {question.question}")
    return ", ".join(labels[numbers[word] - 1] if word in numbers else word for word in words)


def counted(number: int, noun: str) -> str:
    """Say how many there are, in the singular for one."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def describe_usage(usage: Usage) -> str:
    """Say tokens in one line; many providers do not tell what they write."""
    written = f"{usage.written:,} written to cache, " if usage.written else ""
    return f"{usage.uncached:,} new, {written}{usage.read:,} read from cache, {usage.output:,} out"
