"""What the system holds a command to, as a value.

A profile says what a command and everything that it starts may do. It is made from the policy by a
pure function (`prong.tools.derive`), travels with the command, also to another process, and is
enforced by the host.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

Name: TypeAlias = Literal["reading", "working", "worktree", "none"]


class Concealed(Struct, frozen=True):
    """Files that nobody may read: a regular expression for paths, and the folders to look in."""

    regex: str
    """What a whole path has to look like; case does not matter."""
    base: str
    """The folder below which they can be."""
    deep: bool = True
    """Whether they can be anywhere below; if not, `base` is the one path, or a part is `*`."""
    sockets: bool = False
    """Whether they are sockets and nothing else: of no use where none can be reached."""


class Profile(Struct, frozen=True, kw_only=True):
    """What a command may do."""

    name: Name = "none"
    writable: tuple[str, ...] = ()
    """Files and folders that may be written with all that is in them; those that are there."""
    kept: tuple[str, ...] = ()
    """Paths in writable folders that must stay as they are; a part may be `*`."""
    spared: tuple[str, ...] = ()
    """Paths that need not stay as they are though a pattern in `kept` says so."""
    pinned: tuple[str, ...] = ()
    """Folders in writable ones that may be changed but not be put away."""
    opened: tuple[str, ...] = ()
    """Protected paths that the user said yes to."""
    hidden: tuple[Concealed, ...] = ()
    """What cannot be read."""
    network: bool = True
    signals: bool = True
    """Whether processes that are not the command's own may be signalled."""
    attributes: bool = True
    """Whether modes, owners, times and attributes of files may be changed at all."""
    daemons: bool = False
    """Whether services of the user can be reached by their sockets."""
    agents: bool = False
    """Whether agents that sign and log in for the user can be reached, if no other service."""
    private: bool = False
    """Whether it has a temporary folder of its own, which is removed after it."""

    @property
    def needs_view(self) -> bool:
        """Whether single files in open folders have to be held: that takes a view of its own.

        Where nothing can be made, it is enough to open all others for reading.
        """
        return self.name != "reading" and bool(self.kept or self.pinned or self.hidden)


NONE = Profile()
"""As free as the user."""


class Ability(Struct, frozen=True):
    """What the system can hold."""

    kind: Literal["landlock", "seatbelt", "none"] = "none"
    abi: int = 0
    """The version of Landlock."""
    filters: bool = False
    """Whether calls to the kernel can be refused by their number (seccomp)."""
    views: bool = False
    """Whether a command can have a view of the files of its own (a mount namespace)."""
    why: str = "this host has no sandbox"
    """Why there is none, or not more."""

    @property
    def some(self) -> bool:
        """Whether anything is held at all."""
        return self.kind != "none"

    @property
    def writes(self) -> bool:
        """Whether it is certain that nothing is written but where it may be.

        Before its third version Landlock let files be emptied that could be read.
        """
        return self.kind == "seatbelt" or (
            self.kind == "landlock" and self.abi >= 3 and self.filters
        )

    def holds(self, profile: Profile) -> bool:
        """Whether a profile is held in full."""
        if profile.name == "none":
            return True
        held = self.writes and (self.views or not profile.needs_view)
        if profile.name == "worktree" and self.kind == "landlock":
            # Modes and times of files elsewhere, and the refs of siblings.
            return held and self.views
        return held
