"""The HTTP server of the page: listens, lets `guard` decide, and answers with the shell, JSON, or the stream.

It is no page of `serving.server`, because its answers may last for hours and some requests have bodies; the HTTP
server, its connections, TLS and callers are those of `serving`.
"""

from __future__ import annotations

import asyncio
import logging
import time
import zlib
from collections.abc import Callable, Iterable
from functools import partial
from urllib.parse import parse_qs, urlsplit

import orjson
from aiohttp import web

from wharfinger.errors import UsageError, WharfingerError
from wharfinger.page.access.admitting import FormReading, ListTurns, OpenStreams, WrongTokens
from wharfinger.page.access.guard import BY_LINK, HEALTH, ONLY_LOOKS, UNKNOWN, Guard, Viewer
from wharfinger.page.access.sessions import ForgeryMarks, OneTimeLinks, Sessions
from wharfinger.page.follow.plain import as_json
from wharfinger.page.options import PageOptions
from wharfinger.page.parts import PageParts
from wharfinger.page.views import VIEWS
from wharfinger.page.web.api import barred, routes
from wharfinger.page.web.inputs import topics_of
from wharfinger.page.web.routes import PageRequest, Route, body_of
from wharfinger.page.web.shell import DOOR_POLICY, POLICY, Shell, door, lost
from wharfinger.page.web.stream import MOST_TOPICS, MOST_VIEWERS
from wharfinger.serving.access import Authenticator, Barred
from wharfinger.serving.http_server import HttpServer
from wharfinger.serving.listening import ConnectionLimits, open_sockets
from wharfinger.serving.options import ServingOptions
from wharfinger.serving.tls import TlsContexts

log = logging.getLogger(__name__)

LIMITS = ConnectionLimits(connections=2 * MOST_VIEWERS, answer=75.0)
WRITE_WITHIN = 20.0
"""Seconds in which a viewer has to make room for one message of its stream; a comment is sent every ten."""
COMPRESSED_FROM = 2048
"""Bytes."""
LONGEST_SIGN_IN = 4096
"""Bytes of the form that exchanges a token for a cookie."""
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
LISTS = ("/api/v1/pods", "/api/v1/nodes", "/api/v1/pending/{slug}", "/api/v1/gangs")
"""Long ones: made in turns, and packed beside the event loop."""
NO_ROUTE = Barred(404, "NotFound", "there is nothing at this address")


