"""Short model names, written from genai-prices by `python -m prong.testing.alias_source`."""

ALIASES: dict[str, dict[str, str]] = {
    "anthropic": {
        "opus": "claude-opus-5-5",
        "sonnet": "claude-sonnet-5-5",
        "haiku": "claude-haiku-5-5",
        "fable": "claude-fable-5-1",
        "fast": "claude-haiku-5-5",
        "best": "claude-opus-5-5",
        "default": "claude-sonnet-5-5",
    },
    "openai": {
        "fast": "gpt-6-luna",
        "best": "gpt-6-astra",
        "default": "gpt-6.1-sol",
    },
    "google": {
        "fast": "gemini-3.8-flash",
        "best": "gemini-4-argon",
        "default": "gemini-4-argon",
    },
}
"""By vendor: short names, and the model that answers if none is named."""

BEDROCK = {
    "claude-fable-5-1": "global.anthropic.claude-fable-5-1-v1:0",
    "claude-fable-5": "global.anthropic.claude-fable-5-v1:0",
    "claude-haiku-4-5": "global.anthropic.claude-haiku-4-5-20251001-v1:0",
    "claude-haiku-5-5": "global.anthropic.claude-haiku-5-5",
    "claude-opus-4-5": "global.anthropic.claude-opus-4-5-v1:0",
    "claude-opus-4-6": "global.anthropic.claude-opus-4-6-v1:0",
    "claude-opus-4-7": "global.anthropic.claude-opus-4-7-v1:0",
    "claude-opus-4-8": "global.anthropic.claude-opus-4-8-v1:0",
    "claude-opus-5": "global.anthropic.claude-opus-5",
    "claude-opus-5-5": "global.anthropic.claude-opus-5-5",
    "claude-sonnet-4": "global.anthropic.claude-sonnet-4-20250514-v1:0",
    "claude-sonnet-4-5": "global.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "claude-sonnet-4-6": "global.anthropic.claude-sonnet-4-6-v1:0",
    "claude-sonnet-5-5": "global.anthropic.claude-sonnet-5-5",
    "claude-sonnet-5": "global.anthropic.claude-sonnet-5-v1:0",
}
"""What Bedrock calls Anthropic's models, wherever in the world they answer."""
