"""Reads a line that begins with a slash: what it does to a session, or what it wants to see."""

from __future__ import annotations

import re
import textwrap
from typing import TypeAlias

import msgspec

from prong import errors
from prong.command import (
    Aside,
    Background,
    Branch,
    Clear,
    Command,
    Compact,
    Fork,
    LeadTeam,
    ManagePlugins,
    MergeBranches,
    Remember,
    Rename,
    Say,
    SetEffort,
    SetMemory,
    SetMode,
    SetModel,
    Stop,
    Tell,
    UseSkill,
)
from prong.errors import BadInput
from prong.face.edit.external import following
from prong.face.edit.keymap import TOLD
from prong.foreign_number import whole_number
from prong.view import View


class Slash(msgspec.Struct, frozen=True):
    """A command that begins with a slash."""

    name: str
    takes: str
    """What follows its name, as help shows it."""
    help: str
    wants: str = ""
    """What its argument is, for completion: a kind of `Sources.values`."""


COMMANDS: tuple[Slash, ...] = (
    Slash("help", "", "this list"),
    Slash("cost", "", "what agents and the session cost, and would have cost"),
    Slash("usage", "", "tokens and dollars so far, agent by agent"),
    Slash("context", "", "what fills the model's context"),
    Slash("clear", "", "start over with an empty conversation"),
    Slash("compact", "[focus]", "replace the conversation by a summary"),
    Slash("model", "[name]", "show the model, or change it", "model"),
    Slash("effort", "[level]", "show how hard the model thinks, or change it", "effort"),
    Slash("mode", "[mode]", "show the permission mode, or change it", "mode"),
    Slash("mode", "next", "go on to the next mode (also Shift+Tab)", "mode"),
    Slash("plan", "[task]", "plan first: only reading, until you approve a plan"),
    Slash("resume", "[ID]", "list the sessions of this folder, or go on with one", "session"),
    Slash("rewind", "[N]", "list your messages, or go back to before one of them"),
    Slash("rename", "[NAME]", "name the session; without a name, show the one it has"),
    Slash("branch", "", "go on in a copy of this session; this one stays as it is"),
    Slash("export", "[FILE]", "write what was said to a file: .md, .html or .jsonl"),
    Slash("trace", "[FILE]", "write when agents did what, as a trace for a viewer"),
    Slash("web", "[FILE]", "write the session as a page; 'prong web' shows it live"),
    Slash("web", "act [CODE|off]", "who may act here from a page: show, let in, send away"),
    Slash("agents", "[name]", "the types of agents, or one with its tools", "type"),
    Slash("fork", "TEXT", "split off a fork that works in the background"),
    Slash("fork", "ONE / TWO", "split off several"),
    Slash("fork", "--worktree TEXT", "the same, each in a working copy and a branch of its own"),
    Slash("fork", "--remote[:NAME] TEXT", "the same, each in a working copy on another machine"),
    Slash("btw", "QUESTION", "ask beside the conversation, which stays as it is"),
    Slash("tasks", "", "what runs in the background, and what has ended"),
    Slash("todos", "[ID]", "what the agent, or a fork, has on its list", "agent"),
    Slash("report", "ID", "what a fork or agent has reported, all of it", "agent"),
    Slash("tell", "ID TEXT", "send a message to a fork or agent", "agent"),
    Slash("stop", "ID", "stop a task", "task"),
    Slash("team", "", "the team: who is in it, what they do, their tasks"),
    Slash("team", "send NAME TEXT", "write to a member, or to * for all", "agent"),
    Slash("team", "stop|kill NAME", "ask a member to end, or end it at once", "agent"),
    Slash("team", "hide|show NAME", "take its pane out of sight, or bring it back", "agent"),
    Slash("team", "approve|reject NAME [WHY]", "answer a member's plan", "agent"),
    Slash("team", "delete [--force]", "remove the team; by force after ending who works"),
    Slash("merge", "[NAME ...]", "bring the work of forks in worktrees into the current branch"),
    Slash("merge", "preview|undo|clean", "show it; take the last one back; remove what is merged"),
    Slash("diff", "[ID]", "what was changed since the last commit, or by a fork", "agent"),
    Slash("background", "", "do not wait for the agent or command at work (also Ctrl+B)"),
    Slash("receipt", "[ID]", "what forks shared and paid", "agent"),
    Slash("memory", "[on|off]", "notes for later sessions of this project: show, or switch"),
    Slash("memory", "now", "keep now what later sessions should know"),
    Slash("doctor", "", "what is protected here and what is not"),
    Slash("init", "", "look at the project and write AGENTS.md"),
    Slash("permissions", "", "the mode and the rules that hold"),
    Slash("hooks", "", "commands that are run on events"),
    Slash("mcp", "", "servers: how each stands, its tools and prompts"),
    Slash("plugin", "", "the plug-ins that were added"),
    Slash("plugin", "add SOURCE [NAME ...]", "add one of a folder, of git or of a marketplace"),
    Slash("plugin", "remove NAME | update [NAME ...]", "remove one; fetch them anew"),
    Slash("outline", "", "the conversation as the model sees it"),
    Slash("quit", "", "leave, and stop what runs (also exit, or Ctrl+D)"),
)
"""All of them, in the order of help; one that can be used in several ways stands several times."""

