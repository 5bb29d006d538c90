"""The sandbox against real commands: what the kernel refuses, and what works all the same."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import anyio
import msgspec
import pytest

from prong.host import LocalHost
from prong.host.git import Git
from prong.host.residue import own_folder
from prong.host.sandbox import NONE, Ability, Profile, spawn
from prong.host.sandbox.ability import detect
from prong.host.worktree import create
from prong.tools.derive import reading, working, worktree
from prong.tools.ground import Sandboxing
from prong.tools.policy import Ground, Policy
from prong.tools.rule import Rule, parse_rule

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("L13")]

ABLE = detect()
kernel = pytest.mark.skipif(not ABLE.writes, reason=f"needs Landlock and seccomp: {ABLE.why}")
views = pytest.mark.skipif(not (ABLE.writes and ABLE.views), reason=f"needs namespaces: {ABLE.why}")


class Ended(NamedTuple):
    code: int
    text: str
    undone: list[str]


class Bench:
    """A repository, a home with secrets, and a host to run commands on."""

    def __init__(self, folder: Path) -> None:
        self.root, self.home = folder / "project", folder / "home"
        self.outside = folder / "outside"
        for one in (self.root / "sub", self.home / ".ssh", self.outside):
            one.mkdir(parents=True)
        (self.home / ".ssh/id").write_text("PRIVATE")
        (self.outside / "f").write_text("theirs\n")
        (self.root / "a").write_text("one\n")
        (self.root / ".env").write_text("SECRET=1\n")
        (self.root / "sub/.env").write_text("SECRET=2\n")
        self.git("init -q -b main")
        self.git("add a")
        self.git("commit -qm first")
        self.host = LocalHost(self.root, str(self.home), storage=str(folder / "store"))

    def git(self, words: str) -> str:
        who = ("-c", "user.name=x", "-c", "user.email=x@x.invalid")
        ended = subprocess.run(
            ["git", *who, *words.split()], cwd=self.root, check=True, capture_output=True, text=True
        )
        return ended.stdout.strip()

    def policy(self, *denied: str, temp: tuple[str, ...] = ()) -> Policy:
        rules = [parse_rule(text, effect="deny", source="user") for text in denied]
        return Policy(
            root=str(self.root),
            home=str(self.home),
            rules=tuple(one for one in rules if isinstance(one, Rule)),
            sandbox=Sandboxing(on=True, ability=self.host.ability, temp=temp),
        )

    async def run(self, line: str, profile: Profile, *, cwd: str | None = None) -> Ended:
        env = {"GIT_OPTIONAL_LOCKS": "0", "GIT_AUTHOR_NAME": "x", "GIT_AUTHOR_EMAIL": "x@x.invalid"}
        env |= {"GIT_COMMITTER_NAME": "x", "GIT_COMMITTER_EMAIL": "x@x.invalid"}
        process = await self.host.start(line, cwd=cwd, env=env, profile=profile)
        with anyio.fail_after(60):
            said = b"".join([chunk async for chunk in process.output()])
            code = await process.wait()
        await process.kill()
        return Ended(code, said.decode(errors="replace"), list(process.leave()))


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path)
    yield made
    await made.host.close()


@pytest.fixture(params=["thread", "fork"])
def road(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Go both ways into a view: root's own, and that of everybody else."""
    if request.param == "fork":
        monkeypatch.setattr(spawn, "enters_by_thread", lambda: False)
    elif os.geteuid() != 0:
        pytest.skip("only root enters a view by a thread")
    return request.param


def state(*folders: Path) -> dict[str, object]:
    """Give what files hold and what is known of them."""
    found: dict[str, object] = {}
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            seen = path.lstat()
            data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            found[str(path)] = (data, seen.st_mode, seen.st_uid, seen.st_mtime_ns)
    return found


