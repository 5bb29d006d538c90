"""What a session finds around it: folders, settings, trust, instructions, skills, servers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast, get_args

from msgspec import Struct, field
from msgspec.structs import replace

from prong.agent.spec import AgentType, AgentTypes
from prong.config.acting import acting_type, as_type, role_of
from prong.config.agents import find_types
from prong.config.alias import is_family, reachable
from prong.config.check import checked
from prong.config.firing import AnyHook
from prong.config.function_hook import given_hooks
from prong.config.instruction import Instructions, collect_instructions, find_root
from prong.config.listing import lies_in
from prong.config.memory import note_file, remembers
from prong.config.option import Options
from prong.config.package_tool import package_tools
from prong.config.plugin import Plugin
from prong.config.plugin_record import (
    LoadedPlugins,
    PluginRecord,
    load_folders,
    missing_plugins,
)
from prong.config.server_file import Configured, configured_servers
from prong.config.setting import SOURCES, Settings, is_foreign, load_settings
from prong.config.skill_search import find_brought, find_skills
from prong.config.slip import check_rule, find_idle_guards
from prong.config.tool_choice import function_names, given_types
from prong.config.trust import Trust
from prong.config.type_server import join_servers
from prong.errors import BadInput, UnknownName
from prong.host.private import socket_folders
from prong.journal import store
from prong.system.path_form import normal_path, real_path, user_home
from prong.tools.ground import Sandboxing, is_inside
from prong.tools.policy import Mode, Policy
from prong.tools.rule import BadRule, Effect, Rule, parse_rule, spell_absolute
from prong.tools.seal import sealed_in
from prong.tools.skill import listing
from prong.tools.skill_text import Skill


class Place(Struct, frozen=True, kw_only=True):
    """The surroundings of a session, read once."""

    options: Options
    env: Mapping[str, str]
    home: str
    cwd: str
    root: str
    """The project's folder: the repository that holds the working folder, or that folder."""
    store: Path
    trusted: bool
    settings: Settings
    instructions: Instructions | None = None
    skills: tuple[Skill, ...] = ()
    types: AgentTypes
    """The types of agents that can be started."""
    plugins: tuple[Plugin, ...] = ()
    servers: Configured = field(default_factory=Configured)
    server_notes: tuple[tuple[str, str], ...] = ()
    """What MCP servers say of themselves, by their names."""
    acts_as: AgentType | None = None
    """The type that the main agent is of; None for Prong's own."""
    role: tuple[str, str] | None = None
    """A system prompt in place of the usual one, and what it has to say of this session."""
    warnings: list[str] = field(default_factory=list[str])
    """What was wrong with files, and what was left out, each in a sentence."""

    @property
    def hooks(self) -> tuple[AnyHook, ...]:
        """The hooks of every agent: those of files, of plug-ins, and of the caller."""
        own = self.acts_as.hooks if self.acts_as is not None else ()
        brought = (hook for plugin in self.plugins for hook in plugin.rooted_hooks)
        return (*self.settings.hooks, *brought, *given_hooks(self.options), *own)

    @property
    def remembers(self) -> bool:
        """Whether notes are kept for later sessions, and those of earlier ones are read."""
        return remembers(self.options, self.settings)

    def warn(self, *texts: str) -> None:
        """Take note of something that the user has to be told."""
        self.warnings.extend(texts)


def look_around(options: Options, *, cwd: str | None = None) -> Place:
    """Read everything a session takes from its surroundings.

    `cwd` is the working folder of a host that is not this machine; nothing need be there on it.

    Raises UsageError if an option makes no sense, ConfigError if a file does that must.
    """
    options = checked(options)
    env = os.environ if options.env is None else options.env
    home, cwd, root = folders(options, cwd)
    trust = Trust(home)
    trusted = trust.is_trusted(root)
    settings = _reachable_model(_settings(home, root, options, trusted=trusted), env)
    kept = Path(options.store).absolute() if options.store else store.home(env)
    policy = _reading_policy(options, settings, root=root, home=home, kept=kept, env=env)
    plugins = _plugins(home, cwd, options)
    brought = [place for plugin in plugins.plugins for place in plugin.skills if options.skills]
    instructions, skills = None, find_brought(brought, policy=policy)
    if not options.bare:
        notes = note_file(root, kept).folder.as_posix() if remembers(options, settings) else ""
        instructions = collect_instructions(
            home, root, cwd, trusted=trusted, memory=notes, policy=policy
        )
        if options.skills:
            skills = find_skills(home, root, cwd, trusted=trusted, policy=policy, brought=brought)
    strict = options.strict_mcp or options.bare
    servers = configured_servers(
        home,
        root,
        settings,
        trusted=trusted,
        flags=tuple(map(str, options.mcp_config)),
        strict=strict,
        env=env,
        brought=plugins.plugins,
    )
    types = find_types(
        home,
        root,
        cwd,
        trusted=trusted,
        given=given_types(options),
        bare=options.bare,
        policy=policy,
        model=settings.values.agents.model,
        brought=[place for plugin in plugins.plugins for place in plugin.agents],
    )
    servers = join_servers(servers, types.types, strict=strict, env=env)
    kind = acting_type(options, types.types)
    options = as_type(options, kind)
    wrong = [
        *settings.problems,
        *settings.warnings,
        *([] if options.bare or (problem := trust.problem()) is None else [problem]),
        *(instructions.problems if instructions is not None else ()),
        *(*skills.problems, *servers.problems, *skills.warnings, *servers.warnings),
        *(*types.problems, *types.warnings),
        *plugins.warnings,
        *missing_plugins(home, settings.extra.get("enabledPlugins"), _names(plugins)),
        *package_tools(options).problems,
        *_cut_lists(skills.skills, types.types),
        *find_idle_guards(
            read_rules(options, settings),
            {"Agent": {*types.types, "fork"}, "Skill": {skill.name for skill in skills.skills}},
        ),
    ]
    return Place(
        options=options,
        env=env,
        home=home,
        cwd=cwd,
        root=root,
        store=kept,
        trusted=trusted,
        settings=settings,
        instructions=instructions,
        skills=skills.skills,
        types=types.types,
        acts_as=kind,
        role=role_of(kind, skills.skills),
        plugins=plugins.plugins,
        servers=servers,
        warnings=list(map(str, wrong)),
    )


