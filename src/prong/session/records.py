"""What is stored: of this session, and of the others in its folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread
import msgspec

from prong.agent.spec import AgentTypes
from prong.command import Clear, Command, Compact, SetEffort, SetModel
from prong.config.firing import AnyHook
from prong.config.memory import MemoryState, note_file
from prong.cost.ledger import Total, by_model
from prong.cost.loss import Loss, Move
from prong.errors import NotPossibleNow, UsageError
from prong.host import ripgrep
from prong.journal import store
from prong.journal.entry_trail import WholeSession, read_whole
from prong.journal.replay import read_journal
from prong.journal.store import SessionInfo
from prong.prompt import Prompt, outline
from prong.session.moving_cost import confirm_above, moving_cost, switching_cost
from prong.session.offshoot import TurnOpener, messages
from prong.session.outside_control import OutsideControl
from prong.session.parts import Parts
from prong.tools.files.pattern import SEARCH
from prong.tools.rule import Rule
from prong.tools.skill import INIT, built_in, find_skill
from prong.tools.skill_text import Skill

if TYPE_CHECKING:
    # Loaded only by those who ask for it, or where there are servers: a script starts sooner.
    from prong.journal.book import CostLine
    from prong.session.history import InputHistory
    from prong.session.importing import Importable, ImportedSession
    from prong.session.server_admin import ServerReport
    from prong.session.status_command import StatusCommand

_MOVES: dict[type, Move] = {
    SetModel: "model",
    SetEffort: "effort",
    Compact: "compact",
    Clear: "clear",
}
_SECONDS = 5.0
_ASKED = 2.0
"""Seconds that servers have to say which resources they have: somebody waits for the list."""
_LISTED = 16 << 20
"""Bytes of paths that are listed at most."""


class Filled(msgspec.Struct, frozen=True, kw_only=True):
    """What fills a model's context."""

    tokens: int
    """About how many the next request has."""
    window: int
    """How many the model can read."""
    compact_at: float
    """The share of it at which the conversation is compacted; 0 if it is not."""
    sizes: dict[str, int]
    """Bytes of the head and of each kind of entry."""


