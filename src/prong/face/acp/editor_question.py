"""Questions of a session, put to an editor's user, and the answers handed in."""

from __future__ import annotations

from typing import TypeAlias

import anyio
import anyio.abc
import msgspec

from prong.command import Accepted
from prong.event import MAIN, PermissionAsked, QuestionAsked
from prong.face.acp.ask_editor import (
    agreement_params,
    form_answer,
    form_params,
    permission_answer,
    permission_params,
    question_answer,
    question_params,
)
from prong.face.acp.child_update import call_id_of
from prong.face.acp.editor_value import EditorAbility, FormGiven, PermissionGiven
from prong.face.acp.event_update import EventUpdates, open_call
from prong.face.acp.rpc import RpcFailed, RpcPeer
from prong.foreign_json import NOT_JSON
from prong.ids import AgentPath, task_of
from prong.question import Answer
from prong.session import Session

_AskedNow: TypeAlias = PermissionAsked | QuestionAsked


class EditorQuestions:
    """Asks the user of an editor; each question until it is answered or settled."""

    def __init__(
        self, session: Session, peer: RpcPeer, client: EditorAbility, updates: EventUpdates
    ) -> None:
        """Ask on behalf of a session."""
        self._session = session
        self._peer = peer
        self._client = client
        self._updates = updates
        self._open: dict[str, anyio.CancelScope] = {}

    def put(self, agent: AgentPath, asked: _AskedNow, group: anyio.abc.TaskGroup) -> None:
        """Put a question; the answer is handed in when it comes.

        One that was put from the view already, or is settled since, is not put again.
        """
        waits = asked.request_id in self._session.view().questions
        if not waits or asked.request_id in self._open:
            return
        scope = self._open[asked.request_id] = anyio.CancelScope()
        group.start_soon(self._ask, agent, asked, scope)

    def settle(self, request_id: str) -> None:
        """Take a question back that is settled."""
        if (scope := self._open.pop(request_id, None)) is not None:
            scope.cancel()

    def catch_up(self, group: anyio.abc.TaskGroup) -> None:
        """Put what waits and take back what does not, after events were missed."""
        waiting = self._session.view().questions
        for request_id in [one for one in self._open if one not in waiting]:
            self.settle(request_id)
        for one in waiting.values():
            self.put(one.agent, one.asked, group)

    async def agree(self, question: str, call_id: str) -> bool:
        """Ask the user a question of our own."""
        try:
            given = await self._chosen(agreement_params(self._session.id, question, call_id))
        except (RpcFailed, *NOT_JSON):
            return False
        return given.outcome.outcome == "selected" and given.outcome.option_id == "once"

    async def _ask(self, path: AgentPath, asked: _AskedNow, scope: anyio.CancelScope) -> None:
        with scope:
            try:
                answer = await self._answered(path, asked)
            except (RpcFailed, *NOT_JSON) as error:
                why = f"the editor could not ask the user: {error}"
                answer = Answer(asked.request_id, allow=False, text=why)
            outcome = await self._session.send(answer)
            if not isinstance(outcome, Accepted):
                # Rules that cannot be kept, say: what the user did not get is not done.
                text = f"the answer could not be taken: {outcome.why}"
                await self._session.send(Answer(asked.request_id, allow=False, text=text))

    async def _answered(self, path: AgentPath, asked: _AskedNow) -> Answer:
        to, view = self._updates.asking_session(path), self._session.view()
        badge = "" if path == MAIN or self._client.children else f"[{task_of(path)}] "
        if isinstance(asked, PermissionAsked):
            call_id, meta = call_id_of(path, asked.call_id), self._updates.tag(view, path)
            folder = self._updates.folder_of(view, path)
            params = permission_params(to, asked, call_id, badge=badge, folder=folder, meta=meta)
            return permission_answer(asked, (await self._chosen(params)).outcome)
        if self._client.forms:
            form = form_params(to, asked.questions, badge=badge)
            data = await self._peer.request("elicitation/create", form)
            filled = msgspec.json.decode(data, type=FormGiven)
            return form_answer(asked.request_id, asked.questions, filled)
        lines: list[str] = []
        call_id = call_id_of(path, open_call(view, path, "AskUserQuestion") or asked.request_id)
        for question in asked.questions:
            given = await self._chosen(question_params(to, question, call_id, badge=badge))
            lines.append(question_answer(question, given.outcome))
            if not lines[-1]:
                return Answer(asked.request_id, allow=False)
        return Answer(asked.request_id, text="\n".join(lines))

    async def _chosen(self, params: msgspec.Struct) -> PermissionGiven:
        data = await self._peer.request("session/request_permission", params)
        return msgspec.json.decode(data, type=PermissionGiven)
