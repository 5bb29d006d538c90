"""The protocol's methods, carried out on the sessions that an editor has open."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import anyio
import anyio.abc
import msgspec

from prong.command import Accepted, Branch
from prong.entry import Text
from prong.errors import NoSuchSession, ProngError, UsageError
from prong.face.acp.config_option import command_for
from prong.face.acp.editor_answer import (
    KEY_METHOD,
    ConfigResult,
    ListedSession,
    ListResult,
    Nothing,
)
from prong.face.acp.editor_command import is_command, obey, offered
from prong.face.acp.editor_session import EditorSession, OpenPrompt
from prong.face.acp.editor_value import (
    AuthenticateParams,
    CancelParams,
    ConfigParams,
    EditorAbility,
    EditorServerSpec,
    ListParams,
    ModeParams,
    OpenParams,
    PromptParams,
    SessionParams,
)
from prong.face.acp.prompt_block import must_be_folder, parts_of, server_config
from prong.face.acp.rpc import (
    CANCELLED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    NEEDS_KEY,
    NOT_FOUND,
    UNKNOWN_METHOD,
    RpcFailed,
    RpcId,
    RpcPeer,
    RpcRequest,
)
from prong.face.output import tell
from prong.foreign_json import NOT_JSON
from prong.foreign_number import whole_number
from prong.session import (
    Options,
    SessionInfo,
    find_session,
    list_sessions,
    missing_key,
    open_session,
    unknown_servers,
)
from prong.system.path_form import is_absolute
from prong.system.stop_signal import received, stop_signals

_PAGE = 100
"""Sessions of a list that are sent at once."""

_Method: TypeAlias = Callable[[bytes], Awaitable[msgspec.Struct]]


class _AskedHere(msgspec.Struct, eq=False):
    """A request of the editor that has not been answered."""

    request: RpcRequest
    scope: anyio.CancelScope = msgspec.field(default_factory=anyio.CancelScope)
    prompt: OpenPrompt | None = None
    editor: EditorSession | None = None
    """The session that it prompts, or that it has opened."""


class EditorMethods:
    """Answers the requests of one editor."""

    def __init__(
        self,
        options: Options,
        peer: RpcPeer,
        client: EditorAbility,
        group: anyio.abc.TaskGroup,
    ) -> None:
        """Open sessions with these options; what they do runs in the group."""
        self._options = options
        self._peer = peer
        self._client = client
        self._group = group
        self._sessions: dict[str, EditorSession] = {}
        self._given: dict[str, OpenParams] = {}
        """How the editor has opened each session."""
        self._asked: dict[RpcId, _AskedHere] = {}
        self._fresh: set[EditorSession] = set()
        """Sessions that the editor has not been answered about."""

    async def end_on_signal(self, work: anyio.CancelScope) -> None:
        """End everything in order when the system asks for it; asked again, at once."""
        with received(*stop_signals()) as signals:
            async for _ in signals:
                if work.cancel_called:
                    os._exit(130)
                work.cancel()

    async def close(self) -> None:
        """Close all sessions, whatever else ends meanwhile: processes of the user's hang on it."""
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as closing:
                for editor in self._sessions.values():
                    closing.start_soon(_close_at_once, editor)

    async def take(self, request: RpcRequest) -> None:
        """Take a request: what is only told is done now, an answer may come later."""
        match request.method:
            case "session/cancel":
                await self._told(request, self._cancel)
            case "$/cancel_request":
                await self._told(request, self._cancel_request)
            case _ if not request.answered:
                return
            case _:
                asked = self._asked[request.id] = _AskedHere(request)
                self._note_prompt(asked)
                self._group.start_soon(self._answer, asked)

    async def _told(self, request: RpcRequest, do: Callable[[bytes], Awaitable[None]]) -> None:
        """Do what was told; what is wrong with it nobody can be answered."""
        try:
            await do(request.params)
        except (*NOT_JSON, ProngError, RpcFailed) as error:
            tell(f"{request.method}: {error}")

    def _note_prompt(self, asked: _AskedHere) -> None:
        """Take note of a prompt now: a cancel may follow it closely."""
        if asked.request.method != "session/prompt":
            return
        try:
            named = msgspec.json.decode(asked.request.params, type=SessionParams)
        except NOT_JSON:
            return
        if (editor := self._sessions.get(named.session_id)) is not None:
            asked.editor, asked.prompt = editor, editor.prompted()

    async def _answer(self, asked: _AskedHere) -> None:
        request = asked.request
        with asked.scope:
            try:
                result = await self._carry_out(asked)
                await self._peer.respond(request, result)
            except RpcFailed as error:
                await self._peer.fail(request, error.code, str(error))
            except NOT_JSON as error:
                await self._peer.fail(request, INVALID_PARAMS, f"{request.method}: {error}")
            except ProngError as error:
                await self._peer.fail(request, _code_of(error), str(error))
            except Exception as error:  # noqa: BLE001 - one request fails, the editor goes on
                traceback.print_exc()
                await self._peer.fail(request, INTERNAL_ERROR, f"a failure inside Prong: {error!r}")
            finally:
                self._asked.pop(request.id, None)
                if asked.prompt is not None and asked.editor is not None:
                    asked.editor.forget(asked.prompt)
        if asked.scope.cancelled_caught:
            await self._peer.fail(request, CANCELLED, "cancelled")
        if asked.prompt is None and asked.editor is not None:
            self._introduce(asked.editor)

    def _introduce(self, editor: EditorSession) -> None:
        """Go on with a session that the editor knows now; before, it would drop what it is told."""
        if editor in self._fresh:
            self._fresh.remove(editor)
            self._group.start_soon(editor.follow)
        self._group.start_soon(editor.begin, offered(editor.session))

    async def _carry_out(self, asked: _AskedHere) -> msgspec.Struct:
        method, params = asked.request.method, asked.request.params
        match method:
            case "session/new" | "session/load" | "session/resume" | "session/fork":
                wanted = msgspec.json.decode(params, type=OpenParams)
                return await self._open(asked, method.removeprefix("session/"), wanted)
            case "session/prompt":
                return await self._prompt(asked, msgspec.json.decode(params, type=PromptParams))
            case _:
                methods: dict[str, _Method] = {
                    "authenticate": self._authenticate,
                    "session/list": self._list,
                    "session/close": self._close,
                    "session/set_mode": self._set_mode,
                    "session/set_config_option": self._set_option,
                }
                if method == "initialize":
                    raise RpcFailed(INVALID_REQUEST, "initialize has been answered")
                if method not in methods:
                    raise RpcFailed(UNKNOWN_METHOD, f"there is no method {method!r}")
                return await methods[method](params)

    async def _authenticate(self, params: bytes) -> msgspec.Struct:
        chosen = msgspec.json.decode(params, type=AuthenticateParams)
        if chosen.method_id != KEY_METHOD:
            raise RpcFailed(INVALID_PARAMS, f"there is no way {chosen.method_id!r} to authenticate")
        if why := missing_key(self._options):
            raise RpcFailed(NEEDS_KEY, why)
        return Nothing()

    async def _open(self, asked: _AskedHere, how: str, wanted: OpenParams) -> msgspec.Struct:
        """Open a session: a new one, a stored one, or a copy; or show one that is open."""
        if wanted.system_prompt is not None:
            raise RpcFailed(INVALID_PARAMS, "systemPrompt is not supported: use --system-prompt")
        if how == "load" and ":" in wanted.session_id:
            return await self._load_child(wanted.session_id)
        cwd = must_be_folder(wanted.cwd)
        known = self._sessions.get(wanted.session_id) if how != "new" else None
        if how != "new":
            info = None if known is not None else _stored(wanted.session_id)
            self._must_fit(wanted, cwd, known.session.view().cwd if known else _cwd_of(info))
        if how == "fork":
            editor = await self._fork(wanted, cwd, known)
        elif known is not None:
            editor = known
            await self._tell_kept(editor, wanted)
        else:
            editor = await self._opened(wanted, cwd, resume=wanted.session_id or None)
        asked.editor = editor
        if how == "load":
            await editor.replay()
        return editor.opened(named=how in {"new", "fork"})

    def _must_fit(self, wanted: OpenParams, cwd: str, before: str) -> None:
        """Refuse another folder: what the conversation says of files would mean others."""
        if cwd != before:
            raise RpcFailed(
                INVALID_PARAMS,
                f"session {wanted.session_id} belongs to {before}, and goes on only there",
            )

    async def _tell_kept(self, editor: EditorSession, wanted: OpenParams) -> None:
        """Say that a session which is open goes on with the folders and servers that it has."""
        given = self._given[editor.session.id]
        folders = {*(given.additional_directories or ())} != {
            *(wanted.additional_directories or ())
        }
        servers = {*_servers_of(given)} != {*_servers_of(wanted)}
        if wanted.mcp_servers is not None and (folders or servers):
            told = "this session is open already, and goes on with the folders and servers it has"
            await editor.tell(f"{told}; close it first to load it with others", "warning")

    async def _fork(
        self, wanted: OpenParams, cwd: str, source: EditorSession | None
    ) -> EditorSession:
        """Copy a session: the copy has the same bytes, so that it reads the same cache."""
        had = _servers_of(self._given.get(wanted.session_id))
        servers = had if wanted.mcp_servers is None else wanted.mcp_servers
        strange = [one.name for one in servers if one not in had]
        if source is not None and {*servers} != {*had}:
            strange = strange or [one.name for one in had if one not in servers]
        elif source is None:
            strange = unknown_servers(wanted.session_id, [one.name for one in servers])
        if strange:
            raise RpcFailed(
                INVALID_PARAMS,
                f"other MCP servers ({', '.join(strange)}) are other tools, and with other tools a "
                "copy could not read what is cached; fork with the servers that the session has",
            )
        wanted = msgspec.structs.replace(wanted, mcp_servers=tuple(servers))
        if source is None:
            return await self._opened(wanted, cwd, resume=wanted.session_id, copy=True)
        outcome = await source.session.send(Branch())
        if not isinstance(outcome, Accepted):
            raise RpcFailed(INVALID_REQUEST, outcome.why)
        return await self._opened(wanted, cwd, resume=outcome.ids[0])

    async def _opened(
        self, wanted: OpenParams, cwd: str, *, resume: str | None, copy: bool = False
    ) -> EditorSession:
        """Open a session with what the editor gives to it."""
        options, servers = self._options, wanted.mcp_servers or ()
        folders = [must_be_folder(one) for one in wanted.additional_directories or ()]
        config = (server_config(servers),) if servers else ()
        options = msgspec.structs.replace(
            options,
            cwd=cwd,
            resume=resume,
            fork_session=copy,
            add_dirs=(*options.add_dirs, *folders),
            mcp_config=(*options.mcp_config, *config),
        )
        if resume is not None:
            # It goes on with the model that it had; another is the user's choice, later.
            options = msgspec.structs.replace(options, model=None, api=None, base_url=None)
        try:
            session = await open_session(options, attended=True)
        except ProngError as error:
            if isinstance(error, NoSuchSession) or not (why := missing_key(options)):
                raise
            raise RpcFailed(NEEDS_KEY, why) from error
        editor = EditorSession(session, self._peer, self._client)
        self._sessions[session.id] = editor
        self._given[session.id] = wanted
        self._fresh.add(editor)
        return editor

    async def _load_child(self, child: str) -> msgspec.Struct:
        editor, path = self._child(child)
        await editor.replay(path)
        return editor.opened(named=False)

    def _child(self, session_id: str) -> tuple[EditorSession, str]:
        """Find a child by the id of its session."""
        above, _, path = session_id.partition(":")
        editor = self._session(above)
        if path not in editor.session.view().agents:
            raise RpcFailed(NOT_FOUND, f"there is no session {session_id!r}")
        return editor, path

    def _session(self, session_id: str) -> EditorSession:
        editor = self._sessions.get(session_id)
        if editor is None:
            raise RpcFailed(NOT_FOUND, f"no session {session_id!r} is open; load it first")
        return editor

    async def _prompt(self, asked: _AskedHere, wanted: PromptParams) -> msgspec.Struct:
        if asked.editor is None or asked.prompt is None:
            if ":" in wanted.session_id and self._child(wanted.session_id):
                why = "a child takes no prompt from the editor; /tell ID TEXT in its session does"
                raise RpcFailed(INVALID_PARAMS, why)
            self._session(wanted.session_id)
            raise AssertionError(wanted.session_id)
        parts = parts_of(wanted.prompt)
        first = parts[0] if parts else None
        if isinstance(first, Text) and is_command(asked.editor.session, first.text):
            text = "\n".join(one.text for one in parts if isinstance(one, Text))
            return await obey(asked.editor, asked.prompt, text)
        return await asked.editor.prompt(asked.prompt, parts)

    async def _cancel(self, params: bytes) -> None:
        session_id = msgspec.json.decode(params, type=SessionParams).session_id
        if ":" in session_id:
            # To stop a process takes a moment, in which the editor must be heard.
            self._group.start_soon(self._child(session_id)[0].stop_child, session_id)
        else:
            await self._session(session_id).cancel()

    async def _cancel_request(self, params: bytes) -> None:
        asked = self._asked.get(msgspec.json.decode(params, type=CancelParams).request_id)
        if asked is None:
            return
        if asked.prompt is not None and asked.editor is not None:
            await asked.editor.cancel(asked.prompt)
        else:
            asked.scope.cancel()

    async def _list(self, params: bytes) -> msgspec.Struct:
        wanted = msgspec.json.decode(params, type=ListParams)
        cursor = wanted.cursor or "0"
        start = whole_number(cursor)
        if start is None:
            raise RpcFailed(INVALID_PARAMS, f"there is no page {cursor!r}")
        if wanted.cwd is not None and (not is_absolute(wanted.cwd) or "\0" in wanted.cwd):
            raise RpcFailed(INVALID_PARAMS, f"{wanted.cwd!r} is no absolute path of a folder")
        found = list_sessions(everywhere=wanted.cwd is None, cwd=wanted.cwd or ".")
        page = found[start : start + _PAGE]
        more = len(found) > start + _PAGE
        return ListResult(
            sessions=tuple(_listed(info) for info in page if info.cwd),
            next_cursor=str(start + _PAGE) if more else msgspec.UNSET,
        )

    async def _close(self, params: bytes) -> msgspec.Struct:
        session_id = msgspec.json.decode(params, type=SessionParams).session_id
        editor = self._session(session_id)
        del self._sessions[session_id]
        await editor.close(keep_notes=True)
        return Nothing()

    async def _set_mode(self, params: bytes) -> msgspec.Struct:
        wanted = msgspec.json.decode(params, type=ModeParams)
        await self._choose(wanted.session_id, "mode", wanted.mode_id)
        return Nothing()

    async def _set_option(self, params: bytes) -> msgspec.Struct:
        wanted = msgspec.json.decode(params, type=ConfigParams)
        if not isinstance(wanted.value, str):
            raise RpcFailed(INVALID_PARAMS, f"the option {wanted.config_id!r} is no yes or no")
        editor = await self._choose(wanted.session_id, wanted.config_id, wanted.value)
        return ConfigResult(config_options=editor.options())

    async def _choose(self, session_id: str, option: str, value: str) -> EditorSession:
        editor = self._session(session_id)
        if not any(one.id == option and one.current_value == value for one in editor.options()):
            await editor.choose(command_for(option, value))
        return editor


async def _close_at_once(editor: EditorSession) -> None:
    await editor.close(keep_notes=False)


def _stored(session_id: str) -> SessionInfo:
    """Find a stored session by its whole id.

    Raises RpcFailed if there is none.
    """
    try:
        info = find_session(session_id)
    except ProngError as error:
        raise RpcFailed(NOT_FOUND, str(error)) from error
    if info.id != session_id:
        raise RpcFailed(NOT_FOUND, f"there is no session {session_id!r}")
    return info


def _servers_of(given: OpenParams | None) -> tuple[EditorServerSpec, ...]:
    return () if given is None else given.mcp_servers or ()


def _cwd_of(info: SessionInfo | None) -> str:
    return "" if info is None else info.cwd


def _listed(info: SessionInfo) -> ListedSession:
    return ListedSession(
        session_id=info.id,
        cwd=info.cwd,
        title=info.title,
        updated_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(info.modified)),
    )


def _code_of(error: ProngError) -> int:
    if isinstance(error, NoSuchSession):
        return NOT_FOUND
    return INVALID_PARAMS if isinstance(error, UsageError) else INTERNAL_ERROR
