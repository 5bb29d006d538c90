from __future__ import annotations

from pathlib import Path

import pytest

from prong.config.server import ServerSpec
from prong.config.server_file import Configured, configured_servers
from prong.config.setting import load_settings
from prong.errors import ConfigError

pytestmark = pytest.mark.spec("L11")


class Place:
    def __init__(self, base: Path) -> None:
        self.home, self.root = base / "home", base / "project"
        self.home.mkdir()
        self.root.mkdir()

    def write(self, name: str, content: str) -> str:
        path = self.home / name[2:] if name.startswith("~/") else self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return str(path)

    def read(
        self, *flags: str, trusted: bool = True, strict: bool = False, settings: str = "{}"
    ) -> Configured:
        home, root = str(self.home), str(self.root)
        given = load_settings(home, root, trusted=trusted, flag=settings)
        env = {"TOKEN": "t1", "EMPTY": ""}
        return configured_servers(
            home, root, given, trusted=trusted, flags=flags, strict=strict, env=env
        )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def one(name: str, command: str) -> str:
    return f'{{"mcpServers": {{"{name}": {{"command": "{command}"}}}}}}'


def commands(found: Configured) -> list[tuple[str, str]]:
    return [(server.name, server.command) for server in found.servers]


def test_later_places_win_and_names_are_sorted(place: Place) -> None:
    """The flag beats the project, the project beats the user's files."""
    place.write("~/.claude.json", one("a", "theirs"))
    assert commands(place.read()) == [("a", "theirs")]
    place.write("~/.prong/mcp.json", one("a", "user"))
    assert commands(place.read()) == [("a", "user")]
    place.write(".mcp.json", one("a", "project"))
    assert commands(place.read()) == [("a", "project")]
    assert commands(place.read(one("a", "flag"), one("B", "x"))) == [("B", "x"), ("a", "flag")]
    assert commands(place.read(one("B", "x"), strict=True)) == [("B", "x")]


def test_untrusted_projects_servers_are_left_out(place: Place) -> None:
    """Servers of an untrusted folder do not run; the warning names them and says how to trust."""
    place.write(".mcp.json", one("p", "x"))
    place.write("~/.prong/mcp.json", one("u", "x"))
    found = place.read(trusted=False)
    assert commands(found) == [("u", "x")]
    assert "servers p left out" in found.warnings[0]
    assert "prong trust" in found.warnings[0]


def test_settings_choose_among_the_projects_servers(place: Place) -> None:
    """Disabled servers are left out; a list of enabled ones leaves the others out."""
    place.write(".mcp.json", '{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}}')
    assert commands(place.read()) == [("a", "x"), ("b", "y")]
    assert commands(place.read(settings='{"disabledMcpjsonServers": ["a"]}')) == [("b", "y")]
    assert commands(place.read(settings='{"enabledMcpjsonServers": ["a"]}')) == [("a", "x")]


def test_variables_are_filled_in(place: Place) -> None:
    """${VAR} and ${VAR:-default} work in every text field."""
    path = place.write(
        ".mcp.json",
        '{"mcpServers": {"s": {"command": "run-${TOKEN}", "args": ["${NO:-d}", "${EMPTY:-e}",'
        ' "${EMPTY}"], "env": {"K": "${TOKEN}"}},\n'
        '"w": {"type": "http", "url": "https://${HOST:-h}/m", "headers": {"A": "B ${TOKEN}"}}}}',
    )
    assert place.read().servers == (
        ServerSpec(
            name="s",
            path=path,
            line=1,
            scope="project",
            command="run-t1",
            args=("d", "e", ""),
            env={"K": "t1"},
        ),
        ServerSpec(
            name="w",
            path=path,
            line=2,
            scope="project",
            kind="http",
            url="https://h/m",
            headers={"A": "B t1"},
        ),
    )


