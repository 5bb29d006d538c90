"""A model that says what it hears: `prong --model echo:loud`."""

import json
from collections.abc import AsyncGenerator, Sequence

from prong.entry import Usage
from prong.prompt import Mark, Prompt
from prong.provider import Backend, Streamed, Trait
from prong.wire import Began, Ended, Tail, TextPiece, dialect
from prong.wire.chat import reply_of

PLAIN = Tail()


class Echo:
    """Answers with the last thing that was said."""

    trait = Trait()

    def __init__(self, model: str) -> None:
        """Take the model's name, without the prefix."""
        self.name = f"echo:{model}"
        self.dialect = dialect("chat", explicit=False)

    async def stream(
        self,
        prompt: Prompt,
        marks: Sequence[Mark] = (),
        tail: Tail = PLAIN,
        *,
        who: str = "",
        sidecar: str = "",
    ) -> AsyncGenerator[Streamed, None]:
        """Give the events of one reply."""
        del who, sidecar
        body = prompt.body(marks, tail)
        said = json.loads(body)["messages"][-1]["content"]
        said = said.upper() if self.name == "echo:loud" else said
        message = json.dumps({"role": "assistant", "content": said}).encode()
        yield Began("echo-1", self.name)
        yield TextPiece(said)
        usage = Usage(uncached=len(body) // 4, output=len(said) // 4)
        yield Ended(reply_of(message), usage, id="echo-1", model=self.name)


class EchoBackend(Backend):
    """Makes a provider for every agent of a session."""

    def connect(self, model: str) -> Echo:
        """Make the provider of a model."""
        return Echo(model)
