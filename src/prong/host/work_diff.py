"""What was changed in a working copy, or by a child, as a unified diff; nothing is touched."""

from __future__ import annotations

from collections.abc import Sequence

from prong.errors import UnknownName
from prong.host.git import Git, Repository, locate, working_index
from prong.host.host import Host
from prong.host.merge import children

# The settings of a repository can name programs that draw differences: none of them is run.
_PLAIN = ("-p", "--no-ext-diff", "--no-textconv", "--no-color", "-M")


async def work_diff(host: Host, slug: str = "") -> str:
    """Give what was changed since the last commit, or what a child has done since it began.

    New files are among it, also those that nobody has added or committed yet; empty if there is
    nothing. Raises UsageError or GitFailed.
    """
    here = await locate(host)
    git = Git(host, here.top)
    if not slug:
        return await _since(git, here, here.head)
    found = await children(git)
    child = next((one for one in found if one.slug == slug), None)
    if child is None:
        named = ", ".join(one.slug for one in found) or "none"
        raise UnknownName(f"there is no child's branch prong/{slug}; there are: {named}")
    if not child.path:
        return await git.run("diff-tree", *_PLAIN, child.base, child.tip)
    there = await locate(host, child.path)
    return await _since(Git(host, there.top), there, child.base)


async def children_diff(host: Host, slugs: Sequence[str] = ()) -> str:
    """Give what several children have done, one after the other; without names, all of them."""
    git = Git(host, (await locate(host)).top)
    names = slugs or [child.slug for child in await children(git)]
    found = [await work_diff(host, name) for name in names]
    return "\n".join(text for text in found if text)


async def _since(git: Git, repository: Repository, commit: str) -> str:
    since = commit or await git.run("hash-object", "-t", "tree", "/dev/null")
    async with working_index(git, repository) as index:
        return await git.run("diff-index", "--cached", *_PLAIN, since, index=index)
