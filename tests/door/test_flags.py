"""The flags that scripts of other programs give, each with what it does."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

import prong
from prong.face.input_line import read_command
from prong.testing import Script, Worlds, call, calls, fail, say
from prong.testing.repository import Repo

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("L12")]

SEVERAL = pytest.mark.moves_prefix("each run is a session of its own")
TOUCH = call("Bash", {"command": "touch made"})


async def test_json_has_the_keys_that_scripts_know(world: Worlds, program: Any) -> None:
    """`jq .result`, `.is_error`, `.total_cost_usd`, `.num_turns` and Anthropic's names of usage."""
    async with world([call("Bash", {"command": "ls"}), say("Nothing.")], opens=False) as w:
        done = await program.run(w, "-p", "What?", "--output-format", "json")
        told = json.loads(done.stdout)

    assert told["type"] == "result"
    assert (told["subtype"], told["is_error"]) == ("success", False)
    assert told["result"] == told["text"] == "Nothing."
    assert told["num_turns"] == told["turns"] == 2
    assert told["total_cost_usd"] == told["cost"]
    usage = told["usage"]
    assert usage["input_tokens"] == usage["uncached"]
    assert usage["output_tokens"] == usage["output"]
    assert usage["cache_read_input_tokens"] == usage["read"]
    written = usage["written_5m"] + usage["written_1h"]
    assert usage["cache_creation_input_tokens"] == written
    assert told["duration_ms"] > 0
    assert told["duration_api_ms"] >= 0
    assert UUID(told["uuid"]).version == 4
    assert told["modelUsage"] == {
        "claude-sonnet-5-5": {
            "inputTokens": usage["input_tokens"],
            "outputTokens": usage["output_tokens"],
            "cacheReadInputTokens": usage["cache_read_input_tokens"],
            "cacheCreationInputTokens": usage["cache_creation_input_tokens"],
            "webSearchRequests": 0,
            "costUSD": pytest.approx(told["total_cost_usd"]),
        }
    }
    assert told["permission_denials"] == []


async def test_json_has_calls_that_were_not_allowed(world: Worlds, program: Any) -> None:
    """Scripts show what was to be done, or ask for it: each has its name, id and arguments."""
    script = [calls(("Bash", {"command": "touch made"}), ("Bash", {"command": "ls"})), say("No.")]
    async with world(script, opens=False) as w:
        done = await program.run(w, "-p", "Go", "--output-format", "json")
        told = json.loads(done.stdout)

    (denied,) = told["permission_denials"]
    assert (denied["tool_name"], denied["tool_input"]) == ("Bash", {"command": "touch made"})
    assert denied["tool_use_id"].startswith("toolu_")
    assert [one["tool"] for one in told["denials"]] == ["Bash"]


async def test_json_of_a_resumed_session_can_be_added_up(world: Worlds, program: Any) -> None:
    """What scripts know is of each run; our own keys are of the session."""
    async with world([say("One."), say("Two, at some length.")], opens=False) as w:
        words = ("-p", "Go", "--output-format", "json")
        one, two = [
            json.loads((await program.run(w, *words, *more)).stdout) for more in ((), ("-c",))
        ]

    assert one["session_id"] == two["session_id"]
    assert (one["num_turns"], two["num_turns"], two["turns"]) == (1, 1, 2)
    assert one["total_cost_usd"] + two["total_cost_usd"] == pytest.approx(two["cost"])
    names = {"output_tokens": "output", "cache_read_input_tokens": "read"}
    for name, own in names.items():
        assert one["usage"][name] + two["usage"][name] == two["usage"][own]
    assert two["usage"]["output_tokens"] > one["usage"]["output_tokens"] > 0
    for told in (one, two):
        (used,) = told["modelUsage"].values()
        assert used["outputTokens"] == told["usage"]["output_tokens"]
        assert used["costUSD"] == pytest.approx(told["total_cost_usd"])
    assert one["uuid"] != two["uuid"]


async def test_json_says_how_a_run_failed(world: Worlds, program: Any) -> None:
    """A run that came to a limit is an error, and says by the known word of which kind."""
    async with world(Script(forever=call("Bash", {"command": "ls"})), opens=False) as w:
        done = await program.run(w, "-p", "Go", "--max-turns", "1", "--output-format", "json")
        told = json.loads(done.stdout)

    assert (told["subtype"], told["is_error"]) == ("error_max_turns", True)
    assert told["errors"] == [told["detail"]] != [""]


