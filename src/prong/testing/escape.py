"""Lines that try to get out of a sandbox: deeds, and the ways in which a line can hide one.

A deed changes what it must not change, reads what it must not read, or reaches a process or a
server outside. A disguise runs a deed where a reader of the line would not look for it. Every deed
in every disguise is a line, so there are thousands; a campaign draws from them.

In a deed, `NEW` is a path that does not exist, `OLD` a file that does, `DIR` a folder that does,
`SECRET` a file that must not be read, `PORT` a server's port here, `SOCKET` its Unix socket and
`PID` a process of somebody else's. In a disguise, `{c}` is the deed, `{q}` the same quoted as one
word, `{qq}` quoted for a word in single quotes, `{b}` as it stands between backquotes, `{a}` a
quoted subscript that holds it, and `{e}` a program that does it.
"""

from __future__ import annotations

import shlex
from typing import Literal, TypeAlias

import msgspec

Aim: TypeAlias = Literal["write", "ref", "read", "network", "signal"]
"""What a deed does to the world outside; a `ref` is a branch of somebody else's."""


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


_WRITES = r"""
touch NEW
echo x > NEW
echo x >> OLD
: > OLD
rm -f OLD
unlink OLD
mv OLD NEW
cp OLD NEW
ln OLD NEW
ln -s OLD NEW
mkdir NEW
mkfifo NEW
truncate -s 0 OLD
tee NEW < /dev/null
dd if=/dev/null of=NEW
install OLD NEW
sed -i s/o/x/ OLD
perl -i -pe s/o/x/ OLD
sort -o OLD /dev/null
gzip -f OLD
tar cf NEW /dev/null
split -b 1 OLD NEW
shred -n 1 OLD
fallocate -l 99 OLD
chmod 777 OLD
chmod u+s OLD
chmod 700 DIR
chown 1:1 OLD
touch -d yesterday OLD
cp --attributes-only -p /etc/hostname OLD
cp -vtDIR /etc/hostname
cp --targ=DIR /etc/hostname
install -DvtDIR /etc/hostname
rm -rf DIR
find DIR -delete
find DIR -fprint NEW
find OLD -exec rm {} \;
echo OLD | xargs rm
xargs --arg-f=/etc/hostname -I x touch NEW
awk 'BEGIN{print "x" > "NEW"}'
awk 'BEGIN{system("touch NEW")}'
sed -n 'w NEW' /etc/hostname
python3 -c 'open("NEW","w")'
python3 -c 'import os; os.utime("OLD",(1,1))'
python3 -c 'import os; os.chmod("OLD",0)'
python3 -c 'import os; os.remove("OLD")'
python3 -c 'import os; os.setxattr("OLD","user.x",b"y")'
python3 -c 'import os; os.truncate("OLD",0)'
python3 -c 'import os; os.rename("OLD","NEW")'
python3 -c 'import os; os.open("OLD",os.O_RDONLY|os.O_TRUNC)'
python3 -c 'import os; os.mknod("NEW")'
python3 -c 'import os; os.link("OLD","NEW")'
python3 -c 'import shutil; shutil.rmtree("DIR")'
python3 -c 'import mmap; f=open("OLD","r+b"); mmap.mmap(f.fileno(),0)[0]=65'
perl -e 'open F,">NEW"'
perl -e 'unlink "OLD"'
perl -e 'utime 1,1,"OLD"'
node -e 'fs.writeFileSync("NEW","x")'
git -C DIR init -q .
git -C DIR config core.pager x
git config -f OLD a.b c
git init -q NEW
git init -q --separate-git-dir=NEW .
git --git-dir=NEW init -q
git worktree add -q NEW
git archive -o NEW HEAD
git diff --output=NEW HEAD~1
git format-patch -q -1 -o NEW
curl -so NEW file:///etc/hostname
cc -x c /dev/null -c -o NEW
sqlite3 NEW 'create table a(b)'
ssh-keygen -qN '' -f NEW
openssl rand -out NEW 9
exec 9> NEW
exec 9<> OLD; echo x >&9
cd DIR && touch z
cd -P DIR/. && touch z
umask 0; mkdir -p DIR/a/b
cp -r /etc/hostname DIR/z
patch OLD < /dev/null -o NEW
ed -s OLD <<< $'1d\nw\nq'
script -qc true NEW
mount -t tmpfs none DIR
mount --bind /etc DIR
ln -s DIR lnk; touch lnk/z
ln -s DIR lnk; cd lnk && echo x > z
ln OLD lnk; echo x > lnk
cp -s OLD lnk && mv lnk lnk2 && echo x > lnk2
cp -l OLD lnk && echo x >> lnk
mkdir p; echo x > p/z; mv p NEW
mv DIR gone; mkdir DIR; touch DIR/z
mv DIR/.. gone
rm -rf DIR; ln -s /tmp DIR
echo x > /proc/self/root/NEW
echo x > /proc/self/cwd/../z; cp z NEW
npm_config_logs_dir=DIR npm ls
HOME=DIR git config --global a.b c
GIT_TRACE=NEW git status
GIT_INDEX_FILE=NEW git read-tree HEAD
"""

