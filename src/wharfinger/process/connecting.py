"""Names this process, and connects it to both servers; connecting is retried until they answer, with one log line."""

from __future__ import annotations

import logging
import os
import random
import socket
from asyncio import sleep
from dataclasses import dataclass

from temporalio.client import Client
from temporalio.envconfig import ClientConnectConfig
from temporalio.runtime import LogForwardingConfig, LoggingConfig, PrometheusConfig, Runtime, TelemetryConfig
from temporalio.service import GrpcCompression

from wharfinger.errors import Unavailable
from wharfinger.etcd.backoff import delays
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.rk8s_keys import store_of
from wharfinger.etcd.store import Store
from wharfinger.objects.model.addresses import is_loopback
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.process.conversion import data_converter
from wharfinger.process.logs import core_logger
from wharfinger.settings import EtcdSettings


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
    with socket.socket() as probe:  # the exporter takes no port 0: find one that is free now
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    forwarding = LogForwardingConfig(core_logger(), append_target_to_name=False, prepend_target_on_message=False)
    runtime = Runtime(
        telemetry=TelemetryConfig(
            logging=LoggingConfig(CORE_LEVELS, forwarding=forwarding),
            metrics=PrometheusConfig(bind_address=address, counters_total_suffix=True, durations_as_seconds=True),
        )
    )
    return SdkMetrics(runtime, f"http://{address}/metrics")


async def connect_temporal(
    configuration: ClientConnectConfig, *, identity: str, runtime: Runtime | None, rng: random.Random
) -> Client:
    """A client, as soon as Temporal answers."""
    said = False
    near = is_near(configuration.get("target_host", ""))
    for delay in delays(0.2, LONGEST_PAUSE, rng):
        try:
            return await Client.connect(
                **configuration,
                data_converter=data_converter,
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
