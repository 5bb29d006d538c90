"""Asks a model whether what a child hands back tries to steer its parent."""

from __future__ import annotations

import re
from collections.abc import Mapping

from prong.agent import Agent, request
from prong.config.model import Chosen
from prong.entry import user_text
from prong.event import MAIN
from prong.prompt import Head, Prompt
from prong.provider import Providers
from prong.session.sidecar import beside
from prong.team.injection import Classifier, Handed
from prong.text import load_text
from prong.tools.fence import neutral
from prong.wire import HeadSpec, dialect

_CLEAN = "clean"
_FENCE = r"(?i)<(?=[^\w<>‹]*(?:transcript|report))"


def classifier(agents: Mapping[str, Agent], chosen: Chosen, providers: Providers) -> Classifier:
    """Make a classifier that asks a model; what it costs is entered as a sidecar's."""
    endpoint = chosen.endpoint
    spec = HeadSpec(
        model=chosen.model,
        system=(load_text("handback"),),
        betas=chosen.betas,
        explicit_marks=endpoint.explicit,
    )
    head = Head(dialect(endpoint.dialect, explicit=endpoint.explicit), spec)

    async def classify(handed: Handed) -> str | None:
        prompt = Prompt(head).append(user_text(_shown(handed)))
        asking = beside(agents[MAIN], chosen.connect(providers), prompt, "handback")
        ended = await request(*asking, sidecar="handback")
        said = ended.reply.text.strip()
        return None if said.lower().strip(".!* ") == _CLEAN else said[:300] or "no answer came"

    return classify


def _shown(handed: Handed) -> str:
    """Fence what is shown: no text in it can close the tag it stands in."""
    parts = (("transcript", handed.transcript), ("report", handed.report))
    fenced = [(tag, re.sub(_FENCE, "‹", neutral(text))) for tag, text in parts]
    return "\n\n".join(f"<{tag}>\n{text}\n</{tag}>" for tag, text in fenced)
