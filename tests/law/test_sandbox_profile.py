"""What commands are held to: derived from the policy, by tables; nothing here touches a file."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prong.host.sandbox import NONE, Ability, Concealed, Profile, landlock
from prong.host.sandbox.ability import assess
from prong.host.sandbox.places import outermost
from prong.host.sandbox.seatbelt import profile_text
from prong.ids import TaskId
from prong.session.diagnosis import sandbox_findings
from prong.team.claim import Claims, FileBox
from prong.testing import MemoryHost
from prong.tools.access import Running
from prong.tools.derive import derive, frees, reading, working, worktree
from prong.tools.ground import Sandboxing
from prong.tools.policy import Allow, Ask, Deny, Ground, Mode, Policy
from prong.tools.policy_box import PolicyBox
from prong.tools.refusal import find_refusal, for_model, for_user
from prong.tools.rule import Effect, Rule, parse_rule

pytestmark = pytest.mark.spec("L13")

REPO, HOME = "/home/me/repo", "/home/me"
TREE = f"{REPO}/.prong/worktrees/x"
COMMON = f"{REPO}/.git"
GROUND = Ground(TREE, TREE, (REPO,), f"{COMMON}/worktrees/x", COMMON, "prong/x")
WHOLE = Ability(kind="landlock", abi=7, filters=True, views=True, why="")
CLOSED = Ability(kind="landlock", abi=7, filters=True, views=False, why="no namespaces")
MODES: list[Mode] = ["default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions"]


def rule(text: str, effect: Effect = "deny") -> Rule:
    parsed = parse_rule(text, effect=effect, source="user")
    assert isinstance(parsed, Rule)
    return parsed


def policy(
    mode: Mode = "default", *rules: Rule, ability: Ability = WHOLE, **given: object
) -> Policy:
    box = {"temp": ("/tmp",), "caches": (f"{HOME}/.cache",), **given}
    return Policy(
        root=REPO,
        home=HOME,
        mode=mode,
        rules=rules,
        folders=("/data", "/store/1"),
        protected=("/store/1",),
        scratchpad="/pad",
        sandbox=msgspec.structs.replace(
            msgspec.convert({"on": True, **box}, Sandboxing), ability=ability
        ),
    )


def run(line: str, cwd: str = REPO) -> Running:
    return Running(line, cwd)


def test_reading_writes_nothing_and_reaches_nobody() -> None:
    """The profile for reading has no writable path, no network, no signals, no secrets."""
    profile = reading(policy("plan", rule("Read(.env)")))

    assert (profile.writable, profile.private) == ((), True)
    assert (profile.network, profile.signals, profile.attributes) == (False, False, False)
    assert Concealed(regex=rf"{HOME}/\.ssh", base=f"{HOME}/.ssh", deep=False) in profile.hidden
    assert any(one.base == REPO and one.deep for one in profile.hidden)


def test_working_opens_the_project_and_keeps_what_is_protected() -> None:
    """Writable are project, opened folders, pad, temporary and cache folders, and no storage."""
    profile = working(policy(), cwd=f"{REPO}/sub/deep")

    assert profile.writable == (REPO, "/data", "/pad", "/tmp", f"{HOME}/.cache")
    assert {f"{REPO}/.git/hooks", f"{REPO}/.git/config", f"{REPO}/.claude"} <= {*profile.kept}
    assert {f"{REPO}/.prong/settings.json", f"{REPO}/.mcp.json"} <= {*profile.kept}
    assert {f"{REPO}/sub/deep/.claude", f"{REPO}/sub/.claude", "/data/.git/hooks"} <= {
        *profile.kept
    }
    assert f"{REPO}/.git" in profile.pinned
    assert not any(path.startswith(f"{HOME}/.ssh") for path in profile.kept), "not writable anyway"


def test_a_home_that_is_the_project_keeps_its_start_files() -> None:
    """Where the home folder is writable, what shells start with is kept."""
    at_home = msgspec.structs.replace(policy(), root=HOME)

    assert {f"{HOME}/.bashrc", f"{HOME}/.ssh", f"{HOME}/.gitconfig"} <= {*working(at_home).kept}


@pytest.mark.parametrize("opened", [f"{REPO}/.git/hooks/pre-commit", f"{REPO}/.git/hooks"])
def test_what_the_user_said_yes_to_is_open(opened: str) -> None:
    """A yes to one protected path opens that one alone."""
    profile = working(policy(), opened=(opened,))

    assert f"{REPO}/.git/hooks" not in profile.kept
    assert f"{REPO}/.git/config" in profile.kept


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("cp a .git/hooks/pre-commit", f"{REPO}/.git/hooks"),
        ("echo a >> .git/config", f"{REPO}/.git/config"),
        ("git config user.name a", f"{REPO}/.git/config"),
    ],
)
def test_what_nobody_said_yes_to_stays_closed(line: str, path: str) -> None:
    """A command that names a protected path has it opened by a yes of a person, and by nothing else."""
    box = PolicyBox(policy("auto", rule("Bash", "allow")))

    assert path in box.profile(run(line)).kept
    assert path not in box.profile(run(line), approved=True).kept


def test_a_worktree_writes_in_its_own_parts() -> None:
    """Writable are its root, its part of the repository, pad and caches; siblings' refs are kept."""
    profile = worktree(policy(), GROUND)

    assert TREE in profile.writable
    assert {f"{COMMON}/objects", f"{COMMON}/worktrees/x"} <= {*profile.writable}
    assert not {REPO, COMMON, f"{COMMON}/refs", f"{COMMON}/hooks"} & {*profile.writable}
    assert f"{COMMON}/refs/heads/prong/*" in profile.kept
    assert f"{COMMON}/refs/heads/prong/x" in profile.spared
    assert f"{COMMON}/worktrees/x/commondir" in profile.kept


