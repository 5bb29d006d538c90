from dataclasses import dataclass

import prong


@dataclass
class City:
    name: str
    people: int


question = "How many people live in Oslo?"
print(prong.run(question, model="claude-sonnet-5-5", returns=City).value.people)
