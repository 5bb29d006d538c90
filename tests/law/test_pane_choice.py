"""Which back-end a team gets, and where its panes go: pure, and tried over the whole table."""

from __future__ import annotations

from contextlib import suppress
from itertools import product
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prong.errors import BadInput, NotInstalled, UnknownName
from prong.host.pane import Pane, PaneMark, PaneSpec
from prong.host.pane.choice import (
    BUILT_IN,
    ChosenBackend,
    Inside,
    TerminalFacts,
    choose,
    states,
)
from prong.host.pane.pane import COLUMNS, LINES, shown_title
from prong.host.pane.tmux_server import TmuxPane, escape_end, escape_format
from prong.host.pane.tmux_spot import fits, place

INSIDE = [
    frozenset(name for name, there in zip(get_args(Inside), bits, strict=True) if there)
    for bits in product((False, True), repeat=3)
]
TABLE = [
    TerminalFacts(
        interactive=interactive,
        inside=inside,
        tmux=tmux,
        it2=it2,
        wezterm=wezterm,
        command=command,
    )
    for interactive, inside, tmux, it2, wezterm, command in product(
        (False, True), INSIDE, ("", "3.3a"), (False, True), (False, True), (False, True)
    )
    if tmux or "tmux" not in inside
]


def expected(facts: TerminalFacts) -> str | None:
    """Give the choice as the specification words it; None for an error."""
    if "tmux" in facts.inside:
        return "tmux"
    if "iterm2" in facts.inside:
        return "iterm2" if facts.it2 else "tmux" if facts.tmux else None
    if not facts.interactive:
        return "in-process"
    return "tmux" if facts.tmux else None


@pytest.mark.spec("M3")
def test_the_choice_is_that_of_the_table():
    """Over all facts the choice is the specification's, or an error that says what to install."""
    for facts in TABLE:
        wanted = expected(facts)
        if wanted is not None:
            chosen = choose(facts)
            assert chosen.name == wanted, facts
            assert {state.name for state in chosen.others} == set(BUILT_IN) - {wanted}
        else:
            with pytest.raises(NotInstalled, match=r"install tmux.*in-process"):
                choose(facts)


@pytest.mark.spec("M3")
def test_wezterm_and_a_command_are_taken_only_when_named():
    """However well they would fit, nothing but their name chooses them."""
    for facts in TABLE:
        with suppress(NotInstalled):
            assert choose(facts).name not in {"wezterm", "command"}


@pytest.mark.spec("M3")
def test_whatever_is_named_is_taken_or_refused():
    """A name overrides everything: it is chosen if it can be used, else the error has the remedy."""
    for facts in TABLE:
        for state in states(facts):
            if state.usable:
                assert choose(facts, state.name).name == state.name
                assert not state.remedy
            else:
                assert state.remedy
                with pytest.raises(NotInstalled) as caught:
                    choose(facts, state.name)
                assert state.why in str(caught.value)
                assert state.remedy in str(caught.value)


@pytest.mark.spec("M2")
def test_a_package_is_chosen_by_its_name_alone():
    """A back-end of a package is listed and taken when named; one nobody brings is no name."""
    facts = TerminalFacts(interactive=True, tmux="3.4", packages=("zellij", "tmux"))

    assert choose(facts).name == "tmux"
    assert choose(facts, "zellij").name == "zellij"
    assert [state.name for state in states(facts)] == [*BUILT_IN, "zellij"]
    with pytest.raises(UnknownName, match=r"no back-end 'kitty'; there are auto, in-process, tmux"):
        choose(facts, "kitty")


def test_the_choice_prints_a_line_for_each():
    """What is shown says what was chosen and why, and what is missing for the rest."""
    shown = str(choose(TerminalFacts(interactive=True, tmux="3.3a")))

    assert shown.splitlines() == [
        "tmux: chosen: tmux is installed",
        "in-process: can be used: teammates share this process",
        "iterm2: cannot be used: Prong does not run inside iTerm2; start Prong in iTerm2",
        "wezterm: cannot be used: Prong does not run inside WezTerm; start Prong in WezTerm",
        "command: cannot be used: no program is set; name one in the setting team.command",
    ]
    assert isinstance(choose(TerminalFacts(interactive=False)), ChosenBackend)


def test_why_tmux_cannot_be_used_is_passed_on():
    """A tmux that is too old is told as it is, in the list and in the error."""
    facts = TerminalFacts(interactive=True, no_tmux="tmux 2.8 is too old: 3.2 is needed; update it")

    assert "tmux: cannot be used: tmux 2.8 is too old: 3.2 is needed; update it" in map(
        str, states(facts)
    )
    with pytest.raises(NotInstalled, match=r"tmux 2\.8 is too old.*update it"):
        choose(facts)


names = st.text(min_size=1)


@given(names, names, names)
def test_a_mark_comes_back_as_it_was(team: str, leader: str, member: str):
    """Whatever the names are, a mark is plain ASCII and is read back as the same three."""
    mark = PaneMark(team, leader, member)

    assert PaneMark.parse(mark.text) == mark
    assert mark.text.isascii()
    assert not set(mark.text) & set(" |;#{}\t\n\"'$")


