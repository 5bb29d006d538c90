"""Keys of the model: not given to commands, and masked wherever they turn up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from prong.errors import Unauthorised
from prong.host import LocalHost
from prong.host.local_host import ConfinedHost
from prong.provider import pick
from prong.provider.failure import Refusal, mapped
from prong.provider.secret import HIDDEN, gather, in_headers
from prong.provider.vendor import KEY_VARIABLES
from prong.testing import Worlds, call, fail, say

pytestmark = [pytest.mark.anyio, pytest.mark.spec("L9")]

KEY = "sk-ant-0123456789abcdef"
SHOW = "for n in " + " ".join(KEY_VARIABLES) + "; do printenv $n; done; true"


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEY_VARIABLES:
        monkeypatch.setenv(name, KEY)


def everything(folder: Path) -> bytes:
    """Read all files below a folder."""
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


async def test_commands_and_hooks_do_not_see_keys(world: Worlds) -> None:
    """Not in the foreground, not in the background, not in a hook; other variables are there."""
    hook = [{"hooks": [{"command": f"({SHOW}; printenv COLOUR) > hook.txt"}]}]
    settings = {"env": {"COLOUR": "blue", "OPENAI_API_KEY": KEY}, "hooks": {"PreToolUse": hook}}
    line = f"({SHOW}; printenv COLOUR) > $0.txt"
    script = [
        call("Bash", {"command": line.replace("$0", "front")}),
        call("Bash", {"command": line.replace("$0", "back"), "run_in_background": True}),
        say("Started."),
        say("Done."),
    ]
    files = {"~/.prong/settings.json": json.dumps(settings)}
    async with world(script, files=files, mode="bypassPermissions") as w:
        await w.session.run("Go")
        for name in ("front", "back", "hook"):
            assert (w.root / f"{name}.txt").read_text() == "blue\n", name


async def test_a_key_can_be_passed_on_and_is_masked(world: Worlds) -> None:
    """What `passEnv` names is there, and its value still reaches no journal and no event."""
    settings = {"passEnv": ["ANTHROPIC_API_KEY"]}
    files = {"~/.prong/settings.json": json.dumps(settings), "big": f"{KEY} {'x' * 90} " * 2_000}
    script = [
        call("Bash", {"command": f"{SHOW}; cp big copy; printenv ANTHROPIC_API_KEY > seen"}),
        call("Bash", {"command": "cat big"}),
        call("Bash", {"command": "printenv ANTHROPIC_API_KEY", "run_in_background": True}),
        say("Started."),
        say("Done."),
    ]
    async with world(script, files=files, mode="bypassPermissions") as w:
        await w.session.run("Go")
        assert (w.root / "seen").read_text() == f"{KEY}\n"
        assert HIDDEN in w.server.records[1].request.last_text
        assert all(KEY.encode() not in record.body for record in w.server.records)
        assert KEY not in str(w.envelopes)
        assert HIDDEN in str(w.envelopes)
        journal = w.parts.journal.path
        assert KEY.encode() not in journal.read_bytes()
        assert KEY.encode() not in everything(journal.with_suffix("") / "results")


async def test_a_server_that_repeats_the_key_is_masked(world: Worlds) -> None:
    """The error that reaches the user, the event and the journal hold no key."""
    script = [fail(401, "authentication_error", f"invalid key {KEY}")]
    async with world(script, api_key=KEY) as w:
        turn = await w.session.run("Hi")
        assert turn.why == "error"
        assert f"invalid key {HIDDEN}" in turn.detail
        assert KEY not in str(w.envelopes)
        assert KEY.encode() not in w.parts.journal.path.read_bytes()


async def test_hosts_of_children_withhold_too(tmp_path: Path) -> None:
    """A confined host is as discreet as the one it was made from."""
    for host in (
        LocalHost(tmp_path, withhold=KEY_VARIABLES),
        ConfinedHost(str(tmp_path), withhold=KEY_VARIABLES),
    ):
        for env in (None, {"ANTHROPIC_API_KEY": KEY, "COLOUR": "blue"}):
            ended = await host.run(["bash", "-c", SHOW], env=env)
            assert ended.output == b""
        await host.close()


@pytest.mark.parametrize("model", ["claude-x", "openai:x", "chat:x"])
def test_every_variable_that_gives_a_key_is_known(model: str) -> None:
    """`pick` reads a key from no variable that commands would be given."""

    class Asked(dict[str, str]):
        def get(self, name: str, default: Any = None) -> Any:
            self[name] = ""
            return default

    asked = Asked()
    with pytest.raises(Unauthorised):
        pick(model, env=asked)
    assert {name for name in asked if "KEY" in name or "TOKEN" in name} <= {*KEY_VARIABLES}
    assert len(asked) > 2


@pytest.mark.parametrize("header", ["Authorization", "x-api-key", "Api-Key", "X-Gateway-Token"])
def test_every_part_of_a_refusal_is_masked(header: str) -> None:
    """Whichever header a key is sent in, no field of a refusal can bring it back."""
    endpoint, model = pick(
        "chat:x", base_url="http://x", headers=[(header, f"Bearer {KEY}")], env={}
    )
    for status in (302, 401, 500):
        refusal = Refusal(
            kind=KEY,
            message=f"a {KEY} b",
            status=status,
            headers={"location": KEY, "request-id": KEY},
        )
        error = mapped(refusal, endpoint, model)
        assert KEY not in f"{error} {error.kind} {error.request_id}"


def test_words_that_are_no_keys_stay() -> None:
    """What servers without keys are given would damage texts that hold it by chance."""
    found = gather(
        ["none", "", "sk-no-key-required", "12345", KEY, *in_headers([("accept", KEY * 2)])]
    )
    assert found.values == (KEY,)
    assert found.mask("none of 12345") == "none of 12345"
    assert gather([KEY, f"{KEY}9"]).mask(f"{KEY}9") == HIDDEN
