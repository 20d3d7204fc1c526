"""The parser of server-sent events: cases P01 to P03."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtree.messages.errors import ProviderProtocolError
from runtree.providers.sse import SseEvent, SseParser


def parse(*reads: bytes, limit: int = 1000) -> list[SseEvent]:
    parser = SseParser(limit)
    events = [event for read in reads for event in parser.feed(read)]
    return events + parser.close()


@pytest.mark.parametrize(
    "stream, expected",
    [
        (b"data: a\n\ndata: b\n\n", [(b"a", None), (b"b", None)]),
        (b"data:a\n\n", [(b"a", None)]),
        (b"data:  a\n\n", [(b" a", None)]),
        (b"data: a\r\n\r\ndata: b\r\rdata: c\n\n", [(b"a", None), (b"b", None), (b"c", None)]),
        (b"data: a\ndata: b\n\n", [(b"a\nb", None)]),
        (b"event: error\ndata: a\n\ndata: b\n\n", [(b"a", "error"), (b"b", None)]),
        (b"data: a\nevent:x\n\n", [(b"a", "x")]),
        (b"event: lost\n\ndata: a\n\n", [(b"a", None)]),
        (b": note\n\nid: 1\nretry: 5\nfoo: bar\n\ndata: a\n\n", [(b"a", None)]),
        (b"data: a", [(b"a", None)]),
        (b"data: a\n", [(b"a", None)]),
        (b"data\n\n", [(b"", None)]),
        (b"\xef\xbb\xbfdata: a\n\n", [(b"a", None)]),
        ("data: \u2028\u2029\u0085\x0c\n\n".encode(), [("\u2028\u2029\u0085\x0c".encode(), None)]),
        (b"\n\n\n", []),
        (b"", []),
    ],
)
def test_p02_forms_of_events(stream: bytes, expected: list[tuple[bytes, str | None]]) -> None:
    assert parse(stream) == expected
    assert parse(*(stream[at : at + 1] for at in range(len(stream)))) == expected
    for at in range(len(stream)):
        assert parse(stream[:at], stream[at:]) == expected, f"cut at {at}"


@given(
    st.lists(st.sampled_from([b"data: x", b"data:y", b"\n", b"\r\n", b"\r", b": c", b"event: e", b"", "é".encode()])),
    st.data(),
)
def test_p01_any_cuts_give_the_same_events(parts: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    reads = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert parse(*reads) == parse(stream)


@pytest.mark.parametrize("stream", [b"data: " + b"x" * 2000, b"data: x\n" * 2000, b"data: " + b"x" * 2000 + b"\n\n"])
@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_p02_an_event_has_a_size_cap(stream: bytes, size: int) -> None:
    with pytest.raises(ProviderProtocolError, match="larger than 1000 bytes"):
        parse(*(stream[at : at + size] for at in range(0, len(stream), size)))


def test_the_cap_is_for_one_event() -> None:
    assert len(parse(b"data: " + b"x" * 900 + b"\n\n", b"data: " + b"x" * 900 + b"\n\n")) == 2


def test_p02_a_line_end_cut_in_two_takes_nothing_from_the_next_line() -> None:
    assert parse(b"data: a\r", b"\n", b"\ndata: b\n\n") == [(b"a", None), (b"b", None)]


def test_p02_a_byte_order_mark_counts_only_at_the_start() -> None:
    assert parse(b"data: a\n\n\xef\xbb\xbfdata: b\n\ndata: c\n\n") == [(b"a", None), (b"c", None)]


@pytest.mark.parametrize(
    "other", [b": note\n\n", b"event: e\ndata: x\n\n", b"data: x\ndata: y\n\n", b"data:x\n\n", b"\n"]
)
@pytest.mark.parametrize("usual", [b"data: a\n\n", b"event: e\ndata: a\n\n"])
def test_p02_unusual_events_among_usual_ones(usual: bytes, other: bytes) -> None:
    stream = usual * 2 + other + usual + other * 2 + usual * 2
    assert parse(stream) == parse(*(stream[at : at + 1] for at in range(len(stream))))