WRITES = r"""
touch made
echo x > a
: > a
truncate -s 0 a
rm a
mv a b
ln a b
ln -s a b
mkdir made
mkfifo made
cp a b
sed -i s/one/two/ a
chmod 777 a
chmod 000 .
chown 1:1 a
touch -d yesterday a
setfattr -n user.x -v y a
chattr +i a
python3 -c "open('a','w')"
python3 -c "import os; os.open('a', os.O_RDONLY | os.O_TRUNC)"
python3 -c "import os; os.utime('a', (0, 0))"
python3 -c "import os; os.setxattr('a', 'user.x', b'y')"
python3 -c "import os; os.link('a', 'b')"
python3 -c "import os, stat; os.mknod('made', 0o600 | stat.S_IFBLK, os.makedev(7, 0))"
perl -e 'truncate("a", 0)'
git commit -qam x
git config x.y z
git checkout -q -b other
git update-ref refs/heads/main HEAD~0
git stash
git gc
tar xf /dev/null -C . && touch sub/made
dd if=/dev/zero of=a bs=1 count=1
cat /proc/self/environ > /proc/self/cwd/made
cd /; touch "$OLDPWD/made"
(setsid touch made &) ; sleep 0.2
nohup touch made
( ( touch made & ) & ) ; sleep 0.2
exec -a x touch made
unshare -Ur touch made
unshare -m sh -c 'mount -o remount,rw /; touch made'
mount -t tmpfs none sub
chroot / touch "$PWD/made"
nsenter -t 1 -m touch made
env -i /usr/bin/touch made
echo x > ../outside/f
echo x >> ../home/.ssh/id
touch ../home/.bashrc
bash -c 'bash -c "touch made"'
find . -maxdepth 0 -exec touch made ';'
awk 'BEGIN { print "x" > "made" }'
echo x | tee a
xargs touch <<< made
install -D a sub/made
rsync a made
""".strip().splitlines()


@kernel
@pytest.mark.spec("P2")
async def test_reading_changes_nothing(bench: Bench) -> None:
    """Nothing that a command in *reading* tries changes a file, a mode, a time or a name."""
    profile = reading(bench.policy())
    folders = (bench.root, bench.home, bench.outside)
    before = state(*folders)
    for line in WRITES:
        ended = await bench.run(line, profile)
        assert state(*folders) == before, (line, ended)


@kernel
async def test_reading_reads(bench: Bench) -> None:
    """Honest commands work, with a temporary folder of their own that is gone afterwards."""
    profile = reading(bench.policy())
    for line, wanted in (
        ("find . -name a | xargs wc -l", "1"),
        ("for f in *; do echo $f; done", "sub"),
        ("git status --short; git log --oneline", "first"),
        ("python3 -c 'print(6 * 7)'", "42"),
        ("echo x > $TMPDIR/t && cat $TMPDIR/t", "x"),
        ("seq 1 200000 | sort -R | sort -n | tail -1", "200000"),
        ("echo hidden > /dev/null; echo shown > /dev/stderr", "shown"),
        ("sleep 30 & kill $!; wait; echo over", "over"),
        ("diff <(echo a) <(echo a) && echo same", "same"),
        ("bash -c 'exit 3' || echo $?", "3"),
    ):
        ended = await bench.run(line, profile)
        assert wanted in ended.text, (line, ended)
    where = (await bench.run("echo $TMPDIR", profile)).text.strip()
    assert where
    assert not Path(where).exists()


@kernel
async def test_reading_reaches_nobody(bench: Bench, tmp_path: Path) -> None:
    """No socket of any kind is opened, and no process outside is signalled or looked into."""
    profile = reading(bench.policy())
    sleeper = subprocess.Popen(["sleep", "60"], env={"CANARY": "in-the-environment"})
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    port = listener.getsockname()[1]
    try:
        for line in (
            f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo REACHED",
            f"exec 3<>/dev/udp/127.0.0.1/{port} && echo REACHED",
            "python3 -c 'import socket; socket.socket(socket.AF_UNIX); print(\"REACHED\")'",
            (
                "python3 -c 'import socket; socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); "
                'print("REACHED")\''
            ),
            (
                "python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW); "
                'print("REACHED")\''
            ),
            f"kill {sleeper.pid} && echo REACHED",
            (
                f"python3 -c 'import os; os.pidfd_open({sleeper.pid}); "
                f'import signal; signal.pidfd_send_signal(os.pidfd_open({sleeper.pid}), 15); print("REACHED")\''
            ),
            f"tr '\\0' '\\n' < /proc/{sleeper.pid}/environ | sed s/in-the-environment/REACHED/",
            f"head -c 1 /proc/{sleeper.pid}/mem && echo REACHED",
            (
                f"strace -qq -o /dev/null -p {sleeper.pid} & sleep 0.3; kill $!; "
                f"grep -q 'TracerPid:.0$' /proc/{sleeper.pid}/status || echo REACHED"
            ),
            f"prlimit --pid {sleeper.pid} --nofile=1:1 && echo REACHED",
        ):
            ended = await bench.run(line, profile)
            assert "REACHED" not in ended.text, (line, ended)
        assert sleeper.poll() is None
    finally:
        listener.close()
        sleeper.kill()
        sleeper.wait()


