"""A session in a worktree of its own: made before it begins, let go of when it has ended."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from prong.config.option import Options
from prong.config.place import look_around
from prong.errors import BadInput, ProngError
from prong.event import Event, Warned, WorkKept
from prong.host import Host, LocalHost
from prong.host.worktree import Kept, Worktree, create, finish
from prong.ids import TaskId
from prong.team.workspace import read_settings

_NAME = "work"
"""What worktrees are called that nobody names; git's names are numbered."""


class OwnWorktree(msgspec.Struct, frozen=True):
    """The worktree of a session, and the host of the folder that it was made from."""

    host: Host
    worktree: Worktree

    async def leave(self, emit: Callable[[Event], None]) -> None:
        """Remove it if nothing was done in it; say where it is otherwise."""
        try:
            ended = await finish(self.host, self.worktree)
        except ProngError as error:
            emit(Warned(text=f"the worktree {self.worktree.path} stays: {error}"))
            return
        if isinstance(ended, Kept):
            emit(
                WorkKept(
                    task_id=TaskId(self.worktree.slug),
                    path=ended.path,
                    branch=ended.branch,
                    commits=ended.commits,
                    files=ended.files,
                    uncommitted=ended.uncommitted,
                )
            )


async def start_worktree(
    options: Options, given: Host | None
) -> tuple[Options, OwnWorktree | None]:
    """Make the worktree that options ask for; gives the options of a session in it.

    Raises ProngError if there can be none.
    """
    if options.worktree is None:
        return options, None
    if given is not None:
        raise BadInput("a worktree is made on this machine; leave out worktree, or the host")
    place = look_around(options)
    settings = read_settings(place.settings.values.worktree)
    host = LocalHost(place.cwd, home=place.home)
    made = await create(
        host, options.worktree or _NAME, base=settings.base, link=settings.symlink_directories
    )
    return replace(options, cwd=made.cwd), OwnWorktree(host, made)
