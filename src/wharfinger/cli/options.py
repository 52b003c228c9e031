"""The connection options that every command shares, and where its help lists it.

Another command uses them like this, and is named in `COMMANDS` of `cli.main`::

    # cli/objects/things.py
    def register(app: typer.Typer) -> None:        # `cli.main` calls it
        app.command("things", rich_help_panel=OBJECTS)(things)

    @connected
    def things(name: Annotated[str, typer.Argument(help="Which.")], *, connection: ConnectionOptions) -> None:
        '''What --help says.'''
        from wharfinger.cli import connect

        connect.run(_things(connection, name))     # asyncio.run

    async def _things(connection: ConnectionOptions, name: str) -> None:
        async with connect.open_store(connection) as store: ...
        client = await connect.open_temporal(connection)

`connected` replaces the parameter `connection` by the options below. Each is also an environment
variable: `--etcd-user` is `WHARFINGER_ETCD_USER`; an option wins over its variable. Defaults are those
of `wharfinger.settings`. Neighbours: `cli.processes.process_options` has what commands share that run schedulers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from wharfinger.cli.option_groups import OptionTable, grouped
from wharfinger.contracts.names import DEFAULT_CLUSTER, check_cluster
from wharfinger.errors import UsageError
from wharfinger.model.formats import ClusterFormat
from wharfinger.settings import EtcdSettings, TemporalSettings

RUN = "Run"
OBJECTS = "Objects"
UNDERSTAND = "Understand"
"""Panels of `wharfinger --help`, in this order."""

CONNECTION_PANEL = "Connection"
"""Panel of the shared options in a command's help."""


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """The connection options: where etcd and Temporal are."""

    etcd: EtcdSettings = field(default_factory=EtcdSettings)
    temporal: TemporalSettings = field(default_factory=TemporalSettings)
    cluster: str = DEFAULT_CLUSTER
    format: ClusterFormat | None = None
    """Of the cluster's pods and nodes; None = as etcd says."""


def variable(name: str) -> str:
    """The environment variable of an option: `etcd-user` -> `WHARFINGER_ETCD_USER`."""
    return "WHARFINGER_" + name.upper().replace("-", "_")


def option(
    name: str,
    text: str,
    metavar: str | None = None,
    *,
    shown: str | bool = True,
    panel: str | None = None,
    min: int | None = None,
    max: int | None = None,
) -> Any:
    """`--<name>`, which its environment variable gives too; `shown` is what help shows of the default, or whether."""
    return typer.Option(
        f"--{name}",
        envvar=variable(name),
        help=text,
        metavar=metavar,
        show_default=shown,
        show_envvar=False,
        rich_help_panel=panel,
        min=min,
        max=max,
    )


def _option(name: str, text: str, metavar: str, shown: str | bool = True) -> Any:
    return option(name, text, metavar, shown=shown, panel=CONNECTION_PANEL)


ConfigOption = Annotated[
    Path | None,
    option(
        "config",
        "A KubeSchedulerConfiguration (YAML or JSON). Without: the defaults, `wharfinger config show --defaults`.",
        "FILE",
    ),
]
"""The option of commands that decide."""


class PluginPackages(StrEnum):
    """Which plugins of installed packages take part."""

    NAMED = "named"
    ALL = "all"


PluginsOption = Annotated[
    PluginPackages,
    option(
        "plugins",
        "Plugins of installed packages that take part: those that the configuration names (`named`), or `all`.",
    ),
]


class EtcdProtocol(StrEnum):
    """How etcd is spoken to."""

    JSON = "json"
    GRPC = "grpc"


_DEFAULT_ETCD = EtcdSettings().endpoints