def test_a_temporary_folder_that_holds_the_parent_is_none_of_the_child() -> None:
    """Where the parent works below /tmp, the child gets a folder of its own instead."""
    ground = Ground("/tmp/r/w", "/tmp/r/w", ("/tmp/r",), "/tmp/r/.git/worktrees/w", "/tmp/r/.git")
    profile = worktree(policy(), ground)

    assert "/tmp" not in profile.writable
    assert profile.private
    assert not worktree(policy(), GROUND).private


@pytest.mark.parametrize(
    ("mode", "line", "wanted"),
    [
        ("plan", "make", "reading"),
        ("default", "git status", "reading"),
        ("bypassPermissions", "cat a | sort", "reading"),
        ("default", "make", "working"),
        ("auto", "for f in *; do wc $f; done > x", "working"),
        ("bypassPermissions", "echo $(make)", "working"),
        ("default", "docker compose up -d", "none"),
        ("default", "docker ps && make", "working"),
        ("plan", "docker ps", "reading"),
    ],
)
def test_profile_of_a_command(mode: Mode, line: str, wanted: str) -> None:
    """What is known to read is held to reading; what the user lets out, only if all of it is."""
    box = PolicyBox(policy(mode, outside=("docker:*",)))

    assert box.profile(run(line)).name == wanted


@pytest.mark.parametrize("mode", MODES)
def test_a_child_is_held_as_its_tree_is(mode: Mode) -> None:
    """A reader's commands read, one in a worktree stays there, also for their own children."""
    box = PolicyBox(policy(mode))
    planned = mode == "plan"
    inside = box.narrow(ground=GROUND)

    assert box.narrow(mode="plan").narrow().profile(run("make")).name == "reading"
    assert box.narrow(mode="plan").narrow(mode="auto").profile(run("make")).name == "reading"
    assert inside.profile(run("make")).name == ("reading" if planned else "worktree")
    assert inside.narrow().profile(run("make")).name == ("reading" if planned else "worktree")


