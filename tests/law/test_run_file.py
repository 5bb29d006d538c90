"""The file of a recorded run, and what of a request is not written there."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prong import UsageError
from prong.testing.http import Incoming
from prong.testing.placeholder import Form
from prong.testing.run_file import RecordedExchange, RecordedRun, cut_body, read_run, write_run
from prong.testing.run_recorder import path_of
from prong.testing.split_delta import filled_pieces, normal_pieces

pytestmark = pytest.mark.spec("B8")

NAMES = {"/tmp/project": "project", "/tmp/project/sub": "folder"}

odd = st.one_of(
    st.binary(max_size=30), st.text(max_size=30).map(lambda t: t.encode(errors="replace"))
)
bodies = st.recursive(
    st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["type", "text", "cache_control", "role"]), inner)
    ),
    max_leaves=12,
).map(lambda value: json.dumps({"messages": value}).encode())


@st.composite
def runs(draw: st.DrawFn) -> RecordedRun:
    found: list[RecordedExchange] = []
    for at in range(draw(st.integers(1, 5))):
        agent = draw(st.sampled_from(["main", "main/a", "main/a/b", "-"]))
        sidecar = draw(st.sampled_from(["", "title"]))
        before = sum((one.agent, one.sidecar) == (agent, sidecar) for one in found)
        found.append(
            RecordedExchange(
                agent=agent,
                sidecar=sidecar,
                number=before + 1,
                method=draw(st.sampled_from(["POST", "GET"])),
                path="/v1/messages",
                body=draw(bodies | odd),
                status=draw(st.sampled_from([200, 529])),
                kind=draw(st.sampled_from(["", "text/event-stream"])),
                pieces=tuple(draw(st.lists(odd.filter(bool), max_size=4))),
                end=draw(st.sampled_from(["whole", "cut", "gone"])),
                order=(3 * at + 1, 3 * at + 2, 3 * at + 3),
            )
        )
    return RecordedRun(exchanges=tuple(found), masks={"a+": "b"}, places=("home",))


@given(runs())
def test_what_is_written_is_read(run: RecordedRun):
    """Every byte of every request and reply comes back, with the pieces of the streams."""
    data = write_run(run)

    assert read_run(data) == run
    assert read_run(data.replace(b"\n", b"\r\n")) == run
    assert all(line == line.rstrip() for line in data.decode().split("\n"))


@given(bodies | odd)
def test_lines_put_together_are_the_body(body: bytes):
    """A body is cut for the eye alone."""
    assert "".join(cut_body(body)).encode(errors="surrogateescape") == body


def test_a_file_that_is_none_is_named():
    """The error says which file and which line, and what to do."""
    run = RecordedRun(
        exchanges=(
            RecordedExchange(
                agent="main", number=1, path="/x", body=b"{}", status=200, order=(1, 2, 3)
            ),
        )
    )
    data = write_run(run)
    with pytest.raises(UsageError, match=r"a\.run is not a recorded run"):
        read_run(b"anything", "a.run")
    with pytest.raises(UsageError, match=r"a\.run, line 5, is damaged: record"):
        read_run(data.replace(b"> {}", b"? {}"), "a.run")


@given(st.lists(st.integers(1, 12), min_size=1, max_size=8), st.booleans())
def test_a_value_that_a_stream_has_cut_is_found(sizes: list[int], inside: bool):
    """However a model cuts a path into deltas, and a network these into pieces, its name stands there."""
    path = '{"file_path": "/tmp/project/sub/a.py", "b": "/tmp/projects /tmp/project"}'
    written = json.dumps(path)[1:-1]
    lines: list[str] = []
    at = 0
    while at < len(written):
        size = sizes[len(lines) % len(sizes)]
        # Never within an escape, as no encoder would.
        while written[at : at + size].endswith("\\"):
            size += 1
        lines.append(
            f'data: {{"index":1,"delta":{{"partial_json":"{written[at : at + size]}"}}}}\n\n'
        )
        at += size
    stream = "".join(lines).encode()
    step = sizes[0] * 7 if inside else len(stream)
    pieces = [stream[start : start + step] for start in range(0, len(stream), step)]

    normal = normal_pieces(pieces, NAMES)
    other = filled_pieces(normal, {"/srv/x": "project", "/srv/x/sub": "folder"})

    def said(parts: tuple[bytes, ...]) -> str:
        found = [json.loads(line[5:]) for line in b"".join(parts).decode().split("\n") if line]
        return "".join(one["delta"]["partial_json"] for one in found)

    assert len(normal) == len(pieces) == len(other)
    assert b"".join(normal).count(b"data:") == len(lines)
    assert said(normal) == path.replace("/tmp/project/sub", "⟨folder⟩").replace(
        '/tmp/project"', '⟨project⟩"'
    )
    assert said(other) == path.replace("/tmp/project/sub", "/srv/x/sub").replace(
        '/tmp/project"', '/srv/x"'
    )
    assert b"".join(filled_pieces(normal, NAMES)) == b"".join(
        filled_pieces(normal_pieces([stream], NAMES), NAMES)
    )


FACTS = (
    "- Working folder: {root}\\n- Project folder: {root}\\n- Platform: {platform}\\n- Date: {date}"
)


def body_of(root: str, platform: str, date: str, session: str) -> bytes:
    facts = FACTS.format(root=root, platform=platform, date=date)
    store = f"/home/x/.prong/projects/{root.strip('/').replace('/', '-')}-0123456789/{session}"
    told = f"in\\n{root}/a.py and {root}s or {root}.d, {session}, <output-file>{store}/tasks/a.log, <duration-ms>{len(root)}</duration-ms>"
    return f'{{"system":"{facts}","messages":["{told}"]}}'.encode()


def test_the_machine_and_the_day_are_no_part_of_a_prompt():
    """Two machines' bodies are one, and what only looks like the folder stays."""
    one = Form().normal(body_of("/tmp/ab", "Linux x86_64", "2026-01-02", "20260102-101112-abc234"))
    two = Form().normal(body_of("/srv/p", "Darwin arm64", "2027-03-04", "20270304-101112-zzz999"))

    assert b"\xe2\x9f\xa8date" in one.body
    assert one.body.replace(b"/tmp/ab", b"/srv/p") == two.body
    assert b"/tmp/abs or /tmp/ab.d" in one.body
    assert {*one.names.values()} == {"project", "session", "session-id"}


