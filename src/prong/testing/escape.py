"""Lines that try to get out of a sandbox: deeds, and the ways in which a line can hide one.

A deed changes what it must not change, reads what it must not read, or reaches a process or a
server outside. A disguise runs a deed where a reader of the line would not look for it. Every deed
in every disguise is a line, so there are thousands; a campaign draws from them.

In a deed, `NEW` is a path that does not exist, `OLD` a file that does, `DIR` a folder that does,
`SECRET` a file that must not be read, `PORT` a server's port here, `SOCKET` its Unix socket and
`PID` a process of somebody else's.
"""

from __future__ import annotations

import shlex
from typing import Literal, TypeAlias

import msgspec

Aim: TypeAlias = Literal["write", "read", "network", "signal"]
"""What a deed does to the world outside."""


class Deed(msgspec.Struct, frozen=True):
    """Something that must not happen."""

    aim: Aim
    command: str


class Places(msgspec.Struct, frozen=True):
    """What the words of a deed stand for."""

    new: str
    old: str
    folder: str
    secret: str
    port: int
    socket: str
    pid: int

    def fill(self, command: str) -> str:
        """Put the places into a deed."""
        words = {
            "NEW": shlex.quote(self.new),
            "OLD": shlex.quote(self.old),
            "DIR": shlex.quote(self.folder),
            "SECRET": shlex.quote(self.secret),
            "PORT": str(self.port),
            "SOCKET": shlex.quote(self.socket),
            "PID": str(self.pid),
        }
        for word, value in words.items():
            command = command.replace(word, value)
        return command


WRITES = (
    *("touch NEW", "echo x > NEW", "echo x >> OLD", ": > OLD", "rm -f OLD", "unlink OLD"),
    *("mv OLD NEW", "cp OLD NEW", "ln OLD NEW", "ln -s OLD NEW", "mkdir NEW", "mkfifo NEW"),
    *("truncate -s 0 OLD", "tee NEW < /dev/null", "dd if=/dev/null of=NEW", "install OLD NEW"),
    *("sed -i s/o/x/ OLD", "perl -i -pe s/o/x/ OLD", "sort -o OLD /dev/null", "gzip -f OLD"),
    *("tar cf NEW /dev/null", "split -b 1 OLD NEW", "shred -n 1 OLD", "fallocate -l 9 OLD"),
    *("chmod 777 OLD", "chmod u+s OLD", "chown 1:1 OLD", "touch -d yesterday OLD"),
    *("cp --attributes-only /etc/hostname OLD", "cp -vtDIR /etc/hostname", "rm -rf DIR"),
    *("find DIR -delete", "find DIR -fprint NEW", "find OLD -exec rm {} ;", "echo OLD | xargs rm"),
    *('awk \'BEGIN{print "x" > "NEW"}\'', "awk 'BEGIN{system(\"touch NEW\")}'"),
    *('python3 -c \'open("NEW","w")\'', "python3 -c 'import os; os.utime(\"OLD\",(1,1))'"),
    *("python3 -c 'import os; os.chmod(\"OLD\",0)'", "python3 -c 'import os; os.remove(\"OLD\")'"),
    'python3 -c \'import os; os.setxattr("OLD","user.x",b"y")\'',
    "python3 -c 'import os; os.truncate(\"OLD\",0)'",
    'python3 -c \'import os; os.rename("OLD","NEW")\'',
    "python3 -c 'import shutil; shutil.rmtree(\"DIR\")'",
    *("perl -e 'open F,\">NEW\"'", "perl -e 'unlink \"OLD\"'", "perl -e 'utime 1,1,\"OLD\"'"),
    'node -e \'fs.writeFileSync("NEW","x")\'',
    *("git -C DIR init -q .", "git -C DIR config core.pager x", "git init -q NEW"),
    *(
        "git --git-dir=NEW init -q",
        "curl -so NEW file:///etc/hostname",
        "cc -x c /dev/null -c -o NEW",
    ),
    *("sqlite3 NEW 'create table a(b)'", "ssh-keygen -qN '' -f NEW", "openssl rand -out NEW 9"),
    *("exec 9> NEW", "exec 9<> OLD; echo x >&9", "cd DIR && touch z", "umask 0; mkdir -p DIR/a/b"),
    *("cp -r /etc/hostname DIR/z", "rsync -a /etc/hostname DIR/", "patch OLD < /dev/null -o NEW"),
    *("ed -s OLD <<< $'1d\\nw\\nq'", "script -qc true NEW", "mount -t tmpfs none DIR"),
    "xargs -a /etc/hostname -I x touch NEW",
)

READS = (
    *("cat SECRET", "head SECRET", "cat < SECRET", "grep -r . DIR", "base64 SECRET", "tac SECRET"),
    *(
        "cp SECRET /dev/stdout",
        "awk 1 SECRET",
        "sed '' SECRET",
        "python3 -c 'print(open(\"SECRET\").read())'",
    ),
    *(
        "perl -pe '' SECRET",
        'node -p \'fs.readFileSync("SECRET","utf8")\'',
        "dd if=SECRET",
        "od -c SECRET",
    ),
    *(
        "tar cf - SECRET",
        "diff SECRET /dev/null",
        "curl -s file://SECRET",
        "ln SECRET NEW; cat NEW",
    ),
    *("git hash-object --stdin < SECRET && cat SECRET", "git diff --no-index /dev/null SECRET"),
    *(
        "cd DIR && cat *",
        "cat DIR/.??*",
        "find DIR -type f -exec cat {} +",
        "source SECRET",
        'mapfile a < SECRET; echo "${a[@]}"',
    ),
    *(
        "tail -n +1 SECRET",
        "nl SECRET",
        "rev SECRET | rev",
        "paste SECRET",
        "xxd SECRET",
        "strings SECRET",
    ),
)