@pytest.mark.parametrize(
    ("entry", "line", "why"),
    [
        ("3", 2, "must be an object"),
        ("{}", 2, "either a 'command' to start or a 'url'"),
        ('{"command": "x", "url": "http://h"}', 2, "either a 'command'"),
        ('{\n"command": 5}', 3, "'command' must be a text"),
        ('{"command": "x",\n"args": "y"}', 3, "'args' must be a list"),
        ('{"command": "x", "args": ["a",\n1]}', 3, "'args.1' must be a list of texts"),
        ('{"command": "x",\n"env": {"A":\n1}}', 4, "'env.A' must be an object of texts"),
        ('{"command": "x", "args":\n["${GONE}"]}', 3, "uses ${GONE}, which is not set"),
        ('{\n"type": "ws", "url": "http://h"}', 3, "it must be stdio, http or sse"),
        ('{\n"type": "sse", "command": "x"}', 3, "is of type 'sse', which has no 'command'"),
        ('{"command": "x",\n"timeout": "5"}', 3, "'timeout' must be a number of milliseconds"),
        ('{\n"url": "ftp://h"}', 3, "must begin with http"),
    ],
)
def test_broken_server_is_named_and_the_others_work(
    place: Place, entry: str, line: int, why: str
) -> None:
    """A wrong entry is a problem with file and line, and hides no other server."""
    path = place.write(
        ".mcp.json", f'{{"mcpServers": {{\n"bad": {entry},\n"good": {{"command": "x"}}}}}}'
    )
    found = place.read()
    assert commands(found) == [("good", "x")]
    (problem,) = found.problems
    assert (problem.path, problem.line) == (path, line)
    assert why in problem.why


def test_malformed_file_is_named_and_other_files_work(place: Place) -> None:
    """A file that is no JSON gives line and column; servers of other files run."""
    path = place.write(".mcp.json", '{"mcpServers":\n  {,}}')
    place.write("~/.prong/mcp.json", one("u", "x"))
    found = place.read()
    assert commands(found) == [("u", "x")]
    assert [(problem.path, problem.line) for problem in found.problems] == [(path, 2)]


@pytest.mark.parametrize("flag", ["missing.json", "{nope", '{"mcpServers": {"s": {}}}'])
def test_a_wrong_flag_is_an_error(place: Place, flag: str) -> None:
    """What --mcp-config asks for must be there: nothing goes on without it."""
    with pytest.raises(ConfigError):
        place.read(flag)


def test_servers_of_this_folder_alone_are_the_users_own(place: Place) -> None:
    """What `add` keeps for a user in one folder needs no trust, beats the project, and ends there."""
    local = f'{{"projects": {{"{place.root}": {one("a", "local")}, "/else": {one("b", "x")}}}}}'
    place.write(".mcp.json", one("a", "project"))
    place.write("~/.claude.json", local)
    found = place.read(trusted=False)
    assert commands(found) == [("a", "local")]
    assert [server.scope for server in found.servers] == ["local"]
    place.write("~/.prong/mcp.json", local.replace("local", "ours"))
    assert commands(place.read()) == [("a", "ours")]


def test_what_was_switched_off_elsewhere_stays_off(place: Place) -> None:
    """Servers that the other program has switched off for this folder do not run here."""
    off = '"disabledMcpServers": ["u"], "disabledMcpjsonServers": ["p"]'
    place.write(".mcp.json", one("p", "x"))
    servers = one("u", "x")[1:-1]
    place.write("~/.claude.json", f'{{{servers}, "projects": {{"{place.root}": {{{off}}}}}}}')
    assert commands(place.read()) == []


def test_servers_of_a_config_toml_are_read(place: Place) -> None:
    """Tables `mcp_servers.NAME` work, at home and, with trust, in the project."""
    table = '[mcp_servers.{}]\ncommand = "x"\nargs = ["1"]\ntool_timeout_sec = 2\n'
    more = '[mcp_servers.web]\nurl = "https://h/m"\nbearer_token_env_var = "TOKEN"\n'
    place.write("~/.codex/config.toml", table.format("u") + more)
    place.write(".codex/config.toml", table.format("p") + "[mcp_servers.no]\nenabled = false\n")
    found = place.read()
    assert [server.name for server in found.servers] == ["p", "u", "web"]
    assert found.servers[1].args == ("1",)
    assert found.servers[1].call_seconds == 2
    assert found.servers[2].headers == {"Authorization": "Bearer t1"}
    assert [server.name for server in place.read(trusted=False).servers] == ["u", "web"]
    place.write("~/.codex/config.toml", "[mcp_servers.u")
    assert "not valid TOML" in place.read().problems[0].why


def test_names_that_cannot_be_told_apart_are_said(place: Place) -> None:
    """Two servers whose tools would have one name: one is left out; a wider name is warned of."""
    names = ("a.b", "a_b", "a", "a__c")
    inner = ", ".join(f'"{name}": {{"command": "x"}}' for name in names)
    place.write("~/.prong/mcp.json", f'{{"mcpServers": {{{inner}}}}}')
    found = place.read()
    assert [server.name for server in found.servers] == ["a", "a.b", "a__c"]
    assert "'a_b' is left out" in found.problems[0].why
    assert found.warnings == ["rules about mcp__a speak of the tools of the server 'a__c' too"]
