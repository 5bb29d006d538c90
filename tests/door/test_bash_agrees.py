"""The parser against bash itself: `zap` stands for a denied program and leaves a mark when run."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prong.tools.access import Running
from prong.tools.policy import Allow, Policy, decide
from prong.tools.rule import Rule, parse_rule

pytestmark = [pytest.mark.spec("L5"), pytest.mark.door]

BASH = shutil.which("bash") or "bash"

SCRAPS = [
    *["zap", "zap", "zap", "z", "ap", "echo ", "cat ", "env ", "xargs ", "eval ", "bash -c "],
    *["true", "x=", "x", " ", " ", "\n", "\n", ";", "&&", "||", "|", "&", "(", ")", "{ ", "; }"],
    *["$(", ")", "`", '"', "'", "$'", "\\", "\\\n", "#", " #", "<<E", "<<-E", "<<'E'", "\nE\n"],
    *["\n\tE\n", "<<<", "<(", ">(", "> f", "2>&1", "${x:-", "}", "$x", "$((", "))", "1", "[[ "],
    *[" ]]", "-n ", "if ", "; then ", "; fi", "for i in a; do ", "; done", "case a in a) "],
    *[";; esac", "f() ", "f", "!", "*", "{a,", "~", "=", "a[", "]", "-eq ", "time ", "@P", "\t"],
]

REACHING = [
    "zap",
    "z''ap",
    r"$'\x7aap'",
    "z\\\nap",
    "echo \\ #x; zap",
    "echo x\n\\\nzap",
    "echo x > f\n\\\nzap",
    "\\\nzap",
    "cat <<-E\n\t$(zap)\n\tE",
    "cat <<E\n`zap`\nE",
    "x='a[$(zap)]'; echo $((x))",
    "x='$(zap)'; echo ${x@P}",
    "[[ 'a[$(zap)]' -eq 0 ]]",
    "test -v 'a[$(zap)]'",
    "printf -v 'a[$(zap)]' x",
    "x='-va[$(zap)]'; printf $x y",
    "echo 1 | read 'a[$(zap)]'",
    "a=(1); unset 'a[$(zap)]'",
    "let 'a[$(zap)]'",
    "declare -i x='a[$(zap)]'",
    "command test -v 'a[$(zap)]'",
    "trap zap EXIT",
    "echo zap | bash",
    "env zap",
    "echo | xargs zap",
    "eval z ap; eval 'z'ap",
    "f() { zap; }; f",
    "echo() { zap; }; echo",
    "echo >(zap)",
    "x=zap; $x",
    "time { zap; }",
    "> /dev/null zap",
    "> f 2>&1 zap",
    "[ \nzap ]",
    "[ a || zap ]",
    "[ -n '' ] || [ '' || zap ]",
    "> f echo $\nzap",
    "echo > f t $\nzap",
    "<<<a[$]cat zap",
    "&> f >&f zap < f",
    "> f > g env zap",
    "env > /dev/null zap",
    "echo `echo a``zap`",
    "echo ${x:-`zap`}",
    "echo ${x:-<(zap)}",
    "echo \"${x:-'$(zap)'}\"",
    "cat <<E\n${x:-'$(zap)'}\nE",
    "echo ${HOME^$(zap)}",
    "echo ${HOME%a$((a[$(zap)]))}",
    "[[ a =~ <(zap) ]]",
    "x='a[$(zap)]'; echo ${!x}",
    "x='a[$(zap)]'; echo ${HOME:x}",
    "x='a[$(zap)]'; echo ${@:x}",
    "x='a[$(zap)]'; [[ a =~ $[x] ]]",
    "x='a[$(zap)]'; a=([x]=1)",
    "x='1 -o -v a[$(zap)]'; IFS=' '; [ -n $x ]",
    'x=\'a[$(zap)]\'; o=-v; [ "$o" "$x" ]',
    "echo a >& '$(zap)'",
    "PS4='$(zap)'; set -x; true",
    "compgen -C zap x",
    "mapfile -C zap -c 1 <<< x",
    "declare 'a[$(zap)]=1'",
    "env --s=zap",
    'env - PATH="$PATH" zap',
    "echo x | xargs --max-lines zap",
    "echo x | xargs --replac zap",
]


@pytest.fixture(scope="module")
def reaches(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], bool]:
    """Run a command line with a `zap` that leaves a mark; tell whether it was reached."""
    folder: Path = tmp_path_factory.mktemp("bash")
    programs, work, mark = folder / "bin", folder / "work", folder / "mark"
    programs.mkdir()
    work.mkdir()
    for name in ("cat", "env", "true", "xargs", "bash"):
        (programs / name).symlink_to(shutil.which(name) or name)
    zap = programs / "zap"
    zap.write_text(f"#!{BASH}\n: > {mark}\n")
    zap.chmod(0o755)

    def run(command: str) -> bool:
        # The pipe is read to its end so that substitutions in the background are done as well.
        with subprocess.Popen(
            [BASH, "-c", command],
            cwd=work,
            env={"PATH": str(programs), "HOME": str(work)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:
            try:
                # A bound for a line that never ends: one that is only slow must not be taken for it.
                process.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
        found = mark.exists()
        mark.unlink(missing_ok=True)
        return found

    return run


def allowed(command: str) -> bool:
    denied = parse_rule("Bash(zap:*)", effect="deny", source="user")
    assert isinstance(denied, Rule)
    policy = Policy(root="/r", home="/home/u", mode="bypassPermissions", rules=(denied,))
    return isinstance(decide(policy, "Bash", [Running(command, "/r")]), Allow)


@pytest.mark.parametrize("command", REACHING)
def test_tricks_that_work_in_bash_do_not_pass(command: str, reaches: Callable[[str], bool]):
    """Each of these really runs the denied program in bash, and none is allowed."""
    assert reaches(command)
    assert not allowed(command)


@pytest.mark.timeout(240)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(SCRAPS), min_size=2, max_size=14).map("".join))
def test_bash_never_reaches_what_was_taken_for_absent(reaches: Callable[[str], bool], command: str):
    """If a line is allowed although a program is denied, bash does not run that program."""
    if allowed(command):
        assert not reaches(command)
