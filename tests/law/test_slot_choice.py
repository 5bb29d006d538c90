"""Which slot a request takes, and how much two prompts have in common."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from prong.entry import user_text
from prong.prompt import Prompt, shared_bytes
from prong.prompt.rope import Head
from prong.provider import Endpoint
from prong.provider.llama import may_be_llama
from prong.provider.slot import WORTH, File, Loose, Slot, SlotState, choose, take_in
from prong.wire import HeadSpec, dialect

_CHAT = dialect("chat", explicit=False)
_TEXTS = st.lists(st.sampled_from(["a", "b" * WORTH]), max_size=5)


def _prompt(texts: list[str], system: str = "Be brief.") -> Prompt:
    spec = HeadSpec(model="any", system=(system,), explicit_marks=False)
    return Prompt(Head(_CHAT, spec)).append(*(user_text(text) for text in texts))


@given(_TEXTS, _TEXTS)
def test_what_is_shared_is_a_common_beginning_of_whole_entries(ours: list[str], theirs: list[str]):
    """It is the length of the longest chain of entries with which both prompts begin."""
    common = 0
    while ours[: common + 1] == theirs[: common + 1] and common < min(len(ours), len(theirs)):
        common += 1

    assert shared_bytes(_prompt(theirs), _prompt(ours)) == len(_prompt(ours[:common]))
    assert shared_bytes(_prompt(theirs, "Be long."), _prompt(ours)) == 0
    assert shared_bytes(None, _prompt(ours)) == 0


@given(
    st.lists(st.tuples(st.none() | _TEXTS, st.booleans(), st.sampled_from("ab")), max_size=4),
    st.lists(_TEXTS, max_size=2),
    _TEXTS,
)
def test_a_slot_at_work_is_never_chosen_and_nothing_is_moved_for_little(
    held: list[tuple[list[str] | None, bool, str]], kept: list[list[str]], wanted: list[str]
):
    """A source is worth its while, or lends what it has before it is written over."""
    slots = [
        Slot(number, None if texts is None else _prompt(texts), 1, agent, leased)
        for number, (texts, leased, agent) in enumerate(held)
    ]
    files = [File(str(number), _prompt(texts)) for number, texts in enumerate(kept)]
    prompt = _prompt(wanted)
    chosen = choose(slots, files, prompt, "a")

    if chosen is None:
        assert all(slot.leased for slot in slots)
        return
    assert not chosen.slot.leased
    if chosen.source is chosen.slot:
        assert chosen.slot.agent != "a"
        assert shared_bytes(chosen.slot.holds, prompt) >= WORTH
    elif chosen.source is not None:
        gain = shared_bytes(chosen.source.holds, prompt) - shared_bytes(chosen.slot.holds, prompt)
        assert gain >= WORTH
        assert not (isinstance(chosen.source, Slot) and chosen.source.leased)


def test_an_agent_goes_back_to_its_slot_and_a_new_one_leaves_its_parent_alone():
    """The parent's slot is copied from, not taken, while there is another."""
    base = _prompt(["x" * WORTH])
    slots = [Slot(0, base, 9, "main", filled=True, task=5), Slot(1, filled=True, task=9)]
    back = choose(slots, [], base.append(user_text("more")), "main")
    new = choose(slots, [], base.append(user_text("child")), "main/1")

    assert back is not None
    assert (back.slot.number, back.source) == (0, None)
    assert new is not None
    assert (new.slot.number, new.source) == (1, slots[0])


def test_the_word_of_the_server_counts():
    """An emptied slot, a slot that another client used and a restart are told apart."""
    prompt = _prompt(["x"])

    def after(*states: SlotState) -> tuple[str, list[bool]]:
        slots = [Slot(number, prompt, tokens=50) for number in range(2)]
        loss = take_in(slots, states, [])
        return loss, [slot.holds is not None for slot in slots]

    assert after(SlotState(0, False, 3, 50), SlotState(1, False, 4, 50)) == ("", [True, True])
    assert after(SlotState(0, False, 3, 0), SlotState(1, False, 4, 50)) == (
        "emptied",
        [False, True],
    )
    assert after(SlotState(0, False, 3, 70), SlotState(1, False, 4, 50)) == ("", [False, True])
    assert after(SlotState(0), SlotState(1, False, 1, 50)) == ("restarted", [False, True])
    # An older server does not count.
    assert after(SlotState(0, False, 3), SlotState(1, False, 4)) == ("", [True, True])


def test_a_reply_from_a_slot_of_the_servers_choice_is_found_by_its_size():
    """Of the idle slots that hold as many tokens, the last that worked."""
    prompt = _prompt(["x"])
    slots = [Slot(number) for number in range(4)]
    states = [
        SlotState(0, False, 7, 50),
        SlotState(1, False, 9, 50),
        SlotState(2, True, 11, 50),
        SlotState(3),
    ]
    take_in(slots, states, [Loose(prompt, "main", 50)])

    assert [slot.holds is prompt for slot in slots] == [False, True, False, False]


def test_only_servers_nearby_may_be_asked_what_they_are():
    """A public service is never sent a request that its API does not have."""

    def asked(url: str, api: str = "chat") -> bool:
        return may_be_llama(Endpoint(base_url=url, dialect=api, explicit=False))

    for near in ("localhost:8080/v1", "127.0.0.1:8080", "10.1.2.3/v1", "box:80", "box.lan/v1"):
        assert asked(f"http://{near}")
    assert asked("http://[::1]:8080/v1")
    for public in ("api.openai.com/v1", "models.example.org", "8.8.8.8/v1"):
        assert not asked(f"https://{public}")
    assert not asked("http://127.0.0.1:8080", "anthropic")
