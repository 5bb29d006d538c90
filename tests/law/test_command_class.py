"""Classes of lines in which bash does more than the text seems to say: none is taken for reading."""

from __future__ import annotations

import pytest

from prong.tools.commandline import parse_command
from prong.tools.ground import Allow, Deny
from shared.gate import HOME, ROOT, policy, rule, run

pytestmark = pytest.mark.spec("L5", "P2", "S2")

EXPANDED = [
    *("echo `echo a``zap`", "echo ${x:-`zap`}", "echo ${x:-<(zap)}", "echo \"${x:-'$(zap)'}\""),
    *("cat <<E\n${x:-'$(zap)'}\nE", "cat <<E\n`zap`\nE", "cat <<-E\n\t$(zap)\n\tE"),
    *("echo ${HOME^$(zap)}", "echo ${HOME%a$((a[$(zap)]))}", "echo ${HOME//a/$(zap)}"),
    *("[[ a =~ <(zap) ]]", "[[ a =~ $(zap) ]]", "[[ a =~ (a|$(zap)) ]]", "[[ -v a[$(zap)] ]]"),
    *("x='a[$(zap)]'; echo ${!x}", "x='a[$(zap)]'; echo ${HOME:x}", "x='a[$(zap)]'; echo ${@:x}"),
    *("x='a[$(zap)]'; [[ a =~ $[x] ]]", "x='a[$(zap)]'; echo $((x))", "x='a[$(zap)]'; [ -v $x ]"),
    *("x='$(zap)'; echo ${x@P}", "printf -v 'a[$(zap)]' x", "read 'a[$(zap)]' <<< 1"),
    *("echo $((a[$(zap)]))", "echo $[a[$(zap)]]", "((a[$(zap)]))", "let 'a[$(zap)]'"),
    *("test -v 'a[$(zap)]'", "[[ a -eq 'a[$(zap)]' ]]", "declare -i x='a[$(zap)]'"),
]
SHORTENED = [
    *("env --split='zap'", "env --s=zap", "env -S zap", "env -vS'zap'", "env -iSzap"),
    *("env --chd=/ cat etc/shadow", "env -C/ cat etc/shadow", "xargs --arg-f=f zap"),
    *("cp -vt/etc f", "cp --targ=/etc f", "install -Dvt.git/hooks f", "ln -st/etc f"),
    *("sort -uo/etc/x f", "sort --outp=x f", "sort --compr=zap f", "tar -cf/dev/null -Izap f"),
    *("find . -fprint x", "find . -exec zap {} +", "sed -ni p f", "sed --in-p p f"),
    *("date -s x", "date --se x", "tree -o x", "xargs -0ax zap", "grep --inc=x f | xargs zap"),
]
BORROWED = [
    *("npm_config_script_shell=/abs/x npm test", "npm_config_logs_dir=/x npm ls", "PATH=. cat f"),
    *("GIT_EXTERNAL_DIFF=zap git diff", "GIT_PAGER=zap git log", "git_dir=x GIT_DIR=y git log"),
    *("LD_PRELOAD=./x cat f", "BASH_ENV=x bash -c :", "PS4='$(zap)' bash -xc true", "IFS=/ cat f"),
    *("env LD_PRELOAD=x cat f", "export PATH=.; cat f", "for PATH in .; do cat f; done"),
    *("xargs --process-slot-var=PATH pwd", "PAGER=zap man ls", "LESSOPEN='|zap' less f"),
]
FOREIGN = [
    *("git -C docs status", "cd docs && git status", "git --git-dir=docs log -p --ext-diff"),
    *("git -c core.fsmonitor=zap status", "git -c core.pager=zap log", "git -c alias.x=!zap x"),
    *("git grep -Ozap x", "git diff --ext-diff", "git log --output=x", "pytest --version"),
    *("git --exec-path=. status", "git branch -m main", "git update-ref refs/heads/main HEAD"),
]
MOVED = [
    *("kill -9> f 1", "kill -9>> f 1", "zap -<<E\nE", "cat -<<E\nE", "head -5< f", "nice -5<f zap"),
    *("sort -o2>&1 f", "find . -delete2>&1", "nice -n12>&1 zap", "echo -n12>>f", "cat -b1<f"),
    *("zap {x}> f", "cat f >& $x", "cat 3-<f"),
]
"""Words before a redirect that the grammar takes for a descriptor, and bash does not."""
PATTERNED = [
    *("(cat =~ f; zap) | head -3", "(cat =~ f && zap)", "{ cat =~ f| zap; }", "(a =~ f > g)"),
    *("(cat =~ f\nzap)", "(echo a =~ b & zap)", "if (cat =~ f; zap); then :; fi"),
]
"""Commands with a word that the grammar reads as a pattern up to a closing bracket."""


