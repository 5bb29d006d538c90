import prong

print(prong.run("What is six times seven?", model="claude-sonnet-5-5").text)
