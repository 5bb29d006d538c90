"""Acting in a session from another process: who is let in, and what each order leads to."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from prong.command import Accepted, Interrupt, Outcome, Refused, Say, Stop, Tell
from prong.entry import Image
from prong.errors import NotPossibleNow, OutcomeUnknown
from prong.event import CommandTaken, ControlChanged, InputTaken, MessageQueued
from prong.mail.socket_folder import socket_paths
from prong.question import Answer
from prong.session import control_socket
from prong.session.control_client import ControlLink, act_in
from prong.testing import Worlds, call, forks, report, say
from prong.testing.scene import World
from shared.sandbox import views
from shared.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.spec("X3")]

ASKS = call("Bash", {"command": "touch made"})


async def decide(w: World, *, allow: bool) -> str:
    """Decide on the request that comes next, as the session's face would; gives its code."""
    with anyio.fail_after(50):
        request = await w.session.records.control.next_request()
        request.settle(allow=allow)
    return request.code


@asynccontextmanager
async def admitted(w: World) -> AsyncGenerator[ControlLink]:
    """Be let in by the session's user."""
    w.session.records.control.open()
    await reachable(w)
    async with act_in(w.parts.journal.path) as link:
        await decide(w, allow=True)
        await link.wait_admitted()
        yield link


async def reachable(w: World) -> Path:
    """Wait until somebody listens, and give where; whoever says nothing is put before nobody."""
    with anyio.fail_after(50):
        while True:
            for path in socket_paths(w.parts.journal.path, "main", "control"):
                with suppress(OSError):
                    await (await anyio.connect_unix(path)).aclose()
                    return path
            await anyio.sleep(0.005)


async def test_nobody_is_let_in_unasked(world: Worlds) -> None:
    """A session that was never opened to others cannot be reached; one that was asks its user."""
    async with world([say("One.")]) as w:
        assert w.session.records.control.state == "closed"
        with pytest.raises(NotPossibleNow, match="--allow-actions"):
            async with act_in(w.parts.journal.path):
                pass
        w.session.records.control.open()
        await reachable(w)
        async with act_in(w.parts.journal.path) as link:
            early = await link.send(Say("too early"))
            assert isinstance(early, Refused)
            assert await decide(w, allow=True) == link.code
            await link.wait_admitted()
            done = await link.send(Say("Hello"))
            assert isinstance(done, Accepted)
            await w.session.wait_settled()
        await until(lambda: len(w.told(ControlChanged)) == 2)
        assert [one.acts for one in w.told(ControlChanged)] == [True, False]
        (taken,) = w.told(CommandTaken)
        assert taken.command == "say"
        assert [one.text for one in w.told(InputTaken)] == ["Hello"]
        journal = w.parts.journal.path
    with pytest.raises(NotPossibleNow, match="prong --resume"):
        async with act_in(journal):
            pass


async def test_a_session_that_was_opened_to_others_can_be_reached_at_once(world: Worlds) -> None:
    """Where actions are allowed somebody listens when the session has opened, not some time later."""
    async with world([], allow_actions=True) as w, act_in(w.parts.journal.path) as link:
        await link.wait_admitted()


async def test_what_waits_is_not_said_any_more_once_all_were_sent_away(world: Worlds) -> None:
    """An order whose turn comes after `/web act off` is not carried out."""
    async with world([], allow_actions=True) as w, anyio.create_task_group() as group:
        control = w.session.records.control

        async def say_it() -> None:
            with suppress(OutcomeUnknown):
                async with act_in(w.parts.journal.path) as link:
                    await link.wait_admitted()
                    await link.send(Say("Too late."))

        async with control.speaking:
            group.start_soon(say_it)
            await until(lambda: control.speaking.statistics().tasks_waiting == 1)
            control.close()
        await until(lambda: not control.speaking.locked())
        assert w.told(InputTaken) == []


