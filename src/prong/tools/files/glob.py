from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from prong.entry import CallId
from prong.errors import UsageError
from prong.host import Finished, Host, ripgrep
from prong.system.named_input import named_input
from prong.system.path_form import is_absolute
from prong.tools.access import Access, Reading
from prong.tools.files.known import shown_path, unusable
from prong.tools.files.pattern import SEARCH, Pattern
from prong.tools.tool import CallOutcome, Context, Failed, SideEffect, Tool, done

SHOWN = 200
SECONDS = 30.0
OUTPUT = 32 << 20
_WILD = re.compile(r"[*?\[{\\]")


class GlobArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What Glob takes."""

    pattern: Annotated[str, Meta(min_length=1)]
    path: Annotated[str, Meta(description="A folder; else the root")] | None = None


class Glob:
    """Finds files by name."""

    name = "Glob"
    effect: SideEffect = "reads"
    arguments: type[Struct] = GlobArguments
    budget = 50_000

    def title(self, args: GlobArguments) -> str:
        """Name the pattern and the folder."""
        return f"Glob {args.pattern}" + (f" in {args.path}" if args.path else "")

    def access(self, args: GlobArguments, context: Context) -> Sequence[Access]:
        """Name the folder that will be searched, links followed."""
        return [Reading(place(args, context.host)[0])]

    async def run(self, call_id: CallId, args: GlobArguments, context: Context) -> CallOutcome:
        """Find files, newest first."""
        del call_id
        folder, rest = place(args, context.host)
        name = shown_path(context.host, folder)
        if ".." in rest.split("/"):
            return Failed("'..' cannot follow a wildcard; give the folder as path")
        try:
            pattern = Pattern(rest, anchored=True)
            found = await context.host.stat(folder)
            if found is None or found.kind != "folder":
                return Failed(f"{name} is not a folder")
            finished = await _search(context.host, folder, pattern)
        except ValueError as error:
            return Failed(f"the pattern {args.pattern!r} cannot be used: {error}")
        except UsageError as error:
            return Failed(str(error))
        except OSError as error:
            return unusable(name, error)
        return _outcome(context, args, folder, pattern, finished)


def place(args: GlobArguments, host: Host) -> tuple[str, str]:
    """Give the folder a search starts in, the pattern's plain beginning included, and the rest."""
    parts = args.pattern.split("/")
    plain = next((i for i, part in enumerate(parts) if _WILD.search(part)), len(parts) - 1)
    beginning = "/".join(parts[:plain])
    if plain and not beginning:
        beginning = "/"
    folder = host.resolve(args.path) if args.path else host.root
    if beginning:
        # A leading slash or ~ makes the pattern's own folder win over the path.
        own = beginning.startswith(("/", "~")) or is_absolute(beginning)
        folder = host.resolve(beginning if own else f"{folder}/{beginning}")
    return folder, "/".join(parts[plain:])


async def _search(host: Host, folder: str, pattern: Pattern) -> Finished:
    with named_input(pattern.ignore_file()) as (path, stdin):
        argv = [ripgrep(), "--files", "--null", "--sortr=modified", *SEARCH]
        argv.append(f"--ignore-file={path}")
        return await host.run(argv, cwd=folder, stdin=stdin, seconds=SECONDS, limit=OUTPUT)


def _outcome(
    context: Context, args: GlobArguments, folder: str, pattern: Pattern, finished: Finished
) -> CallOutcome:
    if finished.timed_out:
        return Failed(f"the search took longer than {SECONDS:.0f} s; give a narrower path")
    names = [n.decode(errors="replace") for n in finished.output.split(b"\0")[:-1]]
    whole = [f"{folder.rstrip('/')}/{name}" for name in names if pattern.keeps(name)]
    paths = [shown_path(context.host, p) for p in whole if not context.keeps_back(p, folder)]
    if not paths:
        if finished.code not in {0, 1} and (finished.errors or finished.code != 2):
            why = finished.errors.decode(errors="replace").strip()
            return Failed(f"the search failed: {why or f'it ended with {finished.code}'}")
        return done(f"[no files match {args.pattern}]")
    lines = paths[:SHOWN]
    if len(paths) > SHOWN:
        lines.append(f"[{len(paths) - SHOWN} more files; the newest {SHOWN} are shown]")
    if finished.code < 0 and not finished.cut:
        lines.append(f"[not all was searched: the search ended with {finished.code}]")
    return done("\n".join(lines))


if TYPE_CHECKING:
    _: Tool = Glob()
