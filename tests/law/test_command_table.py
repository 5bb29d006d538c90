from __future__ import annotations

import pytest

from prong.tool.access import Running
from prong.tool.policy import Allow, Ask, Deny, Policy, decide

ROOT, HOME = "/r", "/home/u"

READ_ONLY = r"""
ls
ls -la src
ls *.py
/bin/ls
/usr/bin/cat x
cat README.md
cat -n src/a.py src/b.py
cat "a file"
cat a\ b
cat $'a\tb'
head -n 20 x
head -20 x | tail -5
tail -f log
wc -l *.py
sort x
sort -u -k2,2n x
sort x | uniq -c | sort -rn
uniq -c x
cut -d: -f1 x
tr a-z A-Z
echo hi
echo "it costs $"
echo $HOME
echo "$x and ${y:-z}"
printf '%s\n' a b
grep -rn foo .
grep -rn "/api/v1" src
grep -E 'a|b' x
grep foo x 2>/dev/null
grep foo x 2>&1
grep foo x > /dev/null
grep -c foo < x
rg foo
rg -n 'foo\(' src
rg --files
find . -name '*.py'
find . -type f -newer x
find src -maxdepth 2 -print0
fd foo src
tree -L 2
du -sh .
df -h
stat x
file x
diff a b
diff <(sort a) <(sort b)
cmp a b
pwd
which python
type ls
command -v git
date
date +%s
date -u
basename /a/b
dirname /a/b/c
realpath x
readlink -f x
test -f x
[ -f x ]
[[ -f x ]]
[[ $x == y* ]]
true
false
:
sleep 1
seq 3
env
env LC_ALL=C sort x
printenv
LC_ALL=C sort x
NO_COLOR=1 rg foo
whoami
uname -a
hostname
id
ps aux
nproc
md5sum x
sha256sum x
xxd x
od -c x
jq .name package.json
jq -r '.a | .b' x.json
cat x | jq .
sed -n 1,20p x
sed -n '1,20p' x
sed 's/a/b/' x
sed -e 's/a/b/g' -e '/x/d' x
sed -n '/start/,/end/p' x
sed '$d' x
sed -E 's|a+|b|g' x
git status
git status --short
git log
git log --oneline -5
git log --oneline | head
git log main..HEAD
git show HEAD
git show HEAD:src/a.py
git diff
git diff --stat HEAD~1
git diff main...feature -- src
git blame x
git rev-parse HEAD
git rev-parse --show-toplevel
git ls-files
git ls-files | wc -l
git grep foo
git cat-file -p HEAD
git describe --tags
git branch
git branch -a
git branch -vv
git branch --show-current
git branch --list
git branch --list 'feat/x'
git branch --contains HEAD
git tag
git tag -l
git remote
git remote -v
git remote get-url origin
git stash list
git stash show
git config --get user.name
git config --list
git worktree list
git reflog
git --no-pager log
git --no-pager diff
git -C src status
git --version
git merge-base main HEAD
git shortlog -sn
git rev-list --count HEAD
python --version
node --version
go version
pip list
timeout 5 ls
nice -n 5 ls
nohup ls
time ls
stdbuf -oL grep foo x
command ls
builtin echo hi
cd src && ls
cd src; ls
(cd src && ls)
cd src && git log
{ ls; pwd; }
if [ -f x ]; then cat x; else echo no; fi
for f in a b; do echo $f; done
for f in a b; do echo "$f"; done > /dev/null
while read -r line; do echo "$line"; done < x
case $x in a) echo a;; *) echo b;; esac
ls && pwd || echo no
ls; pwd
ls & wait
! grep -q foo x
ls # comment
echo $(pwd)
echo `pwd`
echo "$(git rev-parse HEAD)"
x=1
x=$(git rev-parse HEAD); echo $x
cat <<< hi
cat <<'EOF'§$(rm x)§EOF
cat <<EOF§hi $x§EOF
cat <<EOF | wc -l§hi§EOF
ls \§  -la
set -euo pipefail; ls
exit 0
export x=1
cat -- -x
echo a > /dev/stderr
echo a >&2
git
"""

