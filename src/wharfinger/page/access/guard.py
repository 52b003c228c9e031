"""Decides about a request before any page is made: which host it names, who sends it, and from where.

::

    Host on the list? 421 ─► health: open ─► who is it? 401 ─► POST: Origin 403 ─► route exists? 404 ─► mark 403

Browsers send cookies and certificates by themselves, also for pages of others; so a POST with either has to come from
our own origin and carry the mark that only our own page can read. A bearer token is sent by nobody by accident.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from wharfinger.page.access.admitting import TOO_MANY_WRONG, WrongTokens
from wharfinger.page.access.sessions import ForgeryMarks, Sessions
from wharfinger.page.options import PageOptions
from wharfinger.serving.access import ANONYMOUS, Authenticator, Barred, Caller, bearer_token
from wharfinger.serving.allowed_hosts import host_of

log = logging.getLogger(__name__)

MARK_HEADER = "X-Wharfinger-Mark"
HEALTH = ("/healthz", "/livez", "/readyz")
_LONGEST_COOKIE = 200
_BY_CERTIFICATE = "certificate:"

MISDIRECTED = Barred(421, "MisdirectedRequest", "the Host header names no host of this page: start it with --host NAME")
FOREIGN = Barred(403, "Forbidden", "the request comes from another origin")
UNMARKED = Barred(403, "Forbidden", f"the request lacks the mark of this page's own requests ({MARK_HEADER})")
BY_LINK = "one-time link"
"""What those are called who came by one."""
ONLY_LOOKS = Barred(403, "Forbidden", "you may look, but change nothing here: that needs a group of --allow-actions-to")
UNKNOWN = Barred(401, "Unauthorized", "a token, a client certificate or a one-time link is needed")


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who looks."""

    name: str
    mark_of: str = ""
    """Whose mark its POSTs have to carry; empty = of nobody, for it sent a bearer token."""
    token: bytes = b""
    """Hash of the token that it came with, or its session was opened with; empty = none."""
    acts: bool = False
    """Whether it may change something."""

    @property
    def of_session(self) -> bool:
        """Whether it came by a session, which it may end."""
        return bool(self.mark_of) and not self.mark_of.startswith(_BY_CERTIFICATE)

    @property
    def key(self) -> str:
        """By which its share of the page is counted: all sessions of one token have one share."""
        return f"token:{self.name}" if self.token or not self.mark_of else self.mark_of


class Guard:
    """The checks of one server."""

    def __init__(
        self,
        options: PageOptions,
        sessions: Sessions,
        marks: ForgeryMarks,
        authenticator: Authenticator,
        wrong: WrongTokens,
    ) -> None:
        self._wrong = wrong
        self._may_act = options.may_act
        self._hosts = options.allowed_hosts()
        self._scheme = "https" if options.tls is not None else "http"
        self._sessions = sessions
        self.marks = marks
        self._authenticator = authenticator
        self.cookie = "__Host-wharfinger" if options.tls is not None else "wharfinger"
        """Name of the cookie; the port joins it, because cookies of one host are shared by its ports."""

    def named(self, port: int) -> None:
        """The port is known now."""
        self.cookie = f"{self.cookie}-{port}"

    def misdirected(self, request: web.Request) -> Barred | None:
        """Whether the request names a host that is not ours: another site's name that was made to point here."""
        return None if host_of(request.headers.get("Host", "")) in self._hosts else MISDIRECTED

    def foreign(self, request: web.Request, *, required: bool = True) -> Barred | None:
        """Whether a POST comes from another origin. `required`: a request that does not say where from is refused."""
        origin = request.headers.get("Origin")
        site = request.headers.get("Sec-Fetch-Site", "same-origin")
        if site != "same-origin":
            return FOREIGN
        if origin is None:
            return FOREIGN if required else None
        return None if origin.lower() == f"{self._scheme}://{request.headers.get('Host', '').lower()}" else FOREIGN

    def unmarked(self, request: web.Request, viewer: Viewer) -> Barred | None:
        """Whether a POST lacks the mark of its session."""
        if not viewer.mark_of:
            return None
        return None if self.marks.holds(viewer.mark_of, request.headers.get(MARK_HEADER, "")) else UNMARKED

    async def viewer(self, request: web.Request) -> Viewer | Barred:
        """Who sends the request: by its header, its cookie, or its certificate, in this order."""
        authorization = request.headers.get("Authorization", "")
        if authorization:
            return await self.by_header(authorization, request.remote) or UNKNOWN
        value = self.session_value(request)
        session = self._sessions.find(value)
        holder = self._authenticator.holder(session.token) if session is not None and session.token else None
        if session is not None and session.token and holder is None:
            log.info("session_ended name=%r why=token_taken_away", session.name)
            self._sessions.close(value)
            session = None
        if session is not None:
            groups = holder.groups if holder is not None else ()
            return Viewer(session.name, value, session.token, acts=self._may_act(groups))
        certificate: dict[str, Any] | None = None
        if request.transport is not None:
            certificate = request.transport.get_extra_info("peercert")
        caller = await self._authenticator.caller(certificate, "")
        if isinstance(caller, Caller) and caller != ANONYMOUS:
            acts = self._may_act(caller.groups)
            return Viewer(_named(caller), f"{_BY_CERTIFICATE}{caller.name}", acts=acts)
        return UNKNOWN

    async def by_header(self, authorization: str, address: str | None) -> Viewer | Barred | None:
        """Whose credential the header has; None when it is nobody's. `address`: where it comes from."""
        caller = await self._authenticator.caller(None, authorization)
        if isinstance(caller, Caller) and caller != ANONYMOUS:  # however many wrong ones came from there
            hashed = self._authenticator.hashed(bearer_token(authorization))
            return Viewer(_named(caller), token=hashed, acts=self._may_act(caller.groups))
        if self._wrong.too_many(address):
            return TOO_MANY_WRONG
        self._wrong.note(address)
        return None

    def session_value(self, request: web.Request) -> str:
        """The value of our cookie; empty without one."""
        value = request.cookies.get(self.cookie, "")
        return value if len(value) <= _LONGEST_COOKIE else ""


def _named(caller: Caller) -> str:
    """As it is noted; nobody is taken for one who came by a link."""
    if caller.name != BY_LINK:
        return caller.name
    return f"{'certificate' if caller.by_certificate else 'token'}:{caller.name}"