def _reachable_model(settings: Settings, env: Mapping[str, str]) -> Settings:
    """Leave another program's choice of a model out if only another vendor can be reached here."""
    named, files = settings.values.model, settings.where("model")
    vendor = reachable(settings.values, {**env, **settings.values.env})
    if not is_family(named) or vendor in {None, "anthropic"} or not all(map(is_foreign, files)):
        return settings
    why = f"{files[-1]}: model {named!r} is not used, because there is no key for it; there is one "
    said = f"{why}for {vendor}: name the model you want with --model"
    values = replace(settings.values, model=None)
    return replace(settings, values=values, warnings=(*settings.warnings, said))


def _plugins(home: str, cwd: str, options: Options) -> LoadedPlugins:
    """Read the plug-ins that were added, and those of folders that are named.

    Of two with one name the folder counts. Raises ConfigError if one may not be used.
    """
    record = PluginRecord(home)
    folders = [os.path.join(cwd, os.path.expanduser(one)) for one in options.plugin_dirs]  # noqa: PTH111, PTH118 - strings
    given = load_folders(folders, record.data)
    if options.bare:
        return given
    added, names = record.load(), {plugin.name for plugin in given.plugins}
    kept = (plugin for plugin in added.plugins if plugin.name not in names)
    return LoadedPlugins((*given.plugins, *kept), (*given.warnings, *added.warnings))


def _names(loaded: LoadedPlugins) -> list[str]:
    return [plugin.name for plugin in loaded.plugins]


def _cut_lists(skills: Sequence[Skill], types: AgentTypes) -> list[str]:
    """Say which lists in the prompt do not hold everything."""
    cuts = {"skills": listing(skills).cut, "agent types": types.listing().cut}
    return [f"the list of {what} that the model reads: {cut}" for what, cut in cuts.items() if cut]


def folders(options: Options, given: str | None = None) -> tuple[str, str, str]:
    """Find the user's home, the working folder, which may be given, and the project's folder.

    Raises UsageError if the working folder is none, or may not be entered.
    """
    env = os.environ if options.env is None else options.env
    home = normal_path(env["HOME"]) if env.get("HOME") else user_home()
    cwd = given or real_path(options.cwd)
    if given is None and (why := _why_no_folder(cwd)):
        raise BadInput(f"{options.cwd!r} {why}; choose one with --cwd")
    root = find_root(cwd)
    if real_path(home) == root:
        root = cwd  # a home folder under version control is not one project
    return home, cwd, root


def _why_no_folder(path: str) -> str:
    """Say why nobody can work in a folder; empty if that can be."""
    try:
        # To look at what is in it, itself too, is to enter it.
        os.stat(f"{path}/.")  # noqa: PTH116 - strings throughout
    except PermissionError:
        return "cannot be entered, for want of permission"
    except OSError:
        return "is not a folder"
    return "" if os.path.isdir(path) else "is not a folder"  # noqa: PTH112 - likewise


def _settings(home: str, root: str, options: Options, *, trusted: bool) -> Settings:
    vouched = frozenset[str]() if options.bare else Trust(home).vouched(root)
    settings = load_settings(
        home,
        root,
        trusted=trusted,
        vouched=vouched,
        flag=None if options.settings is None else str(options.settings),
        functions=_function_names(options),
        sources=_sources(options),
    )
    if settings.fatal:
        raise settings.fatal[0]
    return settings


