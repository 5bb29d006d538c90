"""Hooks in a session: what cannot be honoured, and what changes a call."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio.lowlevel
import pytest

from prong import Answer, PermissionAsked, QuestionAsked
from prong.agent import Verdict
from prong.agent.call_match import CallMatch
from prong.errors import ConfigError
from prong.event import RequestSent, ToolFinished, ToolStarted, Warned
from prong.testing import Worlds, call, calls, inside, say
from prong.tools.rule import Rule, parse_rule

pytestmark = [pytest.mark.anyio, pytest.mark.spec("L11")]


def settings(event: str, *entries: dict[str, Any], matcher: str = "") -> str:
    """Make settings with the hooks of one event."""
    group: dict[str, Any] = {
        "matcher": matcher,
        "hooks": [{"type": "command", **e} for e in entries],
    }
    return json.dumps({"hooks": {event: [group]}}, indent=1)


@pytest.mark.spec("L5")
async def test_text_of_a_model_is_never_run_by_a_hook(world: Worlds) -> None:
    """A guard in exec form runs as it is written, in plan mode too, and stops the call."""
    guard = {"command": "bash", "args": ["-c", "exit 2"]}
    files = {".claude/settings.json": settings("PreToolUse", guard, matcher="Bash|Read")}
    step = call("Read", {"file_path": "x$(touch PWNED)`touch PWNED`"})
    async with world([step, say("I see.")], files=files, trusted=True, mode="plan") as w:
        await w.session.run("Go")
        assert w.told(ToolFinished)[0].refused
        assert not list(w.root.glob("**/PWNED"))


@pytest.mark.parametrize("place", ["~/.claude/settings.json", ".prong/settings.json"])
async def test_a_guard_that_cannot_be_honoured_stops_the_start(world: Worlds, place: str) -> None:
    """No session begins with such a guard; file and line are named, and the line is the key's."""
    entry = {"command": "./guard.sh", "if": "Bash(git"}
    files = {place: settings("PreToolUse", entry)}
    async with world([], files=files, trusted=True, opens=False) as w:
        with pytest.raises(ConfigError, match="'if'") as caught:
            async with w.open():
                pass
        assert caught.value.path.endswith("settings.json")
        text = Path(caught.value.path).read_text().splitlines()
        assert caught.value.line is not None
        assert '"if"' in text[caught.value.line - 1]


async def test_hooks_of_an_untrusted_folder_stop_nothing(world: Worlds) -> None:
    """What is wrong with hooks that would not run anyway is a warning."""
    files = {".claude/settings.json": settings("PreToolUse", {"command": "x", "shell": "zsh"})}
    async with world([say("Hello.")], files=files) as w:
        assert (await w.session.run("Hi")).text == "Hello."
        assert any("'shell'" in warning for warning in w.warnings)


