"""The etcd and the Temporal of a tree. Their ports: the named ones, else those of its last start, else the usual."""

from __future__ import annotations

from wharfinger.dev import ports
from wharfinger.dev.etcd import EtcdServer
from wharfinger.dev.folder import DataFolder
from wharfinger.dev.settings import ETCD_PORT, TEMPORAL_PORT, UI_PORT, DevSettings, Servers
from wharfinger.dev.temporal import TemporalServer
from wharfinger.process.children.ports import free_port


def chosen(settings: DevSettings, folder: DataFolder, servers: Servers) -> tuple[EtcdServer, TemporalServer]:
    """The two servers; a Temporal that runs elsewhere has no files. Raises `UsageError` for a named port in use."""
    remembered, host = folder.ports(), settings.bind_address

    def port(name: str, usual: int, named: int | None, taken: tuple[int, ...] = ()) -> int:
        if named is not None:
            return ports.required(named, f"--{name}-port", host)
        return ports.preferred((remembered.get(name), usual), host, taken=taken)

    etcd_port = port("etcd", ETCD_PORT, settings.etcd_port)
    temporal_port = port("temporal", TEMPORAL_PORT, settings.temporal_port, (etcd_port,))
    ui_port = port("ui", UI_PORT, settings.ui_port, (etcd_port, temporal_port))
    guarded = not settings.etcd_open
    tls_port = free_port() if guarded and settings.kubernetes else 0
    etcd = EtcdServer(servers.etcd, folder.etcd, etcd_port, host=host, guarded=guarded, tls_port=tls_port)
    if settings.temporal_address:
        elsewhere, _, number = settings.temporal_address.rpartition(":")
        return etcd, TemporalServer(servers.temporal, int(number), host=elsewhere)
    return etcd, TemporalServer(servers.temporal, temporal_port, database=folder.temporal, ui_port=ui_port, host=host)