def _sources(options: Options) -> frozenset[str]:
    if options.bare:
        return frozenset()
    return SOURCES if options.setting_sources is None else frozenset(options.setting_sources)


def _function_names(options: Options) -> frozenset[str]:
    return function_names(options) | {tool.name for tool in package_tools(options).tools}


def _reading_policy(
    options: Options,
    settings: Settings,
    *,
    root: str,
    home: str,
    kept: Path,
    env: Mapping[str, str],
) -> Policy:
    """Give the rules about single files, which hold for what a session takes in by itself."""
    rules = read_rules(options, settings)
    return Policy(
        root=root,
        home=real_path(home),
        rules=tuple(rule for rule in rules if rule.specifier is not None),
        sealed=_sealed(kept, home, env),
    )


def _sealed(kept: Path, home: str, env: Mapping[str, str]) -> tuple[str, ...]:
    """Name what no agent reads: where this session keeps things, and where others do."""
    stores = (kept.as_posix(), store.home(env).as_posix(), f"{home}/.prong")
    # Sockets are made where this process' own environment says, whatever the session is given.
    sockets = (*socket_folders(env), *socket_folders(os.environ))
    return sealed_in(_by_all_names(stores), _by_all_names(sockets))


def _by_all_names(paths: Iterable[str]) -> Iterator[str]:
    return (path for one in paths for path in (one, real_path(one)))


def make_policy(place: Place, *, home: str, storage: str, sandbox: Sandboxing) -> Policy:
    """Put settings and flags together into the session's policy; home and storage are the host's.

    Raises UsageError if a flag is not a rule or not a mode.
    """
    options, permissions = place.options, place.settings.permissions
    folders = [one.text for one in permissions.folders]
    return Policy(
        root=place.root,
        home=home,
        mode=read_mode(options.mode or permissions.mode),
        rules=(*read_rules(options, place.settings), *_skill_rules(place)),
        # What the session keeps of itself may be read; nobody but the session writes there.
        protected=(
            real_path(storage),
            note_file(place.root, place.store).folder.as_posix(),
            *_own_store(place, home),
        ),
        sealed=_sealed(place.store, home, place.env),
        sandbox=sandbox,
        folders=tuple(
            real_path(os.path.join(place.cwd, os.path.expanduser(folder)))  # noqa: PTH111, PTH118
            for folder in (*folders, *options.add_dirs, storage)
        ),
    )


def _skill_rules(place: Place) -> Iterator[Rule]:
    """Let be read what lies beside the user's own skills: their texts speak of those files."""
    folders = {
        skill.variables.get("CLAUDE_PLUGIN_ROOT") or os.path.dirname(skill.folder)  # noqa: PTH120 - strings
        for skill in place.skills
        if skill.path.endswith("/SKILL.md") and not lies_in(Path(skill.path), place.root)
    }
    for folder in sorted({real_path(folder) for folder in folders}):
        # A rule has no way to write these as they are.
        if not set(folder) & set("*?[]"):
            yield Rule("allow", "Read", f"{spell_absolute(folder)}/**", "user")


def _own_store(place: Place, home: str) -> tuple[str, ...]:
    """Name what is kept across sessions where it is not in the home's own folder, always guarded.

    A folder that holds the project cannot be guarded as a whole.
    """
    kept = real_path(place.store)
    if kept == real_path(f"{home}/.prong") or is_inside(place.root, kept):
        return ()
    return (kept,)


def read_mode(text: str) -> Mode:
    """Read a permission mode.

    Raises UsageError if there is none of that name.
    """
    if text == "manual":
        return "default"
    modes: tuple[Mode, ...] = get_args(Mode)
    for mode in modes:
        if mode == text and mode != "bubble":
            return mode
    known = ", ".join(mode for mode in modes if mode != "bubble")
    raise UnknownName(f"there is no permission mode {text!r}; the modes are {known}")


def read_rules(options: Options, settings: Settings) -> tuple[Rule, ...]:
    """Put the rules of settings and flags together.

    Raises UsageError if a flag is no rule, or names a tool that there is not but for a slip.
    """
    permissions, functions = settings.permissions, _function_names(options)
    rules: list[Rule] = []
    for effect, listed, flags in (
        ("allow", permissions.allow, options.allow),
        ("ask", permissions.ask, options.ask),
        ("deny", permissions.deny, options.deny),
    ):
        kind = cast("Effect", effect)
        for text in flags:
            wrong = check_rule(text, kind, foreign=False, functions=functions)
            if wrong is not None and not wrong.harmless:
                raise BadInput(wrong.why)
        parsed = [parse_rule(one.text, effect=kind, source=one.source) for one in listed]
        parsed += [parse_rule(text, effect=kind, source="flag") for text in flags]
        rules += [rule for rule in parsed if not isinstance(rule, BadRule)]
    return tuple(rules)
