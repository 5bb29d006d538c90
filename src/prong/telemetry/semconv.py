"""The names of OpenTelemetry's GenAI conventions that are used, all in one place.

The conventions are in development, and names in them move: `gen_ai.usage.cache_creation...` became
`gen_ai.usage.cache_write...` in August 2026, and not every back-end has followed.
"""

from __future__ import annotations

from typing import Final

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
CONVERSATION: Final = "gen_ai.conversation.id"
AGENT_NAME: Final = "gen_ai.agent.name"
AGENT_ID: Final = "gen_ai.agent.id"
AGENT_VERSION: Final = "gen_ai.agent.version"
WORKFLOW: Final = "gen_ai.workflow.name"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_CALL: Final = "gen_ai.tool.call.id"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_STREAM: Final = "gen_ai.request.stream"
RESPONSE_ID: Final = "gen_ai.response.id"
RESPONSE_MODEL: Final = "gen_ai.response.model"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
"""All of the input: what was read from the cache and written to it is counted, too."""
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE: Final = "gen_ai.usage.cache_write.input_tokens"
CACHE_WRITE_BEFORE: Final = "gen_ai.usage.cache_creation.input_tokens"
"""What back-ends call it that have not followed yet."""
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
COMPACTED: Final = "gen_ai.conversation.compacted"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
TYPE_OF_TOKENS: Final = "gen_ai.token.type"
ADDRESS: Final = "server.address"
PORT: Final = "server.port"
ERROR: Final = "error.type"

CAPTURE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The variable that lets content be exported."""

# What the conventions have no name for.
COST: Final = "prong.cost_usd"
UNCACHED_COST: Final = "prong.uncached_cost_usd"
REQUEST_BYTES: Final = "prong.request.bytes"
REQUEST_DIGEST: Final = "prong.request.digest"
SIDECAR: Final = "prong.request.sidecar"
RECEIPT: Final = "prong.fork.receipt"
OUTCOME: Final = "prong.outcome"

USAGE: Final = "gen_ai.client.token.usage"
REQUEST_DURATION: Final = "gen_ai.client.operation.duration"
TURN_DURATION: Final = "gen_ai.invoke_agent.duration"
TOOL_DURATION: Final = "gen_ai.execute_tool.duration"

VENDORS: Final = {"anthropic": "anthropic", "responses": "openai", "chat": "openai"}
"""By dialect."""
