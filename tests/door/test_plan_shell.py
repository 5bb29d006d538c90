"""Plan mode against a real shell in a real repository: what runs, and that nothing changes."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import pytest

from prong.event import ToolFinished
from prong.host.sandbox.ability import detect
from prong.testing import World, Worlds, call, say

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("P2")]

HARMLESS = r"""
ls -la
cat a.txt
cat a.txt | sort -u | head -2
grep -rn one .
grep one a.txt > /dev/null 2>&1
find . -name '*.txt'
wc -l a.txt b.txt
git status --short
git log --oneline -1
git diff
git show HEAD:a.txt
diff <(sort b.txt) <(sort b.txt)
head -1 < a.txt
test -f a.txt && echo there
cd sub && ls && pwd
for n in 1 2; do echo $n; done
sort <<< "b"
""".strip().splitlines()

HARMFUL = r"""
touch made
echo x > a.txt
echo x >> a.txt
echo x | tee a.txt
cat a.txt b.txt > c.txt
sed -i s/one/two/ a.txt
sed -n 'w made' a.txt
sed 's/one/touch made/e' a.txt
find . -name '*.txt' -delete
find . -name '*.txt' -exec rm {} ;
find . -fprint made
rm a.txt
mv a.txt c.txt
cp a.txt c.txt
mkdir made
ln -s a.txt made
git add b.txt
git commit -am x
git checkout -b made
git stash
git branch made
git config user.name x
git -c core.pager='touch made' log
git tag made
git reset --hard
git clean -fd
python -c "open('made','w')"
python3 - <<< "open('made','w')"
bash -c 'touch made'
sh made.sh
eval 'touch made'
cat <(touch made)
echo $(touch made)
echo `touch made`
ls; touch made
ls && touch made
ls & touch made
alias ls='touch made'; ls
ls() { touch made; }; ls
xargs touch < a.txt
awk 'BEGIN { system("touch made") }'
awk '{ print > "made" }' a.txt
perl -e 'open F, ">made"'
sort -o a.txt b.txt
dd if=a.txt of=made
tar cf made a.txt
env touch made
PATH=.:$PATH ls
exec touch made
: > a.txt
> made
truncate -s 0 a.txt
make
./made.sh
""".strip().splitlines()
# A here-document needs lines of its own.
HARMFUL.append("cat > a.txt <<END\nx\nEND")

FILES = {
    "a.txt": "one\ntwo\n",
    "b.txt": "one\nthree\n",
    "made.sh": "#!/bin/sh\ntouch made\n",
    "Makefile": "all:\n\ttouch made\n",
    "sub/d.txt": "four\n",
}


def state(root: Path) -> dict[str, str]:
    """Give every file's digest and every link's and folder's name, git's own included.

    What git keeps of files' times in its index is renewed by reading: it is left out, and so is the
    folder for plans, which plan mode itself makes.
    """
    found: dict[str, str] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if name != ".git/index" and name.partition("/")[0] != ".prong":
            found[name] = sha256(path.read_bytes()).hexdigest() if path.is_file() else "-"
    return found


def repository(w: World) -> None:
    (w.root / "made.sh").chmod(0o755)
    for words in ("init -q", "add a.txt", "-c user.name=x -c user.email=x@x commit -qm first"):
        subprocess.run(["git", *words.split(" ")], cwd=w.root, check=True)
    (w.root / "a.txt").write_text("one\ntwo\nthree\n")


async def run(
    world: Worlds, commands: Sequence[str], *, background: bool, sandbox: str = "on"
) -> list[ToolFinished]:
    arguments = [
        {"command": one, **({"run_in_background": True} if background else {})} for one in commands
    ]
    script = [*(call("Bash", one) for one in arguments), say("Done.")]
    async with world(script, files=FILES, opens=False) as w:
        repository(w)
        before = state(w.root)
        settings = f'{{"sandbox": {{"mode": "{sandbox}"}}}}'
        async with w.open(mode="plan", allow=("Bash",), settings=settings) as session:
            await session.run("Try", wait_tasks=False)
            assert state(w.root) == before
        assert state(w.root) == before
        return w.told(ToolFinished)


async def test_harmless_commands_run(world: Worlds) -> None:
    """Commands that only read run in plan mode, and the folder is as it was."""
    finished = await run(world, HARMLESS, background=False)

    assert [(c, e.text) for c, e in zip(HARMLESS, finished, strict=True) if e.failed] == []


@pytest.mark.spec("L13")
@pytest.mark.skipif(not detect().writes, reason=f"needs Landlock and seccomp: {detect().why}")
@pytest.mark.parametrize("background", [False, True])
async def test_harmful_commands_change_nothing(world: Worlds, background: bool) -> None:
    """Held by the system, commands that may write run or are refused; the folder is as it was."""
    finished = await run(world, HARMFUL, background=background)

    assert any(e.refused for e in finished)
    assert not all(e.refused for e in finished)


@pytest.mark.parametrize("background", [False, True])
async def test_harmful_commands_do_not(world: Worlds, background: bool) -> None:
    """Without a sandbox commands that may write are refused, and the folder is as it was."""
    finished = await run(world, HARMFUL, background=background, sandbox="off")

    assert [c for c, e in zip(HARMFUL, finished, strict=True) if not e.failed] == []
    assert all("plan mode only reads" in e.text for e in finished)