@pytest.mark.spec("C7")
def test_every_kind_of_view_is_held_as_what_it_looks_through_to() -> None:
    """A worker's view knows its worktree and its mode, and what the host holds, as the tree does."""
    host = MemoryHost({}, ability=WHOLE)
    unasked = msgspec.structs.replace(
        policy(), sandbox=msgspec.structs.replace(policy().sandbox, ability=None)
    )
    tree = PolicyBox(unasked)
    claims = Claims()
    views = [
        FileBox(tree.narrow(ground=GROUND), claims, TaskId("a"), None),
        FileBox(tree.narrow(mode="plan"), claims, TaskId("b"), None),
        tree.narrow(),
    ]

    assert [views[0].equip(host), tree.policy.sandbox.ability] == ["", WHOLE]
    assert [one.profile(run("make")).name for one in views] == ["worktree", "reading", "working"]


def test_a_host_that_holds_less_is_told_once() -> None:
    """What is not held is said when the host is asked, and no second time."""
    unasked = msgspec.structs.replace(policy(), sandbox=Sandboxing(on=True))
    tree = PolicyBox(unasked)

    assert "permissions alone decide" in tree.narrow().equip(MemoryHost({}))
    assert tree.equip(MemoryHost({})) == ""
    assert tree.profile(run("make")) == NONE


def test_off_is_none() -> None:
    """Without a sandbox, by setting or system, every command is as free as the user."""
    off = msgspec.structs.replace(policy("plan"), sandbox=Sandboxing())

    assert PolicyBox(off).profile(run("make")) == NONE
    assert derive(policy(), None, reads=False, outside=True) == NONE


UNPROVEN = [
    "awk '{print $1}' a",
    "find . -name '*.py' | xargs wc -l",
    "for f in *.py; do head -5 $f; done",
    "cat $(git ls-files)",
    "npm ls --depth=0",
    "make -n",
    "tar tf a.tar",
    "python3 -c 'print(1)'",
    "git config user.name",
    "find . -name x -exec grep a {} +",
]


@pytest.mark.parametrize("line", UNPROVEN)
@pytest.mark.spec("P2")
def test_what_the_system_holds_is_not_asked(line: str) -> None:
    """In plan mode and for readers any command runs that is not known to change something."""
    assert isinstance(PolicyBox(policy("plan")).decide("Bash", [run(line)]), Allow)
    reader = PolicyBox(policy("default")).narrow(mode="plan")
    assert isinstance(reader.decide("Bash", [run(line)]), Allow)
    assert not isinstance(PolicyBox(policy("default")).decide("Bash", [run(line)]), Allow)


@pytest.mark.parametrize("line", UNPROVEN)
@pytest.mark.parametrize(
    "ability",
    [
        Ability(),
        Ability(kind="landlock", abi=2, filters=True, views=True),
        Ability(kind="landlock", abi=7, filters=False, views=True),
    ],
)
def test_what_it_does_not_hold_is(line: str, ability: Ability) -> None:
    """Without a sandbox, or one that holds less than all, only what is proven to read runs."""
    box = PolicyBox(policy("plan", ability=ability))

    assert not isinstance(box.decide("Bash", [run(line)]), Allow)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("rm a", Deny),
        ("echo x > a", Deny),
        ("git commit -m x", Deny),
        ("make; rm a", Deny),
        ("curl x", Deny),
        ("cat /etc/passwd", Ask),
        (f"cat {HOME}/.ssh/id", Ask),
    ],
)
def test_what_is_certain_is_still_said(line: str, wanted: type) -> None:
    """What is there to change something is refused in words; reading elsewhere is asked for."""
    assert isinstance(PolicyBox(policy("plan")).decide("Bash", [run(line)]), wanted)


