"""etcd's gRPC API, by grpcio's asyncio channels: the only file that imports grpcio, which is an extra.

A channel is an endpoint's connection: it is opened anew by itself, with pauses of up to a second. A call is
sent only on a connection that stands, so a call that finds none is known to be unsent. After a call without an
answer, and after a name that cannot be resolved, the endpoint gets another channel: the old connection may be dead
without a word, and grpcio resolves a name again only after ever longer pauses. Tries and deadlines belong to
`etcd_connection`, trust to `etcd_tls` and here, spelling to `etcd_grpc_wire`.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import grpc
import grpc.aio

from wharfinger.etcd import etcd_grpc_wire
from wharfinger.etcd import etcd_tls as tls
from wharfinger.etcd.etcd_gateway import (
    LARGEST_ANSWER,
    CertificateRefused,
    Dropped,
    NotSent,
    TooMuch,
    Unanswered,
    refusal,
)
from wharfinger.etcd.etcd_grpc_wire import MESSAGES
from wharfinger.etcd.etcd_wire import Method, Request, Wire
from wharfinger.settings import EtcdSettings

KEEP_ALIVE = 6000
"""Milliseconds after which an idle connection is probed; etcd ends one that is probed every 5 s or more often."""
KEEP_ALIVE_ANSWER = 3000
"""Milliseconds that etcd has to answer the probe."""
OPTIONS = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.service_config_disable_resolution", 1),
    # a lease's connection is its own: by default grpcio shares those of equal channels in a process
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", LARGEST_ANSWER),
    # the length is checked before a message is decompressed, so none is: it then cannot be read
    ("grpc.per_message_decompression", 0),
    ("grpc.compression_enabled_algorithms_bitset", 1),
    ("grpc.max_send_message_length", -1),  # etcd refuses what is too large, in its own words
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.dns_min_time_between_resolutions_ms", 1000),
    ("grpc.keepalive_time_ms", KEEP_ALIVE),
    ("grpc.keepalive_timeout_ms", KEEP_ALIVE_ANSWER),
)
METHODS = {
    Method.RANGE: ("KV/Range", "Range"),
    Method.TXN: ("KV/Txn", "Txn"),
    Method.WATCH: ("Watch/Watch", "Watch"),
    Method.GRANT: ("Lease/LeaseGrant", "LeaseGrant"),
    Method.REVOKE: ("Lease/LeaseRevoke", "LeaseRevoke"),
    Method.KEEP_ALIVE: ("Lease/LeaseKeepAlive", "LeaseKeepAlive"),
    Method.AUTHENTICATE: ("Auth/Authenticate", "Authenticate"),
}
"""Path, and what its messages' names begin with."""
STREAMS = frozenset({Method.WATCH, Method.KEEP_ALIVE})
_NO_CONNECTION = "failed to connect to all addresses"
_NO_ADDRESS = ("errors resolving", "DNS resolution failed", "empty address list")
"""grpcio says so, and these, of a call that it has not sent."""
_TOO_LARGE = "Received message larger than max"
"""grpcio says so of an answer; etcd, which writes it in small letters, says it of a request."""
STREAMS_END_WITHIN = 30.0
"""Seconds for the streams of a channel that was given up."""


@dataclass(frozen=True, slots=True)
class _Endpoint:
    channel: grpc.aio.Channel
    calls: dict[Method, Any]