@SEVERAL
async def test_permissions_can_be_skipped(world: Worlds, program: Any) -> None:
    """`--dangerously-skip-permissions` is the mode bypassPermissions, and contradicts others."""
    skip = "--dangerously-skip-permissions"
    async with world([TOUCH, say("Done.")], opens=False) as w:
        both = await program.run(w, "-p", "Go", skip, "--permission-mode", "plan")
        assert both.returncode == 2
        assert b"contradict" in both.stderr
        assert not (w.root / "made").exists()

        done = await program.run(w, "-p", "Go", skip)
        assert done.returncode == 0
        assert (w.root / "made").exists()


async def test_manual_is_the_usual_mode(world: Worlds, program: Any) -> None:
    """`--permission-mode manual` asks, and where nobody is, refuses."""
    async with world([TOUCH, say("Done.")], opens=False) as w:
        done = await program.run(w, "-p", "Go", "--permission-mode", "manual")
        assert done.returncode == 0
        assert not (w.root / "made").exists()


@SEVERAL
async def test_prompts_come_from_files(world: Worlds, program: Any) -> None:
    """System prompts can be read from files; one that is not there is named."""
    async with world([say("Hi.")], opens=False, files={"own.md": "OWN\n", "more.md": "MORE"}) as w:
        gone = await program.run(w, "-p", "Hi", "--system-prompt-file", "none.md")
        assert gone.returncode == 2
        assert b"--system-prompt-file none.md: No such file" in gone.stderr
        huge = await program.run(w, "-p", "Hi", "--append-system-prompt-file", "/dev/zero")
        assert huge.returncode == 2
        both = ("--system-prompt", "x", "--system-prompt-file", "own.md")
        assert (await program.run(w, "-p", "Hi", *both)).returncode == 2

        files = ("--system-prompt-file", "own.md", "--append-system-prompt-file", "more.md")
        done = await program.run(w, "-p", "Hi", *files, "--append-system-prompt", "FIRST")
        assert done.returncode == 0
        system = [block["text"] for block in w.bodies()[0]["system"]]
        assert system[0] == "OWN\n"
        assert system[-1] == "FIRST\n\nMORE"


@SEVERAL
async def test_verbose_tells_of_steps_and_debug_of_requests(world: Worlds, program: Any) -> None:
    """Standard output stays the answer alone; what happens is told on standard error."""
    steps = [call("Bash", {"command": "ls"}), say("Nothing.")]
    async with world(Script([*steps, *steps]), opens=False) as w:
        done = await program.run(w, "-p", "What?", "--verbose")
        assert done.stdout == b"Nothing.\n"
        assert b"> ls" in done.stderr
        assert b"request" not in done.stderr

        done = await program.run(w, "-p", "What?", "--debug")
        assert done.stdout == b"Nothing.\n"
        assert done.stderr.count(b"request to ") == 2
        assert b"read from cache" in done.stderr

        alone = await program.run(w, "--verbose", "Hi")
        assert alone.returncode == 2
        assert b"add -p" in alone.stderr


@pytest.mark.moves_prefix("another model goes on")
async def test_another_model_goes_on_where_one_is_overloaded(world: Worlds, program: Any) -> None:
    """`--fallback-model` answers once the tries at the first are used up, and that is said."""
    busy = fail(529, "overloaded_error", "busy")
    settings = '{"retry": {"tries": 1}}'
    async with world([busy, say("Here.")], opens=False) as w:
        words = ("--fallback-model", "haiku", "--settings", settings)
        done = await program.run(w, "-p", "Hi", *words)
        assert (done.returncode, done.stdout) == (0, b"Here.\n")
        assert b"claude-haiku-5-5 goes on" in done.stderr
        assert [body["model"] for body in w.bodies()][-1] == "claude-haiku-5-5"


@SEVERAL
async def test_sources_of_settings_can_be_chosen(world: Worlds, program: Any) -> None:
    """With `--setting-sources user` the project's files are not read; a wrong one is named."""
    files = {".prong/settings.json": '{"permissions": {"deny": ["Bash"]}}'}
    skip = ("--permission-mode", "bypassPermissions")
    async with world(Script([TOUCH, say("a"), TOUCH, say("b")]), opens=False, files=files) as w:
        await program.run(w, "-p", "Go", *skip)
        assert not (w.root / "made").exists()
        await program.run(w, "-p", "Go", *skip, "--setting-sources", "user")
        assert (w.root / "made").exists()

        wrong = await program.run(w, "-p", "Go", "--setting-sources", "users")
        assert wrong.returncode == 2
        assert b"no source 'users'" in wrong.stderr