class Records(msgspec.Struct, frozen=True):
    """Looks up what a face may show and no event tells."""

    _parts: Parts

    @property
    def control(self) -> OutsideControl:
        """Who may act in the session from another process, and who asks to."""
        return self._parts.control

    @property
    def snapshot(self) -> Prompt:
        """The conversation as it stood when the last turn ended."""
        return self._parts.snapshot

    async def whole(self) -> WholeSession:
        """Read everything that was said in the session so far, by all its agents."""
        return await anyio.to_thread.run_sync(read_whole, self._parts.journal.path)

    def outline(self) -> str:
        """Draw the conversation as the model sees it, one line per entry."""
        return outline(self._parts.agent.conversation.prompt)

    def team(self) -> list[str]:
        """Show the team that this session leads, in lines; raises UsageError if there is none."""
        if self._parts.leader is None:
            raise NotPossibleNow("this session leads no team; start one with --team")
        from prong.session.team_report import show_team

        led = self._parts.leader.must_lead()
        plans = [f"  {name}: its plan waits; /team approve {name}" for name in led.kept.plans]
        return [*show_team(led.membership.folder.name, self._parts.place.store), *plans]

    @property
    def types(self) -> AgentTypes:
        """The types of agents that can be started."""
        return self._parts.place.types

    @property
    def plan_file(self) -> str:
        """The plan file; empty outside of plan mode and before the first message in it."""
        return self._parts.planner.file

    @property
    def wants_title(self) -> bool:
        """Whether a face should see to a title: there is none, and settings do not forbid it."""
        allowed = self._parts.place.settings.values.titles
        return allowed and not self._parts.journal.tally.title

    @property
    def suggests(self) -> bool:
        """Whether settings ask for suggestions of what to say next."""
        return self._parts.place.settings.values.suggest

    @property
    def began(self) -> int:
        """The number of the last event before this process opened the session."""
        return self._parts.bus.began

    @property
    def memory(self) -> MemoryState:
        """The notes of earlier sessions, and whether this one keeps any."""
        place = self._parts.place
        return note_file(place.root, place.store).state(on=self._parts.memory.on)

    @property
    def owes_notes(self) -> bool:
        """Whether the last turn worked, and notes for later sessions are to be kept of it."""
        last = self._parts.life.last
        worked = last is not None and last.why == "done" and not self._parts.busy
        return worked and self._parts.memory.due(self._parts.snapshot)

    @property
    def requests(self) -> int:
        """How many requests were made, sidecars included."""
        return len(self._parts.ledger.rows)

    def by_model(self, since: int = 0) -> dict[str, Total]:
        """Sum up what the requests to each model came to, without the first so many."""
        return by_model(self._parts.ledger.rows[since:])

    def skill(self, name: str) -> Skill | None:
        """Find a skill that the user may start by name; None if there is none."""
        skills = [one for one in self._parts.place.skills if one.for_user]
        return find_skill(skills, name) or (built_in() if name == INIT else None)

    def is_command(self, name: str) -> bool:
        """Whether a name after a slash starts something: a skill, or a prompt of a server."""
        if self.skill(name) is not None:
            return True
        if self._parts.servers is None:
            return False
        from prong.session.server_message import is_server_prompt

        return is_server_prompt(self._parts, name)

    @property
    def now(self) -> float:
        """Seconds since the epoch on the session's clock, by which its events are timed."""
        return self._parts.agent.client.clock()

    @property
    def skills(self) -> dict[str, str]:
        """The skills that the user may start, each with what it is for."""
        skills = [one for one in self._parts.place.skills if one.for_user]
        found = {one.name: f"{one.hint} {one.description}".strip() for one in skills}
        if self._parts.servers is not None:
            prompts = self._parts.servers.prompts()
            found |= {name: one.description or one.name for name, (_, one) in prompts.items()}
        return {INIT: built_in().description} | found

    @property
    def history(self) -> InputHistory:
        """What the user has said in this and other sessions."""
        from prong.session.history import InputHistory

        place = self._parts.place
        mask = self._parts.agent.conversation.secrets.mask
        return InputHistory(place.store / "history.jsonl", place.root, mask)

    async def files(self) -> list[str]:
        """List the files and folders of the project, less what git ignores; empty if unknown."""
        host, root = self._parts.agent.context.host, self._parts.agent.context.host.root
        try:
            argv = [ripgrep(), "--files", "--null", *SEARCH]
            finished = await host.run(argv, cwd=root, seconds=_SECONDS, limit=_LISTED)
        except (OSError, UsageError):
            return []
        names = [name.decode(errors="replace") for name in finished.output.split(b"\0")[:-1]]
        files = [name for name in names if name.isprintable()]
        folders = {f"{name.rpartition('/')[0]}/" for name in files if "/" in name}
        return sorted(files) + sorted(folders)

    async def resources(self) -> dict[str, str]:
        """List the resources of MCP servers as `server:uri`, each with what it is called."""
        servers = self._parts.servers
        return {} if servers is None else await servers.resources(_ASKED)

    async def diff(self, name: str = "") -> str:
        """Give what was changed in the folder since the last commit, or by a child, as a diff.

        A child is named by its id, or as its branch is without `prong/`. Raises UsageError.
        """
        from prong.host.work_diff import work_diff

        agents = self._parts.bus.view().agents.values()
        child = next((one for one in agents if name and one.task_id == name), None)
        if child is not None and not child.branch:
            raise NotPossibleNow(
                f"{name} has no worktree: what it changed is in this folder's diff"
            )
        slug = (name if child is None else child.branch).removeprefix("prong/")
        return self.mask(await work_diff(self._parts.agent.context.host, slug))

    async def models(self) -> list[str]:
        """List the models that one could go on with, the one that answers now first."""
        from prong.session.model_list import list_models

        client = self._parts.agent.client
        now = self._parts.agent.conversation.prompt.head.model
        return await list_models(self._parts.place, client.provider, client.billing.prices, now)

    def mask(self, text: str) -> str:
        """Put something else in the place of known keys."""
        return self._parts.agent.conversation.secrets.mask(text)

    def loss(self, command: Command) -> Loss | None:
        """Say what a command would cost more than going on; None if it gives up no cache."""
        move = _MOVES.get(type(command))
        if move is None:
            return None
        if isinstance(command, SetModel):
            return switching_cost(self._parts.place, self._parts.agent, command.model)
        return moving_cost(self._parts.agent, move)

    @property
    def confirm_above(self) -> float:
        """Dollars above which a face should ask before it gives up the cache."""
        return confirm_above(self._parts.place)

    @property
    def ui(self) -> str:
        """The face that settings ask for in a terminal: full or line; empty if they do not."""
        return self._parts.place.settings.values.ui or ""

    @property
    def theme(self) -> str:
        """The colours that settings ask for; empty if they do not."""
        return self._parts.place.settings.values.theme or ""

    @property
    def wheel_rows(self) -> int:
        """How many rows a notch of the wheel goes on a full screen."""
        return self._parts.place.settings.values.wheel_rows

    @property
    def status(self) -> StatusCommand:
        """The user's own status line."""
        from prong.session.status_command import StatusCommand

        return StatusCommand(self._parts)

    @property
    def effort(self) -> str:
        """How hard the model is asked to think; empty for its own default."""
        return self._parts.agent.conversation.prompt.head.spec.effort or ""

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The permission rules that hold, those given for this session last."""
        return self._parts.agent.policy.policy.rules

    @property
    def hooks(self) -> tuple[AnyHook, ...]:
        """The commands and functions that are run on events."""
        return self._parts.place.hooks

    @property
    def servers(self) -> list[ServerReport]:
        """The MCP servers of this session, and how each stands."""
        if self._parts.servers is None:
            return []
        from prong.session.server_admin import report_on

        return [report_on(server) for server in self._parts.servers.servers]

    @property
    def private_servers(self) -> Mapping[str, str]:
        """Those of which only agents of one type have the tools, and which type that is."""
        return self._parts.place.servers.private

    def context(self) -> Filled:
        """Say what fills the model's context, by kind of entry."""
        agent, sizes = self._parts.agent, Counter[str]()
        for node in agent.conversation.prompt.nodes():
            sizes[node.kind] += len(node.data)
        return Filled(
            tokens=agent.conversation.tokens,
            window=agent.client.window(agent.conversation.prompt.head),
            compact_at=agent.client.settings.compact_at,
            sizes={"head": len(agent.conversation.prompt.head.data), **sizes},
        )

    async def messages(self) -> list[TurnOpener]:
        """List the messages of the user to which one can go back."""
        return await messages(self._parts)

    async def costs(self) -> list[CostLine]:
        """Say what the session has cost so far, children that still run included."""
        from prong.journal.book import Books

        replay = await anyio.to_thread.run_sync(read_journal, self._parts.journal.path)
        receipts = await anyio.to_thread.run_sync(self._parts.receipts)
        return Books(replay, self._parts.agent.client.billing.prices, receipts).lines()

    def others(self) -> list[SessionInfo]:
        """List the other sessions of this folder, the latest first."""
        found = store.sessions(self._parts.place.cwd, self._parts.place.store)
        return [one for one in found if one.id != self._parts.journal.session]

    def importable(self) -> list[Importable]:
        """List the sessions of other programs that were held in this folder, the latest first."""
        from prong.session.importing import importable

        place = self._parts.place
        return importable(place.cwd, home=Path(place.home))

    def take_over(self, path: str) -> ImportedSession:
        """Store a session of another program as one of this folder.

        Raises BadInput if the file is none that is known.
        """
        from prong.session.importing import import_session

        place = self._parts.place
        return import_session(Path(path), cwd=place.cwd, home=place.store)

    def other(self, wanted: str) -> SessionInfo:
        """Find a session by id or name.

        Raises NoSuchSession.
        """
        return store.find(wanted, self._parts.place.cwd, self._parts.place.store)