class Meddling:
    """Hooks that say nothing, but let something happen while they are waited for."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act

    def listens(self, event: str) -> bool:
        """Hear of all."""
        del event
        return True

    async def fire(
        self,
        event: str,
        payload: dict[str, Any],
        matcher: str = "",
        call: CallMatch | None = None,
    ) -> Verdict:
        """Wait, and let it happen."""
        del payload, matcher, call
        if event == "PreToolUse":
            await anyio.lowlevel.checkpoint()
            self._act()
        return Verdict()


@pytest.mark.spec("L5")
@pytest.mark.parametrize("what", ["mode", "rule", "link"])
async def test_what_changes_while_hooks_are_waited_for_counts(world: Worlds, what: str) -> None:
    """A mode, a rule or a link that changed meanwhile decides, though no hook has a word to say."""
    files = {"open.txt": "open", "secret.txt": "hidden"}
    step = call("Bash", {"command": "cat link.txt && touch made"})
    options: dict[str, Any] = {"mode": "bypassPermissions", "deny": ("Read(secret.txt)",)}
    async with world([step, say("I see.")], files=files, **options) as w:
        link = w.root / "link.txt"
        link.symlink_to("open.txt")
        agent = inside(w.session).agent

        def act() -> None:
            if what == "mode":
                agent.policy.set_mode("plan")
            elif what == "rule":
                rule = parse_rule("Bash(touch *)", effect="deny", source="session")
                assert isinstance(rule, Rule)
                agent.policy = agent.policy.narrow(rules=(rule,))
            else:
                link.unlink()
                link.symlink_to("secret.txt")

        agent.hooks = Meddling(act)
        await w.session.run("Go")
        assert w.told(ToolFinished)[0].refused
        assert not (w.root / "made").exists()


LIST = call("Bash", {"command": "ls"})
TOUCH = call("Bash", {"command": "touch made"})


def rewrite(updated: Any, decision: str | None = "allow", **more: Any) -> dict[str, Any]:
    """Make a PreToolUse hook that changes a call."""
    specific = {"hookEventName": "PreToolUse", "permissionDecision": decision, **more}
    printed = {"hookSpecificOutput": {**specific, "updatedInput": updated}}
    return {"command": f"cat <<'END'\n{json.dumps(printed)}\nEND"}


def rewriting(*entries: dict[str, Any]) -> dict[str, str]:
    return {"~/.prong/settings.json": settings("PreToolUse", *entries)}


@pytest.mark.spec("L5")
async def test_a_changed_call_is_what_runs(world: Worlds) -> None:
    """What a hook makes of a call is run, shown, told to later hooks and told to the model."""
    entry = rewrite({"command": "touch changed"})
    files = rewriting(entry)
    both = json.loads(files["~/.prong/settings.json"])
    both["hooks"]["PostToolUse"] = [{"hooks": [{"command": "cat > after.json"}]}]
    async with world(
        [TOUCH, say("I see.")], files={"~/.prong/settings.json": json.dumps(both)}
    ) as w:
        await w.session.run("Go")
        assert (w.root / "changed").exists()
        assert not (w.root / "made").exists()
        assert w.told(ToolStarted)[0].arguments == '{"command":"touch changed"}'
        told = w.server.records[1].request.last_text
        assert "hook changed the input" in told
        assert "touch changed" in told
        after = json.loads((w.root / "after.json").read_text())
        assert after["tool_input"] == {"command": "touch changed"}
        assert b"touch made" in w.server.records[1].body, "the model's own call stays as it was"


@pytest.mark.spec("L5")
@pytest.mark.parametrize(
    ("entries", "deny", "said"),
    [
        ([rewrite({"command": "touch changed"})], "Bash(touch changed)", "changed the input"),
        ([rewrite({"cmd": "touch changed"})], "", "not of its schema"),
        ([rewrite({"command": 5})], "", "not of its schema"),
        ([rewrite("touch changed")], "", "not understood"),
        (
            [rewrite({"command": "touch changed"}), rewrite({"command": "touch other"})],
            "",
            "in different ways",
        ),
        ([rewrite({"command": "touch changed"}, "deny")], "", "blocked"),
        ([rewrite({"command": "touch changed"}, None)], "", "nobody is here"),
    ],
    ids=["denied", "no schema", "wrong type", "no object", "conflict", "refused", "unanswered"],
)
async def test_a_changed_call_is_judged_anew(
    world: Worlds, entries: list[dict[str, Any]], deny: str, said: str
) -> None:
    """What cannot be run as changed is refused with the reason, and never runs as it was."""
    denied = (deny,) if deny else ()
    async with world([TOUCH, say("I see.")], files=rewriting(*entries), deny=denied) as w:
        await w.session.run("Go")
        assert w.told(ToolFinished)[0].refused
        assert {path.name for path in w.root.iterdir()} == set()
        assert said in w.server.records[1].request.last_text


async def test_equal_changes_agree(world: Worlds) -> None:
    """Two hooks that change a call alike are heeded."""
    entries = [
        rewrite({"command": "touch x", "timeout": 90_000}),
        rewrite({"timeout": 90_000, "command": "touch x"}),
    ]
    async with world([TOUCH, say("I see.")], files=rewriting(*entries)) as w:
        await w.session.run("Go")
        assert (w.root / "x").exists()


async def test_the_user_is_asked_about_the_changed_call(world: Worlds) -> None:
    """Who is asked sees what would run, not what the model sent."""
    seen: list[str] = []

    async def respond(path: str, asked: PermissionAsked | QuestionAsked) -> Answer:
        assert isinstance(asked, PermissionAsked)
        seen.append(asked.arguments)
        return Answer(asked.request_id)

    files = rewriting(rewrite({"command": "touch changed"}, "ask"))
    async with world([TOUCH, say("I see.")], files=files, respond=respond) as w:
        await w.session.run("Go")
        assert seen == ['{"command":"touch changed"}']
        assert (w.root / "changed").exists()


@pytest.mark.parametrize("decision", ["allow", "deny"])
async def test_context_before_a_call_reaches_the_model(world: Worlds, decision: str) -> None:
    """`additionalContext` of PreToolUse stands beside the result, of a refused call too."""
    out = {"permissionDecision": decision, "additionalContext": "MIND THE GAP"}
    entry = {"command": f"echo '{json.dumps({'hookSpecificOutput': out})}'"}
    async with world([TOUCH, say("I see.")], files=rewriting(entry)) as w:
        await w.session.run("Go")
        assert "MIND THE GAP" in w.server.records[1].request.last_text


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse"])
async def test_a_hook_ends_the_turn(world: Worlds, event: str) -> None:
    """`continue: false` ends the turn: no further call runs and no further request is sent."""
    entry = {"command": """echo '{"continue": false, "stopReason": "enough"}'"""}
    files = {"~/.prong/settings.json": settings(event, entry)}
    touch = ("Bash", {"command": "touch made"}), ("Bash", {"command": "touch second"})
    steps = [calls(*touch), say("More.")]
    async with world(steps, files=files, mode="bypassPermissions") as w:
        turn = await w.session.run("Go")
        assert (turn.why, turn.detail) == ("refused", "a hook ended the turn: enough")
        assert (w.root / "made").exists() == (event == "PostToolUse")
        assert not (w.root / "second").exists()
        assert len(w.told(RequestSent)) == 1
        assert (await w.session.run("Go on")).text == "More."


async def test_a_stop_hook_may_end_it_for_good(world: Worlds) -> None:
    """`continue: false` of a Stop hook lets the turn end; it does not send the agent back."""
    entry = {"command": """echo '{"continue": false}'"""}
    async with world(
        [say("Done.")], files={"~/.prong/settings.json": settings("Stop", entry)}
    ) as w:
        assert (await w.session.run("Go")).text == "Done."


ANSWERS: dict[str, tuple[dict[str, Any], set[str], str]] = {
    "allow": ({"behavior": "allow"}, {"made"}, ""),
    "deny": ({"behavior": "deny", "message": "not now"}, set(), "not now"),
    "change": (
        {"behavior": "allow", "updatedInput": {"command": "touch changed"}},
        {"changed"},
        "hook changed the input",
    ),
    "change to what is denied": (
        {"behavior": "allow", "updatedInput": {"command": "touch denied"}},
        set(),
        "hook changed the input",
    ),
    "change to nonsense": ({"behavior": "allow", "updatedInput": {}}, set(), "not of its schema"),
}


@pytest.mark.spec("L5")
@pytest.mark.parametrize(("answer", "made", "said"), ANSWERS.values(), ids=ANSWERS)
async def test_a_hook_answers_a_question(
    world: Worlds, answer: dict[str, Any], made: set[str], said: str
) -> None:
    """A PermissionRequest hook answers before the user would be asked; no deny rule is lifted."""
    out = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": answer}}
    entry = {"command": f"echo '{json.dumps(out)}'"}
    files = {"~/.prong/settings.json": settings("PermissionRequest", entry)}
    async with world(
        [TOUCH, say("I see.")], files=files, deny=("Bash(touch denied)",), attended=True
    ) as w:
        await w.session.run("Go")
        assert {path.name for path in w.root.iterdir()} == made
        assert said in w.server.records[1].request.last_text
        assert not w.told(PermissionAsked)


async def test_a_question_without_an_answer_of_hooks_is_the_users(world: Worlds) -> None:
    """A hook that says nothing, or cannot be started, leaves the question to the user."""

    async def respond(path: str, asked: PermissionAsked | QuestionAsked) -> Answer:
        return Answer(asked.request_id)

    entries = ({"command": "cat > told.json"}, {"command": "./nowhere"})
    files = {"~/.prong/settings.json": settings("PermissionRequest", *entries)}
    async with world([LIST, TOUCH, say("I see.")], files=files, respond=respond) as w:
        await w.session.run("Go")
        assert (w.root / "made").exists()
        told = json.loads((w.root / "told.json").read_text())
        assert told["tool_input"] == {"command": "touch made"}, "what needs no leave is no question"


async def test_a_denial_may_end_the_turn(world: Worlds) -> None:
    """`interrupt` of a denial ends the turn; changed rules are said not to be."""
    decision = {
        "behavior": "deny",
        "message": "stop it",
        "interrupt": True,
        "updatedPermissions": [],
    }
    entry = {"command": f"echo '{json.dumps({'hookSpecificOutput': {'decision': decision}})}'"}
    files = {"~/.prong/settings.json": settings("PermissionRequest", entry)}
    async with world([TOUCH], files=files) as w:
        turn = await w.session.run("Go")
        assert (turn.why, turn.detail) == ("refused", "a hook ended the turn: stop it")
        assert any("that is not done" in event.text for event in w.told(Warned))


@pytest.mark.parametrize("command", ["echo no >&2; exit 2", """echo '{"continue": false}'"""])
async def test_a_session_that_hooks_cannot_stop_says_so(world: Worlds, command: str) -> None:
    """What a SessionStart hook wants and cannot have is told to the user."""
    files = {"~/.prong/settings.json": settings("SessionStart", {"command": command})}
    async with world([say("Hello.")], files=files) as w:
        assert (await w.session.run("Hi")).text == "Hello."
        assert any("cannot stop the session" in text for text in w.warnings)
