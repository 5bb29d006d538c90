"""Paths of Windows, judged by their text, and where its bash is looked for."""

from __future__ import annotations

import time
from pathlib import PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prong.system.bash_program import find_windows_bash
from prong.system.identity import read_ps
from prong.system.program_path import find_windows_program
from prong.system.windows_path import has_root, is_unclear_word, why_unclear, with_slashes
from prong.tools import builtin, case, harmless, running
from prong.tools.access import Running
from prong.tools.policy import Allow, Policy, decide
from prong.tools.rule import Rule, fits_path, points_below, spell_absolute

PLAIN = (
    *("a.txt", "src/a.txt", "C:/work/a.txt", r"C:\work\a.txt", "c:/x", "/c/work", "..", "~/x"),
    *(".git", "a b", "console", "nullify.txt", "com10", "a~b", "ä", "C:/"),
)

UNCLEAR = {
    "stream": ["a.txt:b", "a.txt::$DATA", "C:/work/a.txt:b", ".git::$INDEX_ALLOCATION/config"],
    "drive": ["C:", "C:a.txt", "C:..", r"c:work\a.txt"],
    "no drive": ["/etc/passwd", "/tmp/x", r"\work\a.txt", "/cc/x"],
    "machine or a device": [
        "//srv/share/x",
        r"\\srv\share",
        r"\\?\C:\work\a",
        r"\\.\C:",
        "//./NUL",
    ],
    "is a device": [
        *("CON", "nul", "NUL.txt", "x/aux", "COM1", "lpt9.log", "com¹", "conin$", "clock$", " nul"),
        *("nul .txt", "x/ CON/y"),
    ],
    "end of a name": ["C:/x/prn ", "a.txt.", "a.txt ", "secret./x", "C:/work /x", "..."],
    "short form": ["PROGRA~1", "C:/PROGRA~1/x", "SECRET~2.TXT"],
    "characters": ["a*b", "a?b", 'a"b', "a|b", "a\x01b", "a\0b"],
}


@pytest.mark.parametrize("path", PLAIN)
def test_plain_names_are_clear(path: str) -> None:
    """A path in the ordinary form, also one that bash would write, can be judged."""
    assert why_unclear(path) == ""


@pytest.mark.parametrize(
    ("why", "path"), [(why, path) for why, paths in UNCLEAR.items() for path in paths]
)
@pytest.mark.spec("L5")
def test_other_names_of_a_file_are_unclear(why: str, path: str) -> None:
    """What names a file in another way than the plain one, or no file, is refused, and says why."""
    assert why in why_unclear(path)
    assert is_unclear_word(path)


@pytest.mark.parametrize("word", ["/c/work", "C:/work/a.txt", "a\\b", "a:b"])
@pytest.mark.spec("L5")
def test_a_word_may_be_clear_as_a_path_alone(word: str) -> None:
    """What bash and a program of Windows read differently is no word that is sure."""
    assert is_unclear_word(word)
    assert not is_unclear_word("src/a.txt")


@given(st.text(alphabet="aB1.:/\\ ~$", max_size=12))
def test_what_is_clear_means_the_same_to_windows(path: str) -> None:
    """A clear path, with slashes, has the parts that Windows sees, and no drive but its own."""
    if why_unclear(path):
        return
    seen = with_slashes(path)
    parts = [part for part in seen.split("/") if part not in {"", "."}]
    windows = PureWindowsPath(seen)
    assert [part.rstrip("\\") for part in windows.parts if part != "\\"] == parts
    assert windows.is_absolute() == has_root(seen)


def test_bash_names_drives_by_letters() -> None:
    """`/c/work` is `C:/work`; a folder of one letter elsewhere is none."""
    assert with_slashes("/c/work") == "C:/work"
    assert with_slashes("/c") == "C:/"
    assert with_slashes(r"C:\a\b") == "C:/a/b"
    assert with_slashes("x/c/d") == "x/c/d"


@pytest.mark.parametrize(
    ("specifier", "path", "fits"),
    [
        ("//C:/secret/**", "C:/secret/a", True),
        ("//C:/secret/**", "C:/SECRET/a", True),
        ("//**/id_rsa", "D:/keys/id_rsa", True),
        ("//C:/secret/**", "D:/secret/a", False),
        ("/a.txt", "C:/work/a.txt", True),
        ("~/.ssh/**", "C:/Users/me/.SSH/x", True),
    ],
)
def test_rules_see_drives(specifier: str, path: str, *, fits: bool) -> None:
    """A rule about an absolute path takes the drive as a part, and what forbids ignores case."""
    rule = Rule("deny", "Read", specifier, "user")
    assert fits_path(rule, path, root="C:/work", home="C:/Users/me") is fits