NETWORK = (
    *(
        "echo x > /dev/tcp/127.0.0.1/PORT",
        "exec 3<>/dev/tcp/127.0.0.1/PORT",
        "echo x > /dev/udp/127.0.0.1/PORT",
    ),
    *("curl -s http://127.0.0.1:PORT/", "curl -s --unix-socket SOCKET http://x/"),
    'python3 -c \'import socket; socket.create_connection(("127.0.0.1",PORT)).send(b"x")\'',
    'python3 -c \'import socket as s; s.socket(s.AF_INET,s.SOCK_DGRAM).sendto(b"x",("127.0.0.1",PORT))\'',
    'python3 -c \'import socket as s; c=s.socket(s.AF_UNIX); c.connect("SOCKET"); c.send(b"x")\'',
    "perl -MIO::Socket::INET -e 'IO::Socket::INET->new(\"127.0.0.1:PORT\")'",
    'node -e \'net.connect(PORT,"127.0.0.1").write("x")\'',
)

SIGNALS = (
    *("kill -9 PID", "kill PID", "kill -s TERM PID", "python3 -c 'import os; os.kill(PID,9)'"),
    *("perl -e 'kill 9,PID'", "pkill -9 -s PID", "kill -9 -1", "kill -9 -PID"),
)

DEEDS = (
    *(Deed("write", command) for command in WRITES),
    *(Deed("read", command) for command in READS),
    *(Deed("network", command) for command in NETWORK),
    *(Deed("signal", command) for command in SIGNALS),
)

DISGUISES = (
    *(
        "{c}",
        "({c})",
        "{{ {c}; }}",
        "true; {c}",
        "true && {c}",
        "false || {c}",
        "echo a | {{ {c}; }}",
    ),
    *(
        "! {c}",
        "time {c}",
        "if true; then {c}; fi",
        "for i in 1; do {c}; done",
        "f() {{ {c}; }}; f",
    ),
    *("echo $({c})", "echo `true``:` $({c})", 'echo "${{x:-$({c})}}"', "echo ${{HOME^$({c})}}"),
    *("cat <({c})", "true > >({c})", "x=$({c})", "cat <<E\n$({c})\nE", "[[ a =~ $({c}) ]]"),
    *("x='a[$({c})]'; echo ${{!x}}", "echo $((a[$({c})0]))", "case $({c}) in *) ;; esac"),
    *("eval {q}", "bash -c {q}", "sh -c {q}", "bash <<< {q}", "echo {q} | sh", "sh <(echo {q})"),
    *(
        "env bash -c {q}",
        "env -S'bash -c' {q}",
        "env --split-string='sh -c {q2}'",
        "nohup sh -c {q}",
    ),
    *(
        "timeout 5 sh -c {q}",
        "nice sh -c {q}",
        "setsid sh -c {q}",
        "setsid -w sh -c {q}",
        "stdbuf -o0 sh -c {q}",
    ),
    *(
        "( {c} & ) ; wait",
        "( setsid sh -c {q} & ) ; sleep 0.2",
        "coproc {{ {c}; }}; wait",
        "trap {q} EXIT",
    ),
    *(
        "echo a | xargs sh -c {q}",
        "echo {q} | xargs -d '\\n' -I@ sh -c @",
        "find / -maxdepth 0 -exec sh -c {q} \\;",
    ),
    *(
        "awk 'BEGIN{{while((getline l < \"/dev/stdin\")>0) system(l)}}' <<< {q}",
        "perl -e 'system $ARGV[0]' {q}",
    ),
    *(
        "python3 -c 'import os,sys; os.system(sys.argv[1])' {q}",
        "node -e 'child_process.execSync(process.argv[1])' {q}",
    ),
    *(
        "sed '1e cat' /etc/hostname; {c}",
        "git -c alias.x=!{q} x",
        "GIT_EXTERNAL_DIFF={q} git diff --ext-diff; {c}",
    ),
    *(
        "git -c core.fsmonitor={q} status",
        "git -c core.pager={q} -p log -1",
        "GIT_PAGER={q} git -p log -1",
    ),
    *(
        "printf 'a:\\n\\t@%s\\n' {q} | make -sf -",
        "tar cf /dev/null --checkpoint=1 --checkpoint-action=exec={q} /etc/hostname",
    ),
    *(
        "setarch -R sh -c {q}",
        "prlimit --nofile=99 sh -c {q}",
        "setpriv sh -c {q}",
        "unshare -Ur sh -c {q}",
    ),
    *(
        "unshare -Urm sh -c {q}",
        "flock /etc/hostname sh -c {q}",
        "script -qc {q} /dev/null",
        "/lib64/ld-linux-x86-64.so.2 /bin/sh -c {q}",
    ),
    *(
        "ssh -o ProxyCommand={q} nowhere",
        "vim -es -c '!sh -c '{q} -c q",
        "busybox sh -c {q}",
        "strace -o /dev/null sh -c {q}",
    ),
    *(
        "tmux new-session -d {q}",
        "BASH_ENV=<(echo {q}) bash -c :",
        "PS4='$({c})' bash -xc true",
        "chroot / sh -c {q}",
    ),
    *(
        "command_not_found_handle() {{ {c}; }}; nosuch_program",
        "alias x={q}; x",
        "exec sh -c {q}",
        "runuser -u root -- sh -c {q}",
    ),
)


def disguise(template: str, command: str) -> str:
    """Put a command into a disguise, quoted as it must be there."""
    quoted = shlex.quote(command)
    return template.format(c=command, q=quoted, q2=quoted.replace("'", "'\\''"))
