"""Where plug-ins come from: a folder, a git repository, or a marketplace in one of these.

Nothing that is fetched is run, and nothing follows what others point to without saying so: git goes
where it was sent and to no other address, a marketplace's own folder bounds the paths it names, and
a plug-in is copied file by file, up to a bound, without links that lead out of it.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias, cast

import msgspec

from prong.config.document import Document, read_document
from prong.config.listing import lies_in
from prong.config.plugin import MANIFEST
from prong.errors import BadInput, ConfigError, GitFailed, NotInstalled, NotPossibleNow, UnknownName
from prong.host.git import INHERITED
from prong.system.path_form import is_absolute, real_path

MARKETPLACE = ".claude-plugin/marketplace.json"
MOST_FILES = 10_000
MOST_BYTES = 200_000_000
_SECONDS = 300.0
_SHORT = r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*"
_ADDRESS = r"(?:https|ssh|file)://[^\s]+|[\w.-]+@[\w.-]+:[^\s:][^\s]*"
_LOCAL_HTTP = r"http://(?:127\.0\.0\.1|localhost|\[::1\])(?::\d+)?/[^\s]*"
_REF = r"[A-Za-z0-9][\w./-]*"
_NONE: Mapping[str, Any] = MappingProxyType({})


class FolderSource(msgspec.Struct, frozen=True):
    """A folder of this machine."""

    path: str

    def __str__(self) -> str:
        return self.path


class GitSource(msgspec.Struct, frozen=True):
    """A repository, of which a branch, tag or commit may be named, and a folder in it."""

    url: str
    ref: str = ""
    folder: str = ""

    def __str__(self) -> str:
        where = f"{self.url}#{self.ref}" if self.ref else self.url
        return f"{where}, folder {self.folder}" if self.folder else where


PluginSource: TypeAlias = FolderSource | GitSource


class Offer(msgspec.Struct, frozen=True):
    """A plug-in that a marketplace lists."""

    name: str
    description: str
    source: object
    """As the marketplace writes it."""
    entry: Mapping[str, Any] = _NONE
    """What stands for its manifest, or beside it."""


class Marketplace(msgspec.Struct, frozen=True):
    """A list of plug-ins, and the folder in which it was found."""

    name: str
    folder: Path
    offers: tuple[Offer, ...]
    problems: tuple[ConfigError, ...] = ()

    def offer(self, name: str) -> Offer:
        """Find a plug-in by name.

        Raises UnknownName if there is none.
        """
        for one in self.offers:
            if one.name == name:
                return one
        known = ", ".join(one.name for one in self.offers[:50])
        raise UnknownName(f"the marketplace {self.name} has no plug-in {name!r}; it has: {known}")


def parse_source(text: str) -> PluginSource:
    """Read where plug-ins are to come from: a folder, an address of git, `owner/name` of GitHub.

    A `#branch`, tag or commit may follow an address. Raises BadInput if it is none of these.
    """
    path = Path(text).expanduser()
    if path.is_dir():
        return FolderSource(real_path(path))
    address, _, ref = text.partition("#")
    if ref and not re.fullmatch(_REF, ref):
        raise BadInput(f"{ref!r} is no branch, tag or commit")
    if re.fullmatch(_SHORT, address):
        return GitSource(f"https://github.com/{address.removesuffix('.git')}.git", ref)
    if re.fullmatch(f"{_ADDRESS}|{_LOCAL_HTTP}", address):
        return GitSource(address, ref)
    if address.startswith("http://"):
        raise BadInput(f"{address} can be changed by anybody on the way; use https://")
    raise BadInput(f"{text!r} is neither a folder nor an address of git, such as https://…")


def fetch(source: PluginSource, into: Path) -> tuple[Path, str]:
    """Bring a source here; gives its folder, and the commit if it is a repository.

    Raises GitFailed if a repository cannot be had, NotPossibleNow if it lacks the folder named.
    """
    if isinstance(source, FolderSource):
        return Path(source.path), ""
    into.mkdir(parents=True)
    _git(into, "init", "--quiet")
    _git(into, "fetch", "--quiet", "--depth=1", "--no-tags", "--", source.url, source.ref or "HEAD")
    _git(into, "checkout", "--quiet", "--detach", "FETCH_HEAD")
    commit = _git(into, "rev-parse", "HEAD").strip()
    if re.fullmatch(r"[0-9a-f]{40}", source.ref) and commit != source.ref:
        raise GitFailed(f"{source.url} gave the commit {commit} where {source.ref} was asked for")
    folder = into / source.folder
    if not lies_in(folder, str(into)) or not folder.is_dir():
        raise NotPossibleNow(f"{source.url} has no folder {source.folder!r}")
    return folder, commit


def _git(folder: Path, *words: str) -> str:
    """Run git so that nobody's hook runs, nobody is asked, and no redirection is followed."""
    options = (
        *("core.hooksPath=/dev/null", "core.fsmonitor=false", "submodule.recurse=false"),
        *("http.followRedirects=false", "protocol.ext.allow=never", "protocol.fd.allow=never"),
        "gc.auto=0",
    )
    flags = [word for option in options for word in ("-c", option)]
    env = {name: value for name, value in os.environ.items() if name not in INHERITED}
    env |= {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1"}
    try:
        done = subprocess.run(
            ["git", *flags, *words],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except FileNotFoundError as error:
        raise NotInstalled("git is not installed, and plug-ins of repositories need it") from error
    except subprocess.TimeoutExpired as error:
        raise GitFailed(f"git {words[0]} took longer than {_SECONDS:.0f} s") from error
    if done.returncode:
        said = " ".join(done.stderr.decode(errors="replace").split())[:400]
        leads = re.search(r"redirect|error: 30[1278]\b", said)
        moved = "; it leads to another address: name that one" if leads else ""
        raise GitFailed(f"git {words[0]} failed: {said}{moved}")
    return done.stdout.decode(errors="replace")


def read_marketplace(folder: Path) -> Marketplace | None:
    """Read the list of plug-ins in a folder; None if there is none.

    Raises ConfigError if it cannot be read.
    """
    document = read_document(folder / MARKETPLACE)
    if isinstance(document, ConfigError):
        raise document
    if document is None:
        return None
    listed = document.value.get("plugins")
    if not isinstance(listed, list):
        raise document.problem("a marketplace must have a list of 'plugins'", "plugins")
    offers: list[Offer] = []
    problems: list[ConfigError] = []
    for number, one in enumerate(cast("list[object]", listed)):
        try:
            offers.append(_offer(document, number, one))
        except ConfigError as error:
            problems.append(error)
    name = str(document.value.get("name") or folder.name)
    return Marketplace(name, folder, tuple(offers), tuple(problems))


def _offer(document: Document, number: int, one: object) -> Offer:
    entry = cast("dict[str, Any]", one) if isinstance(one, dict) else {}
    name = entry.get("name")
    if not isinstance(name, str) or not name or "source" not in entry:
        why = "each of 'plugins' must have a 'name' and a 'source'"
        raise document.problem(why, "plugins", number)
    source: object = entry["source"]
    metadata = document.value.get("metadata")
    base = cast("dict[str, Any]", metadata).get("pluginRoot") if isinstance(metadata, dict) else ""
    if isinstance(source, str) and isinstance(base, str) and base and not source.startswith("."):
        source = f"{base.rstrip('/')}/{source}"
    own = {key: value for key, value in entry.items() if key != "source"}
    return Offer(name, str(entry.get("description") or ""), source, own)


def take_offer(market: Marketplace, offer: Offer, into: Path) -> tuple[Path, str, str]:
    """Bring a plug-in of a marketplace here; gives its folder, its commit, and where it is from.

    Raises as `fetch`, and BadInput if it comes in a way that is not supported.
    """
    what = f"{market.name}: the plug-in {offer.name}"
    if isinstance(offer.source, str):
        folder = market.folder / offer.source
        if is_absolute(offer.source) or not lies_in(folder, str(market.folder)):
            raise NotPossibleNow(f"{what} names {offer.source!r}, outside of the marketplace")
        if not folder.is_dir():
            raise NotPossibleNow(f"{what} names {offer.source!r}, which is not there")
        return folder, "", offer.source
    source = _git_source(what, offer.source)
    folder, commit = fetch(source, into)
    if not (folder / MANIFEST).exists() and (folder / MARKETPLACE).exists():
        raise NotPossibleNow(f"{what} leads to another marketplace, {source}; add from that one")
    return folder, commit, str(source)


def _git_source(what: str, value: object) -> GitSource:
    given = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    kind = given.get("source")
    url, folder = given.get("url", ""), given.get("path", "")
    if kind == "github":
        url = given.get("repo", "")
    elif kind not in ("url", "git", "git-subdir"):
        raise BadInput(f"{what} comes from {kind!r}, which is not supported; git and folders are")
    ref = given.get("sha") or given.get("ref") or ""
    texts = (url, folder, ref)
    if not all(isinstance(text, str) for text in texts) or (ref and not re.fullmatch(_REF, ref)):
        raise BadInput(f"{what} names no repository that can be read")
    source = parse_source(url) if url and not Path(url).expanduser().is_dir() else None
    if not isinstance(source, GitSource):
        raise BadInput(f"{what} names {url!r}, which is no address of git")
    return GitSource(source.url, ref, folder)


def copy_plugin(source: Path, target: Path) -> list[str]:
    """Copy a plug-in; gives which links were left out because they lead out of it.

    Raises NotPossibleNow if it is too large.
    """
    found = list(islice(_walk(source), MOST_FILES + 1))
    size = sum(path.lstat().st_size for path, kind in found if kind == "file")
    if len(found) > MOST_FILES or size > MOST_BYTES:
        bound = f"more than {MOST_FILES:,} files or {MOST_BYTES // 10**6} MB"
        raise NotPossibleNow(f"{source} has {bound}; that is no plug-in")
    left: list[str] = []
    root = real_path(source)
    target.mkdir(parents=True)
    for path, kind in found:
        place = target / path.relative_to(source)
        if kind == "folder":
            place.mkdir()
        elif kind == "file":
            shutil.copy2(path, place)
        elif lies_in(path, root) and not is_absolute(os.readlink(path)):  # noqa: PTH115 - texts
            place.symlink_to(os.readlink(path))  # noqa: PTH115 - a text
        else:
            left.append(f"{path.relative_to(source)} leads out of the plug-in; left out")
    return left


def _walk(folder: Path) -> Iterator[tuple[Path, str]]:
    """Go through a folder, each folder before what is in it; links are not followed."""
    with os.scandir(folder) as scan:
        for entry in scan:
            path = Path(entry.path)
            if entry.is_symlink():
                yield path, "link"
            elif entry.is_dir(follow_symlinks=False):
                if entry.name != ".git":
                    yield path, "folder"
                    yield from _walk(path)
            elif stat.S_ISREG(entry.stat(follow_symlinks=False).st_mode):
                yield path, "file"
