"""What `ci/profile` makes of a profile, from one written by hand."""

import instructions
from mpqprofile import callgrind, rooms
from mpqprofile.targets import Target, packets_sent

# `emit` is in send_buf.rs, with a line of the core library inlined; it calls memcpy, which says no file of its own, and
# itself. The next function is of the file that was named last.
PART = """\
version: 1
positions: line
events: Ir
summary: 1090

ob=/n/nginx
fl=/v/quiche/src/stream/send_buf.rs
fn=emit
10 100
fi=/rustc/1/library/core/src/option.rs
7 20
fe=/v/quiche/src/stream/send_buf.rs
12 5
cob=/usr/lib/libc.so.6
cfi=memmove.S
cfn=__memcpy_avx
calls=3 50
12 600
cfn=emit'2
calls=1 10
12 40
12 2

fn=emit'2
10 40

fn=EVP_AEAD_CTX_seal
1 8

ob=/usr/lib/libc.so.6
fl=memmove.S
fn=__memcpy_avx
5 600

ob=/n/nginx
fl=/n/src/event/quic/ngx_event_quic_output.c
fn=ngx_quic_output
cfn=EVP_AEAD_CTX_seal
calls=4 1
300 8
301 315
"""


def test_instructions_are_where_their_code_is():
    profile = callgrind.parse(PART.splitlines(keepends=True))
    assert profile.total == 1090
    assert profile.instructions["/n/nginx", "emit", "/v/quiche/src/stream/send_buf.rs",
                                "/rustc/1/library/core/src/option.rs"] == 20
    assert profile.calls == {"__memcpy_avx": 3, "emit": 1, "EVP_AEAD_CTX_seal": 4}
    # Its call of itself is in the cost of the first.
    assert profile.inclusive["__memcpy_avx"] == 600 and profile.inclusive["emit"] == 0
    assert packets_sent(profile) == 4


def test_rooms_add_up_and_name_the_servers_apart():
    profile = callgrind.parse(PART.splitlines(keepends=True))
    ours, stocks = rooms.divide(profile), rooms.divide(profile, is_stock=True)
    # With what is inlined, and the function that has no file line of its own.
    assert ours[rooms.STREAMS] == 100 + 20 + 5 + 2 + 40 + 8
    assert ours[rooms.COPIES] == 600 and ours[rooms.ADAPTER] == 315
    assert stocks[rooms.STOCK] == 315 and stocks[rooms.ADAPTER] == 0
    assert ours.total() == stocks.total() == profile.total
    assert set(ours) | set(stocks) <= set(rooms.ROOMS)


def test_what_both_runs_have_is_subtracted():
    profile = callgrind.parse(PART.splitlines(keepends=True))
    assert profile.minus(profile).total == 0
    twice = callgrind.parse((PART + PART).splitlines(keepends=True))
    assert twice.minus(profile) == profile


def test_the_middle_run_is_shown():
    counts = iter((3, 1, 2))

    def run(_):
        profile = callgrind.parse((PART * next(counts)).splitlines(keepends=True))
        return profile, 10

    target = Target("by hand", "request", run)
    result = instructions.measure(target, None, 3, rooms.divide)
    assert result["all"] == {"min": 109.0, "median": 218.0, "max": 327.0}
    assert sum(result["rooms"].values()) == 218.0
    text = instructions.table({"one": result}, rooms.ROOMS, functions=1)
    assert "109-327" in text and "__memcpy_avx" in text
