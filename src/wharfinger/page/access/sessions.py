"""Who may see the page: one-time links, the sessions they are exchanged for, and the marks against forged requests.

Secrets are kept as hashes with a key of this process, compared in constant time, and never logged. A link is good for
one exchange; when it was used, the next one is made and announced, so an operator at the terminal can always let
another browser in. Where tokens or certificates let viewers in, there is no next one. Sessions end after half a day,
and with the process.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from wharfinger.serving.access import KeyedHash

SESSION_LIFE = 12 * 3600.0
"""Seconds."""
MOST_SESSIONS = 1000
"""At a time; the oldest one ends when another begins."""
_SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class Session:
    """One browser that was let in."""

    name: str
    """Of whom it was opened for: as a token file or a certificate names them."""
    began: float
    """Monotonic seconds."""
    token: bytes = b""
    """Hash of the token that opened it: it ends when that is taken out of the file. Empty = a link opened it."""


class Sessions:
    """The browsers that were let in, by cookie."""

    def __init__(self, clock: Callable[[], float], hash_: KeyedHash | None = None) -> None:
        """`clock`: monotonic seconds."""
        self._clock = clock
        self._hash = hash_ or KeyedHash()
        self._sessions: dict[bytes, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, name: str, token: bytes = b"") -> str:
        """Let a browser in; answers the value of its cookie. `token`: hash of the token by which it comes in."""
        self._expire()
        while len(self._sessions) >= MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        value = secrets.token_urlsafe(_SECRET_BYTES)
        self._sessions[self._hash(value)] = Session(name, self._clock(), token)
        return value

    def find(self, value: str) -> Session | None:
        """The session of a cookie; None for none, an unknown, or one that has ended."""
        found = self._sessions.get(self._hash(value)) if value else None
        if found is not None and self._clock() - found.began > SESSION_LIFE:
            del self._sessions[self._hash(value)]
            return None
        return found

    def close(self, value: str) -> None:
        """End a session."""
        self._sessions.pop(self._hash(value), None)

    def _expire(self) -> None:
        ended = self._clock() - SESSION_LIFE
        for key in [key for key, session in self._sessions.items() if session.began < ended]:
            del self._sessions[key]


class OneTimeLinks:
    """The one link that is good now."""

    def __init__(
        self, announce: Callable[[str], None], hash_: KeyedHash | None = None, *, only_one: bool = False
    ) -> None:
        """`announce` is called with the secret of each new link, and must show it to operators of this machine only;
        with an empty text when there is none any more. `only_one`: no link follows the first one.
        """
        self._announce = announce
        self._only_one = only_one
        self._hash = hash_ or KeyedHash()
        self._current = b""

    def renew(self) -> None:
        """Make a link; the one before is good no more."""
        secret = secrets.token_urlsafe(_SECRET_BYTES)
        self._current = self._hash(secret)
        self._announce(secret)

    def spend(self, secret: str) -> bool:
        """Whether this is the link's secret; if so, it was spent now, and the next link, if any, is announced."""
        if not self._current or not hmac.compare_digest(self._hash(secret), self._current):
            return False
        self._current = b""
        if self._only_one:
            self._announce("")
        else:
            self.renew()
        return True


class ForgeryMarks:
    """What a request for work has to carry beside a cookie or a certificate: only our own page can know it."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(_SECRET_BYTES)

    def of(self, who: str) -> str:
        """The mark of a session's cookie, or of `certificate:<name>`."""
        return hmac.new(self._key, who.encode(), "sha256").hexdigest()

    def holds(self, who: str, mark: str) -> bool:
        """Whether the mark is that one's."""
        return hmac.compare_digest(self.of(who), mark) if mark.isascii() else False
