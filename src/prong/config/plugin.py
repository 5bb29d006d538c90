"""Plug-ins: folders that bring skills, commands, agents, hooks and servers under one name.

What a plug-in names has to lie in its folder, links followed. Its hooks and servers find that
folder as `CLAUDE_PLUGIN_ROOT`. A hook of it that guards something and cannot be honoured is fatal,
as one of the settings is: the plug-in may not count without it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import msgspec

from prong.config.agent_file import AgentPlace, as_name, read_agent_file
from prong.config.document import Document, read_document, read_text
from prong.config.hook import EVENTS, Hook, parse_hooks
from prong.config.listing import lies_in, list_files
from prong.config.server import ServerSpec, parse_servers
from prong.config.skill_file import read_skill_file
from prong.config.skill_search import SkillPlace, command_files, granted, skill_folders
from prong.config.type_server import type_servers
from prong.errors import ConfigError
from prong.system.path_form import is_absolute, normal_path, real_path

MANIFEST = ".claude-plugin/plugin.json"
_PARTS = ("commands", "agents", "skills", "hooks", "mcpServers")
_NOT_HERE = ("lspServers", "outputStyles", "monitors", "themes", "userConfig", "channels")
_NONE: Mapping[str, Any] = MappingProxyType({})


class Plugin(msgspec.Struct, frozen=True, kw_only=True):
    """What a plug-in brings; nothing of it has been run."""

    name: str
    folder: str
    """Where it lies, links followed."""
    data: str
    """Where it may keep things of its own."""
    version: str = ""
    description: str = ""
    skills: tuple[SkillPlace, ...] = ()
    agents: tuple[AgentPlace, ...] = ()
    hooks: tuple[Hook, ...] = ()
    servers: tuple[Document, ...] = ()
    """Documents with `mcpServers`."""
    problems: tuple[ConfigError, ...] = ()
    """What is wrong with it; the rest counts."""
    fatal: tuple[ConfigError, ...] = ()
    """Those problems with which it may not be used at all."""
    unheeded: tuple[str, ...] = ()
    """What it brings that is not supported."""

    @property
    def variables(self) -> dict[str, str]:
        """What its texts, hooks and servers may name."""
        return {"CLAUDE_PLUGIN_ROOT": self.folder, "CLAUDE_PLUGIN_DATA": self.data}

    def specs(self, env: Mapping[str, str] | None) -> tuple[list[ServerSpec], list[ConfigError]]:
        """Give its servers under names of their own; without an environment for people to read."""
        servers: list[ServerSpec] = []
        problems: list[ConfigError] = []
        known = None if env is None else {**env, **self.variables}
        for document in self.servers:
            found, wrong = parse_servers(document, known)
            problems += wrong
            servers += [
                msgspec.structs.replace(
                    one, name=f"plugin_{self.name}_{one.name}", env={**self.variables, **one.env}
                )
                for one in found
            ]
        return servers, problems

    @property
    def rooted_hooks(self) -> tuple[Hook, ...]:
        """Its hooks as they are run: with its folders in their environment."""
        return tuple(_rooted(hook, self.variables) for hook in self.hooks)


def read_plugin(folder: Path, data: Path, entry: Mapping[str, Any] = _NONE) -> Plugin:
    """Read a plug-in; `entry` is what a marketplace says of it, which may stand for its manifest.

    `data` is the folder in which the data of all plug-ins lie.
    Raises ConfigError if there is none.
    """
    document = read_document(folder / MANIFEST)
    if isinstance(document, ConfigError):
        raise document
    if document is None and not entry and not _has_parts(folder):
        raise ConfigError(folder, f"is no plug-in: it has neither {MANIFEST} nor skills nor agents")
    named = document.value if document is not None else {}
    manifest = Document(
        str(folder / MANIFEST), document.text if document is not None else "{}", {**entry, **named}
    )
    name = as_name(str(manifest.value.get("name") or folder.name))
    if not name:
        raise manifest.problem("a plug-in must have a 'name' of letters and digits", "name")
    return _PluginReader(folder, manifest, name).read(str(data / name))


def wants(plugin: Plugin) -> list[str]:
    """List what a plug-in would run or widen, one line each, for the question to the user."""
    listed = [f"hook {hook.event} runs {hook.line}" for hook in plugin.hooks]
    servers, _ = plugin.specs(None)
    listed += [f"server {server.name} runs {server.summary}" for server in servers]
    listed += [line for place in plugin.agents for line in _agent_wants(place.path)]
    for place in plugin.skills:
        text = read_text(place.path)
        if isinstance(text, str):
            listed += _skill_wants(place, text)
    return listed


def _skill_wants(place: SkillPlace, text: str) -> list[str]:
    try:
        skill = read_skill_file(place.path, text, place.name).skill
    except ConfigError:
        return []
    return [granted(skill)] if skill.allows else []


def _agent_wants(path: Path) -> Iterator[str]:
    text = read_text(path)
    try:
        kind = read_agent_file(path, text, "plug-in").kind if isinstance(text, str) else None
    except ConfigError:
        return
    if kind is None:
        return
    for server in type_servers(kind):
        yield f"server {server.name} of the agent {kind.name} runs {server.summary}"
    for hook in cast("Sequence[Hook]", kind.hooks):
        yield f"hook {hook.event} of the agent {kind.name} runs {hook.line}"


def _has_parts(folder: Path) -> bool:
    return any((folder / name).exists() for name in (*_PARTS[:3], "hooks/hooks.json", ".mcp.json"))


class _PluginReader:
    """A plug-in in the making."""

    def __init__(self, folder: Path, manifest: Document, name: str) -> None:
        self._folder = Path(real_path(folder))
        self._manifest = manifest
        self._name = name
        self._problems: list[ConfigError] = []
        self._fatal: list[ConfigError] = []
        self._unheeded: list[str] = []

    def read(self, data: str) -> Plugin:
        value = self._manifest.value
        variables = {"CLAUDE_PLUGIN_ROOT": str(self._folder), "CLAUDE_PLUGIN_DATA": data}
        left = [key for key in _NOT_HERE if key in value]
        if left:
            self._unheeded.append(f"not supported, without effect: {', '.join(left)}")
        hooks = tuple(self._hooks(variables))
        return Plugin(
            name=self._name,
            folder=str(self._folder),
            data=data,
            version=str(value.get("version") or ""),
            description=str(value.get("description") or ""),
            skills=tuple(self._skills(variables)),
            agents=tuple(AgentPlace(path, f"{self._name}:", variables) for path in self._agents()),
            hooks=hooks,
            servers=tuple(self._documents("mcpServers", ".mcp.json")),
            problems=tuple(self._problems),
            fatal=tuple(self._fatal),
            unheeded=tuple(self._unheeded),
        )

    def _paths(self, key: str, usual: str) -> Iterator[Path]:
        """Give where parts of one kind lie: the usual folder, and what the manifest names."""
        value = self._manifest.value.get(key, [])
        named = cast("list[object]", value) if isinstance(value, list) else [value]
        found = {usual: self._folder / usual} if (self._folder / usual).exists() else {}
        for one in named:
            if not isinstance(one, str):
                self._complain(f"'{key}' must name files or folders", key)
            elif (path := self._inside(one, key)) is not None:
                found.setdefault(os.path.relpath(path, self._folder), path)
        yield from found.values()

    def _inside(self, text: str, key: str) -> Path | None:
        """Find a path that is named; None, and a complaint, if it leads out or is not there."""
        text = text.replace("${CLAUDE_PLUGIN_ROOT}", ".")
        path = self._folder / text
        if is_absolute(text) or not lies_in(path, str(self._folder)):
            self._complain(f"'{key}' names {text!r}, which is outside the plug-in; left out", key)
        elif not path.exists():
            self._complain(f"'{key}' names {text!r}, which is not there", key)
        else:
            return Path(normal_path(path))
        return None

    def _complain(self, why: str, key: str) -> None:
        self._problems.append(self._manifest.problem(why, key))

    def _skills(self, variables: Mapping[str, str]) -> Iterator[SkillPlace]:
        inside = str(self._folder)
        places: list[SkillPlace] = []
        for path in self._paths("skills", "skills"):
            if (path / "SKILL.md").is_file():
                places.append(SkillPlace(path / "SKILL.md", path.name, inside))
            else:
                places += skill_folders(path, self._problems, within=inside)
        for path in self._paths("commands", "commands"):
            if path.is_dir():
                places += command_files(path, self._problems, within=inside)
            else:
                places.append(SkillPlace(path, path.stem, inside))
        for place in places:
            name = f"{self._name}:{place.name}"
            yield msgspec.structs.replace(place, name=name, variables=dict(variables))

    def _agents(self) -> Iterator[Path]:
        for path in self._paths("agents", "agents"):
            if path.is_dir():
                listed = list_files(path, suffix=".md", within=str(self._folder))
                self._problems += listed.problems
                yield from (one for one in listed.paths if self._may(one))
            else:
                yield path

    def _may(self, path: Path) -> bool:
        if lies_in(path, str(self._folder)):
            return path.name != "README.md"
        self._problems.append(ConfigError(path, "leads out of the plug-in; left out"))
        return False

    def _documents(self, key: str, usual: str) -> Iterator[Document]:
        """Give the documents of one kind: the usual file, files that are named, what is inline."""
        value = self._manifest.value.get(key)
        inner = "hooks" if key == "hooks" else "mcpServers"
        inline = [cast("dict[str, Any]", one) for one in _each(value) if isinstance(one, dict)]
        named = [one for one in _each(value) if isinstance(one, str)]
        paths = [self._inside(one, key) for one in named]
        usual_path = self._folder / usual
        for path in dict.fromkeys((usual_path, *(one for one in paths if one is not None))):
            if not lies_in(path, str(self._folder)):
                self._problems.append(ConfigError(path, "leads out of the plug-in; left out"))
                continue
            document = read_document(path)
            if isinstance(document, ConfigError):
                (self._fatal if key == "hooks" else self._problems).append(document)
            elif document is not None:
                yield _wrapped(document.path, document.text, document.value, inner)
        for one in inline:
            yield _wrapped(self._manifest.path, self._manifest.text, one, inner)

    def _hooks(self, variables: Mapping[str, str]) -> Iterator[Hook]:
        for document in self._documents("hooks", "hooks/hooks.json"):
            if document.value["hooks"] in ([], None):
                continue
            filled = {"hooks": _filled(document.value["hooks"], variables)}
            events = cast("dict[str, Any]", filled["hooks"] if _is_map(filled["hooks"]) else {})
            if odd := [event for event in events if event not in EVENTS]:
                self._unheeded.append(f"hooks for events that never happen: {', '.join(odd)}")
            declared = parse_hooks(Document(document.path, document.text, filled), foreign=True)
            self._problems += declared.problems
            self._fatal += declared.fatal
            yield from declared.hooks


def _is_map(value: object) -> bool:
    return isinstance(value, dict)


def _each(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else [value]


def _wrapped(path: str, text: str, value: dict[str, Any], key: str) -> Document:
    """Give a document whose value stands under its key, as some write it without."""
    return Document(path, text, value if key in value else {key: value})


def _filled(value: object, variables: Mapping[str, str]) -> Any:
    """Put folders into hooks whose arguments no shell sees."""
    if isinstance(value, list):
        return [_filled(one, variables) for one in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    entry = cast("dict[str, Any]", value)
    if isinstance(entry.get("args"), list):
        words = (entry.get("command"), *entry["args"])
        command, *args = [_put_in(word, variables) for word in words]
        return {**entry, "command": command, "args": args}
    return {key: _filled(one, variables) for key, one in entry.items()}


def _put_in(word: Any, variables: Mapping[str, str]) -> Any:
    if isinstance(word, str):
        for name, folder in variables.items():
            word = word.replace(f"${{{name}}}", folder)
    return word


def _rooted(hook: Hook, variables: Mapping[str, str]) -> Hook:
    """Give a hook that finds the folders of its plug-in in its environment."""
    from shlex import quote

    if hook.way is not None:
        return hook
    if hook.args is not None:
        named = [f"{name}={folder}" for name, folder in variables.items()]
        return msgspec.structs.replace(hook, command="env", args=(*named, hook.command, *hook.args))
    named = [f"{name}={quote(folder)}" for name, folder in variables.items()]
    return msgspec.structs.replace(hook, command=f"export {' '.join(named)}; {hook.command}")
