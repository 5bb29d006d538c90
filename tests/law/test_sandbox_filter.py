"""The filter of system calls, run by an interpreter of its own."""

from __future__ import annotations

import errno
import struct
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prong.host.sandbox import seccomp

pytestmark = pytest.mark.spec("L13")


@dataclass
class Call:
    number: int
    args: tuple[int, ...] = ()
    arch: int = 0xC000003E


def judge(data: bytes, call: Call) -> int:
    """Run a filter as the kernel would; gives the error, 0 if the call is let through."""
    args = (*call.args, *([0] * (6 - len(call.args))))
    seen = struct.pack("=IIQ6Q", call.number & 0xFFFFFFFF, call.arch, 0, *args)
    lines = [struct.unpack_from("=HBBI", data, 8 * n) for n in range(len(data) // 8)]
    at, held = 0, 0
    while True:
        code, yes, no, value = lines[at]
        at += 1
        match code:
            case 0x20:
                (held,) = struct.unpack_from("=I", seen, value)
            case 0x54:
                held &= value
            case 0x15:
                at += yes if held == value else no
            case 0x35:
                at += yes if held >= value else no
            case 0x45:
                at += yes if held & value else no
            case 0x05:
                at += value
            case 0x06:
                return 0 if value == 0x7FFF0000 else value & 0xFFFF
            case _:
                raise AssertionError(hex(code))


X86 = seccomp.Processor(0xC000003E, 317, 0)
READS = seccomp.Refusals(attributes=True, network=True, unix=True)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (Call(0), 0),
        (Call(90), errno.EPERM),
        (Call(268), errno.EPERM),
        (Call(452), errno.EPERM),
        (Call(280), errno.EPERM),
        (Call(165), errno.EPERM),
        (Call(425), errno.EPERM),
        (Call(435), errno.ENOSYS),
        (Call(56, (0x11,)), 0),
        (Call(56, (0x10000011,)), errno.EPERM),
        (Call(272, (0x00020000,)), errno.EPERM),
        (Call(272, (0x400,)), 0),
        (Call(41, (1,)), errno.EACCES),
        (Call(41, (2,)), errno.EACCES),
        (Call(41, (10,)), errno.EACCES),
        (Call(41, (17,)), errno.EACCES),
        (Call(41, (16,)), 0),
        (Call(53, (1,)), 0),
        (Call(16, (0, 0x5412)), errno.EPERM),
        (Call(16, (0, 0x5401)), 0),
        (Call(16, (0, 0x1_0000_5412)), errno.EPERM),
        (Call(16, (0, 0x40086602)), errno.EPERM),
        (Call(133, (0, 0o060644)), errno.EPERM),
        (Call(259, (0, 0, 0o020644)), errno.EPERM),
        (Call(133, (0, 0o010644)), 0),
        (Call(302, (0, 7)), 0),
        (Call(302, (1234, 7)), errno.EPERM),
        (Call(90, arch=0x40000003), errno.ENOSYS),
        (Call(0x40000000 | 90), errno.EPERM),
        (Call(0x40000000), errno.EPERM),
    ],
)
def test_the_filter_of_reading(call: Call, error: int) -> None:
    """Modes, times, sockets, mounts and namespaces are refused, by whatever number they have."""
    assert judge(seccomp.program(X86, READS), call) == error


@given(st.integers(0, 480), st.lists(st.integers(0, 2**64 - 1), min_size=6, max_size=6))
def test_a_filter_refuses_no_more_than_it_lists(number: int, args: list[int]) -> None:
    """A call that is not in the tables passes, whatever its arguments are."""
    listed = {one.number for one in seccomp.tests(X86, READS)}
    refused = judge(seccomp.program(X86, READS), Call(number, tuple(args))) != 0

    assert not refused or number in listed
    plain = {one.number for one in seccomp.tests(X86, READS) if one.at < 0}
    assert refused or number not in plain


def test_working_may_change_modes_and_connect() -> None:
    """The filter of other profiles leaves modes, times and the network alone."""
    data = seccomp.program(X86, seccomp.Refusals(unix=True))

    assert judge(data, Call(90)) == 0
    assert judge(data, Call(41, (2,))) == 0
    assert judge(data, Call(41, (1,))) == errno.EACCES
    assert judge(data, Call(165)) == errno.EPERM


def expected(found: tuple[seccomp.Test, ...], call: Call) -> set[int]:
    """Work out by the list of tests alone which errors a call may meet; 0 if none applies."""
    errors: set[int] = set()
    for one in (one for one in found if one.number == call.number):
        if one.at < 0:
            errors.add(one.error)
            continue
        masked = call.args[one.at] & one.mask & 0xFFFFFFFF
        met = masked != 0 if one.value < 0 else (masked == one.value) != one.unless
        errors |= {one.error} if met else set()
    return errors or {0}


@pytest.mark.parametrize("kind", [X86, seccomp.Processor(0xC00000B7, 277, 1)])
@given(data=st.data())
def test_a_filter_says_what_its_tests_say(kind: seccomp.Processor, data: st.DataObject) -> None:
    """However a filter finds a call, it answers as the list of its tests does, for every number."""
    flags = st.booleans()
    refusals = seccomp.Refusals(
        attributes=data.draw(flags),
        signals=data.draw(flags),
        network=data.draw(flags),
        unix=data.draw(flags),
    )
    found = seccomp.tests(kind, refusals)
    listed = {n for one in found for n in (one.number - 1, one.number, one.number + 1)}
    told = [v for one in found for v in (one.value, one.mask) if v >= 0]
    argument = st.one_of(st.sampled_from(told), st.integers(0, 2**64 - 1))
    number = data.draw(st.one_of(st.sampled_from(sorted(listed - {-1})), st.integers(0, 600)))
    args = tuple(data.draw(st.lists(argument, min_size=6, max_size=6)))
    call = Call(number, args, kind.audit)

    assert judge(seccomp.program(kind, refusals), call) in expected(found, call)
