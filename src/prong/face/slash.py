"""Reads a line that begins with a slash: what it does to a session, or what it wants to see."""

from __future__ import annotations

import re
from typing import TypeAlias

import msgspec

from prong.command import (
    Background,
    Clear,
    Command,
    Compact,
    Fork,
    Remember,
    Say,
    SetMemory,
    SetMode,
    SetModel,
    Stop,
    Tell,
    UseSkill,
)
from prong.errors import UsageError
from prong.face.edit.external import following
from prong.view import View

HELP = """\
/help              this list
/cost              what agents and the session cost, and would have cost
/clear             start over with an empty conversation
/compact [focus]   replace the conversation by a summary
/model [name]      show the model, or change it
/mode [mode]       show the permission mode, or change it
/mode next         go on to the next mode (also Shift+Tab)
/plan [task]       plan first: only reading, until you approve a plan
/resume [ID]       list the sessions of this folder, or go on with one
/agents [name]     the types of agents, or one with its tools
/fork TEXT         split off a fork that works in the background
/fork ONE / TWO    split off several
/fork --worktree TEXT
                   the same, each in a working copy and a branch of its own
/tasks             what runs in the background, and what has ended
/tell ID TEXT      send a message to a fork or agent
/stop ID           stop a task
/background        do not wait for the agent that works now (also Ctrl+B)
/receipt [ID]      what forks shared and paid
/memory [on|off]   notes for later sessions of this project: show, or switch
/memory now        keep now what later sessions should know
/outline           the conversation as the model sees it
/quit              leave, and stop what runs (also Ctrl+D)
Ctrl+C interrupts the turn that runs. Commands work while a question is open."""

SHOWN = (
    "help",
    "cost",
    "model",
    "mode",
    "resume",
    "agents",
    "tasks",
    "receipt",
    "memory",
    "outline",
)
"""What only shows something."""


class Show(msgspec.Struct, frozen=True):
    """A wish to see something, or to go on with another session."""

    what: str
    rest: str = ""


Step: TypeAlias = Command | Show


def read_slash(line: str, view: View) -> tuple[Step, ...]:
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
        case "memory" if rest:
            return _memory(rest), Show("memory")
        case "plan":
            change = () if view.mode == "plan" else (SetMode("plan"),)
            return *change, Say(rest) if rest else Show("plan")
        case _ if name in SHOWN:
            return (Show(name, rest),)
        case "clear":
            return (Clear(),)
        case "compact":
            return (Compact(rest),)
        case "background":
            return (Background(),)
        case _:
            return _of_team(name, rest)


def _of_team(name: str, rest: str) -> tuple[Step, ...]:
    match name:
        case "fork":
            return (_fork(rest),)
        case "tell":
            task_id, _, text = rest.partition(" ")
            if not text.strip():
                raise UsageError("say whom and what: /tell ID TEXT")
            return (Tell(task_id, text.strip()),)
        case "stop":
            if not rest:
                raise UsageError("say which task: /stop ID; /tasks lists them")
            return (Stop(rest),)
        case _:
            return (UseSkill(name, rest),)


def _memory(rest: str) -> Remember | SetMemory:
    match rest:
        case "on" | "off":
            return SetMemory(rest == "on")
        case "now":
            return Remember()
        case _:
            raise UsageError("say /memory, /memory on, /memory off or /memory now")


def _fork(rest: str) -> Fork:
    word, _, text = rest.partition(" ")
    isolated = word == "--worktree"
    parts = re.split(r"\s/\s", text if isolated else rest)
    directives = tuple(part.strip() for part in parts if part.strip())
    if not directives:
        raise UsageError("say what the fork is to do: /fork [--worktree] TEXT, or ONE / TWO")
    return Fork(directives, "worktree" if isolated else None)