async def test_a_no_ends_the_asking(world: Worlds) -> None:
    """After a no nobody else is put before the user, until the user opens it again."""
    async with world([]) as w:
        w.session.records.control.open()
        await reachable(w)
        async with act_in(w.parts.journal.path) as link:
            await decide(w, allow=False)
            with pytest.raises(NotPossibleNow, match="/web act"):
                await link.wait_admitted()
            assert link.state == "refused"
            assert isinstance(await link.send(Say("all the same")), Refused)
        async with act_in(w.parts.journal.path) as link:
            with pytest.raises(NotPossibleNow, match="/web act"):
                await link.wait_admitted()
        async with admitted(w) as link:
            assert link.state == "admitted"
        assert not w.server.records


@pytest.mark.parametrize("closed", [True, False])
async def test_a_no_is_for_all_who_wait(world: Worlds, *, closed: bool) -> None:
    """Whoever asks beside the one that was refused is sent away too, and so by closing."""
    async with world([]) as w:
        control = w.session.records.control
        control.open()
        await reachable(w)
        journal = w.parts.journal.path
        async with act_in(journal) as one, act_in(journal) as two:
            await until(lambda: len(control.waiting) == 2)
            assert await control.next_request() is control.waiting[0]
            if closed:
                control.close()
            else:
                await decide(w, allow=False)
            for link in (one, two):
                with anyio.fail_after(50), pytest.raises(NotPossibleNow):
                    await link.wait_admitted()
        assert control.waiting == ()


@pytest.mark.parametrize("promised", [True, False])
async def test_a_session_that_cannot_be_reached_says_so(
    world: Worlds, monkeypatch: Any, *, promised: bool
) -> None:
    """Who was promised that pages may act is told if there can be no socket; others see it noted."""

    def refuse(*_: object) -> Path:
        raise NotPossibleNow("there is no folder for sockets")

    monkeypatch.setattr(control_socket, "new_socket_path", refuse)
    async with world([], allow_actions=promised) as w:
        control = w.session.records.control
        if not promised:
            control.open()
        await until(lambda: "no folder for sockets" in control.fault)
        told = [one for one in w.warnings if "nobody can act in this session" in one]
        assert len(told) == promised


async def test_a_no_holds_for_who_does_not_heed_it(world: Worlds) -> None:
    """The session's own side hangs up on who was refused, or came after a no, whatever it sends."""
    order = b'{"id": "a", "command": {"type": "say", "text": "all the same"}}\n'
    async with world([say("never")]) as w:
        w.session.records.control.open()
        path = await reachable(w)
        for asks in (True, False):
            async with await anyio.connect_unix(path) as stream:
                await stream.send(b'{"code": "4711"}\n')
                if asks:
                    await decide(w, allow=False)
                assert b"/web act" in await stream.receive()
                with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                    await stream.send(order)
                    assert await stream.receive() == b""
        assert not w.told(ControlChanged)
        assert not w.told(InputTaken)


async def test_who_says_nothing_is_hung_up_on(world: Worlds, monkeypatch: Any) -> None:
    """A connection without a first line does not stay."""
    monkeypatch.setattr(control_socket, "_PATIENCE", 0.05)
    async with world([]) as w:
        w.session.records.control.open()
        async with await anyio.connect_unix(await reachable(w)) as stream:
            with anyio.fail_after(50), pytest.raises(anyio.EndOfStream):
                await stream.receive()


async def test_who_goes_away_is_not_asked_about(world: Worlds) -> None:
    """A request is withdrawn with its process; a late yes lets nobody in."""
    async with world([]) as w:
        w.session.records.control.open()
        await reachable(w)
        async with act_in(w.parts.journal.path):
            request = await w.session.records.control.next_request()
        with anyio.fail_after(50):
            await request.wait_settled()
        request.settle(allow=True)
        assert (request.allowed, request.gone) == (None, True)
        assert w.session.records.control.waiting == ()
        async with admitted(w):
            assert len(w.session.records.control.admitted) == 1


