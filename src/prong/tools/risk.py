"""What is known about commands that change things: simple file work, risky work, rules to offer."""

from __future__ import annotations

import re

from prong.tools.argv import KnownOptions, options
from prong.tools.commandline import Simple
from prong.tools.harmless import is_option
from prong.tools.shape import COPYING, LINKING
from prong.tools.word import names
from prong.tools.wrapper import SHELLS, WRAPPERS

FILE_COMMANDS: dict[str, tuple[KnownOptions, frozenset[str]]] = {
    "mkdir": (options("pvZm:", "mode= parents verbose context=?"), frozenset()),
    "touch": (
        options("acfhmd:r:t:", "no-create date= no-dereference reference= time="),
        frozenset(),
    ),
    "rmdir": (options("pv", "ignore-fail-on-non-empty parents verbose"), frozenset()),
    "mv": (COPYING["mv"], names("exchange")),
    # Links in the target lead out of it, and through a folder they are not seen beforehand.
    "cp": (COPYING["cp"], LINKING - names("d P no-dereference preserve")),
    "tee": (options("aip", "append ignore-interrupts output-error=?"), frozenset()),
    "rm": (
        options(
            "fiIdvrR",
            "force interactive=? dir verbose recursive one-file-system no-preserve-root "
            "preserve-root=?",
        ),
        names("r R recursive no-preserve-root"),
    ),
}
"""Commands that are as good as an edit, and the options with which they are not."""

_RISKY = names(
    "sudo doas su pkexec runuser dd mkfs fdisk parted mount umount shutdown reboot halt poweroff "
    "init kill pkill killall chown chgrp chattr setfacl crontab at systemctl service launchctl "
    "iptables nft ufw ssh scp sftp rsync curl wget nc ncat socat telnet ftp docker podman kubectl "
    "helm terraform ansible aws gcloud az gh glab eval exec source . alias trap useradd userdel "
    "usermod passwd visudo insmod rmmod modprobe sysctl truncate shred unlink ln install apt "
    "apt-get dnf yum pacman brew snap chroot unshare nsenter history enable hash export"
)
_RISKY_OPTIONS: dict[str, tuple[str, frozenset[str]]] = {
    "rm": ("rRf", names("recursive force no-preserve-root")),
    "chmod": ("R", names("recursive")),
    "find": ("", names("delete exec execdir ok okdir")),
}
_RISKY_VERBS: dict[str, frozenset[str]] = {
    "git": names(
        "push reset clean checkout restore switch rebase filter-branch filter-repo gc prune reflog "
        "update-ref config remote submodule stash am apply branch tag worktree credential"
    ),
    **dict.fromkeys(
        names("npm pnpm yarn bun"), names("publish unpublish login logout config adduser")
    ),
    "cargo": names("publish login yank owner"),
    "uv": names("publish self"),
    "pip": names("config"),
    "poetry": names("publish config"),
    "twine": names("upload"),
}
_TWO_WORDS = names(
    "git npm pnpm yarn bun cargo uv pip pip3 docker podman kubectl make go poetry pdm hatch npx gh "
    "just task gradle mvn dotnet terraform helm brew apt bundle rake composer deno systemctl tox "
    "nox"
)
_EXACT_ONLY = (
    SHELLS | WRAPPERS.keys() | names("eval source . ssh su python python3 node perl ruby rm")
)


def is_risky(simple: Simple) -> bool:
    """Whether a command may do harm that is hard to undo, or reach beyond this machine."""
    name = simple.name
    if name in _RISKY or name.startswith("mkfs"):
        return True
    rest = simple.words[1:]
    if name in _RISKY_OPTIONS:
        letters, long = _RISKY_OPTIONS[name]
        return any(w.loose or is_option(w.text, letters, long) for w in rest)
    verbs = _RISKY_VERBS.get(name, frozenset())
    return bool(verbs) and any(not w.sure or w.text in verbs for w in rest)


_CHANGES = names(
    "add am apply cherry-pick clean clone commit fetch gc init merge mv pull push rebase reset "
    "restore revert rm switch checkout update-ref"
)
_SHELL = names("eval exec source . alias trap history enable hash export")


_IDLE = frozenset(["--version", "-V", "--help", "/dev/null", "/dev/stdout", "/dev/stderr"])
"""Words with which nothing is changed, though the program is there for that."""


def is_change(simple: Simple) -> bool:
    """Whether it is certain that a command is there to change something, or to reach beyond."""
    name = simple.name
    if simple.words[1:] and all(word.plain and word.text in _IDLE for word in simple.words[1:]):
        return False
    if name in FILE_COMMANDS or (name in _RISKY and name not in _SHELL):
        return True
    verb = next((w for w in simple.words[1:] if not w.text.startswith("-")), None)
    return name == "git" and verb is not None and verb.plain and verb.text in _CHANGES


def suggest(simple: Simple) -> tuple[str, ...]:
    """Return the narrowest useful rule that would allow a command like this for good."""
    if not simple.words:
        return ()
    first = simple.words[0].text
    if not re.fullmatch(r"[\w./+-]+", first):
        return ()
    if simple.name in _EXACT_ONLY or simple.env:
        exact = re.fullmatch(r"[^*()\n]+", simple.source) and all(w.plain for w in simple.words)
        return (f"Bash({simple.source})",) if exact else ()
    second = simple.words[1] if len(simple.words) > 1 else None
    if simple.name in _TWO_WORDS and second is not None:
        if not second.plain or not re.fullmatch(r"[\w./:@+][\w./:@+-]*", second.text):
            return ()
        return (f"Bash({first} {second.text}:*)",)
    return (f"Bash({first}:*)",)
