"""Classes of lines that try to get past the gate: tables of variants, and laws."""

from __future__ import annotations

import itertools
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from prong.tools.access import Running
from prong.tools.argv import options, read_options
from prong.tools.policy import Allow, Ask, Deny, Mode, decide
from prong.tools.word import Word
from shared.gate import policy, rule, run

pytestmark = pytest.mark.spec("L5")

PLACES = [
    "echo {}",
    'echo "{}"',
    "cat <<E\n{}\nE",
    "cat <<< {}",
    "x={}",
    "[[ a =~ {} ]]",
    "[[ a == {} ]]",
    '[ a = "{}" ]',
    "case {} in *) ;; esac",
    "for i in {}; do :; done",
    "a=({})",
    "echo ${{x:-{}}}",
    'echo "${{x:-{}}}"',
    "echo ${{x%{}}}",
    "echo ${{x/a/{}}}",
    "echo ${{x^^{}}}",
    "echo `echo a``{}`",
    "echo $(echo {})",
    "cat <(echo {})",
]
HIDDEN = [
    "`rm x`",
    "$(rm x)",
    "${y:-`rm x`}",
    "${y:-$(rm x)}",
    "${y:+<(rm x)}",
    "${y#'$(rm x)'}",
    "${!y}",
    "${y:z}",
    "${y:0:z}",
    "${y@P}",
    "${a[y]}",
    "$((y))",
    "$[y]",
    "$((a[$(rm x)]))",
]


@pytest.mark.parametrize(("place", "hidden"), list(itertools.product(PLACES, HIDDEN)))
def test_what_bash_expands_is_never_taken_for_text(place: str, hidden: str):
    """Each form that may run a command is seen, or makes the line uncertain, wherever it stands."""
    line = place.format(hidden)
    denied = policy("bypassPermissions", rule("deny", "Bash(rm:*)"))

    assert isinstance(run(policy("plan"), line), Deny)
    assert isinstance(run(policy(), line), Ask)
    assert isinstance(run(policy("dontAsk"), line), Deny)
    assert not isinstance(run(denied, line), Allow)


@pytest.mark.parametrize(
    "line",
    [
        "cp -vt/abs f",
        "cp -vt /abs f",
        "cp --target-dir=/abs f",
        "cp --t /abs f",
        "cp -vS/abs f g",
        "cp --frobnicate a b",
        "mv -ft.. a",
        "mv --targ=.. a",
        "mkdir -pvm755 ../x",
        "touch -cr/etc/passwd x",
        "touch --ref=/etc/passwd x",
        "tee -ai /abs",
        "rm --recurs x",
        "rm -vfr x",
        "cp --rec a b",
        "cp -pR a b",
    ],
)
def test_shortened_and_glued_options_are_those_options(line: str):
    """A value is found behind its option however that is written; an unknown option is asked for."""
    assert isinstance(run(policy("acceptEdits"), line), Ask)


@pytest.mark.parametrize("mode", ["acceptEdits", "auto", "bypassPermissions"])
@pytest.mark.parametrize(
    "line",
    [
        "cp -vt.git/hooks evil.sh",
        "cp -t.git/hooks evil.sh",
        "cp --targ=.git/hooks evil.sh",
        "install -Dvt.git/hooks f",
        "install -m755 -Dt .git/hooks f",
        "ln -sft.git/hooks f",
        "mv -Tft .vscode x",
        "mkdir p; tee p/settings.json <data.json; mv p .claude",
        "mv p .prong",
        "mv p .Claude",
        "mv x/.claude .",
        "mv -t. x/.claude",
        "cp -r p .claude",
        "cp x/settings.json .claude",
        "ln -s p .claude",
        "rsync -a p/ .claude",
        "rm -rf .claude",
        "mv x /home/u/.config",
        "cp x/.mcp.json .",
    ],
)
def test_protected_files_are_not_brought_by_their_folder(line: str, mode: Mode):
    """What puts a folder where protected files are, or a file into it, is asked for in every mode."""
    assert isinstance(run(policy(mode, rule("allow", "Bash")), line), Ask)


@pytest.mark.parametrize("line", ["mkdir .claude", "ls .claude", "mv a b", "mv x/a .", "cp a src"])
def test_folders_without_protected_files_are_not(line: str):
    """Making a folder, reading one, and moving other files is no change of protected ones."""
    assert isinstance(run(policy("bypassPermissions"), line), Allow)


@pytest.mark.parametrize(
    ("line", "fits"),
    [
        ("cp -P sub/f l && mv l sub/l && cd sub && echo x > l", False),
        ("cp -s sub/f l && echo x > l", False),
        ("mv a b && cat b", False),
        ("mv a b && cat b/c", False),
        ("mv a b; mv b c", False),
        ("mv a b\necho x > b", False),
        ("mv a sub && cat sub/a", False),
        ("mv -t sub a && cat sub/a", False),
        ("mv a b && cd b && cat ../c", False),
        ("mv a b && cat b/../c", False),
        ("cat b & mv a b", False),
        ("cat b | mv a b", False),
        ("for i in 1 2; do cat b; mv a b; done", False),
        ("mv sub/deep/up up/secret .", False),
        ("mv -t . sub/deep/up up/secret", False),
        ("mv sub/a sub/b .", True),
        ("mv a b sub", True),
        ("mv sub/*.py .", True),
        ("for i in 1 2; do cp -P sub/l m; done", False),
        ("ln -s /etc/passwd l; cat l", False),
        ("ln -s /etc; cat etc/passwd", False),
        ("ln -s / sub/l; cd sub; cat l/etc/passwd", False),
        ("tar xf a.tar && cat b", False),
        ("git checkout x && cat b", False),
        ("bash -c 'mv a b' && cat b", False),
        ("env mv a b && cat b", False),
        ("mkdir -p a/b && mv c a/b", True),
        ("mv a b && cat c", True),
        ("mv a b && ls && git status", True),
        ("mv a sub/ && echo done > log", True),
        ("mv a b 2>/dev/null; echo x > c", True),
        ("cp a b && cat b", True),
        ("touch a && echo x > a && cat a", True),
        ("npm test && cat b", True),
        ("git add a && git commit -m x && cat a", True),
        ("cat b; mv a b", True),
        ("git checkout x && ls", True),
    ],
)
def test_a_line_that_changes_what_its_paths_mean_is_asked_for(line: str, fits: bool):
    """After a link was made or a folder moved, what stands there is not known any more."""
    names = ["ln", "tar", "git checkout", "git add", "git commit", "npm test", "bash"]
    value = policy("acceptEdits", *(rule("allow", f"Bash({name}:*)") for name in names))

    assert isinstance(run(value, line), Allow) == fits


