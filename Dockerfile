# Prong in a container, made of the commands of README.md:
#
#     docker build -t prong .
#     docker run --rm -it -e ANTHROPIC_API_KEY -v "$PWD:/work" prong
#     docker run --rm -e ANTHROPIC_API_KEY -v "$PWD:/work" prong -p "Why does test_retry fail?"
#
# docs/anywhere.md says whose files it writes, and what the sandbox is worth in there.
FROM python:3.12-slim

RUN apt-get update \
    && apt-get install -y --no-install-recommends git make tmux \
    && rm -rf /var/lib/apt/lists/*

COPY pyproject.toml README.md LICENSE /prong/
COPY src /prong/src
RUN pip install --no-cache-dir "/prong[mcp,pdf]"

# A volume takes the owner of what it is mounted on: /var/prong is a remote target's.
RUN useradd --create-home --uid 1000 prong \
    && install -d -o prong -g prong /work /var/prong \
    && git config --system --add safe.directory /work
USER prong
WORKDIR /work
ENTRYPOINT ["prong"]
