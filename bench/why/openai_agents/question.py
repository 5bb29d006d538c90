from agents import Agent, Runner

agent = Agent(name="assistant", model="gpt-5.6")
print(Runner.run_sync(agent, "What is six times seven?").final_output)
