"""Permission rules as the user writes them: `Tool`, `Tool(specifier)`, `mcp__server__*`."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import zip_longest
from typing import Literal, TypeAlias

from msgspec import Struct

Effect: TypeAlias = Literal["allow", "ask", "deny"]
"""What a rule does to a call it matches."""

RuleSource: TypeAlias = Literal["user", "project", "local", "flag", "session", "skill"]
"""Where a rule was written."""

READING = frozenset(["Read", "Grep", "Glob", "LS", "NotebookRead"])
"""Tools that read files: to forbid one of them a path is to forbid that it is read."""

WRITING = frozenset(["Edit", "Write", "NotebookEdit", "MultiEdit"])
"""Tools that write files: to forbid one of them a path is to forbid that it is written."""

_OWN = (
    "Bash Agent Skill SendMessage MergeWorktrees TaskOutput TaskStop TodoWrite AskUserQuestion "
    "EnterPlanMode ExitPlanMode StructuredOutput subscribe_pr_activity WebFetch WebSearch "
    "McpSearch McpCall "
    "TeamCreate TeamSpawn TeamDelete TeamTaskCreate TeamTaskGet TeamTaskList TeamTaskUpdate"
)
_FOREIGN = "Task BashOutput KillShell KillBash TodoRead SlashCommand"
OWN = frozenset([*READING, *WRITING, *_OWN.split()])
"""Names of our own tools."""
TOOLS = OWN | frozenset(_FOREIGN.split())
"""Names that a rule may speak of: our own tools, and those that users know from elsewhere."""


class Rule(Struct, frozen=True):
    """One line of an allow, ask or deny list."""

    effect: Effect
    tool: str
    specifier: str | None
    """None means every use of the tool."""
    source: RuleSource

    def __str__(self) -> str:
        return self.tool if self.specifier is None else f"{self.tool}({self.specifier})"

    @property
    def named(self) -> str:
        """The rule and where it stands, for messages."""
        return f"`{self}` ({self.effect} rule, {self.source} settings)"

    def covers(self, tool: str) -> bool:
        """Whether the rule speaks of this tool, whatever it is used for."""
        if self.tool == tool:
            return True
        if "*" in self.tool:
            return fnmatchcase(tool, self.tool)
        return self.tool.startswith("mcp__") and tool.startswith(f"{self.tool}__")


class BadRule(Struct, frozen=True):
    """A text that is not a rule."""

    text: str
    position: int
    """The character at which it stops making sense."""
    why: str


_NAME = re.compile(r"\*|[A-Za-z_][\w.*-]*")


def parse_rule(text: str, *, effect: Effect, source: RuleSource) -> Rule | BadRule:
    """Read one rule; what is wrong with it is a value that says where."""
    found = _NAME.match(text)
    if found is None:
        return BadRule(text, 0, "a rule begins with the name of a tool, such as Bash or Read")
    tool, rest = found[0], text[found.end() :]
    tool = "Agent" if tool == "Task" else tool
    if not rest:
        return Rule(effect, tool, None, source)
    if rest[0] != "(":
        return BadRule(text, found.end(), "after the tool's name comes `(` or nothing")
    if not rest.endswith(")"):
        return BadRule(text, len(text), "the bracket is not closed at the end of the rule")
    inside = rest[1:-1].strip()
    if not inside:
        return BadRule(text, found.end() + 1, f"the brackets are empty; write {tool} or {tool}(*)")
    if "\0" in inside:
        return BadRule(text, text.index("\0"), "a rule cannot hold a NUL character")
    everything = inside == "*" or (tool == "Bash" and inside == ":*")
    return Rule(effect, tool, None if everything else inside, source)


class CommandPattern(Struct, frozen=True):
    """The specifier of a Bash rule, taken apart."""

    words: tuple[str, ...]
    """The words a command must begin with."""
    open: bool
    """Whether more words may follow."""
    regex: re.Pattern[str] | None = None
    """For wildcards anywhere but at the end: what the whole text must look like."""


@lru_cache(maxsize=1024)
def command_pattern(specifier: str) -> CommandPattern:
    """Compile the specifier of a Bash rule: exact, `prefix:*`, `prefix *`, wildcards anywhere."""
    prefix = specifier
    opened = False
    for tail in (":*", " *"):
        if specifier.endswith(tail):
            prefix, opened = specifier[: -len(tail)], True
            break
    words = tuple(prefix.split())
    if "*" not in prefix:
        return CommandPattern(words, opened)
    text = ".*".join(re.escape(part) for part in " ".join(words).split("*"))
    regex = re.compile(text + (r"(?: .*)?" if opened else ""), re.DOTALL)
    return CommandPattern(words, opened, regex)


@lru_cache(maxsize=1024)
def path_pattern(specifier: str, root: str, home: str, *, forbids: bool) -> re.Pattern[str]:
    """Compile a path specifier to a pattern for absolute paths.

    `//x` is absolute, `~/x` in the home folder, `/x` and `a/b` in the project folder; a name
    without a slash matches at any depth of the project. `./x` is that very file where something is
    allowed, and as wide as `x` where it is forbidden. A folder's match covers all in it. What
    forbids ignores case.
    """
    base, parts = _anchor(specifier, root, home, forbids=forbids)
    body = "".join(_segment(part) for part in parts)
    flags = re.DOTALL | (re.IGNORECASE if forbids else 0)
    return re.compile(re.escape(base.rstrip("/")) + body + r"(?:/.*)?", flags)


def _anchor(specifier: str, root: str, home: str, *, forbids: bool) -> tuple[str, list[str]]:
    """Give the folder a specifier starts from, and its parts below."""
    base = root
    if specifier.startswith("//"):
        base = ""
    elif specifier == "~" or specifier.startswith("~/"):
        base, specifier = home, f"/{specifier[2:]}"
    elif forbids:
        specifier = re.sub(r"^(?:\./+)+", "", specifier)
    anchored = "/" in specifier.rstrip("/")
    parts = [part for part in specifier.split("/") if part not in {"", "."}]
    return base, parts if anchored or base != root else ["**", *parts]


def path_base(specifier: str, root: str, home: str) -> tuple[str, bool]:
    """Give the folder below which a forbidding specifier points, and whether it may point deeper.

    Without patterns it is the one path itself.
    """
    base, parts = _anchor(specifier, root, home, forbids=True)
    for place, part in enumerate(parts):
        if re.search(r"[*?\[]", part):
            return "/".join([base.rstrip("/"), *parts[:place]]) or "/", True
    return "/".join([base.rstrip("/"), *parts]), False


def _segment(part: str) -> str:
    if part == "**":
        return r"(?:/[^/]+)*"
    out = ["/"]
    for glyph in re.findall(r"\*+|\?|\[[^\]/]+\]|.", part, re.DOTALL):
        if glyph[0] == "*":
            out.append("[^/]*")
        elif glyph == "?":
            out.append("[^/]")
        elif len(glyph) > 2 and glyph[0] == "[":
            inner = glyph[1:-1].replace("\\", "\\\\").replace("[", "\\[").replace("^", "\\^")
            out.append(_charset(inner, glyph))
        else:
            out.append(re.escape(glyph))
    return "".join(out)


def _charset(inner: str, glyph: str) -> str:
    negated = inner.startswith("!")
    text = f"[{'^/' if negated else ''}{inner[1:] if negated else inner}]"
    try:
        re.compile(text)
    except re.error:
        return re.escape(glyph)
    return text


def fits_path(rule: Rule, path: str, *, root: str, home: str) -> bool:
    """Whether a path lies where the rule points; only allowing rules mind the case."""
    if rule.specifier is None:
        return True
    pattern = path_pattern(rule.specifier, root, home, forbids=rule.effect != "allow")
    return pattern.fullmatch(_from_top(rule.specifier, path)) is not None


def spell_absolute(path: str) -> str:
    """Write an absolute path as a specifier."""
    return f"/{path}" if path.startswith("/") or not path else f"//{path}"


def _from_top(specifier: str, path: str) -> str:
    """Give a path as an absolute specifier sees it: there a drive is a part like others."""
    return f"/{path}" if specifier.startswith("//") and not path.startswith("/") else path


def points_below(rule: Rule, folder: str, *, root: str, home: str) -> bool:
    """Whether something in a folder may lie where a forbidding rule points."""
    if rule.specifier is None:
        return True
    base, parts = _anchor(rule.specifier, root, home, forbids=True)
    folder = _from_top(rule.specifier, folder)
    top, place = base.rstrip("/").lower() + "/", folder.rstrip("/").lower() + "/"
    if top.startswith(place):
        return True
    if not place.startswith(top):
        return False
    for part, name in zip_longest(parts, place[len(top) :].split("/")[:-1]):
        if part is None or name is None or part == "**":
            # The rule ends here and covers the folder, goes on below it, or may be at any depth.
            return True
        if re.fullmatch(_segment(part), f"/{name}", re.IGNORECASE | re.DOTALL) is None:
            return False
    return True


def fits_use(rule: Rule, specifier: str) -> bool:
    """Whether a rule's specifier names this skill, agent type or web domain."""
    if rule.specifier is None:
        return True
    wanted, given = rule.specifier, specifier
    if wanted.startswith("domain:"):
        wanted, given = wanted.lower(), given.lower()
        if rule.effect != "allow" and given.endswith("." + wanted.removeprefix("domain:")):
            return True
    if wanted.endswith(":*") and given.split(":", 1)[0] == wanted[:-2]:
        return True
    return fnmatchcase(given, wanted.replace("[", "[[]"))