async def test_the_main_agent_is_of_a_type(world: Worlds, program: Any) -> None:
    """`--agent` gives it the type's prompt, tools and model; an unknown one names the nearest."""
    agents = json.dumps(
        {
            "reader": {
                "description": "reads",
                "prompt": "You read.",
                "tools": ["Read", "Grep", "Nonesuch"],
                "model": "claude-haiku-5-5",
            }
        }
    )
    async with world([say("Read.")], opens=False) as w:
        wrong = await program.run(w, "-p", "Hi", "--agents", agents, "--agent", "raeder")
        assert wrong.returncode == 2
        assert b"did you mean 'reader'?" in wrong.stderr

        done = await program.run(w, "-p", "Hi", "--agents", agents, "--agent", "reader")
        assert (done.returncode, done.stdout) == (0, b"Read.\n")
        assert b"names the tool 'Nonesuch', which is not there" in done.stderr
        body = w.bodies()[0]
        assert body["model"] == "claude-haiku-5-5"
        assert [tool["name"] for tool in body["tools"]] == ["Read", "Grep"]
        assert body["system"][0]["text"] == "You read."


@SEVERAL
async def test_a_type_never_makes_a_session_laxer(world: Worlds, program: Any) -> None:
    """A type's mode counts where it is stricter; one that would allow more does not."""
    kinds = {
        name: {"description": "d", "prompt": "p", "permissionMode": mode}
        for name, mode in (("free", "bypassPermissions"), ("planner", "plan"))
    }
    agents = ("--agents", json.dumps(kinds))
    script = Script([TOUCH, say("a"), TOUCH, say("b")])
    async with world(script, opens=False) as w:
        await program.run(w, "-p", "Go", *agents, "--agent", "free")
        assert not (w.root / "made").exists()
        await program.run(w, "-p", "Go", *agents, "--agent", "planner", "--allowed-tools", "Bash")
        assert not (w.root / "made").exists()


@SEVERAL
async def test_a_session_has_a_worktree_of_its_own(world: Worlds, program: Any) -> None:
    """What is done there stays there; a worktree in which nothing was done is gone again."""
    made = call("Write", {"file_path": "new.txt", "content": "new\n"})
    free = ("--permission-mode", "bypassPermissions")
    async with world(Script([made, say("Done."), say("Nothing.")]), opens=False) as w:
        Repo(w.root).git("init", "-q")
        (w.root / "a").write_text("a")
        path = w.root / ".prong/worktrees/mine"

        done = await program.run(w, "-w", "mine", "-p", "Go", *free)
        assert done.returncode == 0
        assert f"work kept on prong/mine (0 commits, 1 file, not all committed) in {path}" in (
            done.stderr.decode()
        )
        assert (path / "new.txt").read_text() == "new\n"
        assert not (w.root / "new.txt").exists()

        done = await program.run(w, "-p", "-w", "Do nothing at all", *free)
        assert (done.returncode, done.stdout) == (0, b"Nothing.\n")
        assert not (w.root / ".prong/worktrees/work").exists()
        assert "Do nothing at all" in str(w.bodies()[-1])

        both = await program.run(w, "-p", "Go", "-w", "x", "-c")
        assert both.returncode == 2


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("command", "runs", "said"),
    [
        ("touch yes", True, ""),
        ("touch no", False, "not by me"),
        ("touch change", False, "other arguments"),
        ("touch mumble", False, "gave no answer"),
    ],
)
async def test_a_tool_of_a_server_is_asked(
    world: Worlds, program: Any, command: str, runs: bool, said: str
) -> None:
    """`--permission-prompt-tool` decides; what it cannot say, or what cannot be done, is a no."""
    script = str(Path(__file__).with_name("permission_server.py"))
    servers = {"mcpServers": {"gate": {"command": sys.executable, "args": [script]}}}
    words = ("--mcp-config", json.dumps(servers), "--permission-prompt-tool", "mcp__gate__decide")
    async with world([call("Bash", {"command": command}), say("ok")], opens=False) as w:
        done = await program.run(w, "-p", "Go", *words)
        assert done.returncode == 0, done.stderr
        assert (w.root / command.split()[1]).exists() == runs
        assert said in w.server.records[1].request.last_text


async def test_a_tool_that_is_not_there_cannot_be_asked(world: Worlds, program: Any) -> None:
    """Without the tool nothing starts: everything would be refused, call by call."""
    async with world([say("Hi.")], opens=False) as w:
        done = await program.run(w, "-p", "Hi", "--permission-prompt-tool", "mcp__a__b")
        assert done.returncode == 2
        assert b"there is no tool 'mcp__a__b'" in done.stderr
        assert not w.server.records


