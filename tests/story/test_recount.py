"""How an earlier conversation is told to whoever takes it up, line by line."""

from __future__ import annotations

import pytest

from prong.face.status import recount
from prong.testing import Script, Worlds, forks, report, say
from prong.view import Said

pytestmark = [pytest.mark.anyio, pytest.mark.spec("X1")]


async def test_only_the_users_own_words_are_told_as_theirs(world: Worlds) -> None:
    """What a notice has put before the model is nothing that the user has said."""
    script = Script(
        [forks("Part 1."), say("It works.")], {"Part 1.": [report("x")]}, forever=say("Noted.")
    )
    async with world(script, attended=True) as w:
        await w.session.run("Split it")
        await w.session.wait_settled()
        view = w.session.view()

    assert "notice" in [one.kind for one in view.main.transcript if isinstance(one, Said)]
    assert [text for text, _ in recount(view, 1)][:2] == ["(earlier)", "> Split it"]
