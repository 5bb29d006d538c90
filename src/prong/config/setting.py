"""Settings: layers of JSON files, later ones win, and each value knows where it came from.

A folder's own files may make things stricter at any time. What they widen (leave, environment,
commands to run, where requests go) counts only once the user trusts the folder; until then it is
withheld, and said so.
"""

from __future__ import annotations

import os.path
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, cast

import msgspec

from prong.config.alias import is_known
from prong.config.document import Document, is_blocked, parse_document, read_document
from prong.config.hook import Hook, parse_hooks
from prong.config.setting_type import BINDING, CHOICES, ValueKind, fits, inspect, wanted
from prong.config.slip import check_rule, find_double, find_slip
from prong.config.value import Values
from prong.errors import ConfigError
from prong.tools.rule import Effect

SettingSource: TypeAlias = Literal["user", "project", "local", "flag"]

MODES = ("default", "manual", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions")
SOURCES = frozenset({"user", "project", "local"})
"""Who writes files of settings."""
_STRICT_MODES = ("default", "manual", "plan", "dontAsk")

_KINDS: dict[str, ValueKind] = {
    "model": "text",
    "baseUrl": "text",
    "api": "text",
    "proxy": "text",
    "apiKeyHelper": "text",
    "effort": "text",
    "temperature": "number",
    "seed": "count",
    "cacheTtl": "text",
    "cacheDiagnostics": "flag",
    "cacheMarks": "flag",
    "titles": "flag",
    "cleanupPeriodDays": "whole",
    "memory": "flag",
    "suggest": "flag",
    "confirmAboveUsd": "number",
    "ui": "text",
    "theme": "text",
    "wheelRows": "whole",
    "statusLine": "object",
    "background": "flag",
    "scratchpad": "flag",
    "compactAt": "share",
    "maxTurns": "whole",
    "maxBudgetUsd": "number",
    "env": "map",
    "passEnv": "texts",
    "headers": "map",
    "worktree": "object",
    "fork": "object",
    "agents": "object",
    "team": "object",
    "remote": "object",
    "retry": "object",
    "exploreModel": "text",
    "workerTools": "text",
    "pullSeconds": "number",
    "modelAliases": "map",
    "foregroundSeconds": "number",
    "sessionBudget": "object",
    "taskBudget": "object",
    "handback": "object",
    "sandbox": "object",
    "telemetry": "object",
    "mcp": "object",
    "web": "object",
    "enableAllProjectMcpServers": "flag",
    "enabledMcpjsonServers": "texts",
    "disabledMcpjsonServers": "texts",
}
_WIDENING = frozenset(
    {
        "baseUrl",
        "api",
        "proxy",
        "apiKeyHelper",
        "env",
        "passEnv",
        "headers",
        "fork",
        "agents",
        "team",
        "remote",
        "handback",
        "memory",
        "suggest",
        "statusLine",
        "cleanupPeriodDays",
        "sandbox",
        "telemetry",
        "web",
        "enableAllProjectMcpServers",
        "enabledMcpjsonServers",
    }
)
_STRUCTURED = frozenset({"permissions", "hooks", "$schema"})
_LISTS = ("allow", "ask", "deny", "additionalDirectories")
_GUARDS = BINDING | {"permissions", "hooks", "disabledMcpjsonServers", "sandbox", "web"}
"""Settings that hold something back: a session without one that was meant would be let loose."""
_INNER_GUARDS = ("deny", "ask", "defaultMode")
_NOT_KEPT = frozenset({"sandbox", "disableBypassPermissionsMode", "disableAutoMode"})
"""Guards that only the other program keeps."""


class PermissionLine(msgspec.Struct, frozen=True):
    """A permission rule or folder, and who wrote it."""

    text: str
    source: SettingSource
    path: str


class Permissions(msgspec.Struct, frozen=True):
    """Rules of all layers, one after another."""

    allow: tuple[PermissionLine, ...] = ()
    ask: tuple[PermissionLine, ...] = ()
    deny: tuple[PermissionLine, ...] = ()
    folders: tuple[PermissionLine, ...] = ()
    """`additionalDirectories`: folders outside the root that may be touched like it."""
    mode: str = "default"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the user, the project and the command line asked for."""

    permissions: Permissions = Permissions()
    hooks: tuple[Hook, ...] = ()
    values: Values = Values()
    """Every other known key."""
    extra: Mapping[str, Any] = MappingProxyType({})
    """Keys that nobody here knows, kept as they are."""
    origins: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    problems: tuple[ConfigError, ...] = ()
    """What is wrong in the files; the rest of them counts."""
    fatal: tuple[ConfigError, ...] = ()
    """Those problems with which no session may start: the command line's own, wrong bounds and
    guards."""
    warnings: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    """What the folder's own files ask for and only trust would give, one line each."""

    def where(self, key: str) -> tuple[str, ...]:
        """Name the files a setting came from, such as `permissions.deny`; the last one wins."""
        return self.origins.get(key, ())


class _Layer(msgspec.Struct, frozen=True):
    document: Document
    source: SettingSource
    foreign: bool
    """The file belongs to another program whose conventions we share."""
    guarded: bool
    """It lies in a folder that is not trusted."""
    vouched: AbstractSet[str] = frozenset()
    """Rules that count all the same: the user has put them there."""


class _Merge:
    """Settings in the making."""

    def __init__(self, functions: AbstractSet[str]) -> None:
        self.functions = functions
        self.lists: dict[str, list[PermissionLine]] = {name: [] for name in _LISTS}
        self.mode = "default"
        self.hooks: list[Hook] = []
        self.values: dict[str, Any] = {}
        self.extra: dict[str, Any] = {}
        self.origins: dict[str, list[str]] = {}
        self.problems: list[ConfigError] = []
        self.fatal: list[ConfigError] = []
        self.warnings: list[str] = []
        self.withheld: list[str] = []
        self.unknown: list[str] = []
        self.elsewhere: list[str] = []

    def note(self, key: str, layer: _Layer) -> None:
        origins = self.origins.setdefault(key, [])
        if layer.document.path not in origins:
            origins.append(layer.document.path)

    def stop(self, problem: ConfigError) -> None:
        """Take a problem with which no session may start."""
        self.problems.append(problem)
        self.fatal.append(problem)

    def finish(self) -> Settings:
        if self.unknown:
            names = ", ".join(self.unknown)
            self.warnings.append(f"settings that are not known and have no effect: {names}")
        if self.elsewhere:
            names = ", ".join(self.elsewhere)
            self.warnings.append(f"settings of another program that have no effect here: {names}")
        return Settings(
            permissions=Permissions(
                allow=tuple(self.lists["allow"]),
                ask=tuple(self.lists["ask"]),
                deny=tuple(self.lists["deny"]),
                folders=tuple(self.lists["additionalDirectories"]),
                mode=self.mode,
            ),
            hooks=tuple(self.hooks),
            values=msgspec.convert(self.values, Values),
            extra=MappingProxyType(self.extra),
            origins=MappingProxyType({key: tuple(paths) for key, paths in self.origins.items()}),
            problems=tuple(self.problems),
            fatal=tuple(self.fatal),
            warnings=tuple(self.warnings),
            withheld=tuple(self.withheld),
        )


def load_settings(
    home: str,
    root: str,
    *,
    trusted: bool,
    vouched: AbstractSet[str] = frozenset(),
    flag: str | None = None,
    functions: AbstractSet[str] = frozenset(),
    sources: AbstractSet[str] = SOURCES,
) -> Settings:
    """Read all layers for a project root; `flag` is the value of `--settings`, a file or JSON.

    Of the others only those of the `sources` count. Rules may speak of the `functions` that the
    session's caller gave it. Rules of local settings that are `vouched` for count without trust.
    """
    merge = _Merge(functions)
    layers = _layers(Path(home), Path(root), merge, None if trusted else vouched, sources)
    for layer in (*layers, *_flag_layer(flag, merge)):
        withheld, problems = len(merge.withheld), len(merge.problems)
        if double := find_double(layer.document, *_GUARDS, *_INNER_GUARDS):
            why = f"{double!r} stands twice in one object, and only the last would count"
            merge.stop(layer.document.problem(why, double))
        _add_permissions(merge, layer)
        _add_hooks(merge, layer)
        for key, value in layer.document.value.items():
            if key in _KINDS and not (layer.foreign and key in _NOT_KEPT):
                _add_value(merge, layer, key, value)
            elif key not in _STRUCTURED:
                _add_unknown(merge, layer, key, value)
        if len(merge.withheld) > withheld:
            merge.warnings.append(
                f"{layer.document.path}: {'; '.join(merge.withheld[withheld:])}: left out, because "
                "the folder is not trusted; run 'prong trust' in it to let it count"
            )
        if layer.source == "flag":
            merge.fatal += [p for p in merge.problems[problems:] if p not in merge.fatal]
    return merge.finish()


def _add_unknown(merge: _Merge, layer: _Layer, key: str, value: object) -> None:
    merge.extra[key] = value
    merge.note(key, layer)
    _look_for_slip(merge, layer, key)
    line = layer.document.problem("", key).line
    if not layer.foreign:
        merge.unknown.append(f"{key} ({layer.document.path}:{line})")
    elif key in _NOT_KEPT:
        merge.warnings.append(_not_kept(layer, key, line))
    elif key != "includeCoAuthoredBy" or value is not False:
        # Commits name nobody else here, as that one wishes.
        merge.elsewhere.append(f"{key} ({layer.document.path}:{line})")


def _not_kept(layer: _Layer, key: str, line: int | None) -> str:
    return (
        f"{layer.document.path}:{line}: '{key}' is a guard of another program; it is not kept here"
    )


def _look_for_slip(merge: _Merge, layer: _Layer, *keys: str) -> None:
    """Stop at a key that nobody knows, and that was meant to be a guard."""
    name, near = keys[-1], not layer.foreign
    meant = find_slip(name, _INNER_GUARDS if keys[1:] else _GUARDS, near=near)
    if meant is None and near and not keys[1:] and name in ("deny", "ask"):
        meant = f"permissions.{name}"
    if meant is not None:
        why = f"there is no setting '{'.'.join(keys)}'; did you mean {meant!r}?"
        merge.stop(layer.document.problem(why, *keys))


def _layers(
    home: Path,
    root: Path,
    merge: _Merge,
    vouched: AbstractSet[str] | None,
    sources: AbstractSet[str],
) -> list[_Layer]:
    """Read the files; where there is no trust, only rules that are vouched for count."""
    places: list[tuple[Path, SettingSource]] = [
        (home / ".claude/settings.json", "user"),
        (home / ".prong/settings.json", "user"),
        (root / ".claude/settings.json", "project"),
        (root / ".prong/settings.json", "project"),
        (root / ".claude/settings.local.json", "local"),
        (root / ".prong/settings.local.json", "local"),
    ]
    layers: list[_Layer] = []
    seen: set[Path] = set()
    for path, source in places:
        # In the home folder the project's files are the user's own.
        if path in seen or source not in sources:
            continue
        seen.add(path)
        document = read_document(path)
        if document is None and is_blocked(path):
            document = ConfigError(
                path, "is not a file, and settings may have been meant; remove it"
            )
        if isinstance(document, ConfigError):
            # It may hold rules against something, or a bound.
            merge.stop(document)
        elif document is not None:
            foreign = is_foreign(path)
            guarded = source != "user" and vouched is not None
            own = vouched if vouched and source == "local" and not foreign else frozenset[str]()
            layers.append(_Layer(document, source, foreign, guarded, own))
    return layers


def is_foreign(path: str | Path) -> bool:
    """Whether a settings file is another program's, whose conventions we share."""
    return Path(path).parent.name == ".claude"


def _flag_layer(flag: str | None, merge: _Merge) -> list[_Layer]:
    """Read what was given by name, which is nobody else's."""
    if flag is None:
        return []
    document = _flag_document(flag)
    if isinstance(document, ConfigError):
        merge.stop(document)
        return []
    return [_Layer(document, "flag", foreign=False, guarded=False)]


def _flag_document(flag: str) -> Document | ConfigError:
    if flag.lstrip().startswith("{"):
        return parse_document("--settings", flag)
    path = Path(os.path.expanduser(flag))  # noqa: PTH111 - leaves ~nobody alone
    return read_document(path) or ConfigError(
        flag, "no such file; give --settings a JSON file or a JSON object"
    )


def _add_permissions(merge: _Merge, layer: _Layer) -> None:
    document = layer.document
    value = document.value.get("permissions")
    if value is None:
        return
    if not isinstance(value, dict):
        why = "'permissions' must be an object with allow, ask and deny"
        merge.stop(document.problem(why, "permissions"))
        return
    permissions = cast("dict[str, object]", value)
    for name in permissions:
        if name not in (*_LISTS, "defaultMode"):
            _look_for_slip(merge, layer, "permissions", name)
            line = document.problem("", "permissions", name).line
            if not layer.foreign:
                merge.unknown.append(f"permissions.{name} ({document.path}:{line})")
            elif name in _NOT_KEPT:
                merge.warnings.append(_not_kept(layer, f"permissions.{name}", line))
    for name in _LISTS:
        if name in permissions:
            _add_rules(merge, layer, name, permissions[name])
    if "defaultMode" in permissions:
        _add_mode(merge, layer, permissions["defaultMode"])


def _add_rules(merge: _Merge, layer: _Layer, name: str, value: object) -> None:
    document = layer.document
    # To leave out what allows is to be stricter; to leave out what forbids is not.
    complain = merge.stop if name in _INNER_GUARDS else merge.problems.append
    if not isinstance(value, list):
        why = f"'permissions.{name}' must be a list of texts"
        complain(document.problem(why, "permissions", name))
        return
    rules: list[PermissionLine] = []
    for number, rule in enumerate(cast("list[object]", value)):
        if not isinstance(rule, str) or not rule.strip():
            why = f"each item of 'permissions.{name}' must be a text"
            complain(document.problem(why, "permissions", name, number))
        elif why := _wrong_rule(merge, layer, name, rule.strip()):
            complain(document.problem(why, "permissions", name, number))
        else:
            rules.append(PermissionLine(rule.strip(), layer.source, document.path))
    if not rules:
        return
    if layer.guarded and name in ("allow", "additionalDirectories"):
        own = layer.vouched if name == "allow" else frozenset[str]()
        held = [rule for rule in rules if rule.text not in own]
        rules = [rule for rule in rules if rule.text in own]
        if held:
            merge.withheld.append(f"permissions.{name} {', '.join(rule.text for rule in held)}")
        if not rules:
            return
    merge.lists[name] += rules
    merge.note(f"permissions.{name}", layer)


def _wrong_rule(merge: _Merge, layer: _Layer, name: str, text: str) -> str:
    """Say why a rule cannot be kept, if it cannot; one that concerns nothing is only mentioned."""
    if name == "additionalDirectories":
        return ""
    effect, functions = cast("Effect", name), merge.functions
    wrong = check_rule(text, effect, foreign=layer.foreign, functions=functions)
    if wrong is None:
        return ""
    if not wrong.harmless:
        return wrong.why
    if not layer.foreign:
        merge.warnings.append(f"{layer.document.path}: {wrong.why}; it has no effect")
    return ""


def _add_mode(merge: _Merge, layer: _Layer, mode: object) -> None:
    document = layer.document
    if mode not in MODES:
        why = f"'permissions.defaultMode' must be one of {', '.join(MODES)}"
        merge.stop(document.problem(why, "permissions", "defaultMode"))
    elif layer.guarded and mode not in _STRICT_MODES:
        merge.withheld.append(f"permissions.defaultMode {mode}")
    else:
        merge.mode = "default" if mode == "manual" else str(mode)
        merge.note("permissions.defaultMode", layer)


def _add_hooks(merge: _Merge, layer: _Layer) -> None:
    if "hooks" not in layer.document.value:
        return
    declared = parse_hooks(layer.document, foreign=layer.foreign)
    merge.problems += declared.problems
    merge.warnings += declared.warnings
    if layer.guarded:
        merge.withheld += [f"hook {hook.event} runs {hook.line}" for hook in declared.hooks]
        return
    merge.fatal += declared.fatal
    if declared.hooks:
        merge.hooks += declared.hooks
        merge.note("hooks", layer)


def _add_value(merge: _Merge, layer: _Layer, key: str, value: object) -> None:
    shape = CHOICES.get(key) or _KINDS[key]
    document = layer.document
    if not fits(shape, value):
        problem = document.problem(f"'{key}' must be {wanted(shape)}", key)
        _complain(merge, key, problem)
    elif layer.guarded and key in _WIDENING and value is not False:
        merge.withheld.append(_withheld(key, value))
    elif layer.foreign and key == "model" and not is_known(str(value)):
        merge.warnings.append(
            f"{document.path}: model {value!r} is a short name of another program and is not "
            "used; name the model in full in ~/.prong/settings.json or with --model"
        )
    else:
        if isinstance(value, dict):
            value = _inside(merge, layer, key, cast("dict[str, object]", value))
        merge.values[key] = _join(merge.values.get(key), value)
        merge.note(key, layer)


def _inside(merge: _Merge, layer: _Layer, key: str, value: dict[str, object]) -> dict[str, object]:
    """Take over what an object may hold; the rest is complained about."""
    kept, wrong = inspect(key, value)
    for one in wrong:
        problem = layer.document.problem(one.why, key, one.key)
        if not one.unknown:
            _complain(merge, key, problem)
        elif not layer.foreign:
            merge.unknown.append(f"{key}.{one.key} ({layer.document.path}:{problem.line})")
    return kept


def _complain(merge: _Merge, key: str, problem: ConfigError) -> None:
    (merge.stop if key in _GUARDS else merge.problems.append)(problem)


def _join(old: object, new: object) -> object:
    if isinstance(old, dict) and isinstance(new, dict):
        before = cast("dict[str, object]", old)
        later = cast("dict[str, object]", new)
        # Remote targets are joined by name; each is what the last file says.
        return {**before, **{key: _join_maps(before.get(key), one) for key, one in later.items()}}
    if isinstance(old, list) and isinstance(new, list):
        return [*cast("list[object]", old), *cast("list[object]", new)]
    return new


def _join_maps(old: object, new: object) -> object:
    if isinstance(old, dict) and isinstance(new, dict):
        return {**cast("dict[str, object]", old), **cast("dict[str, object]", new)}
    return new


def _withheld(key: str, value: object) -> str:
    if key == "statusLine" and isinstance(value, dict):
        return f"statusLine runs {cast('dict[str, object]', value).get('command', '')}"
    # Values of headers and variables may be secrets; their names are enough to decide.
    shown = ", ".join(cast("dict[str, object]", value)) if isinstance(value, dict) else str(value)
    return f"{key} {shown}"
