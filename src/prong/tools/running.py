"""What the policy says about a shell command line, decided on its parse."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile

from msgspec import Struct
from msgspec.structs import replace

from prong.system.path_form import is_unclear_word
from prong.tools.access import Running
from prong.tools.argv import read_options
from prong.tools.case import (
    FREE,
    Case,
    Resolve,
    join_paths,
    path_words,
    possible_paths,
    read_case,
    sure_paths,
)
from prong.tools.commandline import Simple, Target
from prong.tools.derive import frees, holds, working
from prong.tools.ground import (
    Allow,
    Ask,
    Decision,
    Deny,
    Policy,
    decide_reading,
    decide_writing,
    find_below,
    find_rule,
    is_inside,
    is_own_ground,
    is_protected,
    is_secret,
    planned,
    reads_only,
    sealing,
    strictest,
)
from prong.tools.harmless import has_safe_env, prove_read_only, reads_folder
from prong.tools.match import EXACT, match_line, match_strictly
from prong.tools.reach import find_reach
from prong.tools.risk import FILE_COMMANDS, is_change, is_risky, suggest
from prong.tools.rule import READING, WRITING, Rule, command_pattern
from prong.tools.seal import holds_sealed, is_sealed, speaks_of_sealed
from prong.tools.shape import landings
from prong.tools.word import Word

_KEPT = ("settings.json", "agents", "git")
"""Names that are protected in a folder whose other files are not."""
_CONFIGURING = frozenset(["config", "remote", "submodule", "init", "clone", "-u", "--set-upstream"])
"""Words by which git is told to write its settings."""


def decide_running(policy: Policy, run: Running, resolve: Resolve) -> Decision:
    """Decide on one command line: every part of it has to be allowed.

    Where the system holds all that the mode promises, what cannot be told need not be.
    """
    case = read_case(policy, run, resolve)
    free = frees(policy)
    forbidden = _settled(_by_rules(case), free=free)
    if isinstance(forbidden, Deny):
        return forbidden
    if policy.mode == "plan":
        return _settled([forbidden, *_in_plan(case)], free=free)
    floor = _settled([forbidden, *_guarded(case)], free=free)
    if policy.mode == "bypassPermissions":
        return floor if isinstance(floor, Ask) else Allow("permissions are bypassed")
    if _allowed_whole(case):
        return floor if isinstance(floor, Ask) else Allow("a rule allows the whole command")
    return _settled([floor, *_parts(case)], free=free)


def _settled(verdicts: Iterable[Decision], *, free: bool) -> Decision:
    """Put verdicts together, without doubts where the system holds what they are about."""
    kept = [one for one in verdicts if isinstance(one, Allow) or not (free and one.unsure)]
    return strictest(kept or [Allow("the sandbox holds it")])


class Nature(Struct, frozen=True):
    """What of a command line decides on its profile."""

    reads: bool
    """It is known to read, and to do nothing else."""
    outside: bool
    """Each part of it is one that the user lets run without a sandbox."""
    opened: tuple[str, ...] = ()
    """Protected paths that it may change."""


def look_at(policy: Policy, run: Running, resolve: Resolve, *, approved: bool) -> Nature:
    """Read a command line for what decides on its profile; `approved` if a person said yes to it.

    What it names is looked for only then: to nobody else is a protected path opened.
    """
    case = read_case(policy, run, resolve)
    commands, opaque = case.parsed.commands, case.parsed.opaque
    wild = [t for t in case.parsed.writes if not FREE.fullmatch(t.word.text)]
    return Nature(
        reads=not opaque and not wild and all(prove_read_only(s) is not None for s in commands),
        outside=_is_outside(case),
        opened=_protected(case) if approved else (),
    )


def _protected(case: Case) -> tuple[str, ...]:
    """Give the protected paths that a command line names to change them."""
    policy = case.policy
    named = {p for p, writing in case.paths if writing and is_protected(policy, p)}
    for simple in case.parsed.commands:
        named |= _configured(policy, simple)
    return tuple(sorted(named))


def _is_outside(case: Case) -> bool:
    """Whether each part of a line is one that the user lets run without a sandbox."""
    commands, patterns = case.parsed.commands, case.policy.sandbox.outside
    known = [command_pattern(text) for text in patterns]
    whole = bool(commands) and not case.parsed.opaque
    return whole and all(any(match_strictly(p, s) for p in known) for s in commands)


def _configured(policy: Policy, simple: Simple) -> set[str]:
    """Give the settings that git writes by a command whose purpose that is."""
    verbs = {word.text for word in simple.words[1:] if word.plain} & _CONFIGURING
    if simple.name != "git" or not verbs:
        return set()
    roots = (policy.root, *policy.folders)
    found = {f"{one}/config" for one in (*(f"{r}/.git" for r in roots), *policy.sandbox.git)}
    return found | {f"{root}/.gitmodules" for root in roots if "submodule" in verbs}


def _by_rules(case: Case) -> Iterator[Decision]:
    """Apply deny and ask rules, to commands and to the paths they name."""
    yield Allow("no rule is against it")
    yield from _sealed(case)
    for rule in case.policy.rules:
        if rule.effect == "allow" or not rule.covers("Bash"):
            continue
        match = match_line(rule, case.line, case.parsed)
        if match == "no":
            continue
        if match == "maybe":
            yield Ask(f"it cannot be told whether {rule.named} applies to this command")
        elif rule.effect == "deny":
            yield Deny(f"the command is forbidden by {rule.named}; find another way")
        else:
            yield Ask(f"the command is asked for by {rule.named}")
    yield from _path_rules(case)


def _sealed(case: Case) -> Iterator[Decision]:
    """Refuse what names a sealed folder; ask about what may come there, if nothing hides it."""
    sealed = case.policy.sealed
    if not sealed:
        return
    yield from (Deny(sealing(p)) for p, _ in case.paths if is_sealed(sealed, p))
    if holds(case.policy, working(case.policy)) and not _is_outside(case):
        return
    told = speaks_of_sealed(case.line)
    for simple in case.parsed.commands:
        reach = find_reach(simple)
        for word in reach.words if reach is not None and reach.reads else ():
            for path in sure_paths(case, word, simple.folders, simple.place) or ():
                told = told or holds_sealed(sealed, path)
    if told:
        yield Ask("the command may come to keys of a team", unsure=_plans(case))


def _path_rules(case: Case) -> Iterator[Decision]:
    """Apply the deny and ask rules of file tools: they are about files, however one comes there."""
    kept = [r for r in case.policy.rules if r.effect != "allow" and r.tool in READING | WRITING]
    whole, single = (tuple(r for r in kept if (r.specifier is None) is w) for w in (True, False))
    if whole:
        yield from _whole_rules(case, replace(case.policy, rules=whole))
    if not single:
        return
    policy = replace(case.policy, rules=single)
    # What may not be read is hidden, and where nothing is written nothing need be kept.
    held = all(r.effect == "deny" and (r.tool in READING or _plans(case)) for r in single)
    for path, writing in case.paths:
        yield from _forbidden(policy, path, f"the command names {path}, which", writing=writing)
    for simple in case.parsed.commands:
        words = prove_read_only(simple)
        if words and not all(word.plain for word in words):
            why = f"it cannot be told which files `{simple.source}` reads"
            yield Ask(why, unsure=held)
        yield from _reached(case, policy, simple, held=held)
    for word, folders, place in path_words(case):
        if not all(case.settles(place, path) for path in join_paths(case, word, folders)):
            yield Ask(f"what `{word.text}` is may change before it is used", unsure=held)


def _plans(case: Case) -> bool:
    return case.policy.mode == "plan"


def _forbidden(policy: Policy, path: str, what: str, *, writing: bool) -> Iterator[Decision]:
    for effect in ("deny", "ask"):
        if rule := find_rule(policy, effect, "Bash", path, writing=writing):
            why = f"{what} is under {rule.named}"
            yield Deny(why + "; leave it alone") if effect == "deny" else Ask(why)


def _whole_rules(case: Case, policy: Policy) -> Iterator[Decision]:
    """Apply rules against all reading or writing to what does nothing else."""
    for simple in case.parsed.commands:
        what = f"`{simple.source}`"
        if simple.name in FILE_COMMANDS:
            yield from _forbidden(policy, "", what, writing=True)
        elif prove_read_only(simple):
            yield from _forbidden(policy, "", what, writing=False)
    for targets, writing in ((case.parsed.reads, False), (case.parsed.writes, True)):
        for target in targets:
            if not FREE.fullmatch(target.word.text):
                yield from _forbidden(policy, "", f"`{target.word.text}`", writing=writing)


def _reached(case: Case, policy: Policy, simple: Simple, *, held: bool) -> Iterator[Decision]:
    """Ask about a command that goes through folders in which something is forbidden."""
    reach = find_reach(simple)
    if reach is None or not reach.reads:
        return
    for word in reach.words:
        for path in sure_paths(case, word, simple.folders, simple.place) or ("/",):
            for effect in ("deny", "ask"):
                if rule := find_below(policy, effect, path, writing=False):
                    yield Ask(
                        f"`{simple.source}` goes through {path}, where {rule.named} may speak of "
                        "some files; the Grep tool leaves those out",
                        unsure=held,
                    )


def _in_plan(case: Case) -> Iterator[Decision]:
    """Only what is proven to read may run; reading elsewhere is asked for as usual."""
    only = reads_only(case.policy)
    instead = f"use commands that only read, and {planned(case.policy, 'the step')}"
    for part in case.parsed.opaque:
        yield Deny(f"{only}, and what `{part}` does is not certain; {instead}", unsure=True)
    for simple in case.parsed.commands:
        if prove_read_only(simple) is None:
            unsure = not is_change(simple)
            yield Deny(f"{only}, and `{simple.source}` may do more; {instead}", unsure=unsure)
        else:
            yield _reading(case, simple)
    yield from _redirects(case)


def _guarded(case: Case) -> Iterator[Decision]:
    for path, writing in case.paths:
        if writing and is_protected(case.policy, path):
            yield Ask(f"{path} is protected, so changing it is asked for every time")
        elif is_secret(case.policy, path):
            yield Ask(f"{path} holds secrets, so a command that names it is asked for every time")

    for simple in case.parsed.commands:
        if prove_read_only(simple) is None and _reaches_guarded(case, simple):
            yield Ask(f"`{simple.source}` may change protected files", unsure=True)


def _reaches_guarded(case: Case, simple: Simple) -> bool:
    """Whether a command works in or on a folder with protected files, or on hidden ones."""
    hidden = (w for w in simple.words if w.glob and re.search(r"(?:^|/)\.[^/]*[*?\[]", w.text))
    if any(hidden) or any(is_protected(case.policy, f) for f in simple.folders or ()):
        return True
    words = () if simple.name in {"mkdir", "rmdir"} else (*simple.words[1:], *landings(simple))
    paths = (path for word in words for path in possible_paths(case, word, simple.folders))
    return any(_holds_protected(case.policy, path) for path in paths)


def _holds_protected(policy: Policy, path: str) -> bool:
    """Whether a folder that comes to stand here may bring protected files with it."""
    if is_inside(policy.root, path) or is_inside(policy.home, path):
        # It is there already, so that nothing can take its place.
        return False
    inner = any(is_inside(guarded.lower(), path.lower()) for guarded in policy.protected)
    return inner or any(is_protected(policy, f"{path}/{name}") for name in _KEPT)


def _allow_rules(case: Case) -> list[Rule]:
    return [r for r in case.policy.rules if r.effect == "allow" and r.covers("Bash")]


def _allowed_whole(case: Case) -> bool:
    rules = _allow_rules(case)
    if any(rule.specifier is None for rule in rules):
        return True
    exact = any(rule.specifier == case.line and "*" not in case.line for rule in rules)
    return exact and not case.parsed.opaque


def _parts(case: Case) -> Iterator[Decision]:
    yield Allow("every part is allowed")
    for part in case.parsed.opaque:
        yield Ask(f"what `{part}` does shows only when it runs", unsure=True)
    covered: set[int] = set()
    for place, simple in enumerate(case.parsed.commands):
        if simple.within in covered and simple.within >= 0:
            depth = _covering(case, case.parsed.commands[simple.within])
            if depth > simple.inner_at >= 0 or depth == EXACT:
                covered.add(place)
                continue
        if _covering(case, simple) > 0:
            if (why := _astray(case, simple)) is None:
                covered.add(place)
            else:
                verdict = _one(case, simple)
                yield Ask(f"`{simple.source}` {why}") if isinstance(verdict, Ask) else verdict
            continue
        yield _one(case, simple)
    yield from _redirects(case)


def _astray(case: Case, simple: Simple) -> str | None:
    """Say why a rule that allows a command does not allow it here; None if it does.

    Whoever wrote the rule had single commands in mind, run where they stand.
    """
    if simple.nested:
        return "stands in a loop, a branch or a function, where rules allow no single commands"
    if simple.folders == (case.cwd,):
        return None
    if simple.name in FILE_COMMANDS:
        return "changes files after the line has changed its folder, where rules do not allow it"
    places = [case.resolve(folder) for folder in simple.folders or ()]
    if not places or not all(is_own_ground(case.policy, place) for place in places):
        return "runs in a folder that may be outside the project, where rules do not allow it"
    return None


def _covering(case: Case, simple: Simple) -> int:
    """Return how many words of a command the allow rules spell out; `EXACT` if all of it."""
    best = 0
    for rule in _allow_rules(case):
        assert rule.specifier is not None
        best = max(best, match_strictly(command_pattern(rule.specifier), simple))
    return best


def _one(case: Case, simple: Simple) -> Decision:
    """Decide on a command that no rule speaks of."""
    if prove_read_only(simple) is not None:
        return _reading(case, simple)
    mode = case.policy.mode
    if simple.name in FILE_COMMANDS and (mode in {"acceptEdits", "auto"} or _on_pad(case, simple)):
        return _file_command(case, simple)
    question = Ask(f"`{simple.source}` would be run", suggest(simple))
    if mode != "auto":
        return question
    risky = is_risky(simple)
    if risky or not has_safe_env(simple):
        why = f"`{simple.source}` may do harm that is hard to undo"
        return Ask(why, suggest(simple), unsure=not risky)
    for word in simple.words[1:]:
        leads_out = word.text.startswith(("/", "~", "..")) or is_unclear_word(word.text)
        if leads_out and not _on_own_ground(case, word, simple):
            return Ask(f"`{simple.source}` names a path outside the project", suggest(simple))
    return Allow("the command is not known to be risky")


def _on_pad(case: Case, simple: Simple) -> bool:
    """Whether everything that a command names is in the scratchpad."""
    pad = case.policy.scratchpad
    named = [word for word in simple.words[1:] if not word.text.startswith("-")]
    found = [sure_paths(case, word, simple.folders, simple.place) for word in named]
    return bool(pad and found) and all(p and all(is_inside(one, pad) for one in p) for p in found)


def _on_own_ground(case: Case, word: Word, simple: Simple) -> bool:
    paths = sure_paths(case, word, simple.folders, simple.place)
    return paths is not None and all(is_own_ground(case.policy, path) for path in paths)


def _reading(case: Case, simple: Simple) -> Decision:
    """Decide on a command that is proven to read only, by what it reads."""
    words = list(prove_read_only(simple) or ())
    if reads_folder(simple):
        words.append(Word("."))
    if simple.name == "git" and not _in_own_repository(case, simple):
        why = "may use another repository than the project's, whose settings can name programs"
        # Outside the project a rule would not help either.
        rules = suggest(simple) if _astray(case, simple) is None else ()
        return Ask(f"`{simple.source}` {why}", rules, unsure=True)
    found = [Allow("it only reads"), *(_read_word(case, w, simple) for w in words)]
    if (reach := find_reach(simple)) and reach.follows:
        why = f"`{simple.source}` follows links, which may lead out of the project"
        found.append(Ask(why, suggest(simple), unsure=True))
    return strictest(found)


def _in_own_repository(case: Case, simple: Simple) -> bool:
    """Whether git runs where the project begins, so that no folder in it takes its place."""
    leading = [w.text for w in takewhile(lambda w: w.text.startswith("-"), simple.words[1:])]
    if leading == ["--version"]:
        return True
    if "-C" in leading or simple.folders is None:
        return False
    roots = {case.resolve(folder) for folder in (case.policy.root, *case.policy.folders)}
    return all(case.resolve(folder) in roots for folder in simple.folders)


def _read_word(case: Case, word: Word, simple: Simple) -> Decision:
    # What a substitution hands over is a pipe; the command in it is decided by itself.
    if re.fullmatch(r"-|<\(.*\)", word.text, re.DOTALL):
        return Allow("a pipe")
    paths = sure_paths(case, word, simple.folders, simple.place)
    if paths is None:
        why = f"it cannot be told which files `{simple.source}` reads"
        return Ask(why, suggest(simple), unsure=True)
    return strictest(decide_reading(case.policy, "Bash", p) for p in paths if not FREE.fullmatch(p))


def _file_command(case: Case, simple: Simple) -> Decision:
    """Decide on mkdir, cp and the like where edits are accepted."""
    question = Ask(f"`{simple.source}` would be run", suggest(simple))
    if not has_safe_env(simple) or "/" in simple.words[0].text:
        return question
    table, asked = FILE_COMMANDS[simple.name]
    given = read_options(table, simple.words, mixed=True)
    if not given.known or given.names & asked:
        return question
    values = [option.value for option in given.options if option.value is not None]
    if all(_on_own_ground(case, w, simple) for w in (*given.operands, *values, *landings(simple))):
        return Allow("file commands in the project are accepted")
    return question


def _redirects(case: Case) -> Iterator[Decision]:
    yield from _targets(case, case.parsed.writes, decide_writing)
    yield from _targets(case, case.parsed.reads, decide_reading)


def _targets(
    case: Case, targets: Iterable[Target], decide: Callable[[Policy, str, str], Decision]
) -> Iterator[Decision]:
    for target in targets:
        word = target.word
        paths = None if word.glob else sure_paths(case, word, target.folders, target.place)
        if paths is None:
            why = f"it cannot be told which file `{word.text}` is"
            plan = case.policy.mode == "plan" and decide is decide_writing
            only = f"{reads_only(case.policy)}, and {why}"
            yield Deny(only, unsure=True) if plan else Ask(why, unsure=True)
            continue
        for path in paths:
            if not FREE.fullmatch(path):
                yield decide(case.policy, "Bash", path)