def test_rules_count_before_the_sandbox() -> None:
    """Deny and ask rules hold in plan mode as ever; what a Read rule hides need not be asked."""
    denied = PolicyBox(policy("plan", rule("Bash(make:*)")))
    asked = PolicyBox(policy("plan", rule("Bash(make:*)", "ask")))
    hidden = PolicyBox(policy("plan", rule("Read(.env)")))
    shown = PolicyBox(policy("plan", rule("Read(.env)", "ask")))

    assert isinstance(denied.decide("Bash", [run("make -n")]), Deny)
    assert isinstance(asked.decide("Bash", [run("make -n")]), Ask)
    assert isinstance(hidden.decide("Bash", [run("grep -r x .")]), Allow)
    assert isinstance(hidden.decide("Bash", [run("cat .env")]), Deny)
    assert isinstance(shown.decide("Bash", [run("grep -r x .")]), Ask)


@pytest.mark.parametrize("ability", [WHOLE, CLOSED])
def test_auto_trusts_a_whole_sandbox_alone(ability: Ability) -> None:
    """In auto mode what cannot be told runs only where protected files are held too."""
    box = PolicyBox(policy("auto", ability=ability))
    verdict = box.decide("Bash", [run("$TOOL --check")])

    assert isinstance(verdict, Allow if ability.views else Ask)
    assert frees(box.policy) is ability.views
    assert isinstance(box.decide("Bash", [run("git push")]), Ask)
    assert isinstance(box.decide("Bash", [run("echo x > .git/hooks/a")]), Ask)


@pytest.mark.parametrize(
    ("found", "writes", "views", "says"),
    [
        ({"system": "linux", "abi": 7, "filters": True}, True, True, ""),
        ({"system": "linux", "abi": 3, "filters": True}, True, True, ""),
        ({"system": "linux", "abi": 2, "filters": True}, False, True, "version 2"),
        ({"system": "linux", "abi": 1, "filters": True, "views": "no"}, False, False, "version 1"),
        ({"system": "linux", "abi": 7, "filters": False}, False, False, "seccomp"),
        ({"system": "linux", "abi": 7, "filters": True, "views": "no"}, True, False, "no"),
        ({"system": "linux", "abi": 0}, False, False, "Landlock"),
        ({"system": "darwin", "filters": True}, True, True, ""),
        ({"system": "darwin"}, False, False, "sandbox-exec"),
        ({"system": "win32"}, False, False, "Windows"),
    ],
)
def test_what_a_system_is_worth(
    found: dict[str, object], writes: bool, views: bool, says: str
) -> None:
    """A kernel without Landlock, with an old one or in a closed container promises less."""
    ability = assess(**found)  # pyright: ignore[reportArgumentType] # of the table

    assert (ability.writes, ability.views) == (writes, views)
    assert says in ability.why
    assert (ability.why == "") is (writes and views)
    told = list(sandbox_findings(ability))
    files = [one for one in told if one.topic != "sandbox: signals"]
    assert all(one.state == "good" for one in files) is (writes and views)
    assert all(one.remedy for one in told if one.state != "good")


@pytest.mark.parametrize("abi", range(1, 8))
def test_an_old_landlock_is_asked_for_what_it_knows(abi: int) -> None:
    """No right is asked for that the version does not have; devices can be made nowhere."""
    rules = landlock.rules_for(abi, network=False, signals=False, devices=False)

    assert bool(rules.handled & landlock.TRUNCATE) is (abi >= 3)
    assert bool(rules.handled & landlock.REFER) is (abi >= 2)
    assert bool(rules.net) is (abi >= 4)
    assert bool(rules.scoped) is (abi >= 6)
    assert not rules.granted & (landlock.MAKE_BLOCK | landlock.MAKE_CHAR)
    assert rules.granted & rules.handled == rules.granted


