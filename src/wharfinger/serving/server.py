"""The HTTP server of one process: finds the page, decides who may read it, and answers within limits.

::

    request ──► GET or HEAD, no body ──► page exists ──► open path? ──► who is it ──► may it read this ──► page
                    405, 413                404                            401, 503        403, 503

Where there is plain HTTP and the pages are not open, everything but health is refused with advice: credentials would
be readable on the way. A page that takes longer than 30 s ends with 503.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import logging
import time
from collections.abc import Callable
from typing import Any

from aiohttp import web

from wharfinger.apiserver.client import ApiClient
from wharfinger.errors import WharfingerError
from wharfinger.serving import zpages
from wharfinger.serving.access import Authenticator, Authorizer, Barred, Caller
from wharfinger.serving.allowed_hosts import AllowedHosts
from wharfinger.serving.content import Content
from wharfinger.serving.exposition import MEDIA_TYPE, Exposition
from wharfinger.serving.health import KINDS, HealthPages, Text
from wharfinger.serving.http_server import Handler, HttpServer
from wharfinger.serving.listening import USUAL, ConnectionLimits, cannot_listen, open_sockets
from wharfinger.serving.options import ServingOptions
from wharfinger.serving.pod_resources import LIMIT, REQUEST, heading, series
from wharfinger.serving.tls import TlsContexts

log = logging.getLogger(__name__)

MISDIRECTED = Barred(
    421, "MisdirectedRequest", "the Host header names another site: start the process with --allowed-host NAME"
)
READABLE_ONLY = "only GET and HEAD are served"
NO_BODY = "no body is accepted"
OVER_TLS_ONLY = (
    "served only with credentials over TLS, or on loopback: start the process with --tls-cert-file and "
    "--static-token-file or --client-ca-file, or with --metrics-open"
)


class Server:
    """Serves from `start` to `stop`. What its pages contain is in `content`, and can change while it runs."""

    def __init__(
        self,
        options: ServingOptions,
        content: Content,
        *,
        apiserver: ApiClient | None = None,
        clock: Callable[[], float] = time.monotonic,
        limits: ConnectionLimits = USUAL,
    ) -> None:
        """`apiserver` reviews tokens and access; None = there is no cluster to ask. Raises `UsageError`."""
        self.content = content
        self._options = options
        self._clock = clock
        self._began = clock()
        self._started_at = datetime.datetime.now(datetime.UTC)
        self._tls = TlsContexts(options, clock=clock) if options.tls is not None else None
        self._authenticator = Authenticator(options.authentication, apiserver, clock=clock)
        self._authorizer = Authorizer(options.authorization, apiserver, clock=clock)
        self._hosts = AllowedHosts(options.allowed_hosts) if options.tls is None else None
        self._health = HealthPages(content, kubernetes=options.kubernetes)
        self._exposition = Exposition(content, options.exposition)
        self._limits = limits
        self._http = HttpServer(self._serve, _set_headers, limits)
        self.url = ""
        """Base URL while it serves, else empty."""

    async def start(self) -> None:
        """Listen, unless the options say that nothing is served. Raises `UsageError` when that cannot be."""
        options = self._options
        if options.port < 0:
            return
        try:
            sockets = open_sockets(
                options.address, options.port, dual=options.kubernetes, share_port=options.share_port
            )
        except OSError as error:
            raise cannot_listen(options.address, options.port, error, kubernetes=options.kubernetes) from error
        context = self._tls.front if self._tls is not None else None
        self.url = await self._http.start(sockets, options.address, context)
        log.info("health_endpoints_started url=%s", self.url)

    def trust(self, authorities: str) -> None:
        """Accept client certificates of these authorities (PEM) beside those of the file; plain HTTP ignores them.

        Replaces those of the call before. Raises `UsageError`, and then nothing changes.
        """
        if self._tls is not None:
            self._tls.trust(authorities)

    async def stop(self) -> None:
        """Listen no more; requests under way have half a second. Idempotent."""
        self.url = ""
        await self._http.stop()
        await self._exposition.close()

    # --- one request ------------------------------------------------------------------------------

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        try:
            async with asyncio.timeout(self._limits.answer):
                return await self._answer(request)
        except (TimeoutError, WharfingerError) as error:
            log.warning("page_failed path=%r error=%r", request.path, str(error) or type(error).__name__)
            return _barred(Barred(503, "ServiceUnavailable", "the page could not be made: see the log of the process"))
        except ConnectionResetError:  # the client has left: nothing failed here, and no response reaches it
            log.debug("client_left path=%r", request.path)
            return _barred(Barred(503, "ServiceUnavailable", "the connection was closed"))
        except Exception:  # a mistake in one page is one answer
            log.exception("page_failed path=%r", request.path)
            return _barred(Barred(500, "InternalError", "the page could not be made: see the log of the process"))

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if self._hosts is not None and not self._hosts.allow(request.headers.get("Host")):
            return _barred(MISDIRECTED)
        if request.method not in ("GET", "HEAD"):
            return _barred(Barred(405, "MethodNotAllowed", READABLE_ONLY), Allow="GET, HEAD")
        if request.body_exists:
            return _barred(Barred(413, "RequestEntityTooLarge", NO_BODY))
        page = self._page(request.path)
        if page is None:
            return _barred(Barred(404, "NotFound", "404 page not found"))
        barred = await self._bars(request)
        return await page(request) if barred is None else _barred(barred)

    async def _bars(self, request: web.Request) -> Barred | None:
        """Why the caller may not read the page; None when it may."""
        if self._options.open or self._options.authorization.opens(request.path):
            return None
        if self._tls is None:
            return Barred(403, "Forbidden", OVER_TLS_ONLY)
        transport = request.transport
        certificate = transport.get_extra_info("peercert") if transport is not None else None
        caller = await self._authenticator.caller(certificate, request.headers.get("Authorization", ""))
        if not isinstance(caller, Caller):
            return caller
        return await self._authorizer.bars(caller, request.path, request.method.lower())

    # --- pages ------------------------------------------------------------------------------------

    def _pages(self) -> dict[str, Handler]:
        """By path, those that have a content."""
        content = self.content
        pages: dict[str, Handler | None] = {
            **dict.fromkeys((f"/{kind}" for kind in KINDS), self._check),
            "/metrics": self._read_metrics,
            "/metrics/slis": self._read_slis,
            "/metrics/resources": self._read_resources if content.pods is not None else None,
            "/configz": self._configz if content.configuration is not None else None,
            "/flagz": self._flagz if content.flags is not None else None,
            "/statusz": self._statusz if content.versions else None,
        }
        return {path: page for path, page in pages.items() if page is not None}

    def _page(self, path: str) -> Handler | None:
        found = self._pages().get(path)
        kind, slash, name = path.removeprefix("/").partition("/")
        return self._check_one if found is None and kind in KINDS and slash and name else found

    async def _check(self, request: web.Request) -> web.Response:
        query = request.query
        as_json = query.get("format") == "json" or "application/json" in request.headers.get("Accept", "")
        excluded = query.getall("exclude", [])
        kind = request.path.removeprefix("/")
        return _text(self._health.page(kind, verbose="verbose" in query, exclude=excluded, as_json=as_json))

    async def _check_one(self, request: web.Request) -> web.Response:
        kind, _, name = request.path.removeprefix("/").partition("/")
        found = self._health.one(kind, name)
        return _text(found) if found is not None else _barred(Barred(404, "NotFound", "404 page not found"))

    async def _read_metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=await self._exposition.text(), headers={"Content-Type": MEDIA_TYPE})

    async def _read_slis(self, _request: web.Request) -> web.Response:
        return web.Response(body=self._health.slis(), headers={"Content-Type": MEDIA_TYPE})

    async def _read_resources(self, request: web.Request) -> web.StreamResponse:
        """All series of one metric come together: limits are kept while requests are sent."""
        response = web.StreamResponse(headers={"Content-Type": MEDIA_TYPE})
        pods = self.content.pods
        if pods is None or not self.content.holds() or request.method == "HEAD":
            return web.Response(headers={"Content-Type": MEDIA_TYPE})
        await response.prepare(request)
        kept = [heading(LIMIT).encode()]
        try:
            await response.write(heading(REQUEST).encode())
            async with contextlib.aclosing(pods()) as pages:
                async for some in pages:
                    kept.append(series(LIMIT, some).encode())
                    await response.write(series(REQUEST, some).encode())
            for text in kept:
                await response.write(text)
            await response.write_eof()
        except BaseException:  # a part was sent: the client must see that the rest is missing
            if request.transport is not None:
                request.transport.abort()
            raise
        return response

    async def _configz(self, _request: web.Request) -> web.Response:
        assert self.content.configuration is not None, "else the page does not exist"
        return web.Response(text=zpages.configz(self.content.configuration()), content_type="application/json")

    async def _flagz(self, request: web.Request) -> web.Response:
        assert self.content.flags is not None, "else the page does not exist"
        accept = request.headers.get("Accept", "")
        return _answered(zpages.flagz(self._options.component, self.content.flags(), accept), "Flagz")

    async def _statusz(self, request: web.Request) -> web.Response:
        started = zpages.Uptime(self._started_at, int(self._clock() - self._began))
        accept, versions = request.headers.get("Accept", ""), self.content.versions
        return _answered(zpages.statusz(self._options.component, started, versions, self._pages(), accept), "Statusz")


def _text(page: Text) -> web.Response:
    return web.Response(text=page.body, status=page.status, content_type=page.media_type)


def _answered(answered: zpages.Answered | None, kind: str) -> web.Response:
    if answered is None:
        return _barred(Barred(406, "NotAcceptable", zpages.NOT_ACCEPTABLE.format(kind=kind)))
    warning = {"Warning": answered.warning} if answered.warning else {}
    return web.Response(text=answered.body, content_type=answered.media_type, headers=warning)


def _barred(barred: Barred, **headers: str) -> web.Response:
    """A refusal as Kubernetes' `Status`; the connection is closed where a body may follow."""
    status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    status |= {"message": barred.message, "reason": barred.reason, "code": barred.code}
    if barred.code == 401:
        headers["WWW-Authenticate"] = "Bearer"
    response = web.Response(
        text=json.dumps(status) + "\n", status=barred.code, content_type="application/json", headers=headers
    )
    if barred.code in (405, 413, 421):
        response.force_close()
    return response


async def _set_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.popall("Server", None)
    response.headers["Cache-Control"] = "no-cache, private"
    response.headers["X-Content-Type-Options"] = "nosniff"
