"""An agent's place in a team: the name under which it sends mail and is sent some."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import anyio.to_thread

from prong.agent.speaker import must_be
from prong.ids import AgentPath
from prong.mail import LEADER, MailBody, TeamFolder


@dataclass(slots=True, frozen=True)
class Membership:
    """Which member of which team an agent is, wherever it runs."""

    folder: TeamFolder
    name: str
    path: AgentPath
    """The agent's; nobody else can send anything by this."""

    @property
    def leads(self) -> bool:
        """Whether it is the leader's."""
        return self.name == LEADER

    @property
    def box(self) -> str:
        """Names its mailbox among all of the user's."""
        return f"{self.folder.name}/{self.name}"

    async def post(self, to: str, body: MailBody, *, about: str = "") -> str:
        """Send a mail in its name; once this returns it is not lost. Gives its id.

        Of those `about` the same the reader takes in one.
        Raises UsageError if it may not be sent, or another agent speaks; JournalFull.
        """
        must_be(self.path)
        send = partial(self.folder.post, self.name, to, body, about=about)
        return await anyio.to_thread.run_sync(send)