async def test_an_answer_counts_once_and_for_what_was_seen(world: Worlds) -> None:
    """The number of the question, its id and that it waits: each is enough to be refused."""
    script = [ASKS, ASKS, say("Done.")]
    async with world(script, attended=True) as w, admitted(w) as link:
        await link.send(Say("Go"))
        await until(lambda: w.session.view().questions)
        (asked,) = w.session.view().questions.values()
        name = asked.asked.request_id
        for wrong in ((name, asked.seq - 1), (name, 0), ("ask-99", asked.seq), ("", 0)):
            outcome = await link.send(Answer(wrong[0]), asked=wrong[1])
            assert isinstance(outcome, Refused), wrong
        assert w.session.view().questions
        outcomes: list[Outcome] = []

        async def answer() -> None:
            outcomes.append(await link.send(Answer(name), asked=asked.seq))

        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(answer)
        assert sorted(type(one).__name__ for one in outcomes) == ["Accepted", "Refused"]
        await until(lambda: asked.asked.request_id not in w.session.view().questions)
        await until(lambda: w.session.view().questions)
        (second,) = w.session.view().questions.values()
        refused = Answer(second.asked.request_id, allow=False, text="not twice")
        assert isinstance(await link.send(refused, asked=second.seq), Accepted)
        await w.session.wait_settled()
        assert [one.target for one in w.told(CommandTaken)] == ["", "ask-1 yes", "ask-2 no"]
        assert (w.root / "made").exists()
        assert "not twice" in w.server.records[-1].request.last_text


async def test_an_order_is_carried_out_once(world: Worlds) -> None:
    """The same order sent again, by the same or another connection, has the same outcome."""
    async with world([say("One."), say("Two.")]) as w:
        async with admitted(w) as link:
            first = await link.send(Say("Hello"), order="a")
            assert await link.send(Say("Hello"), order="a") == first
        async with admitted(w) as link:
            assert await link.send(Say("Hello"), order="a") == first
            await w.session.wait_settled()
            assert [one.text for one in w.told(InputTaken)] == ["Hello"]
            picture = await link.send(Say(parts=(Image("image/png", "eA=="),)))
            assert picture == Refused("from outside only text can be said")
            assert isinstance(await link.send(Interrupt()), Refused)
            assert isinstance(await link.send(Stop("a9")), Refused)
            assert isinstance(await link.send(Say("x" * 300_000)), Refused)
            assert link.state == "admitted"
            assert not link._waiting, "what is known is not kept"