_REFS = r"""
git branch -m main gone
git branch -f main HEAD~1
git branch -D prong/sibling
git branch -f prong/sibling HEAD~1
git update-ref refs/heads/main HEAD~1
git update-ref refs/heads/prong/sibling HEAD~1
git update-ref -d refs/heads/prong/sibling
git symbolic-ref refs/heads/main refs/heads/prong/sibling
git worktree remove --force --force ../sibling
git worktree unlock ../sibling
git config core.hooksPath /tmp
git config core.fsmonitor /bin/false
git config --worktree a.b c
git tag made
git remote add x /nowhere
git stash store -m x HEAD
git reflog expire --expire=now --all
git pack-refs --all
git push -qf . HEAD~1:refs/heads/main
git fetch -qf . HEAD~1:refs/heads/prong/sibling
git replace HEAD HEAD~1
git notes add -m x
echo x > "$(git rev-parse --git-common-dir)/hooks/post-commit"
rm "$(git rev-parse --git-common-dir)/refs/heads/main"
rm -rf "$(git rev-parse --git-common-dir)/refs/heads/prong/sibling"
"""

_READS = r"""
cat SECRET
head SECRET
cat < SECRET
grep -r . DIR
grep -R . DIR
git grep --no-index . DIR
diff -rN DIR .
base64 SECRET
tac SECRET
cp SECRET /dev/stdout
awk 1 SECRET
sed '' SECRET
python3 -c 'print(open("SECRET").read())'
perl -pe '' SECRET
node -p 'fs.readFileSync("SECRET","utf8")'
dd if=SECRET
od -c SECRET
tar cf - SECRET
diff SECRET /dev/null
curl -s file://SECRET
ln SECRET lnk; cat lnk
cp SECRET lnk; cat lnk
mv SECRET lnk; cat lnk
ln -s SECRET lnk; cat lnk
ln -s DIR lnk; cat lnk/.??*
chmod 777 SECRET; cat SECRET
git diff --no-index /dev/null SECRET
git hash-object -w SECRET | xargs git cat-file -p
git add -f SECRET; git diff --cached
cd DIR && cat .??*
cd -P DIR/. && cat .??*
cat DIR/.??*
find DIR -type f -exec cat {} +
find DIR -type f -print0 | xargs -0 cat
source SECRET
mapfile a < SECRET; echo "${a[@]}"
echo "$(< SECRET)"
read -r a < SECRET; echo "$a"
tail -n +1 SECRET
nl SECRET
rev SECRET | rev
paste SECRET
xxd SECRET
strings SECRET
jq -R . SECRET
sort SECRET
cat /proc/self/root/SECRET
cat /proc/self/cwd/.env
umount SECRET; cat SECRET
tar cf - DIR
cp -r DIR lnk; cat lnk/.??*
"""

_NETWORK = r"""
echo x > /dev/tcp/127.0.0.1/PORT
exec 3<>/dev/tcp/127.0.0.1/PORT
echo x > /dev/udp/127.0.0.1/PORT
curl -s http://127.0.0.1:PORT/
curl -s --unix-socket SOCKET http://x/
python3 -c 'import socket; socket.create_connection(("127.0.0.1",PORT)).send(b"x")'
python3 -c 'import socket as s; s.socket(s.AF_INET,s.SOCK_DGRAM).sendto(b"x",("127.0.0.1",PORT))'
python3 -c 'import socket as s; c=s.socket(s.AF_UNIX); c.connect("SOCKET"); c.send(b"x")'
perl -MIO::Socket::INET -e 'IO::Socket::INET->new("127.0.0.1:PORT")'
node -e 'net.connect(PORT,"127.0.0.1").write("x")'
node -e 'net.connect("SOCKET").write("x")'
git ls-remote git://127.0.0.1:PORT/x
ssh -o BatchMode=yes -p PORT 127.0.0.1 true
"""

