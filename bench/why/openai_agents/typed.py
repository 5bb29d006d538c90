from dataclasses import dataclass

from agents import Agent, Runner


@dataclass
class City:
    name: str
    people: int


agent = Agent(name="assistant", model="gpt-5.6", output_type=City)
print(Runner.run_sync(agent, "How many people live in Oslo?").final_output.people)
