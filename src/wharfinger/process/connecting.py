"""Connects a process to etcd and Temporal, and reports whether Temporal goes on answering.

Connecting is retried until the server answers, with one log line. `data_converter` makes payloads of contracts.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
from asyncio import sleep
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, Plugin
from temporalio.contrib.pydantic import PydanticPayloadConverter
from temporalio.converter import CompositePayloadConverter, DataConverter
from temporalio.envconfig import ClientConfig, ClientConnectConfig
from temporalio.runtime import LogForwardingConfig, LoggingConfig, PrometheusConfig, Runtime, TelemetryConfig
from temporalio.service import GrpcCompression, RPCError, RPCStatusCode

from wharfinger.errors import ConfigurationError, Unavailable
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.rk8s_keys import store_of
from wharfinger.etcd.store import Store
from wharfinger.objects.model.addresses import is_loopback
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.pressure import delays
from wharfinger.process.children.ports import free_port
from wharfinger.process.logs import core_logger
from wharfinger.settings import EtcdSettings, TemporalSettings

DEFAULT_ADDRESS = "127.0.0.1:7233"
DEFAULT_NAMESPACE = "default"


def temporal_configuration(settings: TemporalSettings) -> ClientConnectConfig:
    """Return the arguments of `Client.connect`.

    Raises `ConfigurationError` when the SDK's file or variables are malformed, or have an API key sent in the clear.
    """
    try:
        configuration = ClientConfig.load_client_connect_config()
    except (RuntimeError, ValueError, OSError) as error:
        # What follows the first line quotes the file, which may hold an API key.
        why = str(error).partition("\n")[0]
        raise ConfigurationError(f"Temporal's environment configuration cannot be read: {why}") from None
    if settings.address is not None:
        configuration["target_host"] = settings.address
    if settings.namespace is not None:
        configuration["namespace"] = settings.namespace
    configuration.setdefault("target_host", DEFAULT_ADDRESS)
    configuration.setdefault("namespace", DEFAULT_NAMESPACE)
    host = configuration["target_host"].rpartition(":")[0].strip("[]")
    if configuration.get("api_key") and configuration.get("tls") is False and not is_loopback(host):
        raise ConfigurationError(
            f"Temporal at {configuration['target_host']}: the API key would be sent in the clear: TLS is turned off"
        )
    return configuration


_SHARED = tuple(PydanticPayloadConverter().converters.values())


class ContractPayloadConverter(CompositePayloadConverter):
    """A `PydanticPayloadConverter` whose parts are shared by all; they keep no state but caches."""

    def __init__(self) -> None:
        super().__init__(*_SHARED)

    def from_payloads(self, payloads: Sequence[Payload], type_hints: list[type] | None = None) -> list[Any]:
        """The values; an invalid one is reported in one line instead of several of the library's."""
        try:
            return super().from_payloads(payloads, type_hints)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise ValueError(f"what was sent cannot be read: {f'{where}: ' if where else ''}{first['msg']}") from None
        except RuntimeError as error:  # of protobuf's converters; a workflow would repeat its task for ever
            raise ValueError(f"what was sent cannot be read: {error}") from error


data_converter = DataConverter(payload_converter_class=ContractPayloadConverter)
"""For every Temporal client of ours."""


def identity() -> str:
    """This process among all: `<pid>@<host>`, as Temporal names workers."""
    return f"{os.getpid()}@{socket.gethostname()}"


log = logging.getLogger(__name__)

FIRST_ANSWER = 2.0
"""Seconds for etcd's first answer, so that it is soon said what is waited for."""
LONGEST_PAUSE = 3.0
"""Seconds between two tries, at most."""
CORE_LEVELS = "error,temporalio_sdk_core::worker::workflow=warn"
"""What the SDK's core reports: errors, and warnings about workflow tasks (`process.logs.CoreLines` selects of them)."""


@dataclass(frozen=True, slots=True)
class SdkMetrics:
    """The SDK's runtime, and where its own exporter listens (loopback only; we pass it on)."""

    runtime: Runtime
    url: str


