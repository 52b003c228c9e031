"""Answers of HTTP/1.1 as their bytes come, whole, in pieces, and wrong."""

from __future__ import annotations

import pytest

from wharfinger.apiserver.whole_answers import AnswerReader, AnswerTooLarge, BadAnswer, WholeAnswer

PLAIN = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5;name=value\r\nhello\r\n1\r\n,\r\n00A\r\n big world\r\n0\r\nTrailer: x\r\n\r\n"
)


def reading(limit: int = 1000) -> AnswerReader:
    reader = AnswerReader()
    reader.begin(limit)
    return reader


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (PLAIN, WholeAnswer(201, b"hello", None)),
        (CHUNKED, WholeAnswer(200, b"hello, big world", None)),
        (b"HTTP/1.1 204 \r\n\r\n", WholeAnswer(204, b"", None)),
        (b"HTTP/1.1 304\r\nContent-Length: 7\r\n\r\n", WholeAnswer(304, b"", None)),
        (b"HTTP/1.1 429 No\r\nretry-after:  3 \r\ncontent-length: 0\r\n\r\n", WholeAnswer(429, b"", "3")),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + PLAIN, WholeAnswer(201, b"hello", None)),
    ],
    ids=["length", "chunks", "no content", "not modified", "header", "announced"],
)
@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_answer_is_the_same_in_pieces_of_any_size(sent: bytes, expected: WholeAnswer, size: int) -> None:
    reader = reading()
    found = [reader.feed(sent[at : at + size]) for at in range(0, len(sent), size)]

    assert found[-1] == expected
    assert not any(found[:-1])
    assert reader.keeps
    assert reader.idle


def test_answers_follow_each_other_on_one_connection() -> None:
    reader = reading()
    first = reader.feed(CHUNKED)
    reader.begin(1000)
    nothing = reader.started
    second = reader.feed(PLAIN)

    assert (first and first.status, nothing, second) == (200, False, WholeAnswer(201, b"hello", None))


def test_answer_without_a_length_ends_with_the_connection() -> None:
    reader = reading()
    assert reader.feed(b"HTTP/1.1 200 OK\r\n\r\nhello") is None
    assert reader.feed(b" again") is None

    assert reader.end() == WholeAnswer(200, b"hello again", None)
    assert not reader.keeps


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\n", PLAIN[:-1], CHUNKED[:-1]])
def test_answer_that_is_cut_is_none(sent: bytes) -> None:
    reader = reading()
    assert reader.feed(sent) is None
    assert reader.end() is None
    assert reader.started is bool(sent)


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 0", b"HTTP/1.0 200 OK\r\nContent-Length: 0"]
)
def test_connection_that_ends_is_not_kept(head: bytes) -> None:
    reader = reading()

    assert reader.feed(head + b"\r\n\r\n") == WholeAnswer(200, b"", None)
    assert not reader.keeps


def test_what_nobody_asked_for_is_noticed() -> None:
    reader = reading()
    reader.feed(PLAIN + b"HTTP")

    assert not reader.idle


@pytest.mark.parametrize(
    "sent",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"HTTP/1.1 nonsense\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 2000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x" * 100_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 100_000,
    ],
)
def test_bytes_that_are_no_answer_are_refused(sent: bytes) -> None:
    with pytest.raises(BadAnswer) as refused:
        reading().feed(sent)

    assert len(str(refused.value)) < 30, "nothing of what was sent is repeated"


@pytest.mark.parametrize(
    "sent",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nb\r\nhello world",
        b"HTTP/1.1 200 OK\r\n\r\nhello world",
    ],
)
def test_bodies_have_a_limit(sent: bytes) -> None:
    with pytest.raises(AnswerTooLarge, match="more than 10 bytes"):
        reading(limit=10).feed(sent)