_NAME, _WIDE = 18, 80


def _explained() -> str:
    lines: list[str] = []
    for one in COMMANDS:
        form = f"/{one.name} {one.takes}".rstrip()
        if len(form) > _NAME:
            lines += [form, f"{'':{_NAME}} {one.help}"]
        else:
            lines.append(f"{form:{_NAME}} {one.help}")
    lines.append(f"{'!COMMAND':{_NAME}} run a command yourself; the model is told what it gave")
    lines.append(f"{'@PATH':{_NAME}} name a file; Tab completes it")
    lines.append(f"{'@SERVER:URI':{_NAME}} put a resource of an MCP server into the message")
    lines.append(f"{'/mcp__SERVER__NAME':{_NAME}} a prompt of an MCP server")
    for keys, told in TOLD:
        first, *rest = textwrap.wrap(told, _WIDE - _NAME - 1)
        lines.append(f"{keys:{_NAME}} {first}")
        lines += [f"{'':{_NAME}} {more}" for more in rest]
    lines.append("Commands work while a turn runs and while a question is open.")
    return "\n".join(lines)


HELP = _explained()

ELSEWHERE = {
    **dict.fromkeys(("new", "reset"), "clear"),
    **dict.fromkeys(("compress", "summarize"), "compact"),
    **dict.fromkeys(("sessions", "continue"), "resume"),
    "undo": "rewind",
    **dict.fromkeys(("stats", "tokens"), "usage"),
    **dict.fromkeys(("bashes", "jobs", "ps"), "tasks"),
    **dict.fromkeys(("approvals", "allowed-tools"), "permissions"),
    **dict.fromkeys(("think", "thinking", "reasoning"), "effort"),
    **dict.fromkeys(("subtask", "spawn", "task"), "fork"),
    **dict.fromkeys(("save", "share", "transcript"), "export"),
    **dict.fromkeys(("?", "h", "keys", "commands", "keybindings"), "help"),
    **dict.fromkeys(("q", "bye"), "quit"),
}
"""What other programs call what these do."""

SHOWN = frozenset(
    {
        "help",
        "cost",
        "usage",
        "context",
        "model",
        "effort",
        "mode",
        "resume",
        "rewind",
        "export",
        "trace",
        "web",
    }
    | {"agents", "tasks", "receipt", "permissions", "hooks", "mcp", "outline"}
    | {"memory", "doctor", "report", "todos", "diff"}
)
"""What only shows something."""


class Show(msgspec.Struct, frozen=True):
    """A wish to see something, or to go on with another session."""

    what: str
    rest: str = ""


SlashStep: TypeAlias = Command | Show


def read_slash(line: str, view: View) -> tuple[SlashStep, ...]:
    """Read a line; gives what is to be done and shown, one after the other.

    Raises UsageError if something is missing in it.
    """
    name, _, rest = line.removeprefix("/").strip().partition(" ")
    rest = rest.strip()
    match name:
        case "model" if rest:
            return SetModel(rest), Show("model")
        case "mode" if rest:
            return SetMode(following(view.mode) if rest == "next" else rest), Show("mode")
        case "memory" if rest == "now":
            return (Remember(),)
        case "memory" if rest:
            return _memory(rest), Show("memory")
        case "plan":
            change = () if view.mode == "plan" else (SetMode("plan"),)
            return *change, Say(rest) if rest else Show("plan")
        case "effort" if rest:
            return SetEffort(rest), Show("effort")
        case "rewind" if rest:
            return (_rewind(rest),)
        case _ if name in SHOWN:
            return (Show(name, rest),)
        case _:
            return _of_session(name, rest)


def is_slash(text: str) -> bool:
    """Whether a line is a command: a path, as terminals write a dropped file, is a message."""
    return re.match(r"/[^\s/]*(?:\s|$)", text) is not None


def is_leaving(text: str, *, answers: bool = False) -> bool:
    """Whether a line asks to leave: also by the word alone, as in a shell, unless it answers."""
    word = text.strip()
    return word in {"/quit", "/exit"} or (not answers and word in {"quit", "exit", ":q"})


