"""The profile for sandbox-exec of macOS, as text; pure."""

from __future__ import annotations

from prong.host.sandbox.profile import Profile

_TERMINALS = '(regex #"^/dev/(tty|ttys[0-9]+|ptmx|fd/[0-9]+)$")'
_DEVICES = ("/dev/null", "/dev/zero", "/dev/dtracehelper", "/dev/random", "/dev/urandom")


def profile_text(profile: Profile, temp: str = "") -> str:
    """Write a profile in the language of Seatbelt; what is said last counts."""
    lines = ["(version 1)", "(allow default)", "(deny file-write*)"]
    opened = [*profile.writable, *([temp] if temp else [])]
    granted = [f"(subpath {_quoted(path)})" for path in opened]
    granted += [f"(literal {_quoted(path)})" for path in _DEVICES]
    if profile.name != "reading":
        granted.append(_TERMINALS)
    lines.append(f"(allow file-write* {' '.join(granted)})")
    lines += [f"(deny file-write* {_place(path)})" for path in profile.kept]
    # A folder that is put away takes what is kept in it along.
    lines += [f"(deny file-write-unlink (literal {_quoted(path)}))" for path in profile.pinned]
    lines += [f"(deny file-read* file-write* {_hidden(one.regex)})" for one in profile.hidden]
    if not profile.network:
        lines.append("(deny network*)")
    elif not profile.daemons:
        lines.append("(deny network-outbound (remote unix-socket))")
    if not profile.signals:
        lines.append("(deny signal (target others))")
    lines.append("(deny mach-priv* system-privilege)")
    return "\n".join(lines) + "\n"


def _place(path: str) -> str:
    if "*" not in path:
        return f"(subpath {_quoted(path)})"
    body = "".join("[^/]*" if char == "*" else _escaped(char) for char in path)
    return f'(regex #"^{body}(/|$)")'


def _hidden(regex: str) -> str:
    # Seatbelt knows no flags and no groups that are not counted.
    plain = regex.replace("(?:", "(").replace('"', '\\"')
    return f'(regex #"^{plain}$")'


def _escaped(char: str) -> str:
    return f"\\{char}" if char in '.+?()[]{}^$|\\"' else char


def _quoted(path: str) -> str:
    text = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
