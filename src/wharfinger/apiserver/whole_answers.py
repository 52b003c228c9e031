"""One answer of HTTP/1.1 that is read whole: its bytes as they come, and what they come to. No I/O.

`kept_connections.py` feeds it. It reads what servers send to the requests of this package: a length, chunks, or bytes
up to the end of the connection. Nothing compressed was asked for, so nothing is decompressed.
"""

from __future__ import annotations

from typing import NamedTuple

HEAD_LIMIT = 64 * 1024
"""Bytes that the head of an answer, or one line between chunks, may have."""
_NO_BODY = frozenset({204, 304})


class WholeAnswer(NamedTuple):
    """An answer with its body."""

    status: int
    body: bytes
    retry_after: str | None
    """The header of that name."""


class BadAnswer(Exception):
    """The bytes are no answer that can be used; `str()` is why, without any of them."""


class AnswerReader:
    """Reads one answer after the other of one connection; `begin` comes before each."""

    def __init__(self) -> None:
        self._limit = 0
        self._left = bytearray()
        """What has come and was not taken in."""
        self._started = False
        self._status = 0
        self._retry_after: str | None = None
        self._length: int | None = None
        """Of the body; None = it is in chunks, or goes on to the end."""
        self._chunked = False
        self._chunk = -1
        """Bytes of the current chunk that are missing, with its line end; -1 = its head is next, -2 = the end is."""
        self._body = bytearray()
        self.keeps = True
        """Whether the connection may be used again after the answer."""

    def begin(self, limit: int) -> None:
        """The next answer is to a new request; `limit`: bytes that its body may have."""
        self._limit = limit
        self._started = False
        self._length, self._chunked, self._chunk = None, False, -1
        self._body = bytearray()

    @property
    def started(self) -> bool:
        """Whether anything of the answer has come."""
        return self._started or bool(self._left)

    @property
    def idle(self) -> bool:
        """Whether nothing came that was not asked for."""
        return not self._left

    def feed(self, data: bytes) -> WholeAnswer | None:
        """Take bytes in; the answer once it is whole. Raises `BadAnswer`."""
        self._left += data
        while not self._started:
            if not self._read_head():
                return None
        if self._chunked:
            return self._answer() if self._read_chunks() else None
        if self._length is None:
            self._take_body(len(self._left))
            return None
        if self._length > self._limit:
            raise self._too_large()
        if len(self._left) < self._length:
            return None
        self._take_body(self._length)
        return self._answer()

    def end(self) -> WholeAnswer | None:
        """The connection has ended: the answer, if that is how its body ends; None = it is not whole."""
        return self._answer() if self._started and not self._chunked and self._length is None else None

    def _answer(self) -> WholeAnswer:
        return WholeAnswer(self._status, bytes(self._body), self._retry_after)

    def _read_head(self) -> bool:
        """The status and the headers; whether they were complete. What only announces the answer is passed over."""
        end = self._left.find(b"\r\n\r\n")
        if end < 0:
            if len(self._left) > HEAD_LIMIT:
                raise BadAnswer("its head is too long")
            return False
        first, *lines = bytes(self._left[:end]).split(b"\r\n")
        del self._left[: end + 4]
        version, _, rest = first.partition(b" ")
        code = rest[:3]
        if version not in {b"HTTP/1.1", b"HTTP/1.0"} or not code.isdigit() or len(code) != 3 or rest[3:4] not in b" ":
            raise BadAnswer("bad status line")
        self._status = int(code)
        if 100 <= self._status < 200:
            return True
        self._started = True
        self.keeps = version == b"HTTP/1.1"
        self._retry_after = None
        for line in lines:
            name, colon, value = line.partition(b":")
            if not colon or not name or name != name.strip():
                raise BadAnswer("bad header")
            self._header(name.lower(), value.strip())
        if self._status in _NO_BODY:
            self._length, self._chunked = 0, False
        elif self._length is None and not self._chunked:
            self.keeps = False
        return True

    def _header(self, name: bytes, value: bytes) -> None:
        if name == b"content-length":
            if not (value.isdigit() and len(value) < 19) or self._length not in (None, int(value)):
                raise BadAnswer("bad length")
            self._length = int(value)
        elif name == b"transfer-encoding":
            if value.lower() != b"chunked":
                raise BadAnswer("unknown encoding")
            self._chunked = True
        elif name == b"connection":
            if b"close" in value.lower():
                self.keeps = False
        elif name == b"retry-after":
            self._retry_after = value.decode("latin-1")

    def _read_chunks(self) -> bool:
        """Take in the chunks that have come; whether the last one has."""
        while True:
            if self._chunk > 2:
                taken = min(len(self._left), self._chunk - 2)
                self._take_body(taken)
                self._chunk -= taken
                if self._chunk > 2:
                    return False
            if self._chunk == 2:
                if len(self._left) < 2:
                    return False
                if self._left[:2] != b"\r\n":
                    raise BadAnswer("bad chunk")
                del self._left[:2]
                self._chunk = -1
            line = self._line()
            if line is None:
                return False
            if self._chunk == -2:
                if not line:
                    return True
                continue  # a trailer
            try:
                size = int(line.partition(b";")[0].strip(), 16)
            except ValueError:
                raise BadAnswer("bad chunk") from None
            if size < 0:
                raise BadAnswer("bad chunk")
            self._chunk = size + 2 if size else -2

    def _line(self) -> bytes | None:
        end = self._left.find(b"\r\n")
        if end < 0:
            if len(self._left) > HEAD_LIMIT:
                raise BadAnswer("bad chunk")
            return None
        line = bytes(self._left[:end])
        del self._left[: end + 2]
        return line

    def _take_body(self, size: int) -> None:
        self._body += self._left[:size]
        del self._left[:size]
        if len(self._body) > self._limit:
            raise self._too_large()

    def _too_large(self) -> BadAnswer:
        return AnswerTooLarge(f"the answer has more than {self._limit} bytes")


class AnswerTooLarge(BadAnswer):
    """The body has more bytes than it may have."""