def nearest(name: str) -> str:
    """Give the command that a name of other programs, or a slip, means; empty if none."""
    from difflib import get_close_matches

    if known := ELSEWHERE.get(name.lower()):
        return known
    names = dict.fromkeys(slash.name for slash in COMMANDS)
    return next(iter(get_close_matches(name.lower(), names, n=1)), "")


def _rewind(rest: str) -> Branch:
    if not (number := whole_number(rest)):
        raise BadInput("say which message by its number: /rewind N; /rewind lists them")
    return Branch(number)


def _of_session(name: str, rest: str) -> tuple[SlashStep, ...]:
    match name:
        case "branch":
            return (Branch(),)
        case "clear":
            return (Clear(),)
        case "compact":
            return (Compact(rest),)
        case "background":
            return (Background(),)
        case "rename":
            return (Rename(rest),)
        case "btw":
            if not rest:
                raise BadInput("say what you want to know: /btw QUESTION")
            return (Aside(rest),)
        case "plugin":
            return (_plugin(rest),)
        case _:
            return _of_team(name, rest)


def _of_team(name: str, rest: str) -> tuple[SlashStep, ...]:
    match name:
        case "fork":
            return (_fork(rest),)
        case "merge":
            return (_merge(rest),)
        case "tell":
            task_id, _, text = rest.partition(" ")
            if not text.strip():
                raise BadInput("say whom and what: /tell ID TEXT")
            return (Tell(task_id, text.strip()),)
        case "team":
            return (_team(rest) if rest else Show("team"),)
        case "stop":
            if not rest:
                raise BadInput("say which task: /stop ID; /tasks lists them")
            return (Stop(rest),)
        case _:
            return (UseSkill(name, rest),)


def _team(rest: str) -> Command:
    match rest.split(maxsplit=2):
        case ["send", name, text]:
            return LeadTeam("send", name, text)
        case ["stop", name, *why]:
            return LeadTeam("end", name, " ".join(why))
        case ["kill" | "hide" | "show" as action, name]:
            return LeadTeam(action, name)
        case ["approve" | "reject" as answer, name, *why]:
            return LeadTeam(answer, name, " ".join(why))
        case ["delete"] | ["delete", "--force"] as words:
            return LeadTeam("delete", force=len(words) > 1)
        case _:
            raise BadInput(
                "say /team, /team send NAME TEXT, stop, kill, hide, show, approve, reject NAME, or "
                "delete [--force]"
            )


def _merge(rest: str) -> MergeBranches:
    match rest.split():
        case ["undo" | "clean" as action]:
            return MergeBranches(action)
        case ["preview", *slugs]:
            return MergeBranches("preview", tuple(slugs))
        case slugs if any(slug.startswith("-") for slug in slugs):
            raise BadInput("say /merge [NAME ...], /merge preview [NAME ...], undo or clean")
        case slugs:
            return MergeBranches(slugs=tuple(slugs))


def _plugin(rest: str) -> ManagePlugins:
    words = rest.split()
    named = tuple(word for word in words[1:] if word != "--yes")
    match words[:1]:
        case []:
            return ManagePlugins()
        case ["list" | "add" | "remove" | "update" as action]:
            return ManagePlugins(action, named, approved="--yes" in words)
        case _:
            raise BadInput(
                "say /plugin, /plugin add SOURCE [NAME ...], remove NAME, or update [NAME ...]"
            )


def _memory(rest: str) -> SetMemory:
    if rest not in {"on", "off"}:
        raise BadInput("say /memory, /memory on, /memory off or /memory now")
    return SetMemory(rest == "on")


def _fork(rest: str) -> Fork:
    word, _, text = rest.partition(" ")
    flag = re.fullmatch(r"--(worktree|remote(?:[:=]\S+)?)", word)
    if flag is None and re.match(r"--\w", word):
        close = errors.nearest(word.partition(":")[0], ("--worktree", "--remote"))
        hint = f"did you mean {close}?" if close else "there are --worktree and --remote[:NAME]."
        raise BadInput(
            f"/fork has no option {word}; {hint} '/fork -- TEXT' says it to the fork as it stands"
        )
    isolation = flag[1].replace("=", ":", 1) if flag else None
    parts = re.split(r"\s/\s", text if flag or word == "--" else rest)
    directives = tuple(part.strip() for part in parts if part.strip())
    if not directives:
        raise BadInput(
            "say what the fork is to do: /fork [--worktree|--remote[:NAME]] TEXT, or ONE / TWO"
        )
    return Fork(directives, isolation)