async def test_what_was_begun_is_done_whoever_hangs_up(world: Worlds) -> None:
    """A message that a hook still looks at is said, though its sender has gone meanwhile."""
    waits = "touch begun; while ! test -e go; do sleep 0.02; done"
    hooks = {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": waits}]}]}
    async with world([say("One.")], settings={"hooks": hooks}) as w:
        async with admitted(w) as link, anyio.create_task_group() as group:
            group.start_soon(link.send, Say("Hello"))
            await until((w.root / "begun").exists)
            group.cancel_scope.cancel()
        await until(lambda: not w.session.records.control.admitted)
        (w.root / "go").touch()
        await until(lambda: w.told(InputTaken))
        await w.session.wait_settled()
        assert [one.text for one in w.told(InputTaken)] == ["Hello"]
        assert len(w.told(CommandTaken)) == 1


async def test_who_does_not_listen_is_told_all_the_same(world: Worlds) -> None:
    """Of more outcomes than the way holds at once each comes whole, once somebody reads."""
    order = b'{"id": "%d", "command": {"type": "interrupt"}}\n'
    async with world([], allow_actions=True) as w:
        async with await anyio.connect_unix(await reachable(w)) as stream:
            lines = BufferedByteReceiveStream(stream)
            await stream.send(b'{"code": "4711"}\n')
            assert await lines.receive_until(b"\n", 100) == b'{"why":""}'
            for number in range(600):
                await stream.send(order % number)
            await until(lambda: len(w.session.records.control._orders) == 600)
            told = [json.loads(await lines.receive_until(b"\n", 1_000)) for _ in range(600)]
        assert {one["id"] for one in told} == set(map(str, range(600)))
        assert {one["outcome"]["type"] for one in told} == {"refused"}


async def test_a_message_steers_the_turn_that_runs(world: Worlds) -> None:
    """Said while a turn runs it joins at the next boundary, and no request loses its prefix."""
    steps = [call("Bash", {"command": "while ! test -e go; do sleep 0.02; done"}), say("Steered.")]
    async with world(steps, mode="bypassPermissions") as w, admitted(w) as link:
        await link.send(Say("Go"))
        await until(lambda: len(w.server.records) == 1)
        waits = await link.send(Say("And be quick"))
        assert isinstance(waits, Accepted)
        assert waits.ids
        (w.root / "go").touch()
        await w.session.wait_settled()
        assert len(w.told(MessageQueued)) == 1
        assert "And be quick" in w.server.records[1].request.last_text


async def test_agents_are_told_and_stopped(world: Worlds) -> None:
    """A fork takes a message, is stopped, and so is the turn."""
    loops = call("Bash", {"command": "while ! test -e go; do sleep 0.02; done"})
    from prong.testing import Script

    script = Script(
        [forks("One."), loops, say("ok")], {"One.": [loops, report("x")]}, forever=loops
    )
    async with world(script, mode="bypassPermissions") as w, admitted(w) as link:
        await link.send(Say("Go"))
        await until(lambda: len(w.server.records) == 3)
        (fork,) = [one for one in w.session.view().agents.values() if one.kind == "fork"]
        assert isinstance(await link.send(Tell(fork.task_id, "look left")), Accepted)
        assert isinstance(await link.send(Stop(fork.task_id)), Accepted)
        await until(lambda: w.session.view().agents[fork.path].ended == "killed")
        assert isinstance(await link.send(Interrupt()), Accepted)
        await until(lambda: not w.session.view().busy)
        names = [one.command for one in w.told(CommandTaken)]
        assert names == ["say", "tell", "stop", "interrupt"]


async def test_the_user_sends_everybody_away(world: Worlds) -> None:
    """Who acts is cut off when the user closes the way, and learns it."""
    async with world([]) as w, admitted(w) as link:
        assert w.session.records.control.close() == 1
        with anyio.fail_after(50):
            await link.wait_ended()
        assert link.state == "lost"
        assert isinstance(await link.send(Say("still here")), Refused)
        async with act_in(w.parts.journal.path) as other:
            with pytest.raises(NotPossibleNow, match="any more"):
                await other.wait_admitted()


async def test_a_session_without_a_face_lets_in_by_its_option(world: Worlds) -> None:
    """With allow_actions nobody is asked; questions wait while somebody is there to answer."""
    async with world([ASKS, ASKS, say("Done.")], allow_actions=True) as w:
        await reachable(w)
        async with act_in(w.parts.journal.path) as link:
            await link.wait_admitted()
            await link.send(Say("Go"))
            await until(lambda: w.session.view().questions)
            (asked,) = w.session.view().questions.values()
            await link.send(Answer(asked.asked.request_id), asked=asked.seq)
            await until((w.root / "made").exists)
            await until(lambda: w.session.view().questions)
        # Nobody is there any more: what waits is refused, and the turn goes on.
        await w.session.wait_settled()
        assert w.session.last is not None
        assert w.session.last.text == "Done."


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"{}\n",
        b'{"code": "47111"}\n',
        b'{"code": "\\u0664\\u0667\\u0661\\u0661"}\n',
        b'{"code": "4711", "pid": 1}\n',
        b"x" * 10_000,
        b'{"code": "4711", "x": ' + b"[" * 150 + b"\n",
        b'{"code": "\xff"}\n',
        b'{"\xff": 1}\n',
        b'{"code": "4711"}\n{"id": "a", "command": {"type": "interrupt"}}\n',
    ],
)
async def test_what_is_no_request_is_hung_up_on(world: Worlds, line: bytes) -> None:
    """Other first lines, and who does not wait for the answer, are put before nobody."""
    async with world([]) as w:
        w.session.records.control.open()
        path = await reachable(w)
        assert path.stat().st_mode & 0o077 == 0
        assert path.parent.stat().st_mode & 0o077 == 0
        async with await anyio.connect_unix(path) as stream:
            await stream.send(line)
            with anyio.fail_after(50):
                told = b""
                with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                    while True:
                        told += await stream.receive()
            assert told in (b"", b'{"why":"it did not wait for an answer"}\n')
        assert w.session.records.control.admitted == {}
        assert w.session.records.control.waiting == ()