class GrpcGateway:
    """Calls to etcd's members by gRPC, on one event loop."""

    wire: Wire = etcd_grpc_wire

    def __init__(self, settings: EtcdSettings, context: ssl.SSLContext | None) -> None:
        self.endpoint = ""
        self.token: str | None = None
        self._connect = settings.connect_timeout
        self._credentials = None if context is None else _credentials(settings)
        self._endpoints: dict[str, _Endpoint] = {}
        self._given_up: dict[asyncio.Future[None], grpc.aio.Channel] = {}
        """Channels that no new call uses, by what closes each: its streams end by themselves, or within a grace."""
        self._closed = False

    async def exchange(self, method: Method, request: Request, seconds: float) -> Any:
        """One call, one answer; raises the errors that `etcd_gateway` distinguishes, or a `StoreError`."""
        clock = asyncio.get_running_loop().time
        ends = clock() + seconds
        endpoint = await self._connected(seconds)
        call, request = endpoint.calls[method], _message(method, request)
        try:
            answering = call(
                [request] if method in STREAMS else request, timeout=ends - clock(), metadata=self._metadata()
            )
            if method not in STREAMS:
                return _read(await answering)
            try:
                answer = await answering.read()
            finally:
                answering.cancel()
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED or _is_unresolved(error):
                self._give_up(endpoint)
            raise self._failure(error) from None
        except (asyncio.CancelledError, grpc.aio.UsageError) as error:
            raise self._closing(error) from None
        if answer is grpc.aio.EOF:
            raise Unanswered("the stream ended without an answer")
        return _read(answer)

    async def open_stream(self, method: Method, request: Request, idle: float) -> GrpcStream:
        """One call whose answer goes on; it ends when its member loses the leader."""
        endpoint = await self._connected(self._connect)
        try:
            stream = endpoint.calls[method](metadata=(*self._metadata(), ("hasleader", "true")))
            try:
                await stream.write(_message(method, request))
                first = await stream.read()
            except BaseException:  # also when cancelled: no other part ends the stream
                stream.cancel()
                raise
        except grpc.aio.AioRpcError as error:
            if _is_unresolved(error):
                self._give_up(endpoint)
            raise self._failure(error) from None
        except (asyncio.CancelledError, grpc.aio.UsageError, asyncio.InvalidStateError) as error:
            raise self._closing(error) from None
        return GrpcStream(self, stream, first, idle)

    async def _connected(self, seconds: float) -> _Endpoint:
        """The endpoint in use, once a connection stands or has failed."""
        if self._closed:
            raise NotSent("closed")
        endpoint = self._endpoints.get(self.endpoint) or self._open(self.endpoint)
        channel = endpoint.channel
        state = channel.get_state(try_to_connect=True)
        if state in _UNDECIDED:
            try:
                async with asyncio.timeout(min(self._connect, seconds)):
                    while state in _UNDECIDED:
                        await channel.wait_for_state_change(state)
                        state = channel.get_state(try_to_connect=True)
            except TimeoutError:
                raise NotSent("no connection in time") from None
            except (asyncio.CancelledError, grpc.aio.UsageError) as error:
                raise self._closing(error) from None
        return endpoint

    def _give_up(self, endpoint: _Endpoint) -> None:
        """Let the next call open another connection."""
        for name, known in list(self._endpoints.items()):
            if known is endpoint:
                del self._endpoints[name]
                closing = asyncio.ensure_future(endpoint.channel.close(STREAMS_END_WITHIN))
                self._given_up[closing] = endpoint.channel
                closing.add_done_callback(lambda done: self._given_up.pop(done, None))

    def _open(self, endpoint: str) -> _Endpoint:
        parts = urlsplit(endpoint)
        target = parts.netloc if parts.port else f"{parts.netloc}:{443 if parts.scheme == 'https' else 80}"
        if parts.scheme == "https":
            channel = grpc.aio.secure_channel(target, self._credentials, options=OPTIONS)
        else:
            channel = grpc.aio.insecure_channel(target, options=OPTIONS)
        calls = {}
        for method, (path, name) in METHODS.items():
            made = channel.stream_stream if method in STREAMS else channel.unary_unary
            calls[method] = made(
                f"/etcdserverpb.{path}",
                request_serializer=MESSAGES[f"{name}Request"].SerializeToString,
                response_deserializer=MESSAGES[f"{name}Response"].FromString,
            )
        self._endpoints[endpoint] = opened = _Endpoint(channel, calls)
        return opened

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        return (("token", self.token),) if self.token else ()

    def _failure(self, error: grpc.aio.AioRpcError) -> Exception:
        """What became of a call. The error itself is not chained: its text has lines, and addresses over again."""
        code, words = error.code(), error.details() or ""
        if _is_unresolved(error):
            return NotSent(_reason(words))
        if code is grpc.StatusCode.UNAVAILABLE and words.startswith(_NO_CONNECTION):
            if "SSL_ERROR_SSL" in words or "Peer name" in words:
                return CertificateRefused(_reason(words))
            return NotSent(_reason(words)) if self._credentials is None else Dropped(_reason(words))
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return Unanswered("no answer in time")
        if code is grpc.StatusCode.UNIMPLEMENTED:
            return Unanswered(f"not from etcd's gRPC API: {words}")
        if code is grpc.StatusCode.RESOURCE_EXHAUSTED and _TOO_LARGE in words:
            return TooMuch()
        return refusal(words, int(code.value[0]))

    def _closing(self, error: BaseException) -> BaseException:
        """What ended a call: a cancelled task, or a channel that was closed. To grpcio both are a cancellation."""
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and (not self._closed or (task and task.cancelling())):
            return error
        return Unanswered("closed" if self._closed else repr(error))

    async def close(self) -> None:
        """Close all connections."""
        self._closed = True
        endpoints, self._endpoints = self._endpoints, {}
        channels = [endpoint.channel for endpoint in endpoints.values()]
        for closing, channel in list(self._given_up.items()):
            closing.cancel()
            channels.append(channel)
        await asyncio.gather(*(channel.close() for channel in channels), return_exceptions=True)