@pytest.mark.parametrize(
    "block",
    [
        {"type": "document", "source": {"type": "base64", "media_type": "a/b", "data": "aGk="}},
        {"type": "image", "source": {"type": "url", "url": "https://x.example/a.png"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png"}},
        {"type": "image"},
    ],
)
async def test_a_block_that_cannot_be_taken_is_refused(
    world: Worlds, program: Any, block: dict[str, Any]
) -> None:
    """Nothing of a message is dropped: the line is refused, and standard error says why."""
    line = {"type": "user", "message": {"content": [{"type": "text", "text": "See"}, block]}}
    async with world([say("Hi.")], opens=False) as w:
        done = await program.run(
            w, "--input-format", "stream-json", "--output-format", "stream-json",
            stdin=json.dumps(line).encode(),
        )  # fmt: skip
        assert not w.server.records
        assert b"input line" in done.stderr


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"type":"user","message":{"content":5}}', r"`\$.message.content`"),
        (b'{"type":"user","message":{}}', "missing required field `content`"),
        (b'{"type":"user"}', "missing required field `message`"),
        (
            b'{"type":"user","message":{"role":"assistant","content":"x"}}',
            "its role is 'assistant'",
        ),
        (b'{"type":"sya","text":"x"}', "no command of the type 'sya'; did you mean 'say'?"),
        (b'{"type":"control_request"}', "no command of the type 'control_request'; they are user,"),
        (b'{"type":"say","text":5}', r"Expected `str`, got `int` - at `\$.text`"),
        (b"[]", "Expected `object`"),
        (b"{}", "missing required field `type`"),
    ],
)
def test_a_line_that_is_no_command_says_why(line: bytes, why: str) -> None:
    """The fault is told of the line that was meant, not that it is another kind of line."""
    with pytest.raises(msgspec.ValidationError, match=why):
        read_command(line)


async def test_betas_are_sent(world: Worlds, program: Any) -> None:
    """`--betas` names features in Anthropic's header, and is part of what siblings share."""
    async with world([say("Hi.")], opens=False) as w:
        await program.run(w, "-p", "Hi", "--betas", "context-1m-2025-08-07,other")
        (record,) = w.server.records
        assert record.headers["anthropic-beta"] == "context-1m-2025-08-07,other"


async def test_all_tools_have_a_name(world: Worlds, program: Any) -> None:
    """`--tools default` is what scripts for another program say to have them all."""
    async with world([say("Hi."), say("Hi.")], opens=False, moves_prefix="two sessions") as w:
        for words in ((), ("--tools", "default")):
            done = await program.run(w, "-p", "Hi", *words)
            assert done.returncode == 0, done.stderr
        usual, named = (json.loads(record.body)["tools"] for record in w.server.records)
        assert named == usual


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("sessions", "--al"), b"no option --al; did you mean --all?"),
        (("merge", "--dry"), b"no option --dry; did you mean --dry-run?"),
        (("doctor", "--setings", "x"), b"no option --setings; did you mean --settings?"),
        (("cost", "--jsn"), b"no option --jsn; did you mean --json?"),
        (("show", "--formt", "html"), b"no option --formt; did you mean --format?"),
        (("export", "--ouput", "x"), b"no option --ouput; did you mean --output?"),
        (("import", "--nam", "x"), b"no option --nam; did you mean --name?"),
        (("trace", "--outpt", "x"), b"no option --outpt; did you mean --output?"),
        (("web", "--exprt", "x"), b"no option --exprt; did you mean --export?"),
        (("plugin", "list", "--jsn"), b"no option --jsn; did you mean --json?"),
        (("plugin", "list", "a", "b"), b"'b' is one word too many"),
        (("team", "delete", "x", "--forc"), b"no option --forc; did you mean --force?"),
        (("mcp", "check", "--jsn"), b"no option --jsn; did you mean --json?"),
        (("mcp", "add", "x", "--scpe", "user", "y"), b"no option --scpe; did you mean --scope?"),
        (("trust", "a", "b"), b"'b' is one word too many"),
        (("--modle", "x", "-p", "hi"), b"no option --modle; did you mean --model?"),
        (("sesions",), b"did you mean 'prong sessions'?"),
    ],
)
async def test_a_slip_is_named_with_what_is_meant(
    world: Worlds, program: Any, words: tuple[str, ...], meant: bytes
) -> None:
    """Of every command: what is wrong is named, and the nearest that is right."""
    async with world([], opens=False) as w:
        done = await program.run(w, *words)

    assert done.returncode == 2
    assert meant in done.stderr


