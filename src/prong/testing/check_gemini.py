"""What the Gemini API refuses."""

from __future__ import annotations

import msgspec

from prong.testing.answer_gemini import signature_of
from prong.testing.request import Request, invalid

_FIELDS = frozenset(
    {
        "cachedContent", "contents", "generationConfig", "model", "safetySettings", "stream",
        "systemInstruction", "toolConfig", "tools",
    }
)  # fmt: skip
_UNSIGNED = "skip_thought_signature_validator"


class _Named(msgspec.Struct):
    name: str
    id: str = ""


class _PartView(msgspec.Struct, rename="camel"):
    text: str | None = None
    function_call: msgspec.Raw = msgspec.Raw()
    function_response: _Named | None = None
    thought_signature: str = ""


class _ContentView(msgspec.Struct):
    role: str
    parts: list[_PartView]


def check_gemini(request: Request) -> None:
    """Refuse what the real API would refuse."""
    for name in request.fields:
        if name not in _FIELDS:
            raise invalid(f'Invalid JSON payload received. Unknown name "{name}".')
    try:
        contents = msgspec.json.decode(request.fields["contents"], type=list[_ContentView])
    except msgspec.DecodeError as error:
        raise invalid(f"Invalid value at 'contents': {error}") from error
    before: list[_Named] = []
    for content in contents:
        if content.role not in {"user", "model"}:
            raise invalid("Please use a valid role: user, model.")
        if not content.parts:
            raise invalid("* GenerateContentRequest.contents: contents.parts must not be empty.")
        _answers(content, before)
        before = _calls(content, current=content is contents[-2] if len(contents) > 1 else False)
    if before:
        raise invalid("Please ensure that function response turn comes after a function call turn.")


def _answers(content: _ContentView, before: list[_Named]) -> None:
    """Each call is answered by name and id, in the turn right after it."""
    given = [part.function_response for part in content.parts if part.function_response]
    if len(given) != len(before):
        raise invalid(
            "Please ensure that the number of function response parts is equal to the number of "
            "function call parts of the function call turn."
        )
    for call, answer in zip(before, given, strict=True):
        # What another vendor's model has called is known by its id alone.
        foreign = call.id.startswith("=")
        if answer.id != call.id or (answer.name != call.name and not foreign):
            raise invalid(f"Function response {answer.name} does not answer call {call.name}.")


def _calls(content: _ContentView, *, current: bool) -> list[_Named]:
    """Give the calls of a turn; in the current one the first must carry its signature."""
    calls: list[_Named] = []
    for part in content.parts:
        if not (data := bytes(part.function_call)):
            continue
        call = msgspec.json.decode(data, type=_Named)
        if part.thought_signature not in {"", _UNSIGNED, signature_of(data)}:
            raise invalid("Thought signature is not valid.")
        if current and not calls and not part.thought_signature:
            raise invalid(f"Function call `{call.name}` is missing a `thought_signature`.")
        calls.append(call)
    return calls
