from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct, field

from prong.entry import CallId
from prong.errors import UsageError
from prong.host import Finished, ripgrep
from prong.system.named_input import named_input
from prong.system.path_form import top_of
from prong.tools.access import Access, Reading
from prong.tools.files.known import shown_path, unusable
from prong.tools.files.pattern import SEARCH, Pattern
from prong.tools.tool import CallOutcome, Context, Failed, SideEffect, Tool, done

SHOWN = 250
SECONDS = 30.0
OUTPUT = 8 << 20
COLUMNS = 500

Lines = Annotated[int, Meta(ge=0)]


class GrepArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What Grep takes."""

    pattern: str
    path: Annotated[str, Meta(description="A file or folder; else the root")] | None = None
    glob: Annotated[str, Meta(description='Such as "src/**/*.ts" or "!*.min.js"')] | None = None
    type: Annotated[str, Meta(description="Such as py or rust")] | None = None
    output_mode: Literal["content", "files_with_matches", "count"] = "files_with_matches"
    ignore_case: bool = field(name="-i", default=False)
    numbers: bool = field(name="-n", default=True)
    after: Lines = field(name="-A", default=0)
    before: Lines = field(name="-B", default=0)
    around: Lines = field(name="-C", default=0)
    multiline: Annotated[
        bool, Meta(description="Let a match span lines, and . match line feeds")
    ] = False
    head_limit: Annotated[int, Meta(ge=1, le=5000, description="Lines or files to show")] = SHOWN


class Grep:
    """Searches the content of files."""

    name = "Grep"
    effect: SideEffect = "reads"
    arguments: type[Struct] = GrepArguments
    budget = 50_000

    def title(self, args: GrepArguments) -> str:
        """Name the pattern and where it is looked for."""
        return f"Grep {args.pattern}" + (f" in {args.path}" if args.path else "")

    def access(self, args: GrepArguments, context: Context) -> Sequence[Access]:
        """Name the file or folder that will be searched, links followed."""
        return [Reading(context.host.resolve(args.path or "."))]

    async def run(self, call_id: CallId, args: GrepArguments, context: Context) -> CallOutcome:
        """Search."""
        del call_id
        host = context.host
        path = host.resolve(args.path or ".")
        name = shown_path(host, path)
        try:
            found = await host.stat(path)
            if found is None or found.kind == "other":
                return Failed(f"{name}: there is no such file or folder")
            pattern = Pattern(args.glob or "", anchored=False) if _wanted(args) else None
            inside = path == host.root or name != path
            cwd = host.root if inside else (path if found.kind == "folder" else top_of(path))
            with named_input(pattern.ignore_file() if pattern else b"") as (ignored, stdin):
                finished = await host.run(
                    [ripgrep(), *_options(args, ignored), "--", args.pattern, _relative(path, cwd)],
                    cwd=cwd,
                    stdin=stdin,
                    seconds=SECONDS,
                    limit=OUTPUT,
                )
        except ValueError as error:
            return Failed(f"the glob {args.glob!r} cannot be used: {error}")
        except UsageError as error:
            return Failed(str(error))
        except OSError as error:
            return unusable(name, error)
        return _outcome(context, args, (path, cwd), pattern, finished)


def _wanted(args: GrepArguments) -> bool:
    """Tell whether the glob says what to search; `!…` says what not to."""
    return args.glob is not None and not args.glob.startswith("!")


def _relative(path: str, cwd: str) -> str:
    return "./" + path.removeprefix(cwd).lstrip("/")


def _options(args: GrepArguments, ignored: str) -> list[str]:
    options = [*SEARCH, "--null", "--no-heading", "--with-filename"]
    options += ["--ignore-case"] if args.ignore_case else []
    options += ["--multiline", "--multiline-dotall"] if args.multiline else []
    options += [f"--type={args.type}"] if args.type else []
    if args.glob is not None:
        options.append(f"--ignore-file={ignored}" if _wanted(args) else f"--glob={args.glob}")
    match args.output_mode:
        case "files_with_matches":
            options.append("--files-with-matches")
        case "count":
            options.append("--count")
        case "content":
            # Sorting costs the parallel search, but the same search must give the same text.
            options += ["--sort=path", f"--max-columns={COLUMNS}", "--max-columns-preview"]
            options.append("--line-number" if args.numbers else "--no-line-number")
            options += [f"--after-context={max(args.after, args.around)}"]
            options += [f"--before-context={max(args.before, args.around)}"]
    return options


def _outcome(
    context: Context,
    args: GrepArguments,
    places: tuple[str, str],
    pattern: Pattern | None,
    finished: Finished,
) -> CallOutcome:
    if finished.timed_out:
        return Failed(f"the search took longer than {SECONDS:.0f} s; give a narrower path or glob")
    trouble = finished.errors.decode(errors="replace").strip()
    failed = finished.code not in {0, 1} and not finished.cut
    if failed and not finished.output:
        return Failed(f"the search failed: {trouble[:1000] or f'it ended with {finished.code}'}")
    lines = _lines(context, args, places, pattern, finished.output.decode(errors="replace"))
    notes = [] if lines else [f"no matches for {args.pattern}"]
    notes += [f"{len(lines) - args.head_limit} more lines"] if len(lines) > args.head_limit else []
    notes += ["the output was cut"] if finished.cut else []
    if trouble:
        notes.append(f"not all could be searched: {trouble.splitlines()[0]}")
    elif failed:
        notes.append(f"not all was searched: the search ended with {finished.code}")
    return done("\n".join([*lines[: args.head_limit], *(f"[{note}]" for note in notes)]))


def _lines(
    context: Context,
    args: GrepArguments,
    places: tuple[str, str],
    pattern: Pattern | None,
    output: str,
) -> list[str]:
    """Give what may be shown; `places` are what was searched, and where paths start."""
    searched, cwd = places
    allowed: dict[str, bool] = {}

    def named(path: str) -> str | None:
        path = path.removeprefix("./")
        whole = f"{cwd.rstrip('/')}/{path}"
        if whole not in allowed:
            wanted = pattern is None or pattern.keeps(path)
            allowed[whole] = wanted and not context.keeps_back(whole, searched)
        return shown_path(context.host, whole) if allowed[whole] else None

    if args.output_mode == "files_with_matches":
        return sorted(n for p in output.split("\0")[:-1] if (n := named(p)) is not None)
    lines: list[str] = []
    for line in output.split("\n"):
        path, found, rest = line.partition("\0")
        if not found:
            # The mark between groups; it stays only between lines that stay.
            if line and lines and lines[-1] != line:
                lines.append(line)
        elif (name := named(path)) is not None:
            lines.append(f"{name}:{rest}")
    if lines and lines[-1] == "--":
        lines.pop()
    return sorted(lines) if args.output_mode == "count" else lines


if TYPE_CHECKING:
    _: Tool = Grep()