def test_a_rule_against_a_path_holds_for_a_line_that_moves_it():
    """Where paths are forbidden, a line that may make others of them is a question in any mode."""
    value = policy("bypassPermissions", rule("deny", "Edit(dist/**)"))

    assert isinstance(run(value, "ln -s . d && echo x > d/dist/a"), Ask)
    assert isinstance(run(value, "cp a dist"), Deny)
    assert isinstance(run(value, "tar xf a.tar && echo done"), Allow)


@pytest.mark.parametrize(
    "line",
    [
        "npm_config_script_shell=/abs/evil.sh npm test",
        "npm_config_script_shell=/abs/evil.sh; npm test",
        "NPM_CONFIG_SCRIPT_SHELL=x npm test",
        "x=1 npm test",
        "env x=1 npm test",
        "env -i x=1 npm test",
        "export x=1; npm test",
        "export x=1 && npm test",
        "x=1; export x; npm test",
        "declare -x x=1; npm test",
        "typeset -x x=1; npm test",
        "PATH=.; npm test",
        "PATH=$PWD:$PATH npm test",
        "for PATH in .; do npm test; done",
        "read PATH < f; npm test",
        "printf -v PATH .; npm test",
        ": ${PATH:=.}; npm test",
        "https_proxy=x; npm test",
        "set -a; x=1; npm test",
        "set -k; npm test",
        "NODE_OPTIONS=x npm test",
    ],
)
def test_a_variable_makes_another_command_of_it(line: str):
    """A rule written without a variable does not allow the command with one."""
    assert isinstance(run(policy("default", rule("allow", "Bash(npm test)")), line), Ask)


@pytest.mark.parametrize(
    "line", ["LC_ALL=C npm test", "CI=1 npm test", "env NO_COLOR=1 npm test", "x=1; npm test"]
)
def test_a_variable_that_changes_only_what_is_shown_does_not(line: str):
    """Variables for language, time and colour, and those of the script alone, are no matter."""
    assert isinstance(run(policy("default", rule("allow", "Bash(npm test)")), line), Allow)


@pytest.mark.parametrize("line", ["cd $x && git status", "cd - && git log", "git -C . status"])
def test_git_in_a_folder_that_is_not_known_is_asked_for(line: str):
    """Also where paths are resolved by the machine, and Prong itself runs in the project."""
    here = os.path.realpath(".")
    value = replace(policy("plan"), root=here)

    verdict = decide(value, "Bash", [Running(line, here)], resolve=os.path.realpath)

    assert isinstance(verdict, Ask)
    own = decide(value, "Bash", [Running("git status", here)], resolve=os.path.realpath)
    assert isinstance(own, Allow)


@pytest.mark.parametrize(
    "line",
    [
        "mv a b; cat " + "x/" * 40_000,
        "a}>" * 30_000,
        "[[ a =~ 'b' ]];" * 6_000,
        "cp " + "-ta " * 4_000 + "b",
        "echo " + "`" * 50_000,
        "echo " + "${x:-" * 15_000,
        "cat <<E\n" + "$x " * 30_000 + "\nE",
    ],
)
def test_a_long_line_is_decided(line: str):
    """No line makes the gate think for ever."""
    assert isinstance(run(policy("acceptEdits"), line), Ask | Allow)


LONG = ["split-string", "chdir", "unset", "ignore-environment", "ignore-signal"]
TABLE = options("iu:C:S:e::", "split-string= chdir= unset= ignore-environment ignore-signal=?")


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(LONG), st.data(), st.booleans())
def test_every_beginning_of_a_long_option_counts_as_it(name: str, data: st.DataObject, glued: bool):
    """However short it is written, an option is found; if it could be several, nothing is known."""
    short = name[: data.draw(st.integers(1, len(name)))]
    word = f"--{short}=value" if glued else f"--{short}"

    given = read_options(TABLE, [Word("env"), Word(word), Word("value"), Word("ls")])

    assert name in given.names
    several = [one for one in LONG if one.startswith(short)]
    assert not given.known or several == [name]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from("ie"), max_size=3), st.sampled_from("uCS"), st.text(max_size=5))
def test_a_value_is_found_behind_any_cluster(flags: list[str], letter: str, value: str):
    """The value of a letter is the rest of its word, or the next word."""
    flags = [flag for flag in flags if flag != "e"]
    cluster = "-" + "".join(flags) + letter

    glued = read_options(TABLE, [Word("env"), Word(cluster + value), Word("next"), Word("ls")])

    found = glued.options[-1]
    assert (found.name, glued.known) == (letter, True)
    assert found.value == Word(value or "next")
    assert glued.at == (2 if value else 3)
