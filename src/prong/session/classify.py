"""Asks a model whether what a child hands back tries to steer its parent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from prong.agent import Agent, NoWatch, Sent, request
from prong.config.model import Chosen
from prong.entry import user_text
from prong.event import MAIN
from prong.prompt import Head, Prompt
from prong.provider import Provider, Providers
from prong.team.handback import Classifier
from prong.text import load_text
from prong.wire import HeadSpec, dialect

_CLEAN = "clean"


def classifier(agents: Mapping[str, Agent], chosen: Chosen, providers: Providers) -> Classifier:
    """Make a classifier that asks a model; what it costs is entered as a sidecar's."""
    endpoint = chosen.endpoint
    spec = HeadSpec(
        model=chosen.model, system=(load_text("handback"),), explicit_marks=endpoint.explicit
    )
    head = Head(dialect(endpoint.dialect, explicit=endpoint.explicit), spec)

    async def classify(result: str) -> str | None:
        asker = _asker(agents[MAIN], chosen.connect(providers))
        prompt = Prompt(head).append(user_text(f"<report>\n{result}\n</report>"))
        ended = await request(asker, prompt, sidecar="handback")
        said = ended.reply.text.strip()
        return None if said.lower().strip(".!* ") == _CLEAN else said[:300] or "no answer came"

    return classify


def _asker(main: Agent, provider: Provider) -> Agent:
    """Make one who asks in the session's name and remembers nothing."""
    return replace(
        main,
        path=f"{main.path}/handback",
        provider=provider,
        last=Sent(),
        base=None,
        diagnose=False,
        watch=NoWatch(),
    )
