"""One run of an agent in a worker: the agent, and what it stands on in that process."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import anyio.abc
import msgspec

from prong.agent import (
    Agent,
    Conversation,
    Life,
    ModelClient,
    OpenQuestions,
    RunState,
    Sent,
    Turn,
    TurnLimits,
)
from prong.cost import Billing, Ledger, Prices
from prong.cost.budget import Budget
from prong.entry import User
from prong.errors import WorkerFailed
from prong.host import Host, make_private
from prong.host.lease import RunLease
from prong.host.remote_workspace import RemoteWorkspace
from prong.prompt import Node, Prompt
from prong.provider import Api, Http, Secrets
from prong.session.port import (
    HomeGroup,
    HomeTool,
    Port,
    PortGate,
    PortHooks,
    PortObserver,
    Relay,
    keep_lease,
    may_end,
)
from prong.team.delivery import Delivery
from prong.team.isolation import nobody
from prong.team.message import (
    AskAnswered,
    Begin,
    Deliver,
    EndNow,
    Over,
    RulesSet,
    RunKeys,
    Taken,
    read_down,
)
from prong.team.outbox import Outbox
from prong.team.recovery import recover
from prong.team.run import (
    RunSpec,
    Waiting,
)
from prong.team.task import TaskBoard
from prong.team.taskset import TaskSet
from prong.tools.kit import Kit
from prong.tools.policy_box import PolicyBox
from prong.tools.tool import Context, Reads, Tool
from prong.wire import dialect


async def serve_run(
    begin: Begin, prompt: Prompt, frames: AsyncGenerator[bytes, None], port: Port
) -> None:
    """Run an agent from a prompt until its session says that it is over, or to end.

    Raises WorkerFailed if the session says what it may not, or a later run has begun.
    """
    spec, keys = begin.spec, begin.keys
    async with (
        _claimed(spec) as lease,
        Http(env=keys.env, limits=spec.model.limits) as http,
        anyio.create_task_group() as group,
    ):
        worker = _Worker(port.leased(lease), keys, spec, prompt, http, group)
        if lease is not None:
            group.start_soon(keep_lease, lease)
        group.start_soon(_obey, frames, worker, group.cancel_scope)
        try:
            await worker.live()
        finally:
            with anyio.CancelScope(shield=True):
                await worker.close()
        group.cancel_scope.cancel()


@asynccontextmanager
async def _claimed(spec: RunSpec) -> AsyncGenerator[RunLease | None, None]:
    """Hold a workspace of this machine for this run, once nobody else works in it.

    Raises NotPossibleNow if a later run has it, or an earlier one does not end.
    """
    if (given := spec.remote) is None:
        yield None
        return
    there = RemoteWorkspace(given.folder, spec.place.home, given.shipment)
    lease = there.lease(given.lease)
    lease.take()
    async with there.held():
        yield lease


async def _obey(
    frames: AsyncGenerator[bytes, None], worker: _Worker, scope: anyio.CancelScope
) -> None:
    """Do what the session says until it wants the run to end."""
    async for data in frames:
        match read_down(data):
            case AskAnswered() as answer:
                worker.port.settle(answer)
            case Deliver(waiting=waiting):
                worker.tell(waiting)
            case RulesSet(policy=policy):
                worker.policy.revise(policy)
            case EndNow():
                break
            case _:
                raise WorkerFailed("the session began a second time")
    scope.cancel()


class _Worker:
    """The agent, and what it stands on in this process."""

    def __init__(
        self,
        port: Port,
        keys: RunKeys,
        spec: RunSpec,
        prompt: Prompt,
        http: Http,
        group: anyio.abc.TaskGroup,
    ) -> None:
        self.port = port
        self._host = spec.place.open(spec.beside.storage)
        self._outbox = Outbox(str(Path(_made(spec.beside.scratch), "outbox.jsonl")))
        relay = Relay(port, spec.path, prompt)
        self._board = TaskBoard(
            group=group,
            storage=spec.beside.scratch,
            delivery=Delivery(self._outbox, relay.emit),
            prefix=f"{spec.task_id}-",
        )
        self.agent, self.policy = _agent(
            spec, keys, prompt, relay, port, self._host, self._board, http
        )
        for waiting in spec.inbox:
            self.tell(waiting)

    def tell(self, waiting: Waiting) -> None:
        """Put something before the agent; the session hears when it stands in the conversation."""
        entry: User = waiting.entry
        taken = partial(self.port.say, Taken(number=waiting.number))
        self.agent.inbox.put(entry, taken=taken)

    async def live(self) -> None:
        """Run turns until the session says that one was the last."""
        agent, board = self.agent, self._board
        recover(board, agent.path)
        board.delivery.subscribe(agent.path, agent.inbox)

        async def until(turn: Turn) -> bool:
            return await may_end(self.port, agent, turn)

        await Life(agent).go_on(until=until)
        await board.close()
        self.port.say(Over())

    async def close(self) -> None:
        """End everything that the agent has started."""
        await self._board.close()
        await self._host.close()
        self._outbox.close()


def _made(folder: str) -> str:
    make_private(Path(folder))
    return folder


def _agent(
    spec: RunSpec,
    keys: RunKeys,
    prompt: Prompt,
    relay: Relay,
    port: Port,
    host: Host,
    board: TaskBoard,
    http: Http,
) -> tuple[Agent, PolicyBox]:
    """Make the agent; its policy is the one that the session sends anew when rules change."""
    model, beside, spending, policy = spec.model, spec.beside, spec.spending, PolicyBox(spec.policy)
    endpoint = msgspec.structs.replace(model.endpoint, headers=keys.headers)
    speaks = dialect(endpoint.dialect, explicit=endpoint.explicit)
    budget = Budget(spending.bounds, name=spending.name)
    budget.remember(spending.tokens, spending.usd, spending.turns)
    ahead = spec.ahead
    agent = Agent(
        path=spec.path,
        lineage=spec.lineage,
        conversation=Conversation(
            path=spec.path,
            prompt=prompt,
            recorder=relay,
            emit=relay.emit,
            secrets=Secrets(keys.secrets),
            last=_last(spec, prompt),
            base=None if spec.base is None else _node(prompt, spec.base),
        ),
        client=ModelClient(
            provider=Api(http, endpoint, speaks, patience=model.patience),
            billing=Billing(prices=Prices(spending.prices), ledger=Ledger(), budget=budget),
            settings=model.settings,
            observer=PortObserver(port),
            clock=lambda: time.time() + ahead,
        ),
        kit=_kit(spec, port),
        context=Context(
            host=host,
            reads=Reads(dict(beside.reads), set(beside.unseen)),
            emit=relay.emit,
            ask=nobody,
            tasks=TaskSet(board, spec.path, relay.emit),
            cwd=beside.cwd,
            todos=beside.todos,
            env=beside.env,
            images=beside.images,
            keeps_back=policy.keeps_back,
        ),
        policy=policy,
        hooks=PortHooks(port),
        questions=OpenQuestions(),
        gate=PortGate(port),
        emit=relay.emit,
        run=RunState(limits=TurnLimits(max_turns=spending.max_turns)),
    )
    return agent, policy


def _last(spec: RunSpec, prompt: Prompt) -> Sent:
    last = spec.last
    return Sent(
        node=_node(prompt, last.depth),
        usage=last.usage,
        length=last.length,
        response_id=last.response_id,
        at=last.at,
    )


def _node(prompt: Prompt, depth: int) -> Node | None:
    """Find the node of a depth; None if there is none."""
    nodes = prompt.nodes()
    return nodes[depth - 1] if 0 < depth <= len(nodes) else None


def _kit(spec: RunSpec, port: Port) -> Kit:
    from prong.tools.background import TaskOutput, TaskStop
    from prong.tools.files import Edit, Glob, Grep, NotebookEdit, Read, Write
    from prong.tools.shell import Bash
    from prong.tools.todo import TodoWrite

    own: tuple[Tool, ...] = (
        Bash(),
        Edit(),
        Glob(),
        Grep(),
        NotebookEdit(),
        Read(),
        TaskOutput(),
        TaskStop(),
        TodoWrite(),
        Write(),
    )
    here = {tool.name: tool for tool in own}
    tools: list[Tool] = []
    for row in spec.tools:
        if row.here:
            tools.append(here[row.name])
        else:
            tools.append(HomeGroup(row, port) if row.together else HomeTool(row, port))
    return Kit(tools)
