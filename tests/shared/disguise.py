"""Ways to write `rm` that a careless gate would not see through."""

from __future__ import annotations

import shlex

from hypothesis import strategies as st

SPELLINGS = [
    "rm",
    r"\rm",
    r"r\m",
    '"rm"',
    "'rm'",
    'r""m',
    "r''m",
    "$'rm'",
    r"$'\x72m'",
    r"$'\162\u006d'",
    "/bin/rm",
    "/usr/bin/../bin/rm",
    "r\\\nm",
    "\"r\"'m'",
    "$(echo rm)",
    "`echo rm`",
    "${x:-rm}",
    "/bin/r?",
    "{rm,-f}",
]

WRAPPINGS = [
    "{}; ls",
    "ls; {}",
    "ls && {}",
    "false || {}",
    "{} &",
    "ls | {}",
    "{} | cat",
    "ls |& {}",
    "ls\n{}",
    "# note\n{}",
    "ls # note\n{}",
    "ls \\\n; {}",
    "({})",
    "{{ {}; }}",
    "! {}",
    "if {}; then :; fi",
    "if true; then {}; fi",
    "if false; then :; elif true; then {}; fi",
    "if false; then :; else {}; fi",
    "while true; do {}; break; done",
    "until {}; do break; done",
    "for i in a; do {}; done",
    "for i in $({}); do :; done",
    "case a in a) {};; esac",
    "case $({}) in *) ;; esac",
    "echo $({})",
    'echo "$({})"',
    'echo "a ${{x:-$({})}} b"',
    "echo ${{x:-$({})}}",
    "echo $(( $({}) + 1 ))",
    "cat <({})",
    "echo a | tee >({})",
    "cat <<< $({})",
    'cat <<< "$({})"',
    "cat <<EOF\n$({})\nEOF",
    "cat <<-EOF\n\t$({})\n\tEOF",
    "cat <<EOF | wc\n$({})\nEOF",
    "cat <<EOF && {}\nhi\nEOF",
    "cat <<'EOF'\nhi\nEOF\n{}",
    "x=$({})",
    "x=$({}) ls",
    "x=1 {}",
    "a=(1 $({}))",
    "export x=$({})",
    "[[ -n $({}) ]]",
    '[ -n "$({})" ]',
    "f() {{ {}; }}; f",
    "function f {{ {}; }}; f",
    "ls() ({}); ls",
    "time {}",
    "> /dev/null {}",
    "{} > /dev/null 2>&1",
    "{} < /dev/null",
    "ls $({}) > /dev/null",
    "coproc {}",
]
"""Shell syntax around a command; doubled braces stand for one."""


PREFIXES = [
    "env",
    "env A=1 B=2",
    "env -u X -i",
    "env -- ",
    "sudo",
    "sudo -u root -E",
    "sudo -n --",
    "doas",
    "nohup",
    "nice",
    "nice -n 5",
    "nice -5",
    "timeout 5",
    "timeout -k 1 -s KILL 5",
    "timeout --signal=KILL 5",
    "time",
    "time -p",
    "command",
    "command -p",
    "exec",
    "exec -a x",
    "setsid",
    "stdbuf -oL",
    "ionice -c 3",
    "xargs",
    "xargs -n 1 -P 2",
    "xargs -0",
    "xargs -I X",
    "find . -exec",
    "find . -name x -o -execdir",
    "busybox",
    "strace -f -o /dev/null",
    "flock /tmp/l",
    "parallel",
    "uv run",
    "npx",
    "npm x",
    "npm exec --",
    "poetry run",
    "bundle exec",
    "git bisect run",
    "command env nohup",
]
"""Programs that run the words after them."""


JOINING = ["watch", "watch -n 1", "ssh host", "ssh -p 22 host", "eval", "git submodule foreach"]
"""Programs that join the words after them and read the result anew, so that quotes are lost."""


SCRIPTED = [
    "bash -c {}",
    "sh -c {}",
    "bash -lc {}",
    "bash -e -o pipefail -c {}",
    "zsh -c {}",
    "/bin/bash -c {} x y",
    "eval {}",
    "eval -- {}",
    "trap {} EXIT",
    "su -c {}",
    "script -qc {} /dev/null",
    "env -S {}",
    "git -c alias.x='!'{} x",
    "git rebase -x {} HEAD~1",
    "ssh host {}",
    "watch {}",
    "xargs sh -c {}",
    "echo {} | sh",
    "echo {} | sudo bash -s",
    "bash <<< {}",
    "bash <(echo {})",
    "source <(echo {})",
    ". /dev/stdin <<< {}",
    "alias x={}; x",
]
"""Programs that take a command line as one quoted word."""


FOREIGN = [
    "python -c 'import os; os.system(\"rm x\")'",
    "perl -e 'system \"rm x\"'",
    "awk 'BEGIN {{ system(\"rm x\") }}'",
    'node -e \'require("child_process").execSync("rm x")\'',
]
"""Programs in other languages that say the name plainly."""


@st.composite
def hidden_removals(draw: st.DrawFn) -> str:
    """Build a command line that runs rm somewhere inside."""
    text = f"{draw(st.sampled_from(SPELLINGS))} {draw(st.sampled_from(['x', '-rf x', '', '-- x']))}"
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["wrap", "prefix", "script"]))
        if kind == "wrap":
            # A line break inside a here-document's first line would make the rest its text.
            fitting = [w for w in WRAPPINGS if "EOF" not in w or "\n" not in text]
            text = draw(st.sampled_from(fitting)).format(text)
        elif kind == "prefix" and "\n" not in text and not text.startswith("x="):
            plain = not set(text) & set("\\\"'`$")
            text = f"{draw(st.sampled_from(PREFIXES + JOINING * plain))} {text}"
        else:
            text = draw(st.sampled_from(SCRIPTED)).format(shlex.quote(text))
    return text
