"""The gate for commands against real bash: hostile lines by the thousand, the same for each seed.

Each line tries to run a program named `zap` where the gate does not look. The gate is asked first;
a line that it lets pass, in plan mode, by default, or with `zap` forbidden and all else allowed, is
then run by bash in a folder of its own. A line that reached `zap`, or that changed a file although
the gate took it for reading, is a failure.

    python -m prong.testing.torture shell --count 20000 --seed 1
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from msgspec import Struct

from prong.system.process_tree import ProcessTree, apart
from prong.testing.torture import Trial
from prong.tools.access import Running
from prong.tools.policy import Allow, Policy, decide
from prong.tools.rule import Rule, parse_rule
from prong.tools.word import names

Freedom = Literal["plan", "default", "denied"]
"""Under which policy a line was let pass."""

PROGRAMS = names(
    "cat env true xargs bash sort find sed grep head ls timeout nice nohup stdbuf wc tr cut diff"
)
"""What a line can reach besides builtins and `zap`."""

PAYLOADS = [
    "$(zap)",
    "`zap`",
    "<(zap)",
    ">(zap)",
    "a[$(zap)]",
    "a[`zap`]",
    "'a[$(zap)]'",
    "'$(zap)'",
    "$((a[$(zap)]))",
    "$[a[$(zap)]]",
    "$x",
    "x",
    "y",
    "zap",
    "$(( $(zap) ))",
    "\\$(zap)",
    "$\\(zap)",
    "$($(echo zap))",
    '"$(zap)"',
    "$'$(zap)'",
    '$"$(zap)"',
    "{a,$(zap)}",
    "~$(zap)",
    "*$(zap)",
]

EXPANSIONS = [
    "${{x:-{}}}",
    "${{x-{}}}",
    "${{x:+{}}}",
    "${{HOME:+{}}}",
    "${{x:={}}}",
    "${{x:?{}}}",
    "${{HOME^{}}}",
    "${{HOME,,{}}}",
    "${{HOME%{}}}",
    "${{HOME%a{}}}",
    "${{HOME##{}}}",
    "${{HOME/{}/b}}",
    "${{HOME//a/{}}}",
    "${{HOME:{}}}",
    "${{HOME:0:{}}}",
    "${{@:{}}}",
    "${{!{}}}",
    "${{a[{}]}}",
    "${{#a[{}]}}",
    "${{x@{}}}",
    "$(( {} ))",
    "$[ {} ]",
    "`echo a``{}`",
    "`echo {}`",
    "`echo \\`{}\\``",
    "$(echo {})",
    "<(echo {})",
    "$(cat <<E\n{}\nE\n)",
    "'{}'",
    '"{}"',
    "\"'{}'\"",
    "$'{}'",
    '$"{}"',
    "\\{}",
    "a{}b",
    "{{a,{}}}",
    "${{x:-'{}'}}",
    '"${{x:-{}}}"',
    "\"${{x:-'{}'}}\"",
    '"${{x:-"{}"}}"',
    "\"${{HOME#'{}'}}\"",
    "@({})",
    "[{}]",
    "# {}",
    "#{}",
]

LINES = [
    "echo {}",
    "echo a {} b",
    "cat {}",
    ": {}",
    "true {}",
    "printf %s {}",
    "printf -v {} a",
    "printf '%d' {}",
    "test {}",
    "test -n {}",
    "test -v {}",
    "test {} -eq 0",
    "[ {} ]",
    "[ -v {} ]",
    "[ '-v' {} ]",
    "[ ! -v {} ]",
    "[ a = {} ]",
    "[ 1 -eq {} ]",
    "[ -n a -a -v {} ]",
    "[[ {} ]]",
    "[[ -v {} ]]",
    "[[ -n {} ]]",
    "[[ a == {} ]]",
    "[[ a =~ {} ]]",
    "[[ a =~ (a|{}) ]]",
    "[[ {} -eq 0 ]]",
    "[[ a < {} ]]",
    "x={}",
    "x={} true",
    "x={}; echo $x",
    "x={}; echo ${{!x}}",
    "x={}; echo $((x))",
    "x={}; echo ${{HOME:x}}",
    "x={}; [[ x -eq 0 ]]",
    "x={}; [ -v $x ]",
    "x={}; y=-v; [ $y $x ]",
    'x={}; y=-v; [ "$y" "$x" ]',
    "x={}; [ -n $x ]",
    "x={}; a=([x]=1)",
    "x={}; a[x]=1",
    "x={}; echo ${{a[x]}}",
    "x={}; eval $x",
    "x={}; $x",
    "x={}; declare -i y=x",
    "x={}; let x",
    "x={}; (( x ))",
    "x={}; for ((;x<0;)); do :; done",
    "x={}; printf -v $x a",
    "x={}; read $x <<< 1",
    "x={}; unset $x",
    "x={}; cat <<E\n${{x}} ${{!x}}\nE",
    "a=({})",
    "a=([{}]=1)",
    "a[{}]=1",
    "declare {}",
    "declare x={}",
    "declare -i x={}",
    "declare 'a[{}]=1'",
    "export x={}",
    "export {}",
    "readonly {}=1",
    "local x={}",
    "unset {}",
    "let {}",
    "(( {} ))",
    "read {} <<< 1",
    "read -r x <<< {}; echo $x",
    "mapfile {} < f",
    "mapfile -C {} -c 1 < f",
    "getopts a {} -a",
    "wait -p {}",
    "cat <<< {}",
    "cat <<E\n{}\nE",
    "cat <<'E'\n{}\nE",
    "cat <<-E\n\t{}\n\tE",
    "cat <<E | wc\n{}\nE",
    "cat <<E; {}\nhi\nE",
    "cat <<\\E\n{}\nE",
    "case {} in *) ;; esac",
    "case a in {}) ;; esac",
    "case a in a) {};; esac",
    "for i in {}; do echo $i; done",
    "for i in {}; do :; done",
    "for PATH in {}; do zap; done",
    "select i in {}; do break; done < f",
    "if {}; then :; fi",
    "while {}; do break; done",
    "f() {{ {}; }}; f",
    "echo() {{ {}; }}; echo",
    "({})",
    "{{ {}; }}",
    "! {}",
    "time {}",
    "coproc {}",
    "coproc a {{ {}; }}",
    "echo a > {}",
    "echo a >& {}",
    "echo < {}",
    "exec {{x}}> {}",
    "echo {{{}}}> f",
    "echo a | cat {}",
    "echo a |& {}",
    "echo a && {}",
    "false || {}",
    "echo a & {}",
    "echo a\n{}",
    "echo a # {}",
    "echo a #\n{}",
    "echo a\\\n{}",
    "env {}",
    "env x={} true",
    "env --split-string={}",
    "env --split='{}'",
    "env --s='{}'",
    "env -S'{}'",
    "env -iS'{}'",
    "env - {}",
    "env -u x {}",
    "env --unse x {}",
    "env -vu x {}",
    "env --chd=. {}",
    "env --chd . {}",
    "env -C. {}",
    "env PS4={} BASH_ENV=f bash -xc true",
    "echo zap | xargs {}",
    "echo f | xargs --replac {}",
    "echo f | xargs --max-l {}",
    "echo f | xargs --max-lines 1 {}",
    "echo f | xargs -I x {}",
    "echo f | xargs -i {}",
    "echo f | xargs -tI x {}",
    "echo f | xargs -l {}",
    "echo f | xargs --arg-f=f {}",
    "echo f | xargs --process-slot-var=PATH {}",
    "echo f | xargs -rn1 {}",
    "echo f | xargs --max-a=1 {}",
    "echo f | xargs --max-a 1 {}",
    "timeout --sig=KILL 5 {}",
    "timeout --sig KILL 5 {}",
    "timeout -vk 1 5 {}",
    "timeout -k1 5 {}",
    "nice --adj 1 {}",
    "nice -n1 {}",
    "nice -1 {}",
    "stdbuf --out L {}",
    "stdbuf -oL -e 0 {}",
    "nohup {}",
    "nohup -- {}",
    "command {}",
    "command -p {}",
    "command -pv {}",
    "builtin {}",
    "exec {}",
    "exec -c {}",
    "exec -ca b {}",
    "bash -c {}",
    "bash -c '{}'",
    "bash -rcfile f -c '{}'",
    "bash -norc -c '{}'",
    "bash --norc -c '{}'",
    "bash -o posix -c '{}'",
    "bash +x -c '{}'",
    "eval '{}'",
    "eval {}",
    "trap '{}' EXIT",
    "trap {} EXIT",
    "trap -- '{}' DEBUG; true",
    "PS4='{}'; set -x; true",
    "set -x; PS4='{}' true; true",
    "set -k; true PATH={}",
    "set -- '{}'; echo $1",
    "set -- '{}'; $1",
    "set -- '{}'; [[ $1 -eq 0 ]]",
    "RANDOM={}",
    "SECONDS='{}'",
    "HISTCMD='{}'",
    "OPTIND='{}'",
    "compgen -W '{}'",
    "compgen -C '{}' a",
    "alias x='{}'; x",
    "shopt -s expand_aliases; alias x='{}'\nx",
    "hash -p zap true; true {}",
    "command_not_found_handle() {{ {}; }}; nosuch",
    "find . -maxdepth 0 -exec {} ;",
    "find . -maxdepth 0 -exec {} +",
    "find . -maxdepth 0 -exec {} \\;",
    "find . -maxdepth 0 -ok {} ;",
    "sed -n '1e {}' f",
    "sed '1{}' f",
    "sed -n --expression='1e {}' f",
    "sed -n --exp='1e {}' f",
    "sed 's/o/{}/e' f",
    "sort --compress-prog={} f",
    "sort --comp {} f",
    "sort -S1 --compr={} f f f",
    "grep -r {} .",
    "diff f {}",
]

SCRAPS = [
    *["zap", "z", "ap", "echo ", "cat ", "env ", "xargs ", "eval ", "bash -c ", "x=", "x", "$x"],
    *[" ", " ", "\n", ";", "&&", "||", "|", "&", "(", ")", "{ ", "; }", "{", "}", "$(", "`", '"'],
    *["'", "$'", '$"', "\\", "\\\n", "#", " #", "<<E", "<<-E", "<<'E'", "\nE\n", "\n\tE\n", "<<<"],
    *["<(", ">(", "> f", "2>&1", "<", ">", "${x:-", "${!x}", "${", "$((", "((", "))", "$[", "[[ "],
    *[" ]]", "[ ", " ]", "-n ", "-v ", "-eq ", "=~ ", "== ", "if ", "; then ", "; fi", "in "],
    *["; done", "case a in a) ", ";; esac", "f() ", "f", "!", "*", "?", "{a,", "~", "=", "a[", "]"],
    *["time ", "@P", "\t", "$", "$$", "@", ":", "-", "+", "%", "^", "/", ",", "1", "E", "!(", "@("],
]


class Failure(Struct, frozen=True):
    """A line that did what the gate said it does not."""

    line: str
    freedom: Freedom
    what: str


def generate(rng: random.Random) -> str:
    """Build one hostile line."""
    text = rng.choice(PAYLOADS)
    for _ in range(rng.choice([0, 0, 1, 1, 1, 2, 3])):
        text = rng.choice(EXPANSIONS).format(text)
    line = rng.choice(LINES).format(text)
    if rng.random() < 0.15:
        line = f"{line}{rng.choice(['; ', ' | ', ' && ', chr(10)])}{rng.choice(LINES).format(text)}"
    for _ in range(rng.choice([0, 0, 0, 1, 1, 2, 4])):
        line = mutate(rng, line)
    return line


def mutate(rng: random.Random, line: str) -> str:
    """Change a line at one place."""
    at = rng.randrange(len(line) + 1)
    match rng.randrange(4):
        case 0:
            return line[:at] + line[at + 1 :]
        case 1:
            end = min(len(line), at + rng.randrange(1, 6))
            return line[:end] + line[at:end] + line[end:]
        case _:
            return line[:at] + rng.choice(SCRAPS) + line[at:]


def _policies(root: str) -> dict[Freedom, Policy]:
    denied = parse_rule("Bash(zap:*)", effect="deny", source="user")
    assert isinstance(denied, Rule)
    return {
        "plan": Policy(root=root, home=root, mode="plan"),
        "default": Policy(root=root, home=root),
        "denied": Policy(root=root, home=root, mode="bypassPermissions", rules=(denied,)),
    }


class Ground:
    """A folder in which lines are run, and a `zap` that leaves a mark."""

    def __init__(self, folder: Path) -> None:
        """Make the programs and the files that lines may use."""
        self._programs, self.work, self._mark = (folder / n for n in ("bin", "work", "mark"))
        self._programs.mkdir()
        self.work.mkdir()
        for name in PROGRAMS:
            if found := shutil.which(name):
                (self._programs / name).symlink_to(os.path.realpath(found))
        zap = self._programs / "zap"
        zap.write_text(f"#!{shutil.which('bash')}\n: > {self._mark}\n")
        zap.chmod(0o755)
        self._files = {"f": "one\n", "x": "two\n"}
        self._restore()

    def run(self, line: str, *, seconds: float = 3.0) -> tuple[bool, bool]:
        """Run a line for so long; tell whether it reached `zap`, and whether a file changed."""
        with subprocess.Popen(
            [shutil.which("bash") or "bash", "-c", line],
            cwd=self.work,
            # The nesting of functions is bounded, or a line could be a bomb by chance.
            env={"PATH": str(self._programs), "HOME": str(self.work), "FUNCNEST": "20"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            **apart(),
        ) as process:
            # Read to its end, so that substitutions in the background are done as well.
            with suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=seconds)
            ProcessTree(process.pid).force()
        reached = self._mark.exists()
        self._mark.unlink(missing_ok=True)
        changed = self._state() != self._files
        if changed:
            self._restore()
        return reached, changed

    def _state(self) -> dict[str, str]:
        return {
            p.name: p.read_text("utf-8", "replace") if p.is_file() else "-"
            for p in self.work.iterdir()
        }

    def _restore(self) -> None:
        shutil.rmtree(self.work)
        self.work.mkdir()
        for name, text in self._files.items():
            (self.work / name).write_text(text)


@contextmanager
def ground() -> Generator[Ground]:
    """Make a folder for a campaign."""
    with tempfile.TemporaryDirectory() as folder:
        yield Ground(Path(folder).resolve())


def freedoms(line: str, root: str) -> list[Freedom]:
    """Give the policies under which the gate lets a line pass."""
    call = [Running(line, root)]
    # A rule for a name cannot hold sed, which runs what it is told in a language of its own.
    named = "sed" not in line
    return [
        name
        for name, policy in _policies(root).items()
        if (named or name != "denied") and isinstance(decide(policy, "Bash", call), Allow)
    ]


def judge(place: Ground, line: str) -> Failure | None:
    """Run a line if the gate lets it pass; say what it did against the gate's word."""
    free = freedoms(line, str(place.work))
    if not free:
        return None
    reached, changed = place.run(line)
    if reached:
        return Failure(line, free[0], "ran zap")
    if changed and free[0] != "denied":
        return Failure(line, free[0], "changed a file")
    return None


@contextmanager
def trials() -> Generator[Trial]:
    """Try lines in a folder that they share."""

    def trial(rng: random.Random) -> str:
        failure = judge(place, generate(rng))
        return f"{failure.what} in {failure.freedom}: {failure.line!r}" if failure else ""

    with ground() as place:
        yield trial


def power(count: int, seed: int) -> int:
    """Count how many of the lines reach `zap` in bash if nobody stops them."""
    rng = random.Random(seed)  # noqa: S311 - the same lines for the same seed
    with ground() as place:
        return sum(place.run(generate(rng))[0] for _ in range(count))
