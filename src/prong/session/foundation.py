"""What a session stands on: all that is there before its first agent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from prong.agent import OpenQuestions
from prong.config.model import Chosen
from prong.config.place import Place
from prong.event import Event
from prong.host import Host
from prong.host.escape import MARK
from prong.journal.note import MainNotes
from prong.journal.replay import Replay
from prong.journal.writer import Journal
from prong.provider import Providers, Secrets
from prong.session.bus import Bus
from prong.team.remote_workers import RemoteWorkers
from prong.team.task import TaskBoard
from prong.tools.policy_box import PolicyBox
from prong.tools.structured import StructuredOutput


class Foundation(Struct, frozen=True, kw_only=True):
    """The parts of a session that its agents share; nobody owns them but the session."""

    place: Place
    providers: Providers
    questions: OpenQuestions
    clock: Callable[[], float]
    bus: Bus
    emit: Callable[[Event], None]
    """Says what happens to the main agent."""
    journal: Journal
    replay: Replay | None
    """What a resumed session finds in its journal; None for a new one."""
    noted: MainNotes
    """What the main agent has beside its conversation; of a new session nothing."""
    host: Host
    chosen: Chosen
    """The model that answers at first."""
    policy: PolicyBox
    structured: StructuredOutput | None
    """The tool that takes the answer, if the caller gave a schema for it."""
    secrets: Secrets
    """Keys, which are masked wherever they turn up."""
    remote: RemoteWorkers
    """The other machines on which children can work."""
    board: TaskBoard

    @property
    def storage(self) -> Path:
        """The folder beside the journal, for what is too large for it."""
        return self.journal.path.with_suffix("")

    @property
    def env(self) -> dict[str, str]:
        """What settings put into the environment of commands, and the mark they are known by."""
        return {MARK: self.journal.session, **self.place.settings.values.env}
