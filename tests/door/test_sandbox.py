"""The sandbox against real commands: what the kernel refuses, and what works all the same."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from prong.host.sandbox import spawn
from prong.tools.derive import reading, working
from shared.sandbox import Bench, at_work, kernel, state, views

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("L13")]


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path)
    yield made
    await made.host.close()


@pytest.fixture(params=["thread", "starter"])
def road(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Go both ways into a view: root's own, and that of everybody else."""
    if request.param == "starter":
        monkeypatch.setattr(spawn, "enters_by_thread", lambda: False)
    elif os.geteuid() != 0:
        pytest.skip("only root enters a view by a thread")
    return request.param


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
    sleeper = subprocess.Popen(["sleep", "1000"], env={"CANARY": "in-the-environment"})
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
    """Nothing reads a denied file in *working* either, and none is replaced.

    Also where a denied folder holds more that is denied, or protected.
    """
    profile = working(bench.policy("Read(.env)", "Read(secrets/**)", "Read(.claude/**)"))
    for name in ("secrets/deep/k", "secrets/.env", ".claude/agents/a"):
        (bench.root / name).parent.mkdir(parents=True, exist_ok=True)
        (bench.root / name).write_text("SECRET=3\n")
    assert (await bench.run("echo x > b; cat b", profile)).text == "x\n"
    for line in (
        "cat .env sub/.env secrets/deep/k secrets/.env .claude/agents/a",
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
async def test_what_is_hidden_within_what_is_hidden_hinders_nothing(
    bench: Bench, road: str
) -> None:
    """A denied file in a denied folder, or a socket in a folder of sockets, is hidden with it."""
    profile = working(bench.policy("Read(secrets/**)", "Read(secrets/deep/k)", "Read(secrets/k)"))
    (bench.root / "secrets/deep").mkdir(parents=True)
    for name in ("k", "deep/k"):
        (bench.root / "secrets" / name).write_text("SECRET=3\n")

    ended = await bench.run("cat secrets/k secrets/deep/k; echo done", profile)

    assert ended.text.endswith("done\n"), ended
    assert "SECRET" not in ended.text

    sockets = Path(f"/tmp/tmux-{os.geteuid()}")
    # It stays, as tmux leaves it: another may be about to listen there.
    sockets.mkdir(mode=0o700, exist_ok=True)
    inner = sockets / f"prong-{bench.root.parent.name}"
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(inner))
        env = {"TMUX": f"{inner},1,0"}
        process = await bench.host.start("echo started", env=env, profile=working(bench.policy()))
        assert b"".join([chunk async for chunk in process.output()]) == b"started\n"
        await process.kill()
    finally:
        listener.close()
        inner.unlink(missing_ok=True)


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
async def test_what_is_hidden_twice_is_hidden_whole(bench: Bench) -> None:
    """A rule for one file of a folder that is hidden anyway opens none of the others."""
    (bench.home / ".ssh/other").write_text("PRIVATE")
    for denied in ("Read(~/.ssh/id)", "Read(~/.ssh/**)"):
        held = reading(bench.policy(denied))

        for name in ("id", "other"):
            assert "PRIVATE" not in (await bench.run(f"cat {bench.home}/.ssh/{name}", held)).text


@views
async def test_rules_for_a_folder_and_for_what_is_in_it(bench: Bench, road: str) -> None:
    """Commands start and are held where hidden, kept and writable paths lie in a hidden folder."""
    (bench.root / "sub/.claude").mkdir()
    (bench.root / ".claude").mkdir()
    (bench.root / ".claude/settings.json").write_text("SECRET")
    for denied in ("Read(~/.ssh/**)", "Read(sub/**)", "Read(.claude/**)"):
        held = working(bench.policy(denied, "Read(**/.env)"), str(bench.root / "sub"))
        ended = await bench.run(
            f"cat {bench.home}/.ssh/id .claude/settings.json sub/.env; touch made; true", held
        )

        assert ended.code == 0, ended.text
        assert (bench.root / "made").exists()
        shown = ended.text
        assert "SECRET=2" not in shown
        assert "PRIVATE" not in shown or ".ssh" not in denied
        assert "SECRET" not in shown.replace("SECRET=", "") or ".claude" not in denied