@given(st.permutations(["a", "b", "c"]))
def test_notices_of_one_message_have_no_order(order: list[str]):
    """Children that end at the same time are told of in whatever order; that moves no prompt."""

    def body(names: list[str]) -> bytes:
        told = [
            f"<task-notification>\\n<task-id>{name}</task-id>\\n</task-notification>"
            for name in names
        ]
        said = "\\n\\n".join(told)
        return f'{{"messages":["Ended.\\n\\n{said}","{told[0]} and {said}"]}}'.encode()

    assert Form().normal(body(order)).body.count(b"task-id>a<") == body(order).count(b"task-id>a<")
    first, second = (Form().normal(body(names)).body for names in (order, ["a", "b", "c"]))
    assert first.partition(b'","')[0] == second.partition(b'","')[0]


@pytest.mark.parametrize("said", ["Ran 2 tests in 0.006s", "3 passed in 1.25s", "in 0.1 seconds"])
def test_how_long_tests_took_is_no_difference(said: str):
    """Runners say it each time, and each time it is something else."""
    assert Form().normal(f'"{said}"'.encode()).body.endswith(b'in 0 s"')


def test_masks_and_places_are_the_callers():
    """What the caller names is named, and what it masks is a constant."""
    form = Form(masks={r"pid \d+": "pid 0"}, places={"data": "/var/data", "root": "/"})

    assert form.normal(b'"/var/data/x / pid 12"').body == '"⟨data⟩/x / pid 0"'.encode()


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("/v1/messages?beta=true", "/v1/messages?beta=true"),
        ("/v1/x?api-key=abc&beta=1", "/v1/x?api-key=hidden&beta=1"),
        ("/v1/x?a=1&access_token=abc", "/v1/x?a=1&access_token=hidden"),
    ],
)
def test_a_key_in_an_address_is_not_kept(path: str, kept: str):
    """Some servers take a key as a parameter."""
    assert path_of(Incoming("POST", path, {}, b"")) == kept


def test_a_request_that_holds_such_a_name_is_refused():
    """It could not be told from what it stands for."""
    with pytest.raises(ValueError, match="⟨project⟩"):
        Form().normal('{"a":"⟨project⟩"}'.encode())
