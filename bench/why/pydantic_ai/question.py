from pydantic_ai import Agent

agent = Agent("anthropic:claude-sonnet-5-5")
print(agent.run_sync("What is six times seven?").output)