@pytest.mark.parametrize("line", [*EXPANDED, *SHORTENED, *BORROWED, *FOREIGN])
def test_no_class_of_hidden_deeds_is_taken_for_reading(line: str):
    """Without a sandbox such a line is asked about, and refused where only reading is possible."""
    assert not isinstance(run(policy(), line), Allow)
    assert not isinstance(run(policy("dontAsk"), line), Allow)
    assert not isinstance(run(policy("plan"), line), Allow)


@pytest.mark.parametrize("line", EXPANDED)
def test_what_is_expanded_in_a_word_is_no_way_round_a_rule(line: str):
    """A program that a rule forbids is asked about or refused in every such place, at the least."""
    denied = rule("deny", "Bash(zap:*)")

    assert not isinstance(run(policy("bypassPermissions", denied), line), Allow)


@pytest.mark.parametrize("line", PATTERNED)
def test_a_pattern_ends_where_a_word_ends(line: str):
    """Outside `[[ ]]` an operator ends a pattern: what it hides is found, or the line unknown."""
    parsed = parse_command(line, ROOT, HOME)

    assert parsed.opaque or "zap" in {c.words[0].text for c in parsed.commands if c.words}
    assert not isinstance(run(policy(), line), Allow)


@pytest.mark.parametrize("line", MOVED)
def test_a_word_that_the_grammar_swallows_makes_a_line_uncertain(line: str):
    """What the two readings place differently is unknown, so that no rule overlooks it."""
    assert parse_command(line, ROOT, HOME).opaque
    assert not isinstance(
        run(policy("bypassPermissions", rule("deny", "Bash(kill -9:*)")), line), Allow
    )


def test_redirects_of_descriptors_are_still_read():
    """Ordinary redirects stay certain."""
    for line in ("cat f 2>/dev/null", "cat f 2>&1", "ls >/dev/null 2>&1", "cat a-2 <f", "cat - <f"):
        assert not parse_command(line, ROOT, HOME).opaque, line
    assert isinstance(run(policy("plan"), "cat f 2>/dev/null"), Allow)
    assert isinstance(run(policy("plan", rule("deny", "Bash(kill:*)")), "kill -9 1"), Deny)


HOMELY = [
    *("dd if=~/.ssh/id", "cat x=~/.ssh/id", "tool key=~/.ssh/id", "tool a+=~/.ssh/id"),
    *("dd if=~/a:~/.ssh/id", "tool x=a:~/.ssh/id", "tool a[1]=~/.ssh/id"),
]


@pytest.mark.parametrize("line", HOMELY)
def test_a_tilde_in_what_looks_like_an_assignment_is_the_home_folder(line: str):
    """Bash expands it in arguments too, so that a rule or a protected path is meant."""
    (simple,) = parse_command(line, ROOT, HOME).commands
    last = simple.words[-1]
    assert not last.sure or f"{HOME}/.ssh/id" in last.text
    if last.sure:
        denied = rule("deny", "Read(~/.ssh/**)")
        assert isinstance(run(policy("bypassPermissions", denied), line), Deny)
        assert not isinstance(run(policy("plan"), line), Allow) or "cat x=" in line


def test_a_tilde_elsewhere_is_itself():
    """Behind an option, a quote or another letter bash leaves it alone."""
    for word in ("--f=~/d", "x=a~", "x='~'", "x=\\~/a", "1=~/a", "a~", "if='~/a'"):
        (simple,) = parse_command(f"tool {word}", ROOT, HOME).commands
        assert HOME not in simple.words[1].text, word


@pytest.mark.parametrize(
    "line",
    [
        *("find . -exec$x zap {} +", 'find . -ex$x"ec" zap {} +', "find . $x zap {} +"),
        *('find . "-exec$x" zap {} +', 'find . "$x" zap {} +', "x='. -exec zap ;'; find $x"),
        *("x='f -exec zap ;'; find . -name $x", "git -c$x alias.x=!zap x", "git rebase --ex$x zap"),
    ],
)
def test_what_runs_by_a_variable_is_not_overlooked(line: str):
    """A word that may turn out to be `-exec` or git's `-c` leaves the line uncertain."""
    assert parse_command(line, ROOT, HOME).opaque
    denied = rule("deny", "Bash(zap:*)")
    assert not isinstance(run(policy("bypassPermissions", denied), line), Allow)


def test_folders_names_and_values_may_be_variables():
    """What cannot become an action leaves it certain."""
    for line in (
        *('find "$d" -name f', 'find . -name "$n"', 'find . -newer "$f"', 'find "$d"'),
        *('git log --since="$d"', "git show $rev", 'git log -n"$n"', 'git commit -m "$text"'),
    ):
        assert not parse_command(line, ROOT, HOME).opaque, line