@kernel
async def test_no_command_sees_the_keys_of_prong(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment of Prong itself cannot be read through /proc, in any profile."""
    monkeypatch.setenv("CANARY_KEY", "sk-in-our-own-environment")
    env = {**os.environ, "CANARY_KEY": "sk-in-a-process"}
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=env)
    try:
        for profile in (reading(bench.policy()), working(bench.policy())):
            for pid in (os.getpid(), other.pid):
                line = f"unset CANARY_KEY; tr '\\0' '\\n' < /proc/{pid}/environ"
                ended = await bench.run(line, profile)
                assert "sk-in" not in ended.text, (profile.name, ended)
    finally:
        other.communicate(b"\n")


@kernel
async def test_denied_files_and_secrets_are_not_read(bench: Bench) -> None:
    """A Read rule, and what holds secrets at home, hold for every process in *reading*."""
    profile = reading(bench.policy("Read(.env)", "Read(secrets/**)"))
    (bench.root / "secrets").mkdir()
    (bench.root / "secrets/k").write_text("SECRET=3\n")
    (bench.root / "link").symlink_to(".env")
    for line in (
        "cat .env sub/.env secrets/k link",
        "grep -r SECRET .",
        "python3 -c 'print(open(\"sub/.env\").read())'",
        "tar c . | strings",
        "cd sub; cat ./.env ../secrets/k; cat /proc/self/cwd/.env",
        "ln .env $TMPDIR/x && cat $TMPDIR/x; cp .env $TMPDIR/y && cat $TMPDIR/y",
        f"cat {bench.home}/.ssh/id",
        "git add -f .env; git hash-object -w .env; git diff --no-index /dev/null .env",
    ):
        ended = await bench.run(line, profile)
        assert "SECRET" not in ended.text, (line, ended)
        assert "PRIVATE" not in ended.text, (line, ended)
    assert (await bench.run("cat a sub/../a", profile)).text == "one\none\n"


@views
async def test_working_builds(bench: Bench, road: str) -> None:
    """Commits, environments, links, pipes and temporary files work where a command may write."""
    profile = working(bench.policy(temp=("/var/tmp",)))
    for line in (
        "echo x > b && mkdir -p d/e && mv b d/e && cp -r d f && rm -r f && chmod 600 d/e/b",
        "git add -A d && git commit -qm second && git log --oneline | grep -q second",
        "git checkout -q -b topic && git tag t && git stash list && git gc -q",
        "python3 -m venv --without-pip .v && .v/bin/python -c 'print(1)'",
        "t=$(mktemp -p /var/tmp) && echo x > $t && rm $t",
        "python3 -c 'import multiprocessing as m; m.Pool(2).map(abs, [1])'",
        "printf 'all:\\n\\techo made > out\\n' > Makefile && make && cat out",
        "git init -q inner && cd inner && git commit -q --allow-empty -m x",
    ):
        ended = await bench.run(line, profile)
        assert ended.code == 0, (line, ended)
        assert not ended.undone


PROTECTED = r"""
echo x > .git/hooks/pre-commit
rm -r .git/hooks
mv .git/hooks .git/h
mv .git .g; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit
git config core.hooksPath /tmp
echo x >> .git/config
chmod 777 .git/config
ln -f a .git/config
rm -rf .claude
mv .claude c
echo x > .claude/settings.json
cp -r sub .claude/hooks
python3 -c "open('.claude/settings.json','w')"
mkdir -p .prong/agents && echo x > .prong/agents/a.md
echo '{}' > .mcp.json
mkdir .vscode && echo '{}' > .vscode/tasks.json
ln -s /etc .idea
umount .git/config; echo x >> .git/config
mount --bind a .git/config
unshare -Urm sh -c 'umount -R .git/hooks; echo x > .git/hooks/x'
echo x >> ../home/.bashrc
echo x > ../outside/f
touch -d yesterday ../outside/f
chmod 777 ../outside/f
rm -rf ../outside
(setsid sh -c 'sleep 0.1; echo x > .git/hooks/late' &); sleep 0.4
""".strip().splitlines()


@views
async def test_protected_paths_stay(bench: Bench, road: str) -> None:
    """Whatever a command tries, protected paths are as they were, and those not there are not."""
    (bench.root / ".claude").mkdir()
    (bench.root / ".claude/settings.json").write_text("{}")
    profile = working(bench.policy())
    guarded = (
        ".git/hooks",
        ".git/config",
        ".claude",
        ".prong/agents",
        ".mcp.json",
        ".vscode",
        ".idea",
    )

    def look() -> dict[str, object]:
        found = state(*(bench.root / name for name in guarded), bench.outside, bench.home)
        for name in guarded:
            path = bench.root / name
            found[name] = path.read_bytes() if path.is_file() else path.is_dir()
        return found

    before = look()
    for line in PROTECTED:
        ended = await bench.run(line, profile)
        assert look() == before, (line, ended)
    names = {path.name for path in bench.root.iterdir()}
    assert names <= {"a", ".env", "sub", ".git", ".claude", ".prong", "c", ".g"}, "nothing stray"


@views
async def test_what_was_made_in_a_protected_place_is_kept_aside(bench: Bench, road: str) -> None:
    """It is moved, not lost, and the sentence says where to."""
    ended = await bench.run("echo mine > .mcp.json", working(bench.policy()))
    (said,) = ended.undone

    assert said.startswith(f"{bench.root}/.mcp.json is protected")
    assert Path(said.rpartition(" ")[2]).read_text() == "mine\n"


@views
async def test_a_path_the_user_said_yes_to_is_written(bench: Bench, road: str) -> None:
    """An approved path is open for that command, and its neighbours are not."""
    opened = working(bench.policy(), opened=(f"{bench.root}/.git/hooks/x",))

    assert (await bench.run("echo x > .git/hooks/x", opened)).code == 0
    assert (await bench.run("echo x >> .git/config", opened)).code != 0


@views
async def test_denied_files_are_hidden_where_a_command_may_write(bench: Bench, road: str) -> None:
    """Nothing reads a denied file in *working* either, and none is replaced."""
    profile = working(bench.policy("Read(.env)"))
    for line in (
        "cat .env sub/.env",
        "grep -r SECRET .",
        "mv sub s2; cat s2/.env; mv s2 sub",
        "ln .env x; cat x; rm -f x",
        "rm -f .env; cat .env",
        "umount .env; cat .env",
        "mkdir n && mv .env n/; cat n/.env",
    ):
        ended = await bench.run(line, profile)
        assert "SECRET" not in ended.text, (line, ended)
    assert (bench.root / ".env").read_text() == "SECRET=1\n"
    assert (bench.root / "sub/.env").read_text() == "SECRET=2\n"


async def at_work(bench: Bench, slug: str) -> tuple[Profile, str]:
    made = await create(bench.host, slug)
    own, common = await own_folder(Git(bench.host, made.parent), made.path)
    ground = Ground(made.cwd, made.path, (made.parent,), own, common, made.branch)
    return worktree(bench.policy(), ground), made.path


@views
@pytest.mark.spec("W3")
async def test_a_child_commits_in_its_worktree(bench: Bench, road: str) -> None:
    """Adding, committing, amending, stashing and resetting work there."""
    profile, path = await at_work(bench, "one")
    for line in (
        "echo x > b && git add b && git commit -qm mine",
        "echo y > b && git commit -qam more && git commit -q --amend -m most",
        "git stash list; git reset -q --hard HEAD~1; git status --short",
        "chmod 755 a; touch -d yesterday a; mkdir d; mv a d/",
    ):
        ended = await bench.run(line, profile, cwd=path)
        assert ended.code == 0, (line, ended)
    assert bench.git("log --format=%s -1 prong/one") == "mine"


ELSEWHERE = r"""
echo x > ../../../a
chmod 777 ../../../a
touch -d yesterday ../../../a
rm -rf ../../../sub
echo x > ../two/a
git branch -f main HEAD
git branch -m main other
git update-ref refs/heads/main HEAD
git update-ref refs/heads/prong/two HEAD
git branch -D prong/two
git tag t
git config x.y z
git -C ../../.. commit -q --allow-empty -m x
git -C ../../.. checkout -q -b other
git pack-refs --all
echo x > "$(git rev-parse --git-common-dir)/hooks/post-commit"
echo /tmp > "$(git rev-parse --git-dir)/commondir"
echo 'gitdir: /tmp' > .git
rm -f .git
python3 -c "open('../../../a','w')"
echo x > ../../../.git/refs/heads/prong/two
mv ../two ../three
""".strip().splitlines()


@views
@pytest.mark.spec("W3")
async def test_nothing_of_the_parent_or_a_sibling_is_touched(bench: Bench, road: str) -> None:
    """Files, modes, times, branches, settings and hooks elsewhere are as they were."""
    await at_work(bench, "two")
    profile, path = await at_work(bench, "one")
    await bench.run("echo x > b && git add b && git commit -qm mine", profile, cwd=path)
    two = bench.root / ".prong/worktrees/two"

    def look() -> tuple[object, ...]:
        refs = bench.git("for-each-ref --format=%(refname)%(objectname)")
        plain = [bench.root / "sub", bench.root / ".git/hooks", two]
        files = state(*plain) | {str(p): p.read_bytes() for p in (bench.root / ".git/config",)}
        seen = (bench.root / "a").stat()
        pointers = (Path(path, ".git").read_text(), (bench.root / ".git/HEAD").read_text())
        return refs, files, (seen.st_mode, seen.st_mtime_ns, seen.st_size), pointers

    before = look()
    for line in ELSEWHERE:
        ended = await bench.run(line, profile, cwd=path)
        assert look() == before, (line, ended)


@views
async def test_sockets_of_services_are_out_of_reach(bench: Bench, road: str) -> None:
    """A terminal multiplexer, which would run anything, cannot be reached; an agent by main alone."""
    path = bench.home / "service.sock"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    script = bench.home / "reach.py"
    script.write_text(
        f"import socket\nsocket.socket(socket.AF_UNIX).connect({str(path)!r})\nprint('REACHED')\n"
    )
    child, folder = await at_work(bench, "one")
    try:
        for env, profile, cwd, reached in (
            ({"TMUX": f"{path},1,0"}, working(bench.policy()), None, False),
            ({"SSH_AUTH_SOCK": str(path)}, child, folder, False),
            ({"SSH_AUTH_SOCK": str(path)}, working(bench.policy()), None, True),
        ):
            process = await bench.host.start(f"python3 {script}", cwd=cwd, env=env, profile=profile)
            said = b"".join([chunk async for chunk in process.output()])
            await process.kill()
            assert (b"REACHED" in said) is reached, (env, profile.name, said)
    finally:
        listener.close()


@kernel
async def test_without_views_writes_are_held_by_folders(bench: Bench) -> None:
    """Where namespaces are forbidden, nothing outside the writable folders is written all the same."""
    weaker = msgspec.structs.replace(ABLE, views=False)
    bench.host = LocalHost(bench.root, str(bench.home), ability=weaker)
    profile = working(bench.policy())

    assert not weaker.holds(profile)
    assert (await bench.run("echo x > b; cat b", profile)).text == "x\n"
    assert (await bench.run("echo x > ../outside/f", profile)).code != 0
    ended = await bench.run("python3 -c 'import socket; socket.socket(socket.AF_UNIX)'", profile)
    assert ended.code != 0


@kernel
@pytest.mark.parametrize("abi", [1, 2, 3, 4, 5])
async def test_an_old_landlock_still_holds_what_it_can(bench: Bench, abi: int) -> None:
    """By the rules of an old version commands run, and plain writes are refused."""
    if abi > ABLE.abi:
        pytest.skip(f"this kernel has version {ABLE.abi}")
    bench.host = LocalHost(
        bench.root, str(bench.home), ability=msgspec.structs.replace(ABLE, abi=abi)
    )
    profile = reading(bench.policy())

    assert (await bench.run("cat a", profile)).text == "one\n"
    assert (await bench.run("echo x > a; rm a; touch b", profile)).code != 0
    assert (bench.root / "a").read_text() == "one\n"
    assert (await bench.run(f"kill -0 {os.getpid()}", profile)).code != 0


async def test_without_a_sandbox_commands_run_as_ever(bench: Bench) -> None:
    """A host that can hold nothing says so, and runs what the gate let through."""
    bench.host = LocalHost(bench.root, str(bench.home), ability=Ability())

    assert not bench.host.ability.some
    assert (await bench.run("echo x > b; cat b", reading(bench.policy()))).text == "x\n"


@kernel
async def test_the_host_itself_stays_free(bench: Bench) -> None:
    """What a command is held to binds neither Prong nor the commands after it."""
    await bench.run("true", reading(bench.policy()))
    (bench.root / "made").write_text("x")

    assert (await bench.run("echo x > made2 && cat made2", NONE)).text == "x\n"


@kernel
async def test_a_project_behind_a_link(bench: Bench, tmp_path: Path) -> None:
    """A project that is reached by a symbolic link is held like any other."""
    link = tmp_path / "link"
    link.symlink_to(bench.root)
    bench.host = LocalHost(link, str(bench.home))
    profile = working(msgspec.structs.replace(bench.policy(), root=str(link)))

    assert (await bench.run("echo x > b && cat b", profile)).text == "x\n"
    if ABLE.views:
        assert (await bench.run("echo x > .git/hooks/a", profile)).code != 0
    assert (await bench.run("echo x > a", reading(bench.policy()), cwd=str(link))).code != 0


@kernel
async def test_a_folder_that_is_renamed_meanwhile(bench: Bench) -> None:
    """A command goes on in a folder that was renamed under it, and writes nowhere else."""
    profile = working(bench.policy())
    process = await bench.host.start(
        "sleep 0.5; echo x > late; echo y > ../outside/f; pwd -P", env={}, profile=profile
    )
    moved = bench.root.with_name("moved")
    await anyio.sleep(0.2)
    bench.root.rename(moved)
    with anyio.fail_after(20):
        said = b"".join([chunk async for chunk in process.output()])
        await process.wait()
    await process.kill()
    process.leave()

    assert (bench.outside / "f").read_text() == "theirs\n"
    assert said


@kernel
async def test_a_command_that_leaves_its_group_is_held_on(bench: Bench) -> None:
    """A daemon outlives its command, as before, and can still write nowhere."""
    line = "setsid sh -c 'sleep 0.6; touch made; touch $0/done' $PWD/sub >/dev/null 2>&1 & echo $!"
    with anyio.fail_after(20):
        ended = await bench.run(line, reading(bench.policy()))
    await anyio.sleep(1)

    assert ended.code == 0
    assert not (bench.root / "made").exists()
    assert not (bench.root / "sub/done").exists()


@kernel
async def test_a_killed_command_leaves_no_folder(bench: Bench) -> None:
    """The temporary folder of a command that is killed is removed like any other's."""
    process = await bench.host.start(
        "echo $TMPDIR; touch $TMPDIR/x; sleep 60", env={}, profile=reading(bench.policy())
    )
    first = await anext(aiter(process.output()))
    await process.kill()
    process.leave()

    assert await process.wait() == -signal.SIGTERM
    assert not Path(first.decode().strip()).exists()


@kernel
async def test_too_many_files_to_hide_is_no_start(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A guard that cannot be kept in full keeps the command from starting, and says why."""
    monkeypatch.setattr("prong.host.sandbox.places.MOST", 3)

    with pytest.raises(OSError, match="files would have to be looked at"):
        await bench.run("true", reading(bench.policy("Read(.env)")))


@views
async def test_a_command_has_terminals_of_its_own(bench: Bench, road: str) -> None:
    """It can make terminals, and neither sees nor writes to those of others."""
    theirs, slave = os.openpty()
    name = os.ttyname(slave)
    script = "import pty; print(pty.spawn(['sh', '-c', 'tty; test -t 1 && echo terminal']))"
    try:
        ended = await bench.run(f'python3 -c "{script}"', working(bench.policy()))
        assert "terminal" in ended.text, ended
        ended = await bench.run(
            f"ls /dev/pts; echo x > {name} && echo WROTE", working(bench.policy())
        )
        assert "WROTE" not in ended.text
        ended = await bench.run(f"echo x > {name} && echo WROTE", reading(bench.policy()))
        assert "WROTE" not in ended.text
    finally:
        os.close(theirs)
        os.close(slave)


@kernel
async def test_what_was_made_by_leave_is_not_taken_away(bench: Bench) -> None:
    """A file that a tool writes, or a command that the user said yes to, stays when others end."""
    running = await bench.host.start("sleep 1", env={}, profile=working(bench.policy()))
    await bench.host.write(f"{bench.root}/.claude/agents/a.md", b"approved")
    opened = working(bench.policy(), opened=(f"{bench.root}/.mcp.json",))
    ended = await bench.run("echo '{}' > .mcp.json", opened)
    await running.wait()

    assert ended.undone == []
    assert list(running.leave()) == []
    assert (bench.root / ".claude/agents/a.md").read_bytes() == b"approved"
    assert (bench.root / ".mcp.json").exists()