@given(st.text())
def test_what_is_no_mark_is_none(text: str):
    """No text is taken for a mark unless it is one, letter for letter."""
    mark = PaneMark.parse(text)

    assert mark is None or mark.text == text


def test_a_mark_has_three_names():
    """Without one of them it could be another's."""
    for parts in (("", "s", "m"), ("t", "", "m"), ("t", "s", "")):
        with pytest.raises(BadInput):
            PaneMark(*parts)


@given(st.text())
def test_a_title_is_one_printable_line(text: str):
    """Whatever a title holds, one line of printable characters is shown."""
    shown = shown_title(text)

    assert shown.isprintable()
    assert len(shown) <= 60
    assert PaneSpec(member="m", argv=("x",), cwd="/", title=text).heading == (
        shown if text else "m"
    )


def split_by_tmux(word: str) -> tuple[str, bool]:
    """Read a word as tmux does: what it is, and whether it ends the command."""
    if word.endswith("\\;"):
        return word[:-2] + ";", False
    return (word[:-1], True) if word.endswith(";") else (word, False)


@given(st.text(alphabet="a;\\ #") | st.text())
def test_no_word_ends_a_command_of_tmux(word: str):
    """Every word arrives as it was, whatever it ends with."""
    assert split_by_tmux(escape_end(word)) == (word, False)
    assert escape_format(word).replace("##", "") == word.replace("#", "")


@given(st.integers(1, 400), st.integers(1, 200), st.integers(1, 40))
def test_tiles_that_fit_can_be_read(width: int, height: int, count: int):
    """If so many tiles fit, fewer do; and one alone fits if the window is large enough."""
    if fits(width, height, count) and count > 1:
        assert fits(width, height, count - 1)
    assert fits(width, height, 1) == (width >= COLUMNS and height >= LINES)


def a_pane(number: int, **fields: object) -> TmuxPane:
    values: dict[str, object] = {
        "id": f"%{number}",
        "pid": 1,
        "dead": False,
        "status": None,
        "active": False,
        "width": 200,
        "height": 50,
        "window": "@0",
        "window_width": 200,
        "window_height": 50,
        "zoomed": False,
        "session": "$0",
        "session_name": "s",
        "index": "0",
        "layout": "",
        "border": "off",
        "saved": "",
        "bordered": False,
        "kind": "",
        "mark": "",
    }
    return TmuxPane(**(values | fields))  # type: ignore[arg-type] - fields of a test


@given(
    st.integers(1, 300),
    st.integers(1, 100),
    st.integers(0, 4),
    st.integers(0, 3),
    st.booleans(),
)
def test_a_place_beside_the_leader_is_large_enough(width, height, near, beside, zoomed):
    """Nothing is split in the user's window that would be too small, or is not wanted there."""
    leader = a_pane(0, width=width, height=height, window_width=width, zoomed=zoomed)
    mates = [a_pane(n, width=width, height=height) for n in range(1, near + 1)]
    ours = {pane.id for pane in mates}
    spot = place([leader, *mates], leader="%0", ours=ours, beside=beside)

    if spot.how == "beside":
        assert near < beside
        assert not zoomed
        assert (width // 2 if spot.across else width) >= COLUMNS
        assert (height if spot.across else height // 2) >= LINES
        assert not spot.why
    else:
        assert spot.how == "window"
        assert spot.why


@given(st.integers(0, 3))
def test_without_a_leaders_pane_there_is_a_session(near: int):
    """A leader outside of tmux gets one session, in which the others follow the first."""
    mates = [a_pane(n, kind="team", session="$7") for n in range(near)]
    spot = place(mates, leader="", ours={pane.id for pane in mates}, beside=2)

    assert spot.how == ("tiled" if near else "session")
    assert spot.why


@pytest.mark.parametrize(
    ("dead", "status", "words"),
    [
        (False, None, ""),
        (False, 3, ""),
        (True, 3, "it ended with code 3"),
        (True, -9, "it was killed by SIGKILL"),
        (True, -1000, "it was killed by signal 1000"),
        (True, None, "it ended; how is not known"),
    ],
)
def test_how_a_program_ended_is_said(dead: bool, status: int | None, words: str):
    """Every way to end has its words."""
    assert Pane(id="1", member="m", dead=dead, status=status).ending == words


@pytest.mark.spec("M3")
def test_without_sockets_teammates_share_the_process():
    """Where members in panes could not meet none is opened, and one that is asked for says why."""
    facts = TerminalFacts(interactive=True, inside=frozenset({"tmux"}), tmux="3.3a", sockets=False)

    assert choose(facts).name == "in-process"
    assert "Unix sockets" in choose(facts).why
    for name in BUILT_IN[1:]:
        with pytest.raises(NotInstalled, match="Unix sockets"):
            choose(facts, name)
