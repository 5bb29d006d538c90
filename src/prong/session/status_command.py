"""The user's own status line: a command that is told of the session and prints what to show.

It is run under the rules of hooks: of a folder's file only once the folder is trusted, without the
keys of models, and ended when it takes too long. What it prints is somebody else's text.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from prong.about import __version__
from prong.config.value import StatusLineValues
from prong.session.parts import Parts
from prong.system.bash_program import bash_program

_SECONDS = 5.0
_LIMIT = 16_384
"""Bytes of what it prints that are read."""
_MANY = 200_000
_CLAUDE = re.compile(r"(?:.*[./:])?claude-([a-z]+)-([0-9]{1,2})(?:-([0-9]{1,2}))?(?![0-9])")


class StatusText(msgspec.Struct, frozen=True):
    """What a status line shows, as it was printed."""

    text: str = ""
    problem: str = ""
    """Why there is nothing to show, if that is a fault."""


class StatusCommand(msgspec.Struct, frozen=True):
    """Runs the command of the setting `statusLine`."""

    _parts: Parts

    @property
    def _set(self) -> StatusLineValues:
        return self._parts.place.settings.values.status_line

    @property
    def is_set(self) -> bool:
        """Whether there is one."""
        return bool(self._set.command.strip())

    @property
    def padding(self) -> int:
        """How many columns it is set in."""
        return self._set.padding

    @property
    def seconds(self) -> float | None:
        """After how long it is run again though nothing has happened; None for never."""
        return self._set.refresh_interval

    async def run(self, columns: int, lines: int) -> StatusText:
        """Run it for a terminal of that size."""
        hooks = self._parts.hooks
        root = hooks.host.root
        told = self._told()
        if hooks.transcript is not None:
            told["transcript_path"] = str(await hooks.transcript.refresh())
        env = {**hooks.env, "PRONG_PROJECT_DIR": root, "CLAUDE_PROJECT_DIR": root}
        env |= {"COLUMNS": str(columns), "LINES": str(lines)}
        try:
            done = await hooks.host.run(
                [bash_program(), "-c", self._set.command],
                cwd=root,
                env=env,
                stdin=msgspec.json.encode(told),
                seconds=_SECONDS,
                limit=_LIMIT,
            )
        except OSError as error:
            return StatusText(problem=f"could not be started: {error.strerror or error}")
        if done.timed_out:
            return StatusText(problem=f"took longer than {_SECONDS:g} s")
        if done.code:
            return StatusText(problem=f"ended with exit code {done.code}")
        return StatusText(done.output.decode(errors="replace"))

    def _told(self) -> dict[str, Any]:
        """Give what the command reads; what is not known here is left out."""
        parts, view = self._parts, self._parts.bus.view()
        agent, place = parts.agent, parts.place
        spec = agent.conversation.prompt.head.spec
        folders = [
            *place.options.add_dirs,
            *(one.text for one in place.settings.permissions.folders),
        ]
        last = view.main.last
        size = agent.client.window(agent.conversation.prompt.head)
        told: dict[str, Any] = {
            "hook_event_name": "Status",
            "session_id": parts.journal.session,
            "cwd": parts.hooks.host.root,
            "model": {"id": spec.model, "display_name": display_name(spec.model)},
            "workspace": {
                "current_dir": parts.hooks.host.root,
                "project_dir": place.root,
                "added_dirs": list(map(str, folders)),
            },
            "version": __version__,
            "permission_mode": view.mode,
            "output_style": {"name": "default"},
            "cost": {
                "total_cost_usd": view.cost,
                "total_duration_ms": round(1000 * max(0.0, view.at - view.main.started_at)),
            },
            "context_window": {
                "total_input_tokens": last.input,
                "total_output_tokens": last.output,
                "context_window_size": size,
                "used_percentage": None,
                "remaining_percentage": None,
                "current_usage": None,
            },
            "exceeds_200k_tokens": last.input + last.output > _MANY,
            "thinking": {"enabled": bool(spec.thinking)},
        }
        if last.input:
            used = min(100, round(100 * last.input / size)) if size else None
            told["context_window"] |= {
                "used_percentage": used,
                "remaining_percentage": None if used is None else 100 - used,
                "current_usage": {
                    "input_tokens": last.uncached,
                    "output_tokens": last.output,
                    "cache_creation_input_tokens": last.written,
                    "cache_read_input_tokens": last.read,
                },
            }
        if view.title:
            told["session_name"] = view.title
        if spec.effort:
            told["effort"] = {"level": spec.effort}
        if place.acts_as is not None:
            told["agent"] = {"name": place.acts_as.name}
        return told


def display_name(model: str) -> str:
    """Give a model's name for people: `Opus 5.5`; a name that is no such one stays as it is."""
    found = _CLAUDE.match(model)
    if found is None:
        return model
    return f"{found[1].capitalize()} {'.'.join(filter(None, found.groups()[1:]))}"
