"""A type of agent: `example:proof-reader`, after the entry point and its own name."""

from prong.agent.spec import AgentType

proof_reader = AgentType(
    name="proof-reader",
    description="Reads a text for mistakes of language, and changes nothing.",
    prompt="You are a proof-reader. Name each mistake with its file and line, and what is right.",
    tools=("Read", "Glob", "Grep"),
    permission_mode="plan",
)
