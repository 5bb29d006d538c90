"""Asks a model whether what a child hands back tries to steer its parent."""

from __future__ import annotations

from dataclasses import replace

from prong.agent import Agent, request
from prong.config.model import Chosen
from prong.entry import user_text
from prong.prompt import Head, Prompt
from prong.provider import Http
from prong.team.handback import Classifier
from prong.text import load_text
from prong.wire import HeadSpec, dialect

_CLEAN = "clean"


def classifier(agent: Agent, chosen: Chosen, http: Http) -> Classifier:
    """Make a classifier that asks a model; what it costs is entered as a sidecar's."""
    endpoint = chosen.endpoint
    spec = HeadSpec(
        model=chosen.model, system=(load_text("handback"),), explicit_marks=endpoint.explicit
    )
    head = Head(dialect(endpoint.dialect, explicit=endpoint.explicit), spec)
    asker = replace(
        agent,
        path=f"{agent.path}/handback",
        provider=chosen.connect(http),
        sent=None,
        base=None,
        diagnose=False,
    )

    async def classify(result: str) -> str | None:
        prompt = Prompt(head).append(user_text(f"<report>\n{result}\n</report>"))
        ended = await request(asker, prompt, sidecar="handback")
        said = ended.reply.text.strip()
        return None if said.lower().strip(".!* ") == _CLEAN else said[:300] or "no answer came"

    return classify