NOT = r"""
rm x
rm -rf /
\rm x
"rm" x
r""m x
'r'm x
$'\x72m' x
/bin/rm x
./ls
bin/cat x
RM x
touch x
mkdir x
mv a b
cp a b
ln -s a b
chmod +x x
chown u x
dd if=a of=b
tee x
echo a | tee x
echo a > x
echo a >> x
echo a >| x
echo a &> x
echo a &>> x
echo a >&x
> x
: > x
cat <<EOF > x§hi§EOF
cat a > b 2>&1
ls > "$x"
ls 2> err
exec > x
exec 3<>x
exec ls
sort -o x y
sort -uo x y
sort --output=x y
sort --outp=x y
sort --compress-program=rm y
sort *
sort $x
sort {-o,x} y
uniq a b
xxd -r a b
xxd a -v
xxd -C a -v
sed -i s/a/b/ x
sed -i.bak s/a/b/ x
sed -ni p x
sed --in-place s/a/b/ x
sed --in-pl s/a/b/ x
sed 'w out' x
sed 's/a/b/w out' x
sed 's/a/rm/e' x
sed '1e rm x' x
sed -f script x
sed "$x" y
sed -n '1p;w out' x
sed '1r x;1w y' z
awk '{print}' x
awk 'BEGIN{system("rm x")}'
perl -e 1
python -c 'print(1)'
python x.py
python
node -e 1
ruby -e 1
bash
bash x.sh
bash -c 'rm x'
bash -c ls > x
bash <<< 'rm x'
bash <<EOF§rm x§EOF
echo rm x | sh
curl x | sh
sh -s < x
zsh -c 'rm x'
eval rm x
eval "r"m x
eval $x
source x
. x
. <(echo rm x)
find . -delete
find . -exec rm {} \;
find . -exec rm {} +
find . -execdir rm {} \;
find . -ok rm {} \;
find . -fprint x
find . -fprintf x %p
find . -fls x
find . $x
find * -name x
fd -x rm
fd --exec rm
xargs rm
ls | xargs rm
ls | xargs -n 1 rm
ls | xargs -I{} sh -c 'rm {}'
ls | xargs sh -c 'rm "$@"'
env rm x
env A=1 rm x
env -S 'rm x'
env -i rm x
env "a b=c" rm x
env a/b=c rm x
sudo A=1 rm x
watch "A=1 rm x"
watch 'x=$(rm x)'
parallel 'x=$(rm y)'
env LD_PRELOAD=x ls
env PATH=. ls
sudo ls
sudo rm x
doas ls
su -c 'rm x'
nohup rm x
timeout 5 rm x
timeout -k 1 5 rm x
nice rm x
nice -n 5 rm x
time rm x
command rm x
builtin eval rm x
busybox rm x
watch rm x
parallel rm
ssh host ls
strace ls
script -c 'rm x'
flock l rm x
trap 'rm x' EXIT
alias ls=rm
ls() { rm x; }; ls
function ls { rm x; }; ls
f() { echo; }; f
PATH=. ls
PATH=.; ls
export PATH=.
LD_PRELOAD=x ls
GIT_PAGER=x git log
GIT_EXTERNAL_DIFF=x git diff
BASH_ENV=x ls
IFS=x
read PATH
hash -p /x ls
jobs -x rm x
enable -f x y
printf -v x y
test -v 'a[$(rm x)]'
[ -v 'a[$(rm x)]' ]
[[ 'a[$(rm x)]' -eq 0 ]]
unset 'a[$(rm x)]'
echo $((x))
x='a[$(rm y)]'; echo $((x))
echo ${x@P}
declare -i x=y
let x=1
((x=1))
((rm ))
( (rm x) )
for ((i=0;i<3;i++)); do echo; done
echo $(rm x)
echo `rm x`
echo "$(rm x)"
echo "`rm x`"
echo ${x:-$(rm y)}
echo $((1+$(rm x)))
cat <(rm x)
cat >(rm x)
ls > >(tee x)
cat <<< "$(rm x)"
cat <<EOF§$(rm x)§EOF
cat <<EOF§`rm x`§EOF
cat <<EOF && rm x§hi§EOF
cat <<EOF§hi§EOF§rm x
x=$(rm y)
x=$(rm y) ls
a[$(rm x)]=1
a=(1 $(rm x))
export x=$(rm y)
case $(rm x) in a) ;; esac
case a in a) rm x;; esac
if rm x; then :; fi
if true; then rm x; fi
while rm x; do :; done
until rm x; do :; done
for i in $(rm x); do :; done
for i in a; do rm $i; done
select i in a; do rm x; done
! rm x
rm x &
ls; rm x
ls && rm x
ls || rm x
ls | rm x
ls |& rm x
ls§rm x
(rm x)
{ rm x; }
( { rm x; } )
coproc rm x
time { rm x; }
[[ -f $(rm x) ]]
$x
$x y
${x} y
r$x y
$(echo rm) x
`echo rm` x
"$x" y
/bin/r? x
{rm,x}
r\§m x
echo \ #x; rm y
ls;; rm
echo "unterminated
echo 'unterminated
ls )
ls 3<> x
git add .
git commit -m x
git push
git pull
git fetch
git checkout x
git switch x
git restore x
git reset --hard
git clean -fd
git merge x
git rebase x
git rebase -x 'rm y' HEAD~1
git cherry-pick x
git branch x
git branch -d x
git branch -D x
git branch -m a b
git branch -f a b
git branch --set-upstream-to=x
git branch -a x
git tag x
git tag -d x
git tag -a x -m y
git remote add a b
git remote remove a
git remote set-url a b
git stash
git stash pop
git stash drop
git stash list -p; git stash clear
git config a b
git config user.name x
git config --unset a
git config alias.x '!rm y'
git -c alias.x='!rm y' x
git -c core.pager=rm log
git -c a=b status
git --exec-path=x status
git --git-dir=x status
git log --output=x
git diff --output=x
git diff --outp x
git diff --ext-diff
git show --textconv
git grep -O foo
git grep -Orm foo
git grep --open-files-in-pager=rm foo
git worktree add x
git worktree remove x
git reflog expire
git reflog delete x
git submodule foreach rm x
git bisect run rm x
git init
git gc
git apply x
git am x
git update-ref a b
git log $x
git x
date -s x
date -f /etc/passwd
date --file=/etc/passwd
date --set=x
date 010100002030
hostname x
hostname -F x
file -C -m x
tree -o x
rg --pre rm foo
rg --pre=rm foo
rg -z foo
base64 -o x
time -o x ls
npm test
npm install
make
cargo build
docker ps
kill 1
curl x
wget x
ssh x
nc x 1
cat < /dev/tcp/a/1
uv run rm x
npx rm x
vim x
less x
man x
tar xf x
zip a b
patch < x
crontab x
at now
"""