class PageServer:
    """Serves from `start` to `stop`. `parts` may be given later: until then only health is served, and 503."""

    def __init__(
        self,
        options: PageOptions,
        announce: Callable[[str], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        limits: ConnectionLimits = LIMITS,
        write_within: float = WRITE_WITHIN,
        views: Iterable[str] = VIEWS,
    ) -> None:
        """`announce` is called with each new one-time link, a whole URL; empty when there is none any more.

        `write_within`: seconds that one message of a stream may take; `views`: dotted names. Raises `UsageError`.
        """
        self._write_within = write_within
        self._options = options
        self._announce = announce
        self._clock = clock
        self._limits = limits
        self._tls = TlsContexts(_as_served(options), clock=clock) if options.tls is not None else None
        self._sessions = Sessions(clock)
        self._links = OneTimeLinks(
            lambda secret: announce(f"{self.url}/login?link={secret}" if secret else ""),
            only_one=options.has_credentials,
        )
        authenticator = Authenticator(options.authentication, None, clock=clock)
        self._guard = Guard(options, self._sessions, ForgeryMarks(), authenticator, WrongTokens(clock))
        self._shell = Shell(views)
        self._parts: PageParts | None = None
        self._routes: list[Route] = []
        self._http = HttpServer(self._serve, _set_headers, limits, _unreadable)
        self._streams = OpenStreams(self._still_in, MOST_VIEWERS)
        self._checking: asyncio.Task[None] | None = None
        self._lists = ListTurns()
        self._forms = FormReading()
        self.url = ""
        """Base URL while it serves, else empty."""

    def show(self, parts: PageParts) -> None:
        """There is something to show from now on."""
        self._routes = routes(parts, lambda viewer: self._guard.marks.of(viewer.mark_of) if viewer.mark_of else "")
        self._parts = parts

    async def start(self) -> None:
        """Listen, and announce the first link. Raises `UsageError` when that cannot be."""
        options = self._options
        try:
            sockets = open_sockets(options.address, options.port, dual=False, share_port=False)
        except OSError as error:
            raise UsageError(
                f"the page cannot listen on {options.address}:{options.port} ({error.strerror or error}): choose "
                "another --port, or 0 for any free one"
            ) from error
        self._guard.named(int(sockets[0].getsockname()[1]))
        self.url = await self._http.start(
            sockets, options.announced, self._tls.front if self._tls is not None else None
        )
        self._links.renew()
        self._checking = asyncio.create_task(self._streams.run(), name="page checks viewers")

    async def stop(self) -> None:
        """Listen no more; requests under way have half a second. Idempotent."""
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.gather(self._checking, return_exceptions=True)
        self._streams.end_all()
        await self._http.stop()

    # --- one request ------------------------------------------------------------------------------

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        try:
            if request.path == "/api/v1/stream":
                return await self._stream(request)
            async with asyncio.timeout(self._limits.answer):
                return await self._answer(request)
        except WharfingerError as error:
            told = barred(error)
            if told is None:
                log.warning("request_failed path=%r error=%r", request.path, str(error))
            return _refusal(told or Barred(500, "InternalError", "see the log of the process"))
        except TimeoutError:
            return _refusal(Barred(503, "Timeout", "this took too long"))
        except ConnectionResetError:  # the client has left: nothing failed here
            return _refusal(Barred(503, "ServiceUnavailable", "the connection was closed"))
        except Exception:  # a mistake in one view is one answer
            log.exception("request_failed path=%r", request.path)
            return _refusal(Barred(500, "InternalError", "see the log of the process"))

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        if path in HEALTH:
            return self._health(path)
        wrong = self._guard.misdirected(request)
        if wrong is not None:
            return _refusal(wrong)
        if path == "/login" and request.method == "GET":
            return self._exchange(request)
        if path == "/session" and request.method == "POST":
            return await self._sign_in(request)
        viewer = await self._guard.viewer(request)
        if isinstance(viewer, Barred):
            return self._door(request) if viewer is UNKNOWN else _refusal(viewer)
        self._http.admit(request)
        if request.method not in ("GET", "HEAD", "POST"):
            return _refusal(Barred(405, "MethodNotAllowed", "only GET, HEAD and POST are served"))
        if request.method == "POST":
            foreign = self._guard.foreign(request, required=bool(viewer.mark_of))
            if foreign is not None:
                return _refusal(foreign)
        elif request.body_exists:
            return _refusal(Barred(413, "RequestEntityTooLarge", "no body is accepted"))
        return await self._let_in(request, viewer)

    async def _let_in(self, request: web.Request, viewer: Viewer) -> web.StreamResponse:
        path = request.path
        if request.method != "POST":
            asset = self._shell.asset(path)
            if asset is not None:
                return _body(request, asset.body, asset.media_type, kept=True)
            if self._shell.is_view(request.rel_url.raw_path):
                return _body(request, self._shell.page, "text/html")
        if path == "/sign-out" and request.method == "POST":
            return self._sign_out(request, viewer)
        if not path.startswith("/api/v1/"):
            return _nothing_there(request)
        if self._parts is None:
            return _refusal(Barred(503, "Starting", "etcd has not answered yet"))
        wanted = "GET" if request.method == "HEAD" else request.method
        for route in self._routes:
            names = route.match(request.rel_url.raw_path) if route.method == wanted else None
            if names is None:
                continue
            unmarked = self._guard.unmarked(request, viewer) if wanted == "POST" else None
            if unmarked is not None:
                return _refusal(unmarked)
            if route.acts and not viewer.acts:
                return _refusal(ONLY_LOOKS)
            asked = PageRequest(request, viewer, names)
            if route.path in LISTS:
                async with self._lists.turn(viewer.key):
                    answer = await route.answer(asked)
                    return await asyncio.to_thread(_json, request, answer)
            return _json(request, await route.answer(asked))
        return _refusal(NO_ROUTE)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        wrong = self._guard.misdirected(request)
        if wrong is not None:
            return _refusal(wrong)
        viewer = await self._guard.viewer(request)
        if isinstance(viewer, Barred):
            return _refusal(viewer)
        if request.method != "GET":
            return _refusal(Barred(405, "MethodNotAllowed", "a stream is read by GET"))
        if self._parts is None:
            return _refusal(Barred(503, "Starting", "etcd has not answered yet"))
        self._http.admit(request)
        topics = topics_of(request.query.get("topics", "status"), MOST_TOPICS, self._parts.known_topics)
        made = self._parts.made(topics)
        full = self._streams.refused(viewer.key, made)
        if full is not None:
            return _refusal(full)
        session = self._guard.session_value(request) if viewer.of_session else ""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
        leave = self._streams.join(request, viewer.key, session, made)
        messages = self._parts.stream.messages(topics)
        try:
            await response.prepare(request)
            async for message in messages:
                async with asyncio.timeout(self._write_within):
                    await response.write(message)
        except (ConnectionResetError, asyncio.CancelledError):
            log.debug("viewer_left")
        except TimeoutError:
            log.info("stream_ended why=nothing_was_read_for_too_long name=%r", viewer.name)
            if request.transport is not None:
                request.transport.abort()  # an orderly end would wait for the reader, too
        finally:
            leave()
            await messages.aclose()
        return response

    # --- coming in --------------------------------------------------------------------------------

    def _exchange(self, request: web.Request) -> web.Response:
        """A one-time link for a cookie; the address without it is where the browser goes on."""
        if not self._links.spend(request.query.get("link", "")):
            return self._door(request, then="/")
        log.info("viewer_let_in by=link")
        return self._welcome(Viewer(BY_LINK), "/")

    async def _sign_in(self, request: web.Request) -> web.Response:
        """A token for a cookie."""
        foreign = self._guard.foreign(request)
        if foreign is not None:
            return _refusal(foreign)
        body = await self._forms.read(request, partial(body_of, most=LONGEST_SIGN_IN))
        if isinstance(body, Barred):
            return _refusal(body)
        form = parse_qs(body.decode("utf-8", "replace"), max_num_fields=8)
        viewer = await self._guard.by_header(f"Bearer {form.get('token', [''])[0]}", request.remote)
        if isinstance(viewer, Barred):
            return _refusal(viewer)
        then = self._place(form.get("then", ["/"])[0])
        if viewer is None:
            return self._door(request, then=then, wrong=True)
        log.info("viewer_let_in by=token name=%r", viewer.name)
        return self._welcome(viewer, then)

    def _welcome(self, viewer: Viewer, then: str) -> web.Response:
        response = web.Response(status=303, headers={"Location": then})
        response.set_cookie(
            self._guard.cookie,
            self._sessions.open(viewer.name, viewer.token),
            httponly=True,
            samesite="Strict",
            path="/",
            secure=self._tls is not None,
        )
        return response

    def _sign_out(self, request: web.Request, viewer: Viewer) -> web.Response:
        unmarked = self._guard.unmarked(request, viewer)
        if unmarked is not None:
            return _refusal(unmarked)
        self._sessions.close(self._guard.session_value(request))
        self._streams.end_session(self._guard.session_value(request))
        response = web.Response(status=204)
        response.del_cookie(self._guard.cookie, path="/")
        return response

    def _door(self, request: web.Request, *, then: str = "", wrong: bool = False) -> web.Response:
        """Who is not known gets 401: a page for people, JSON for programs."""
        if request.path.startswith("/api/") or "text/html" not in request.headers.get("Accept", ""):
            return _refusal(UNKNOWN)
        cross = request.headers.get("Sec-Fetch-Site") == "cross-site" and request.method == "GET" and not then
        page = door(then or self._place(request.path_qs), wrong=wrong, again=cross)
        return web.Response(
            text=page, status=401, content_type="text/html", headers={"Content-Security-Policy": DOOR_POLICY}
        )

    def _place(self, text: str) -> str:
        """An address of our own to go to; `/` for anything else."""
        parts = urlsplit(text)
        own = not parts.scheme and not parts.netloc and text.startswith("/") and not text.startswith(("//", "/\\"))
        return text if own and text.isprintable() and "\\" not in text and self._shell.is_view(parts.path) else "/"

    async def _still_in(self, request: web.Request) -> bool:
        return isinstance(await self._guard.viewer(request), Viewer)

    def _health(self, path: str) -> web.Response:
        if path != "/readyz":
            return web.Response(text="ok\n")
        ready = self._parts is not None and self._parts.following.in_step.is_set()
        return web.Response(text="ok\n" if ready else "not in step with etcd\n", status=200 if ready else 503)


def _body(request: web.Request, body: bytes, media_type: str, *, kept: bool = False) -> web.Response:
    headers = {"Content-Type": f"{media_type}; charset=utf-8" if media_type.startswith("text/") else media_type}
    if kept:
        headers["Cache-Control"] = "private, max-age=31536000, immutable"
    if len(body) >= COMPRESSED_FROM and "gzip" in request.headers.get("Accept-Encoding", ""):
        packer = zlib.compressobj(1, zlib.DEFLATED, 31)
        body = packer.compress(body) + packer.flush()
        headers["Content-Encoding"] = "gzip"
        headers["Vary"] = "Accept-Encoding"
    return web.Response(body=body, headers=headers)


def _json(request: web.Request, answer: object) -> web.Response:
    return _body(request, as_json(answer), "application/json")


def _nothing_there(request: web.Request) -> web.Response:
    """A page for people, JSON for programs."""
    if "text/html" not in request.headers.get("Accept", ""):
        return _refusal(NO_ROUTE)
    return web.Response(
        text=lost(), status=404, content_type="text/html", headers={"Content-Security-Policy": DOOR_POLICY}
    )


def _unreadable(status: int) -> web.Response:
    """The answer to what is no request: nothing of it is repeated."""
    response = _refusal(Barred(status, "BadRequest" if status < 500 else "InternalError", "this cannot be read"))
    response.headers.update(HEADERS | {"Content-Security-Policy": POLICY})
    return response


def _refusal(told: Barred) -> web.Response:
    """A refusal as JSON; the connection is closed where a body may follow."""
    status = {"error": told.reason, "message": told.message, "code": told.code}
    response = web.Response(body=orjson.dumps(status), status=told.code, content_type="application/json")
    if told.code == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if told.code in (401, 403, 405, 408, 413, 421, 429):
        response.force_close()
    return response


async def _set_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.popall("Server", None)
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.setdefault("Content-Security-Policy", POLICY)
    if request.secure:
        response.headers.setdefault("Strict-Transport-Security", "max-age=31536000")


def _as_served(options: PageOptions) -> ServingOptions:
    return ServingOptions(
        address=options.address,
        port=options.port,
        component="wharfinger-ui",
        tls=options.tls,
        authentication=options.authentication,
    )
