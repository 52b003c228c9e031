"""How one process serves: where it listens, by which certificate, and who may read what.

`ServingOptions` is all of it. The options of kube-scheduler fill it field by field; `of_process` makes it from the few
options that every other process has. Quick to import, because the command line does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from wharfinger.errors import UsageError
from wharfinger.objects.model.addresses import is_loopback

HEALTH_PATHS = ("/healthz", "/readyz", "/livez")
"""kube-scheduler's default of `--authorization-always-allow-paths`."""
MASTERS = "system:masters"
"""The group that may do everything, in every cluster."""


@dataclass(frozen=True, slots=True)
class SniPair:
    """A certificate for some server names (`--tls-sni-cert-key`)."""

    cert_file: Path
    key_file: Path
    patterns: tuple[str, ...] = ()
    """Names and `*.suffix` wildcards, lower case; empty = the names in the certificate."""


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """What is shown to clients. Without a given pair, a self-signed one is made."""

    cert_file: Path | None = None
    """PEM, with its chain."""
    key_file: Path | None = None
    """PEM, not encrypted."""
    sni_pairs: tuple[SniPair, ...] = ()
    cert_dir: Path | None = None
    """Where a self-signed pair is kept as `<pair_name>.crt` and `.key`; None = in memory only."""
    pair_name: str = "wharfinger"
    min_version: str = ""
    """`VersionTLS12` or `VersionTLS13`; older ones are accepted and raised to 1.2, the default."""
    cipher_suites: tuple[str, ...] = ()
    """IANA names of suites for TLS 1.2; empty = the library's. Those of TLS 1.3 are always on."""

    def __post_init__(self) -> None:
        if (self.cert_file is None) is not (self.key_file is None):
            raise UsageError("--tls-cert-file and --tls-private-key-file belong together: give both, or neither")


@dataclass(frozen=True, slots=True)
class AuthenticationOptions:
    """How callers show who they are. Tokens are reviewed as well where the server is given an `ApiClient`."""

    client_ca_file: Path | None = None
    """PEM of the authorities that sign clients' certificates; None = certificates are not requested."""
    static_token_file: Path | None = None
    """kube-apiserver's CSV: token, user, uid and, quoted, groups."""
    token_ttl: float = 10.0
    """Seconds for which the review of a token is kept."""


@dataclass(frozen=True, slots=True)
class AuthorizationOptions:
    """What callers may read. Where the server is given an `ApiClient`, the cluster decides about the others."""

    always_allow_paths: tuple[str, ...] = HEALTH_PATHS
    """Read without any credentials; a trailing `*` allows what begins so."""
    always_allow_groups: tuple[str, ...] = (MASTERS,)
    any_certificate: bool = False
    """Whether any certificate of the client CA suffices: for a CA that signs for nothing else."""
    allowed_ttl: float = 10.0
    """Seconds for which an allowing review is kept."""
    denied_ttl: float = 10.0

    def __post_init__(self) -> None:
        wrong = next((path for path in self.always_allow_paths if "*" in path[:-1]), None)
        if wrong is not None:
            raise UsageError(f"--authorization-always-allow-paths: {wrong!r} may have a * at its end only")

    def opens(self, path: str) -> bool:
        """Whether the path is read without credentials. A leading slash is optional in the options."""
        bare = path.removeprefix("/")
        for allowed in (one.removeprefix("/") for one in self.always_allow_paths):
            if bare.startswith(allowed[:-1]) if allowed.endswith("*") else bare == allowed:
                return True
        return False


@dataclass(frozen=True, slots=True)
class ExpositionOptions:
    """What is left out of the metrics; `exposition.py` reads the options into it."""

    disabled: frozenset[str] = frozenset()
    """Full names of metrics that are not exposed."""
    allowed_labels: Mapping[tuple[str, str], frozenset[str]] = field(default_factory=dict)
    """By metric and label, the values that are exposed; others become `unexpected`."""


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """All that the server of one process is started with."""

    address: str = "127.0.0.1"
    port: int = 0
    """0 = any free one; below 0 = nothing is served."""
    component: str = "wharfinger"
    """What its pages call the process."""
    kubernetes: bool = False
    """Whether health pages have kube-scheduler's form: status 500, reasons withheld, `ok` alone without `?verbose`."""
    tls: TlsOptions | None = None
    """None = plain HTTP."""
    open: bool = False
    """Whether every page is read without credentials."""
    allowed_hosts: tuple[str, ...] = ()
    """More names by which plain HTTP may be called (`serving.http_server`)."""
    share_port: bool = False
    """SO_REUSEPORT, so that other processes may listen on the same port."""
    authentication: AuthenticationOptions = field(default_factory=AuthenticationOptions)
    authorization: AuthorizationOptions = field(default_factory=AuthorizationOptions)
    exposition: ExpositionOptions = field(default_factory=ExpositionOptions)


def of_process(
    address: str,
    port: int,
    *,
    metrics_open: bool = False,
    allowed_hosts: tuple[str, ...] = (),
    cert_file: Path | None = None,
    key_file: Path | None = None,
    client_ca_file: Path | None = None,
    static_token_file: Path | None = None,
) -> ServingOptions:
    """How workers, agents, hubs and agents of members serve. Raises `UsageError`.

    Health pages are open always. Without further options the rest is plain HTTP: open on loopback, refused elsewhere
    unless `metrics_open`. Any option about certificates or tokens turns TLS on, and then credentials are needed.
    """
    secured = any(file is not None for file in (cert_file, key_file, client_ca_file, static_token_file))
    return ServingOptions(
        address=address,
        port=port,
        tls=TlsOptions(cert_file, key_file) if secured else None,
        open=metrics_open or (not secured and is_loopback(address)),
        allowed_hosts=allowed_hosts,
        authentication=AuthenticationOptions(client_ca_file, static_token_file),
        authorization=AuthorizationOptions(
            always_allow_paths=(*HEALTH_PATHS, *(f"{path}/*" for path in HEALTH_PATHS)), any_certificate=True
        ),
    )


def sni_pair(text: str) -> SniPair:
    """Read `cert,key` or `cert,key:name,*.suffix`. Raises `UsageError`."""
    files, colon, names = text.partition(":")
    parts = [part.strip() for part in files.split(",")]
    patterns = tuple(name.strip().lower() for name in names.split(",")) if colon else ()
    bare = [name.removeprefix("*.") for name in patterns]
    if len(parts) != 2 or not all(parts) or not all(name and "*" not in name for name in bare):
        raise UsageError(
            f"--tls-sni-cert-key: {text!r} is not CERT,KEY or CERT,KEY:NAME,... (a NAME may begin with *.)"
        )
    return SniPair(Path(parts[0]), Path(parts[1]), patterns)