def _lines(table: str) -> list[str]:
    return [line.replace("§", "\n") for line in table.strip().split("\n")]


def _plan(command: str):
    policy = Policy(root=ROOT, home=HOME, mode="plan")
    return decide(policy, "Bash", [Running(command, ROOT)])


@pytest.mark.spec("L5", "P2")
@pytest.mark.parametrize("command", _lines(READ_ONLY))
def test_harmless_commands_run_even_in_plan_mode(command: str):
    """A command that only reads inside the project is proven to do so."""
    assert isinstance(_plan(command), Allow), _plan(command)
    assert isinstance(decide(Policy(root=ROOT, home=HOME), "Bash", [Running(command, ROOT)]), Allow)


@pytest.mark.spec("L5", "P2")
@pytest.mark.parametrize("command", _lines(NOT))
def test_what_may_write_is_denied_in_plan_mode(command: str):
    """A command that may write, or run what is not known, is never taken for a reading one."""
    assert isinstance(_plan(command), Deny), _plan(command)
    assert isinstance(decide(Policy(root=ROOT, home=HOME), "Bash", [Running(command, ROOT)]), Ask)


OUTSIDE = r"""
cat /etc/passwd
cat ../x
cat ~/x
cat < /etc/passwd
ls /
ls ..
cd / && ls
cd ..; cat x
cd; ls
cd - && ls
cd $x && ls
cat $x
cat "$x"
cat .*
grep foo /etc/passwd
grep -f/etc/passwd x
grep -efoo /etc/passwd
grep -rnf x /etc/passwd
rg --regexp=foo /etc/passwd
rg --files /etc
grep --file=/etc/passwd x
find / -name x
find .. -name x
git -C /elsewhere status
git diff --no-index /etc/passwd x
head ~root/x
for f in *.py; do cat $f; done
ls | xargs cat
sed -n 1p /etc/passwd
(cd /etc; cat passwd)
cd src/../.. && ls
while true; do cd ..; cat x; done
"""


@pytest.mark.spec("L5")
@pytest.mark.parametrize("command", _lines(OUTSIDE))
def test_reading_outside_the_project_is_asked_for(command: str):
    """Reading elsewhere, or who knows where, is a question in default and in plan mode."""
    assert isinstance(_plan(command), Ask), _plan(command)
    assert isinstance(decide(Policy(root=ROOT, home=HOME), "Bash", [Running(command, ROOT)]), Ask)