@pytest.mark.parametrize(
    "line",
    [
        b"no JSON\n",
        b'{"id": "a", "command": {"type": "run_shell", "line": "touch bad"}}\n',
        b'{"id": "a", "command": {"type": "set_mode", "mode": "bypassPermissions"}}\n',
        b'{"id": "a", "command": {"type": "say", "text": "x"}, "more": 1}\n',
        b'{"id": "a", "command": {"type": "interrupt", "x": ' + b"[" * 9_000 + b"\n",
        b'{"id": "a", "command": {"type": "say", "text": "\xff"}}\n',
        b"x" * 300_000,
    ],
)
async def test_what_is_no_order_ends_the_connection(world: Worlds, line: bytes) -> None:
    """Commands that are not for others, unknown fields and endless lines are not read on."""
    async with world([]) as w, admitted(w) as link:
        # It may hang up before it has all of it.
        with suppress(anyio.BrokenResourceError):
            await link._stream.send(line)
        await until(lambda: link.state == "lost")
        await until(lambda: not w.session.records.control.admitted)
        assert w.session.mode == "default"
        assert not w.server.records


async def test_the_full_screen_asks(world: Worlds) -> None:
    """The question is put with pid and code, and goes again with who asked; a key answers it."""
    pytest.importorskip("textual")
    from shared.fullscreen import opened

    async with world([say("One.")], attended=True) as w, opened(w.session) as hands:
        w.session.records.control.open()
        await reachable(w)
        async with act_in(w.parts.journal.path) as link:
            await hands.see(f"code {link.code}: let it act here?")
        await hands.see("has gone", without="let it act here?")
        async with act_in(w.parts.journal.path) as link:
            await hands.see(f"code {link.code}: let it act here?")
            await hands.press("y")
            await link.wait_admitted()
            await hands.see("may act in this session")
            await link.send(Say("Hello from elsewhere"))
            await hands.see("Hello from elsewhere", "One.")
            await hands.type("/web act")
            await hands.see(f"(code {link.code}) acts here")
            await hands.type("/web act off")
            await until(lambda: link.state == "lost")


@views
async def test_a_sandboxed_command_cannot_ask(world: Worlds) -> None:
    """A program that an agent runs does not even find the socket of its own session."""
    probe = "import socket, sys\nprint(socket.socket(socket.AF_UNIX).connect_ex(sys.argv[1]))\n"
    async with world(
        [call("Bash", {"command": "python3 probe.py $(cat where)"}), say("Done.")],
        files={"probe.py": probe},
        allow_actions=True,
        mode="bypassPermissions",
    ) as w:
        path = await reachable(w)
        w.write("where", str(path))
        await w.session.run("Go")
        told = w.server.records[-1].request.last_text
        assert told.strip() in {"2", "13", "111"}, told
        assert not w.told(ControlChanged)


async def test_questions_wait_while_anybody_is_left(world: Worlds) -> None:
    """Of two that act, whichever goes last takes the answers along; the first does not."""
    async with world([ASKS, say("Done.")], allow_actions=True) as w:
        await reachable(w)
        async with act_in(w.parts.journal.path) as second:
            async with act_in(w.parts.journal.path) as first:
                await first.wait_admitted()
                await second.wait_admitted()
                await second.send(Say("Go"))
                await until(lambda: w.session.view().questions)
            await until(lambda: len(w.session.records.control.admitted) == 1)
            assert w.session.view().questions
        await w.session.wait_settled()
        assert w.session.last is not None
        assert w.session.last.text == "Done."
        assert not (w.root / "made").exists()


async def test_messages_keep_their_order(world: Worlds) -> None:
    """A hook that takes long for the first message does not let the second overtake it."""
    slow = "grep -q slow && sleep 0.3; exit 0"
    hooks = {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": slow}]}]}
    script = [say("One."), say("Two."), say("Three.")]
    async with world(script, settings={"hooks": hooks}) as w, admitted(w) as link:
        async with anyio.create_task_group() as group:
            group.start_soon(link.send, Say("a slow one"))
            await anyio.lowlevel.checkpoint()
            group.start_soon(link.send, Say("a quick one"))
        await w.session.wait_settled()
        assert [one.text for one in w.told(InputTaken)] == ["a slow one", "a quick one"]
