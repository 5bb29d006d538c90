from dataclasses import dataclass

from pydantic_ai import Agent


@dataclass
class City:
    name: str
    people: int


agent = Agent("anthropic:claude-sonnet-5-5", output_type=City)
print(agent.run_sync("How many people live in Oslo?").output.people)
