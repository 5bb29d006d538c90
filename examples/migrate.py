"""A migration over many files: a fork in a worktree of its own for each, and one merge.

    python examples/migrate.py "unittest to pytest" 'tests/test_*.py' [FOLDER]

The parent works out the recipe on one file. Forks have it in their prompt, from the cache, and
apply it, each where nobody else works. What went well is merged; the rest is named.
"""

import sys

import anyio

import prong
from prong.command import MergeBranches, Refused


async def migrate(session: prong.Session, what: str, files: list[str]) -> dict[str, str]:
    """Migrate the files; gives what became of each."""
    await session.run(
        f"We migrate {what}. Read {files[0]} and write down the recipe: each change that is to be "
        "made, with an example. Change nothing yet."
    )
    results = await session.map(
        files,
        "Apply the recipe to {}, change no other file, run its tests, and commit.",
        isolation="worktree",
        limit=4,
    )
    outcome = dict.fromkeys(files, "nothing to change")
    for file, result in zip(files, results, strict=True):
        if result.status != "completed":
            outcome[file] = f"failed: {result.detail}"
        elif result.branch:
            outcome[file] = f"on {result.branch}, {len(result.commits)} commit(s)"
    branches = tuple(result.branch.removeprefix("prong/") for result in results if result.commits)
    if branches:
        match await session.send(MergeBranches(slugs=branches)):
            case Refused(why):
                print(f"not merged: {why}")
            case merged:
                print(merged.text)
    return outcome


async def main(what: str, pattern: str, folder: str = ".") -> int:
    """Print what became of each file; gives 1 if one failed."""
    files = [str(path.relative_to(folder)) async for path in anyio.Path(folder).glob(pattern)]
    allowed = ("Bash(git add:*)", "Bash(git commit:*)", "Bash(python -m pytest:*)")
    async with prong.open_session(cwd=folder, mode="acceptEdits", allow=allowed) as session:
        outcome = await migrate(session, what, sorted(files))
        for file, said in outcome.items():
            print(f"{file}: {said}")
        print(f"${session.cost or 0:.4f}")
    return int(any(said.startswith("failed") for said in outcome.values()))


if __name__ == "__main__":
    what, pattern, *folder = sys.argv[1:]
    sys.exit(anyio.run(main, what, pattern, (folder or ["."])[0]))