def _message(method: Method, request: Request) -> Any:
    return MESSAGES[f"{METHODS[method][1]}Request"](**request)


def _read(message: Any) -> Any:
    """The message, which is None where grpcio cannot read it, as it is when it came compressed."""
    if message is None:
        raise Unanswered("the answer cannot be read, perhaps because it is compressed")
    return message


def _is_unresolved(error: grpc.aio.AioRpcError) -> bool:
    return error.code() is grpc.StatusCode.UNAVAILABLE and (error.details() or "").startswith(_NO_ADDRESS)


_UNDECIDED = (grpc.ChannelConnectivity.IDLE, grpc.ChannelConnectivity.CONNECTING)


class GrpcStream:
    """An answer that goes on."""

    def __init__(self, gateway: GrpcGateway, call: Any, first: Any, idle: float) -> None:
        self._gateway = gateway
        self._call = call
        self._first = first
        self._idle = idle

    async def messages(self) -> AsyncGenerator[Any, None]:
        """What comes. Raises `Unanswered`, also after `idle` seconds of silence, and what a refusal means."""
        message = self._first
        while message is not grpc.aio.EOF:
            yield _read(message)
            try:
                async with asyncio.timeout(self._idle):
                    message = await self._call.read()
            except TimeoutError:
                raise Unanswered("silent for too long") from None
            except grpc.aio.AioRpcError as error:
                raise self._gateway._failure(error) from None
            except (asyncio.CancelledError, grpc.aio.UsageError) as error:
                raise self._gateway._closing(error) from None

    def break_off(self) -> None:
        """End the call before the channel closes: not every release of grpcio ends it then."""
        self._call.cancel()

    def close(self) -> None:
        """End the call."""
        self._call.cancel()


def _credentials(settings: EtcdSettings) -> grpc.ChannelCredentials:
    """The same files as in `tls.context`, which has checked them."""
    key = settings.key or settings.cert  # as Python's ssl takes it: one file may hold both
    return grpc.ssl_channel_credentials(
        root_certificates=settings.ca.read_bytes() if settings.ca else tls.system_authorities(),
        private_key=key.read_bytes() if key else None,
        certificate_chain=settings.cert.read_bytes() if settings.cert else None,
    )


def _reason(words: str) -> str:
    """Why there is no connection, without grpcio's frame and the address, which the caller has."""
    last = words.rpartition("last error: ")[2].removesuffix(": OK")
    last = re.sub(r"^[A-Z]+: ", "", last)
    last = re.sub(r"^(ipv[46]|unix):\S+: ", "", last)
    last = re.sub(r"^Failed to connect to remote host: ", "", last)
    return re.sub(r"^connect: (.*) \(\d+\)$", r"\1", last)