_OPTIONS: OptionTable = {
    "etcd": (
        Annotated[
            list[str] | None,
            _option(
                "etcd",
                "An endpoint of etcd; repeat, or separate by commas, for several of one cluster.",
                "URL",
                ", ".join(_DEFAULT_ETCD),
            ),
        ],
        None,
    ),
    "etcd_protocol": (
        Annotated[
            EtcdProtocol,
            option(
                "etcd-protocol",
                "How etcd is spoken to: by its JSON gateway, or by gRPC, which needs this package's extra `grpc`.",
                panel=CONNECTION_PANEL,
            ),
        ],
        EtcdProtocol.JSON,
    ),
    "etcd_user": (
        Annotated[
            str, _option("etcd-user", "User, when etcd requires one; needs --etcd-password-file.", "NAME", False)
        ],
        "",
    ),
    "etcd_password_file": (
        Annotated[Path | None, _option("etcd-password-file", "File with the user's password.", "FILE")],
        None,
    ),
    "allow_insecure_etcd": (
        Annotated[
            bool,
            typer.Option(
                "--allow-insecure-etcd",
                envvar=variable("allow-insecure-etcd"),
                show_envvar=False,
                help="Send the password also over plain http to another machine: for a network that is all yours.",
                rich_help_panel=CONNECTION_PANEL,
            ),
        ],
        False,
    ),
    "etcd_ca": (
        Annotated[
            Path | None,
            _option(
                "etcd-ca",
                "Certificate of the authority that signed etcd's (PEM); without: the system's authorities.",
                "FILE",
            ),
        ],
        None,
    ),
    "etcd_cert": (Annotated[Path | None, _option("etcd-cert", "Client certificate for etcd (PEM).", "FILE")], None),
    "etcd_key": (
        Annotated[Path | None, _option("etcd-key", "Private key of the client certificate (PEM).", "FILE")],
        None,
    ),
    "temporal": (
        Annotated[
            str | None,
            _option("temporal", "Temporal's front end.", "HOST:PORT", "TEMPORAL_ADDRESS, else 127.0.0.1:7233"),
        ],
        None,
    ),
    "temporal_namespace": (
        Annotated[
            str | None,
            _option("temporal-namespace", "Temporal namespace.", "NAME", "TEMPORAL_NAMESPACE, else default"),
        ],
        None,
    ),
    "cluster": (Annotated[str, _option("cluster", "Name of the cluster.", "NAME")], DEFAULT_CLUSTER),
    "format_": (
        Annotated[
            ClusterFormat | None,
            _option(
                "format",
                "In which format the cluster keeps its pods and nodes; its first worker has written it into etcd.",
                "|".join(ClusterFormat),
                "as etcd says, else kubernetes",
            ),
        ],
        None,
    ),
}
"""Parameter -> annotation and default."""


def connection_from(
    *,
    etcd: Iterable[str] | None = None,
    etcd_protocol: EtcdProtocol = EtcdProtocol.JSON,
    etcd_user: str = "",
    etcd_password_file: Path | None = None,
    allow_insecure_etcd: bool = False,
    etcd_ca: Path | None = None,
    etcd_cert: Path | None = None,
    etcd_key: Path | None = None,
    temporal: str | None = None,
    temporal_namespace: str | None = None,
    cluster: str = DEFAULT_CLUSTER,
    format_: ClusterFormat | None = None,
) -> ConnectionOptions:
    """Check and gather what the options said; raises `UsageError`."""
    for option, path in (
        ("etcd-password-file", etcd_password_file),
        ("etcd-ca", etcd_ca),
        ("etcd-cert", etcd_cert),
        ("etcd-key", etcd_key),
    ):
        if path is not None and not path.is_file():
            raise UsageError(f"--{option}: there is no file {path}")
    if etcd_key is not None and etcd_cert is None:
        raise UsageError("--etcd-key needs --etcd-cert, the certificate it belongs to")
    if etcd_user and etcd_password_file is None:
        raise UsageError("--etcd-user needs --etcd-password-file")
    return ConnectionOptions(
        etcd=EtcdSettings(
            endpoints=endpoints(etcd or ()) or _DEFAULT_ETCD,
            protocol=etcd_protocol.value,
            user=etcd_user,
            password_file=etcd_password_file,
            allow_insecure=allow_insecure_etcd,
            ca=etcd_ca,
            cert=etcd_cert,
            key=etcd_key,
        ),
        temporal=TemporalSettings(address=_address(temporal), namespace=temporal_namespace or None),
        cluster=check_cluster(cluster),
        format=format_,
    )


def endpoints(values: Iterable[str]) -> tuple[str, ...]:
    """Endpoints of etcd, each value one or several (commas or blanks between); raises `UsageError`."""
    parts = (part for value in values for part in re.split(r"[,\s]+", value) if part)
    return tuple(dict.fromkeys(_endpoint(part) for part in parts))


def _endpoint(text: str) -> str:
    url = text if "://" in text else f"http://{text}"
    try:
        split = urlsplit(url)
        well_formed = bool(split.hostname) and (split.port is None or split.port > 0)
    except ValueError:  # a port that is no number, a broken IPv6 address
        well_formed = False
    if not well_formed or split.scheme not in ("http", "https") or split.path.strip("/") or split.query:
        shown = re.sub(r"//[^/]*@", "//", text)  # a password does not belong into errors
        raise UsageError(f"--etcd: {shown!r} is no URL of an etcd, such as http://127.0.0.1:2379")
    return url.rstrip("/")


def _address(text: str | None) -> str | None:
    if not text:
        return None
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise UsageError(f"--temporal: {text!r} is no HOST:PORT, such as 127.0.0.1:7233")
    return text


connected = grouped("connection", _OPTIONS, connection_from)
"""Gives a command the connection options, and its function one `ConnectionOptions` as its parameter `connection`."""
