"""The flags of kube-scheduler 1.36, read as it reads them, and what becomes of each here.

Each flag is honoured, accepted with a warning because it means nothing here, or refused with advice because the process
would not do what it asks for. Values are spelt as Go spells them (`true`, `t`, `1`; `1m30s`; lists by commas), and a
wrong one is refused in kube-scheduler's words.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from wharfinger.cli.options import OptionGroup
from wharfinger.errors import UsageError
from wharfinger.programs.cli.go_types import GoType


@dataclass(frozen=True, slots=True)
class KubeFlag:
    """One flag."""

    name: str
    type: GoType
    text: str
    """What it does here."""
    default: str = ""
    ignored: str = ""
    """Why it means nothing here; empty = it is honoured."""
    refused: str = ""
    """Why it cannot be had, and what to do; empty = it can."""
    allowed: tuple[str, ...] = ()
    """The values that it may have; empty = any."""
    several: bool = False
    """Whether each occurrence counts; of other flags the last one does."""

    @property
    def listed(self) -> bool:
        """Whether its occurrences make one list."""
        return self.several or self.type is GoType.STRINGS

    @property
    def spelling(self) -> str:
        """As kube-scheduler calls it in errors."""
        return "-v, --v" if self.name == "v" else f"--{self.name}"

    @property
    def parameter(self) -> str:
        """As a parameter of a Python function."""
        return self.name.replace("-", "_")


_S, _B, _I, _D, _L = GoType.STRING, GoType.BOOL, GoType.INT, GoType.DURATION, GoType.STRINGS
_HTTP2 = "this server speaks HTTP/1.1 only"
_LOG = "log lines are written one by one, to standard error"
_PROFILES = "a worker offers no profiles of itself"
_HEADERS = (
    "requests by an authenticating proxy are not accepted: leave it out, and have callers show a client certificate or "
    "a token"
)

FLAGS: tuple[KubeFlag, ...] = (
    KubeFlag("config", _S, "A KubeSchedulerConfiguration (v1). Flags that it outranks are ignored."),
    KubeFlag("master", _S, "URL of the API server, in the place of the kubeconfig's."),
    KubeFlag("write-config-to", _S, "Write the completed configuration to this file, and exit."),
    KubeFlag("bind-address", GoType.IP, "Where it serves.", "0.0.0.0"),  # noqa: S104 - kube-scheduler's default
    KubeFlag("secure-port", _I, "Port that it serves on, by TLS. 0: none.", "10259"),
    KubeFlag("permit-address-sharing", _B, "Always on: SO_REUSEADDR is set for each socket that listens.", "false"),
    KubeFlag("permit-port-sharing", _B, "Let other processes listen on the same port (SO_REUSEPORT).", "false"),
    KubeFlag("cert-dir", _S, "Folder in which a self-signed certificate is kept. Without: in memory."),
    KubeFlag("tls-cert-file", _S, "Certificate that it serves by, with its chain (PEM)."),
    KubeFlag("tls-private-key-file", _S, "Private key of --tls-cert-file (PEM)."),
    KubeFlag("tls-min-version", _S, "Oldest version of TLS: VersionTLS12 or VersionTLS13."),
    KubeFlag("tls-cipher-suites", _L, "Suites for TLS 1.2, by their IANA names."),
    KubeFlag("tls-sni-cert-key", _S, "A certificate for some names: `CERT,KEY[:NAME,...]`.", several=True),
    KubeFlag(
        "tls-curve-preferences",
        _L,
        "Refused.",
        refused="which key exchanges TLS uses cannot be chosen here: leave it out",
    ),
    KubeFlag("client-ca-file", _S, "Authorities of clients' certificates (PEM)."),
    KubeFlag("authentication-kubeconfig", _S, "Kubeconfig for TokenReviews. Without: the scheduler's own."),
    KubeFlag(
        "authentication-skip-lookup",
        _B,
        "Do not read the ConfigMap extension-apiserver-authentication for the client CA.",
        "false",
    ),
    KubeFlag("authentication-tolerate-lookup-failure", _B, "Serve although that ConfigMap cannot be read.", "true"),
    KubeFlag("authentication-token-webhook-cache-ttl", _D, "How long the review of a token is kept.", "10s"),
    KubeFlag("authorization-kubeconfig", _S, "Kubeconfig for SubjectAccessReviews. Without: the scheduler's own."),
    KubeFlag(
        "authorization-always-allow-paths",
        _L,
        "Paths that are read without credentials; a trailing `*` allows what begins so.",
        "/healthz,/readyz,/livez",
    ),
    KubeFlag("authorization-webhook-cache-authorized-ttl", _D, "How long an allowing review is kept.", "10s"),
    KubeFlag("authorization-webhook-cache-unauthorized-ttl", _D, "How long a denying review is kept.", "10s"),
    *(
        KubeFlag(f"requestheader-{name}", type_, "Refused.", refused=_HEADERS)
        for name, type_ in (
            ("allowed-names", _L),
            ("client-ca-file", _S),
            ("extra-headers-prefix", _L),
            ("group-headers", _L),
            ("uid-headers", _L),
            ("username-headers", _L),
        )
    ),
    KubeFlag("kubeconfig", _S, "Kubeconfig of the API server. Without, and in a pod: its service account."),
    KubeFlag("kube-api-qps", GoType.FLOAT, "Requests a second; negative: no limit. Ignored with --config.", "50"),
    KubeFlag("kube-api-burst", GoType.INT32, "Requests that may go at once. Ignored with --config.", "100"),
    KubeFlag("kube-api-content-type", _S, "Ignored.", ignored="requests are JSON"),
    KubeFlag("leader-elect", _B, "Bind only while this installation holds the Lease.", "true"),
    KubeFlag("leader-elect-lease-duration", _D, "After which another one may take a Lease that is not renewed.", "15s"),
    KubeFlag("leader-elect-renew-deadline", _D, "Within which a renewal succeeds, or the process ends.", "10s"),
    KubeFlag("leader-elect-retry-period", _D, "Between two tries.", "2s"),
    KubeFlag("leader-elect-resource-lock", _S, "`leases`.", "leases"),
    KubeFlag("leader-elect-resource-name", _S, "Name of the Lease.", "kube-scheduler"),
    KubeFlag("leader-elect-resource-namespace", _S, "Namespace of the Lease.", "kube-system"),
    KubeFlag(
        "pod-max-in-unschedulable-pods-duration",
        _D,
        "After which every waiting pod is tried again, whatever happened.",
        "5m0s",
    ),
    KubeFlag("feature-gates", _L, "Gates of Kubernetes 1.36: `NAME=true|false`, or `kube:NAME=...`."),
    KubeFlag(
        "emulated-version",
        _L,
        "`kube=1.36`, the only one.",
        refused="only Kubernetes 1.36 is built: leave it out, or say kube=1.36",
    ),
    KubeFlag(
        "min-compatibility-version",
        _L,
        "`kube=1.36`, the only one.",
        refused="only Kubernetes 1.36 is built: leave it out, or say kube=1.36",
    ),
    KubeFlag(
        "allow-metric-labels", _S, "Values of a metric's label that are exposed: `METRIC,LABEL=V1,V2`.", several=True
    ),
    KubeFlag("allow-metric-labels-manifest", _S, "The same, from a file."),
    KubeFlag("disabled-metrics", _L, "Full names of metrics that are not exposed."),
    KubeFlag("show-hidden-metrics-for-version", _S, "Ignored.", ignored="no metric is hidden", allowed=("", "1.35")),
    KubeFlag("logging-format", _S, "`text` or `json`.", "text", allowed=("text", "json")),
    KubeFlag("v", GoType.LEVEL, "How much is logged: 0 to 3 as usual, from 4 on everything.", "0"),
    KubeFlag("vmodule", _S, "Ignored.", ignored="all rooms log alike"),
    KubeFlag("log-flush-frequency", _D, "Ignored.", "5s", ignored=_LOG),
    KubeFlag("log-json-info-buffer-size", _S, "Ignored.", ignored=_LOG),
    KubeFlag("log-json-split-stream", _B, "Ignored.", "false", ignored=_LOG),
    KubeFlag("log-text-info-buffer-size", _S, "Ignored.", ignored=_LOG),
    KubeFlag("log-text-split-stream", _B, "Ignored.", "false", ignored=_LOG),
    KubeFlag("profiling", _B, "Ignored.", "true", ignored=_PROFILES),
    KubeFlag("contention-profiling", _B, "Ignored.", "true", ignored=_PROFILES),
    KubeFlag("disable-http2-serving", _B, "Ignored.", "false", ignored=_HTTP2),
    KubeFlag("http2-max-streams-per-connection", _I, "Ignored.", "0", ignored=_HTTP2),
)
BY_NAME: Mapping[str, KubeFlag] = {flag.name: flag for flag in FLAGS}
BARE = frozenset(flag.name for flag in FLAGS if flag.type is GoType.BOOL) | {"version"}
"""Flags that may be given without a value."""
OUTRANKED = frozenset({"kubeconfig", "kube-api-qps", "kube-api-burst", "kube-api-content-type"}) | {
    "profiling",
    "contention-profiling",
}
"""Flags that count only without `--config`."""
SAME_AS_BUILT = frozenset({"1.36", "kube=1.36"})
"""Values of the version flags that ask for nothing else than there is."""


@dataclass(frozen=True, slots=True)
class KubeFlags:
    """The values of a command line."""

    given: Mapping[str, Any] = field(default_factory=dict)
    """By name, those that were written."""

    def __getitem__(self, name: str) -> Any:
        """The value of a flag, written or its default."""
        if name in self.given:
            return self.given[name]
        flag = BY_NAME[name]
        return () if flag.several else flag.type.read(flag.default) if flag.default else _EMPTY.get(flag.type, "")

    def shown(self) -> dict[str, str]:
        """All of them as text, for `/flagz`."""
        return {flag.name: flag.type.show(self[flag.name]) for flag in FLAGS}

    def warnings(self) -> list[str]:
        """A line for each written flag that means nothing here, or that the configuration file outranks."""
        without_effect = [
            f"--{name} has no effect: {BY_NAME[name].ignored}" for name in self.given if BY_NAME[name].ignored
        ]
        if "config" not in self.given:
            return without_effect
        outranked = [f"--{name} has no effect: --config is given" for name in self.given if name in OUTRANKED]
        return without_effect + outranked


_EMPTY: Mapping[GoType, Any] = {
    GoType.BOOL: False,
    GoType.INT: 0,
    GoType.INT32: 0,
    GoType.FLOAT: 0.0,
    GoType.DURATION: 0.0,
    GoType.STRINGS: (),
}


def read_flags(**written: str | Sequence[str] | None) -> KubeFlags:
    """What the options said. Raises `UsageError` in kube-scheduler's words, and for flags that are refused."""
    given: dict[str, Any] = {}
    for flag in FLAGS:
        value = written.get(flag.parameter)
        texts = [value] if isinstance(value, str) else value
        if not texts:
            continue
        read = [_read(flag, text) for text in texts]
        if flag.several:
            given[flag.name] = tuple(read)
        else:
            given[flag.name] = tuple(part for one in read for part in one) if flag.listed else read[-1]
        if flag.refused and not SAME_AS_BUILT.issuperset(given[flag.name] or ("?",)):
            raise UsageError(f"--{flag.name}: {flag.refused}")
        if flag.allowed and given[flag.name] not in flag.allowed:
            raise UsageError(
                f"--{flag.name}: {json.dumps(given[flag.name])} must be {' or '.join(filter(None, flag.allowed))}"
            )
    return KubeFlags(given)