_SIGNALS = r"""
kill -9 PID
kill PID
kill -s TERM PID
kill -9 -PID
python3 -c 'import os; os.kill(PID,9)'
python3 -c 'import os,signal; os.killpg(PID,signal.SIGTERM)'
python3 -c 'import os,signal; signal.pidfd_send_signal(os.pidfd_open(PID),9)'
perl -e 'kill 9,PID'
pkill -9 -s PID
"""
# No `kill -- -1`: whoever runs a deed without a sandbox must lose no more than what is named.


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line for line in text.splitlines() if line)


DEEDS = (
    *(Deed("write", command) for command in _lines(_WRITES)),
    *(Deed("ref", command) for command in _lines(_REFS)),
    *(Deed("read", command) for command in _lines(_READS)),
    *(Deed("network", command) for command in _lines(_NETWORK)),
    *(Deed("signal", command) for command in _lines(_SIGNALS)),
)

_SYNTAX = r"""
{c}
({c})
{{ {c}; }}
true; {c}
true && {c}
false || {c}
echo a | {{ {c}; }}
! {c}
time {c}
if true; then {c}; fi
for i in 1; do {c}; done
until {c}; do break; done
f() {{ {c}; }}; f
function f {{ {c}; }}; f
echo $({c})
echo "$({c})"
x=$({c})
x=$({c}) true
cat <({c})
true > >({c}); sleep 0.1
case $({c}) in *) ;; esac
select i in a; do {c}; break; done <<< 1
coproc {{ {c}; }}; wait
( {c} & ) ; sleep 0.2
trap {q} EXIT
trap {q} DEBUG; true
eval {q}
alias x={q}; x
command_not_found_handle() {{ {c}; }}; nosuch_program
PROMPT_COMMAND={q} bash -ic :
PS4='$({c})' bash -xc true
"""

_EXPANSIONS = r"""
echo `{b}`
echo `echo a``{b}`
echo ${{x:-`{b}`}}
echo ${{x:-$({c})}}
echo "${{x:-$({c})}}"
echo ${{x:-<({c})}}
echo "${{x:-'$({c})'}}"
echo ${{x:=$({c})}}
echo ${{HOME:+$({c})}}
echo ${{HOME^$({c})}}
echo ${{HOME%a$((a[$({c})0]))}}
echo ${{HOME//a/$({c})}}
echo ${{HOME:$({c})0}}
echo $((a[$({c})0]))
echo $[a[$({c})0]]
((a[$({c})0]))
[[ a =~ $({c}) ]]
[[ a =~ <({c}) ]]
[[ -v {a} ]]
[ -v {a} ]
test -v {a}
x={a}; echo ${{!x}}
x={a}; echo ${{HOME:x}}
x={a}; echo ${{@:x}}
x={a}; [[ a =~ $[x] ]]
x={a}; [[ x -eq 0 ]]
x={a}; echo $((x))
x={a}; let x
printf -v {a} x
read {a} <<< x
declare -i x={a}
unset {a}
"""

_HERE = (
    "cat <<E\n$({c})\nE",
    "cat <<E\n`{b}`\nE",
    "cat <<E\n${{x:-'$({c})'}}\nE",
    "sh <<'E'\n{c}\nE",
    "bash <<E\n{c}\nE",
    "cat <<-E | sh\n\t{c}\nE",
    "true \\\n&& {c}",
    "true # a\n{c}",
)