def sdk_metrics() -> SdkMetrics:
    """A runtime of the SDK that counts; one a process."""
    address = f"127.0.0.1:{free_port()}"  # the exporter takes no port 0
    forwarding = LogForwardingConfig(core_logger(), append_target_to_name=False, prepend_target_on_message=False)
    runtime = Runtime(
        telemetry=TelemetryConfig(
            logging=LoggingConfig(CORE_LEVELS, forwarding=forwarding),
            metrics=PrometheusConfig(bind_address=address, counters_total_suffix=True, durations_as_seconds=True),
        )
    )
    return SdkMetrics(runtime, f"http://{address}/metrics")


async def connect_temporal(
    configuration: ClientConnectConfig,
    plugins: Sequence[Plugin] = (),
    *,
    identity: str,
    runtime: Runtime | None,
    rng: random.Random,
) -> Client:
    """A client, as soon as Temporal answers."""
    said = False
    near = is_near(configuration.get("target_host", ""))
    for delay in delays(0.2, LONGEST_PAUSE, rng):
        try:
            return await Client.connect(
                **configuration,
                data_converter=data_converter,
                plugins=plugins,
                identity=identity,
                runtime=runtime,
                grpc_compression=GrpcCompression.NONE if near else GrpcCompression.GZIP,
            )
        except RuntimeError as error:
            if not said:
                said = True
                log.warning("waiting_for_temporal address=%s error=%r", configuration.get("target_host"), str(error))
        await sleep(delay)
    raise AssertionError("delays are endless")


def is_near(address: str) -> bool:
    """Whether `host:port` is this machine: compressing what goes there costs more than it saves."""
    return is_loopback(address.rpartition(":")[0].strip("[]"))


async def connect_etcd(
    settings: EtcdSettings, *, rng: random.Random, format_: ClusterFormat = ClusterFormat.KUBERNETES
) -> Store:
    """A store of a cluster of this format, as soon as etcd answers. Raises `AccessDenied`, `ConfigurationError`."""
    said = False
    within = min(settings.deadline, FIRST_ANSWER)
    for delay in delays(0.2, LONGEST_PAUSE, rng):
        try:
            return store_of(await EtcdStore.connect(settings, within=within), format_)
        except Unavailable as error:
            if not said:
                said = True
                log.warning("waiting_for_etcd endpoints=%s error=%r", ",".join(settings.endpoints), str(error))
        await sleep(delay)
    raise AssertionError("delays are endless")


EVERY = 2.0
"""Seconds between two probes."""

_SILENCE = frozenset(
    {RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED, RPCStatusCode.UNKNOWN}
)
Probe = Callable[[], Awaitable[object]]


class Reachability:
    """Asks `probe` again and again; unreachable after `patience` seconds without an answer."""

    def __init__(
        self,
        probe: Probe,
        *,
        patience: float,
        clock: Callable[[], float],
        changed: Callable[[], None] = lambda: None,
        every: float = EVERY,
    ) -> None:
        """`changed` is called when `reachable` changes."""
        self._probe = probe
        self._patience = patience
        self._clock = clock
        self._changed = changed
        self._every = min(every, patience / 3)
        self._answered = clock()
        self.reachable = True

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            await self.ask()
            await asyncio.sleep(self._every)

    async def ask(self) -> None:
        """Ask once."""
        try:
            async with asyncio.timeout(self._patience / 2):
                await self._probe()
        except (RPCError, TimeoutError, RuntimeError, OSError) as error:
            if isinstance(error, RPCError) and error.status not in _SILENCE:
                self._heard()  # a refusal is an answer
                return
            silent = self._clock() - self._answered
            if self.reachable and silent >= self._patience:
                log.warning("temporal_unreachable silent_s=%.1f error=%r", silent, str(error))
                self._set(False)
            return
        self._heard()

    def _heard(self) -> None:
        self._answered = self._clock()
        if not self.reachable:
            log.info("temporal_reachable")
            self._set(True)

    def _set(self, reachable: bool) -> None:
        self.reachable = reachable
        self._changed()
