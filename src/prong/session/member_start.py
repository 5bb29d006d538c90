"""How a member of a team in a pane begins: a file that its leader writes, and that it reads once.

The arguments of a program can be read by everybody on the machine, so a member is told its name by
them and nothing else. What it needs lies in the team's folder, for its owner alone, until it was
read.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import msgspec

from prong.agent.spec import AgentType
from prong.config.option import Options
from prong.errors import BadInput, NotPossibleNow
from prong.foreign_json import NOT_JSON
from prong.host import make_private
from prong.journal.note import MemberSpec
from prong.journal.store import home
from prong.mail import TeamFolder, check_name
from prong.mail.locked_file import write_whole


class MemberStart(msgspec.Struct, frozen=True, kw_only=True):
    """What a member begins with."""

    spec: MemberSpec
    given: dict[str, Any]
    """Options that are not the usual ones, as plain values."""
    env: dict[str, str] = {}
    """The leader's environment, keys included, which another terminal need not have."""
    brief: str = ""
    """What it is to do."""

    @property
    def options(self) -> Options:
        """The options with which its session is opened."""
        given: dict[str, Any] = {}
        for name, value in self.given.items():
            if name == "agents":
                given[name] = [AgentType(**one) for one in value]
                continue
            given[name] = tuple(cast("list[Any]", value)) if isinstance(value, list) else value
        return Options(**given, member=self.spec)


def member_name(text: str) -> tuple[str, str]:
    """Read `TEAM/NAME`; raises BadInput."""
    team, slash, name = text.partition("/")
    if not slash:
        raise BadInput(f"a member is named TEAM/NAME, and {text!r} is not")
    return check_name(team, of="team"), check_name(name)


def plain_options(options: Options) -> dict[str, Any]:
    """Give those options that are not the usual ones as values that can go to another process.

    Raises NotPossibleNow if there is something among them that cannot.
    """
    usual, given = Options(), dict[str, Any]()
    for name in Options.__struct_fields__:
        value: Any = getattr(options, name)
        if name != "member" and value != getattr(usual, name):
            given[name] = value
    try:
        return msgspec.to_builtins(given)
    except TypeError as error:
        raise NotPossibleNow(
            "functions that are tools or hooks cannot go to another process"
        ) from error


def write_start(folder: TeamFolder, start: MemberStart) -> None:
    """Leave a member what it begins with; raises ProngError, OSError."""
    make_private(folder.path / "start")
    write_whole(_path(folder, start.spec.name), msgspec.json.encode(start))


def drop_start(folder: TeamFolder, name: str) -> None:
    """Take back what a member would have begun with."""
    with suppress(OSError):
        _path(folder, name).unlink()


def take_start(member: str) -> MemberStart:
    """Read what a member begins with, which nobody can do again.

    Raises UsageError if there is no such member, or it was started before.
    """
    team, name = member_name(member)
    folder = TeamFolder.open(home(), team)
    path = _path(folder, name)
    try:
        data = path.read_bytes()
        path.unlink()
    except FileNotFoundError as error:
        found = folder.team.member(name)
        again = f"; go on with it by prong --resume {found.session}" if found else ""
        raise NotPossibleNow(
            f"{name} of {team} is started by its leader, and has begun already{again}"
        ) from error
    try:
        return msgspec.json.decode(data, type=MemberStart)
    except NOT_JSON as error:
        raise BadInput(f"{path} is no start of a member: {error}") from error


def _path(folder: TeamFolder, name: str) -> Path:
    return folder.path / "start" / f"{name}.json"