def _read(flag: KubeFlag, text: str) -> Any:
    try:
        return flag.type.read(text)
    except ValueError as error:
        raise UsageError(f'invalid argument {json.dumps(text)} for "{flag.spelling}" flag: {error}') from None


def spelt_out(arguments: list[str]) -> list[str]:
    """A command line as this one is read, from one as Go reads it.

    A boolean flag without `=` is true; `_` in a flag's name is `-`; `-v=4` is `--v=4`.
    """
    found: list[str] = []
    is_value = False
    for at, argument in enumerate(arguments):
        if argument == "--" and not is_value:
            return found + arguments[at:]
        if is_value or not argument.startswith("-"):
            found.append(argument)
            is_value = False
            continue
        name, equals, value = argument.partition("=")
        if name.startswith("--"):
            name = name.replace("_", "-")
        elif name == "-v" and equals:
            name = "--v"
        if name.removeprefix("--") in BARE and not equals:
            equals, value = "=", "true"
        found.append(name + equals + value)
        flag = BY_NAME.get(name.removeprefix("--"))
        is_value = not equals and (flag is not None or name == "-v")
    return found


def _option(flag: KubeFlag) -> tuple[Any, Any]:
    names = ["-v", "--v"] if flag.name == "v" else [f"--{flag.name}"]
    found = typer.Option(
        *names,
        metavar=flag.type.value.upper(),
        help=flag.text + (f" [default: {flag.default}]" if flag.default else ""),
        show_default=False,
        rich_help_panel="kube-scheduler",
    )
    return (Annotated[list[str] | None, found] if flag.listed else Annotated[str | None, found]), None


WrittenFlags = Annotated[
    KubeFlags, OptionGroup({flag.parameter: _option(flag) for flag in FLAGS}, lambda written: read_flags(**written))
]
"""For `cli.options.configured`."""