@given(st.lists(st.lists(st.sampled_from("ab."), min_size=1, max_size=4).map("/".join)))
def test_outermost_paths_cover_all(paths: list[str]) -> None:
    """Each path lies in one that is left, and none of those in another."""
    whole = [f"/{path}" for path in paths]
    left = outermost(whole)

    assert all(any(f"{p}/".startswith(f"{one}/") for one in left) for p in whole)
    assert not any(a != b and f"{a}/".startswith(f"{b}/") for a in left for b in left)


def test_something_between_keeps_an_inner_path() -> None:
    """A writable path in a kept one in a writable one is a mount of its own."""
    assert outermost(["/t", "/t/s/f"], ["/t/s"]) == ("/t", "/t/s/f")
    assert outermost(["/t", "/t/s/f"], ["/t/other"]) == ("/t",)


def test_a_profile_travels() -> None:
    """A profile is the same after it was sent to another process."""
    for profile in (NONE, reading(policy("plan", rule("Read(.env)"))), worktree(policy(), GROUND)):
        assert msgspec.json.decode(msgspec.json.encode(profile), type=Profile) == profile


def test_seatbelt_text() -> None:
    """For macOS a profile is a text: writes denied, then granted, then what is kept denied again."""
    text = profile_text(working(policy("default", rule("Read(.env)"))))
    lines = text.splitlines()

    assert lines[:3] == ["(version 1)", "(allow default)", "(deny file-write*)"]
    assert f'(subpath "{REPO}")' in lines[3]
    assert f'(deny file-write* (subpath "{REPO}/.git/hooks"))' in lines
    assert lines.index(f'(deny file-write* (subpath "{REPO}/.git/hooks"))') > 3
    assert any(line.startswith("(deny file-read* file-write* (regex") for line in lines)
    assert "(deny network*)" not in lines
    assert text.count("(") == text.count(")")


def test_seatbelt_text_of_reading() -> None:
    """The text for reading grants a temporary folder and devices, no network and no signals."""
    text = profile_text(reading(policy("plan")), temp='/tmp/a "b')

    assert '(subpath "/tmp/a \\"b")' in text
    assert REPO not in text.splitlines()[3]
    assert "(deny network*)" in text
    assert "(deny signal (target others))" in text


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("touch: cannot touch '/etc/x': Permission denied", "/etc/x"),
        ("bash: line 1: /etc/x: Read-only file system", "/etc/x"),
        ("bash: line 1: .git/hooks/a: Read-only file system", f"{REPO}/.git/hooks/a"),
        ("PermissionError: [Errno 13] Permission denied: '/opt/y'", "/opt/y"),
        (
            "npm error EACCES: permission denied, mkdir '/home/me/.npm-global/x'",
            f"{HOME}/.npm-global/x",
        ),
        (
            "error: could not write config file .git/config: Device or resource busy",
            f"{COMMON}/config",
        ),
    ],
)
def test_a_refusal_is_told_with_its_path(line: str, path: str) -> None:
    """A path that the profile forbids and the command complains of is named to both."""
    profile = working(policy())
    refusal = find_refusal(profile, f"some output\n{line}\n", REPO)

    assert refusal.paths == (path,)
    assert path in for_model(profile, refusal)
    assert path in for_user(profile, refusal)


def test_a_refusal_elsewhere_is_a_guess() -> None:
    """A refusal that the profile does not explain is said to be uncertain, or not at all."""
    profile = working(policy())
    guess = find_refusal(profile, f"cat: {REPO}/secret: Permission denied", REPO)

    assert (guess.paths, guess.guess) == ((), True)
    assert "may have been" in for_model(profile, guess)
    assert not find_refusal(profile, "all fine", REPO).some
    assert not find_refusal(NONE, "touch: /etc/x: Permission denied", REPO).some


def test_a_refused_network_is_told() -> None:
    """A command that reads and cannot reach a host is told why."""
    refusal = find_refusal(reading(policy("plan")), "curl: (6) Could not resolve host: a.b", REPO)

    assert refusal.network
    assert "no network" in for_model(reading(policy("plan")), refusal)