@pytest.mark.parametrize(("name", "meant"), [("modle", "'model'"), ("max_turn", "'max_turns'")])
async def test_an_option_of_the_library_is_named_too(name: str, meant: str) -> None:
    """An unknown keyword is a usage error with the nearest, not a failure deep inside."""
    wrong: Any = {name: "x"}
    with pytest.raises(prong.UsageError, match=f"no option '{name}'; did you mean {meant}"):
        prong.open_session(**wrong)


@SEVERAL
async def test_a_resumed_session_says_what_of_its_head_it_keeps(
    world: Worlds, program: Any
) -> None:
    """A type's prompt and betas that the head has not are said to be left out."""
    agents = ("--agents", '{"reader": {"description": "d", "prompt": "You read."}}')
    async with world(Script(forever=say("Yes.")), opens=False) as w:
        await program.run(w, "-p", "Hi")
        done = await program.run(w, "-p", "-c", "Hi", *agents, "--agent", "reader", "--betas", "b")
        assert b"the prompt of 'reader' is left out" in done.stderr
        assert b"--betas is left out" in done.stderr

        await program.run(w, "-p", "Hi", *agents, "--agent", "reader")
        done = await program.run(w, "-p", "-c", "Hi", *agents, "--agent", "reader")
        assert b"left out" not in done.stderr


async def test_nothing_is_kept_of_a_session_that_is_not_to_be(world: Worlds, program: Any) -> None:
    """`--no-session-persistence` leaves no journal, no events and no outputs; it cannot resume."""
    async with world(Script(forever=say("Yes.")), opens=False) as w:
        done = await program.run(w, "-p", "Hi", "--no-session-persistence")
        assert (done.returncode, done.stdout) == (0, b"Yes.\n")
        kept = [path for path in (w.store / "projects").rglob("*") if path.is_file()]
        assert not [path for path in kept if path.suffix in {".jsonl", ".txt"}]
        gone = await program.run(w, "-p", "-c", "Hi")
        assert gone.returncode != 0
        both = await program.run(w, "-p", "-c", "Hi", "--no-session-persistence")
        assert both.returncode == 2


async def test_skills_can_be_left_out(world: Worlds, program: Any) -> None:
    """With `--disable-slash-commands` no skill is offered, and none is started by its name."""
    skill = "---\nname: greet\ndescription: greets\n---\nSay hello to $ARGUMENTS.\n"
    files = {"~/.prong/skills/greet/SKILL.md": skill}
    async with world([say("Hi.")], opens=False, files=files) as w:
        await program.run(w, "-p", "/greet you", "--disable-slash-commands")
        (body,) = w.bodies()
        assert "Skill" not in [tool["name"] for tool in body["tools"]]
        assert "Say hello" not in str(body["messages"])


async def test_a_worktree_that_is_kept_is_told_in_the_terminal_too(
    world: Worlds, program: Any
) -> None:
    """Line by line, what only the end of the session tells is told when it is left."""
    made = call("Write", {"file_path": "new.txt", "content": "new\n"})
    async with world([made, say("Done.")], opens=False) as w:
        Repo(w.root).git("init", "-q")
        words = ("--plain", "-w", "mine", "--dangerously-skip-permissions", "Write it")
        done = await program.run(w, *words, stdin=b"/exit\n")

    assert b"work kept on prong/mine (0 commits, 1 file, not all committed)" in done.stdout


@pytest.mark.parametrize(
    ("flag", "instead"),
    [
        ("--chrome", "prong mcp add chrome -- npx -y chrome-devtools-mcp"),
        ("--ide", "prong acp"),
        ("--mcp-debug", "prong mcp check"),
        ("--teleport=x", "prong import"),
    ],
)
async def test_a_thing_that_is_had_in_another_way_is_named(
    world: Worlds, program: Any, flag: str, instead: str
) -> None:
    """A flag for what is not here is refused as unknown, with what to use in its place."""
    async with world(opens=False) as w:
        done = await program.run(w, "-p", "Hi", flag)

    last = done.stderr.decode().splitlines()[-1]
    assert done.returncode == 2
    assert f"there is no option {flag.partition('=')[0]}; " in last
    assert instead in last


async def test_a_browser_that_is_not_there_can_be_declined(world: Worlds, program: Any) -> None:
    """`--no-chrome` asks for what is so anyway."""
    async with world([say("Hi.")], opens=False) as w:
        done = await program.run(w, "-p", "Hi", "--no-chrome")

    assert (done.returncode, done.stdout) == (0, b"Hi.\n")
