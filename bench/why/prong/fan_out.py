import prong

with prong.Client(model="claude-sonnet-5-5", mode="dontAsk") as client:
    client.run("Read the report.")
    for fork in client.fork([f"Sum up chapter {n}." for n in range(1, 6)]):
        print(fork.text)
