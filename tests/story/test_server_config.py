from __future__ import annotations

from pathlib import Path

import pytest

from prong.config.server import Configured, ServerSpec, configured_servers
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
            command="run-t1",
            args=("d", "e", ""),
            env={"K": "t1"},
        ),
        ServerSpec(name="w", path=path, line=2, url="https://h/m", headers={"A": "B t1"}),
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
        ('{\n"type": "sse", "url": "http://h"}', 3, "supported are 'stdio' and 'http'"),
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