def test_what_is_suggested_for_a_drive_fits_it() -> None:
    """A specifier made from a path on a drive fits that path, and points below its folder."""
    rule = Rule("deny", "Edit", f"{spell_absolute('D:/other')}/**", "user")
    assert rule.specifier == "//D:/other/**"
    assert fits_path(rule, "D:/other/a", root="C:/work", home="C:/h")
    assert points_below(rule, "D:/", root="C:/work", home="C:/h")
    assert not points_below(rule, "D:/more", root="C:/work", home="C:/h")


@pytest.mark.parametrize(
    ("line", "allowed"),
    [
        ("cat a.txt", True),
        ("ls src", True),
        ("cat C:/Users/me/.ssh/id_rsa", False),
        ("cat 'C:\\Users\\me\\x'", False),
        ("cat /c/Users/me/x", False),
        ("cat SECRET~1.TXT", False),
        ("cat a.txt::\\$DATA", False),
        ("cat secret.", False),
        ("cd /c/Windows && cat x", False),
        ("find . -newer C:/x", False),
        ("cat < C:/x", False),
    ],
)
@pytest.mark.spec("L5")
def test_words_that_may_be_other_paths_are_not_sure(
    line: str, monkeypatch: pytest.MonkeyPatch, *, allowed: bool
) -> None:
    """A command that only reads is let pass on Windows if its words can mean one path alone."""
    for module in (builtin, case, harmless, running):
        monkeypatch.setattr(module, "is_unclear_word", is_unclear_word)
    policy = Policy(root="/work", home="/home/me")
    decision = decide(policy, "Bash", [Running(line, "/work")])
    assert isinstance(decision, Allow) is allowed


GIT = r"C:\Program Files\Git"
WSL = r"C:\Windows\System32\bash.exe"


@pytest.mark.parametrize(
    ("env", "there", "found"),
    [
        ({"PATH": rf"C:\Windows\System32;{GIT}\cmd"}, {rf"{GIT}\bin\bash.exe"}, rf"{GIT}\bin\bash.exe"),
        ({"Path": r"C:\msys\bin"}, {r"C:\msys\bin\bash.exe"}, r"C:\msys\bin\bash.exe"),
        ({"ProgramFiles": r"C:\Program Files"}, {rf"{GIT}\bin\bash.exe"}, rf"{GIT}\bin\bash.exe"),
        ({"PATH": r"C:\Windows\System32"}, {r"C:\Windows\System32\bash.exe"}, ""),
        ({"PATH": r"C:\u\AppData\Local\Microsoft\WindowsApps"}, {r"C:\u\AppData\Local\Microsoft\WindowsApps\bash.exe"}, ""),
        ({"PATH": r".;tools"}, {"bash.exe", r"tools\bash.exe"}, ""),
        ({"PRONG_BASH": r"D:\b.exe", "PATH": r"C:\m"}, {r"D:\b.exe", r"C:\m\bash.exe"}, r"D:\b.exe"),
        ({"PRONG_BASH": r"D:\b.exe", "PATH": r"C:\m"}, {r"C:\m\bash.exe"}, ""),
        ({"PRONG_BASH": WSL}, {WSL}, ""),
        ({"PATH": r"C:\Windows\Sysnative"}, {r"C:\Windows\Sysnative\bash.exe"}, ""),
        ({"PATH": r"C:\Windows\SysWOW64"}, {r"C:\Windows\SysWOW64\bash.exe"}, ""),
        ({"LocalAppData": r"C:\l"}, {r"C:\l\Programs\Git\bin\bash.exe"}, r"C:\l\Programs\Git\bin\bash.exe"),
        ({}, set[str](), ""),
    ],
)  # fmt: skip
def test_where_bash_is_looked_for(env: dict[str, str], there: set[str], found: str) -> None:
    """Git's bash is found on the path, beside git and at the usual places; never that of WSL."""
    assert find_windows_bash(env, there.__contains__) == found


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("git", r"C:\Git\cmd\git.exe"),
        ("GIT.EXE", None),
        ("npx", None),
        ("evil", None),
        ("C:/tools/x.exe", "C:/tools/x.exe"),
    ],
)
@pytest.mark.spec("L5")
def test_programs_are_looked_for_along_the_path_alone(name: str, found: str | None) -> None:
    """No program of the folder one stands in is started, nor one that cmd.exe would read anew."""
    env = {"Path": r'.;tools;"C:\Git\cmd"'}
    there = {
        r"C:\Git\cmd\git.exe",
        "evil.exe",
        r".\evil.exe",
        r"tools\evil.exe",
        r"C:\Git\cmd\npx.cmd",
    }
    assert find_windows_program(name, env, there.__contains__) == found


def test_the_start_of_a_process_is_read_from_ps(monkeypatch: pytest.MonkeyPatch) -> None:
    """State and second are read from what `ps` of macOS says, in UTC; anything else is an error."""
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        found = read_ps("S    Mon Nov 16 09:00:10 2026\n")
    time.tzset()
    assert found == ("S", 1794819610)
    assert read_ps("Ss+  Sun Mar  1 00:00:00 2026    ")[0] == "S"
    with pytest.raises(ValueError, match="time data"):
        read_ps("")