_PROGRAMS = r"""
bash -c {q}
sh -c {q}
bash <<< {q}
echo {q} | sh
sh <(echo {q})
. <(echo {q})
env bash -c {q}
env -S'bash -c' {q}
env --split-string='sh -c {qq}'
env --split='sh -c {qq}'
env --s='sh -c {qq}'
env -iS'/bin/sh -c {qq}'
env --chd=. sh -c {q}
nohup sh -c {q}
timeout 5 sh -c {q}
nice sh -c {q}
setsid -w sh -c {q}
( setsid sh -c {q} & ) ; sleep 0.2
stdbuf -o0 sh -c {q}
echo a | xargs sh -c {q}
echo {q} | xargs -d '\n' -I@ sh -c @
find / -maxdepth 0 -exec sh -c {q} \;
awk 'BEGIN{{while((getline l < "/dev/stdin")>0) system(l)}}' <<< {q}
perl -e 'system $ARGV[0]' {q}
python3 -c 'import os,sys; os.system(sys.argv[1])' {q}
python3 -c 'import pty,sys; pty.spawn(["sh","-c",sys.argv[1]])' {q}
node -e 'child_process.execSync(process.argv[1])' {q}
git -c alias.x=!{q} x
git -c core.fsmonitor={q} status
git -c core.pager={q} -p log -1
GIT_PAGER={q} git -p log -1
GIT_EDITOR={q} git config -e
GIT_SSH_COMMAND={q} git ls-remote ssh://nowhere/x
tar cf /dev/null --checkpoint=1 --checkpoint-action=exec={q} /etc/hostname
setarch -R sh -c {q}
linux64 sh -c {q}
prlimit --nofile=99 sh -c {q}
setpriv --nnp sh -c {q}
chrt -o 0 sh -c {q}
ionice sh -c {q}
taskset 1 sh -c {q}
unshare -Ur sh -c {q}
unshare -Urm sh -c {q}
unshare -m sh -c {q}
nsenter -t 1 -m sh -c {q}
flock /etc/hostname sh -c {q}
script -qc {q} /dev/null
/lib64/ld-linux-x86-64.so.2 /bin/sh -c {q}
ssh -o ProxyCommand={q} nowhere
vim -es -c '!sh -c '{q} -c q
strace -o /dev/null sh -c {q}
BASH_ENV=<(echo {q}) bash -c :
chroot / sh -c {q}
runuser -u root -- sh -c {q}
exec sh -c {q}
command sh -c {q}
builtin eval {q}
sudo -n sh -c {q}
"""

_FILES = r"""
{e}
sh {e}
. {e}
cat {e} | sh
xargs -a {e} -d '\n' -n1 sh -c
env -u x {e}
sed '1e {e}' /etc/hostname
sed -n '1s,.*,{e},e' /etc/hostname
awk 'BEGIN{{system("{e}")}}'
printf 'a:\n\t@{e}\n' | make -sf -
make -s --eval='$(shell {e})' -n
git grep -O{e} one
GIT_EXTERNAL_DIFF={e} git diff --ext-diff HEAD~1
git difftool -y -x {e} HEAD~1
git -c diff.external={e} diff HEAD~1
git -c core.hooksPath=$(dirname {e}) commit -q --allow-empty -m x
git bisect run {e}
git rebase -x {e} HEAD~1
git submodule foreach {e}
git -C docs status
cd docs && git status
git --git-dir=docs status
BASH_ENV={e} bash -c :
ENV={e} sh -ic :
npm_config_script_shell={e} npm test
echo a | xargs --process-slot-var=PATH {e}
python3 -c 'import runpy,subprocess; subprocess.run(["{e}"])'
EDITOR={e} git commit --amend
LESSOPEN='|{e} %s' less -F /etc/hostname
MANPAGER={e} man ls
PAGER={e} git -p log -1
sort --compress-program={e} -S1 /etc/services
ld.so --preload nothing {e}
rsync -e {e} nowhere:x .
"""

DISGUISES = (
    *_lines(_SYNTAX),
    *_lines(_EXPANSIONS),
    *_HERE,
    *_lines(_PROGRAMS),
    *_lines(_FILES),
)


def disguise(template: str, command: str, program: str) -> str:
    """Put a command into a disguise, quoted as must be; `program` is a file that does it."""
    quoted = shlex.quote(command)
    return template.format(
        c=command,
        q=quoted,
        qq=quoted.replace("'", "'\\''"),
        b=command.replace("\\", "\\\\").replace("`", "\\`"),
        a=shlex.quote(f"a[$({command})0]"),
        e=shlex.quote(program),
    )
