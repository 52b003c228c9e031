"""From connection options to open connections: etcd as a `Store`, Temporal as a client.

Errors are one line that says what to do; `cli.main` prints them. A person at a terminal is told after a second that a
server does not answer yet, and waits no longer for one that this machine says is not there.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TextIO, TypeVar
from urllib.parse import urlsplit

from wharfinger.cli.options import ConnectionOptions
from wharfinger.cli.output import until_reader_left
from wharfinger.errors import ServerError, Unavailable
from wharfinger.objects.model.addresses import is_loopback

if TYPE_CHECKING:
    from temporalio.client import Client

    from wharfinger.etcd.etcd import EtcdStore
    from wharfinger.etcd.store import Store

FIRST_ANSWER = 5.0
"""Seconds within which etcd, and Temporal, must answer for the first time: a person waits."""
QUIET = 1.0
"""Seconds after which a person at a terminal is told what does not answer, and for which an etcd on this machine is
waited for whose port is closed. A script goes on trying: etcd may be about to be started again."""

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T], *, watch: bool = False) -> T:
    """Run a command's coroutine on a fresh event loop: to its end, or as a `watch` while its output has a reader."""
    return asyncio.run(until_reader_left(main) if watch else main)


@asynccontextmanager
async def open_store(
    connection: ConnectionOptions, *, within: float = FIRST_ANSWER, told: TextIO | None = None
) -> AsyncIterator[Store]:
    """The etcd that the options name, asked once so that a wrong address is reported at once: `within` so many seconds.

    Its keys are those of its cluster's format. `told`: where a person is told that it does not answer yet, if that is
    a terminal; None = standard error. Raises `Unavailable`, `AccessDenied`, and `InstallationMismatch` when the options
    name another format.
    """
    from wharfinger.process.installation_record import in_its_format

    told = sys.stderr if told is None else told
    try:
        with telling(f"etcd at {', '.join(connection.etcd.endpoints)} does not answer yet ...", told):
            store = await _first_answer(connection, within, at_terminal=_is_terminal(told))
    except Unavailable as error:
        raise _no_etcd(connection, error) from error
    try:
        yield await in_its_format(store, connection.format)
    finally:
        await store.close()


async def _first_answer(connection: ConnectionOptions, within: float, *, at_terminal: bool) -> EtcdStore:
    """The store once it has answered; raises `Unavailable` sooner where a person waits for a closed port here."""
    from wharfinger.etcd.etcd import EtcdStore

    here = all(is_loopback(urlsplit(one).hostname or "") for one in connection.etcd.endpoints)
    if at_terminal and within > QUIET and here:
        try:
            return await EtcdStore.connect(connection.etcd, within=QUIET)
        except Unavailable as error:
            if _was_refused(error):
                raise
            within -= QUIET
    return await EtcdStore.connect(connection.etcd, within=within)


def _was_refused(error: BaseException | None) -> bool:
    """Whether nothing listens there, by the chain of causes."""
    while error is not None:
        if isinstance(error, ConnectionRefusedError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()  # None: a process without a standard error


@contextmanager
def telling(line: str, stream: TextIO | None, *, after: float = QUIET) -> Iterator[None]:
    """Print the line to a terminal when the block lasts for `after` seconds; needs a running event loop."""
    if not _is_terminal(stream):
        yield
        return
    due = asyncio.get_running_loop().call_later(after, lambda: print(line, file=stream, flush=True))
    try:
        yield
    finally:
        due.cancel()


def _no_etcd(connection: ConnectionOptions, error: Unavailable) -> Unavailable:
    addresses = ", ".join(connection.etcd.endpoints)
    reason = str(error.__cause__ or error)
    return Unavailable(
        f"cannot reach etcd at {addresses} ({reason[:100]}): is it running? "
        "(`wharfinger dev` starts one; --etcd names it)"
    )


async def open_temporal(
    connection: ConnectionOptions, *, within: float = FIRST_ANSWER, told: TextIO | None = None
) -> Client:
    """A Temporal client with pydantic's data converter, which has answered within so many seconds; `told` as above.

    TLS and API keys come from the SDK's environment configuration. Raises `ServerError`, and
    `ConfigurationError` when that configuration is malformed.
    """
    from temporalio.client import Client

    from wharfinger.process.connecting import data_converter, temporal_configuration
    from wharfinger.process.temporal_plugins import plugins_of

    configuration, plugins = temporal_configuration(connection.temporal), plugins_of(connection.temporal)
    address = configuration.get("target_host", "")
    try:
        with telling(f"Temporal at {address} does not answer yet ...", sys.stderr if told is None else told):
            async with asyncio.timeout(within):
                return await Client.connect(**configuration, data_converter=data_converter, plugins=plugins)
    except (RuntimeError, ValueError, OSError) as error:
        if plugins:
            raise ServerError(f"cannot reach Temporal at {address} with its plugins: {error}") from error
        raise ServerError(
            f"cannot reach Temporal at {address}: is it running? (`wharfinger dev` starts one; --temporal names it)"
        ) from error
