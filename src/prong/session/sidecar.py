"""Small requests beside a conversation: they read its cache and never touch it."""

from __future__ import annotations

from msgspec.structs import replace

from prong.agent import Agent, CacheWatch, Conversation, ModelClient, Sent, request
from prong.agent.agent import spent_by
from prong.agent.answer import unanswered
from prong.entry import Text, User
from prong.errors import BrokenReply, BudgetSpent
from prong.ids import TaskId, below
from prong.prompt import Prompt
from prong.provider import Provider
from prong.text import load_text

_TITLE = 60
"""Characters of a title."""


def sendable(prompt: Prompt) -> Prompt:
    """Leave out a last reply whose calls have no results yet: it could not be sent."""
    while prompt.tip is not None and unanswered(prompt):
        prompt = Prompt(prompt.head, prompt.tip.parent)
    return prompt


def beside(
    main: Agent, provider: Provider, prompt: Prompt, name: str
) -> tuple[ModelClient, Conversation]:
    """Make what asks another model in the session's name, and remembers nothing."""
    settings = replace(main.client.settings, diagnose=False)
    client = replace(main.client, provider=provider, settings=settings, observer=CacheWatch())
    path = below(main.path, TaskId(name))
    return client, replace(main.conversation, path=path, prompt=prompt, last=Sent(), base=None)


def must_afford(agent: Agent) -> None:
    """See to it that something may still be spent.

    Raises BudgetSpent.
    """
    if spent := spent_by(agent, 0):
        raise BudgetSpent(f"{spent.detail}; nothing more is asked of the model")


async def ask(agent: Agent, prompt: Prompt, question: str, *, purpose: str) -> str:
    """Put a question after a prompt and give the text of the answer.

    Raises ProviderError when there is no answer, BudgetSpent when none may be paid for.
    """
    must_afford(agent)
    asked = prompt.append(User((Text(question),), "reminder"))
    ended = await request(agent.client, agent.conversation, asked, sidecar=purpose)
    return ended.reply.text


async def title(agent: Agent, prompt: Prompt) -> str:
    """Ask for a title; one line, and never empty.

    Raises BrokenReply if the model gives none.
    """
    words = " ".join((await ask(agent, prompt, load_text("title"), purpose="title")).split())
    words = words.strip("\"'`*# .")
    if not words:
        raise BrokenReply("the model gave no title")
    return words[:_TITLE]
