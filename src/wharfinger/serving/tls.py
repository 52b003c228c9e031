"""TLS contexts: one for each certificate, chosen by the server name, and made anew when files change.

::

    connection ─► front context ──its callback, at each handshake──► context of the name, else the default one
                                          └─ files changed, or the self-signed pair grows old: make all anew

When new files cannot be read, the old certificates stay and one line is logged. HTTP/2 is not offered.
"""

from __future__ import annotations

import datetime
import logging
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from wharfinger.apiserver.tls import load_pair
from wharfinger.errors import UsageError
from wharfinger.serving.certificates import (
    LIFE,
    kept_in,
    load_authorities,
    load_files,
    load_published,
    names_in,
    self_signed,
)
from wharfinger.serving.file_changes import FileChanges
from wharfinger.serving.options import ServingOptions, SniPair, TlsOptions

log = logging.getLogger(__name__)

RENEWED_BEFORE = datetime.timedelta(days=30)
"""A self-signed certificate in memory is made anew so long before it expires."""

VERSIONS = {
    "": ssl.TLSVersion.TLSv1_2,
    "VersionTLS10": ssl.TLSVersion.TLSv1_2,
    "VersionTLS11": ssl.TLSVersion.TLSv1_2,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}
"""As the option spells them; what is older than TLS 1.2 is not offered."""

ALWAYS_ON = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
"""Suites of TLS 1.3, which cannot be chosen, in kube-scheduler neither."""
SUITES = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
}
"""IANA's names of suites of TLS 1.2, as kube-scheduler's option has them, and OpenSSL's. RC4 and 3DES are left out."""


class _Named(NamedTuple):
    patterns: tuple[str, ...]
    extracted: bool
    """Whether the patterns are the names in the certificate: given ones go first."""
    context: ssl.SSLContext


class _Contexts(NamedTuple):
    default: ssl.SSLContext
    named: tuple[_Named, ...]

    def of(self, server_name: str | None) -> ssl.SSLContext:
        """The context of a name: exact before wildcard, given patterns before those of certificates."""
        name = (server_name or "").lower()
        wildcard = "*." + name.partition(".")[2]
        for wanted in (name, wildcard):
            for extracted in (False, True):
                for one in self.named:
                    if one.extracted is extracted and wanted in one.patterns:
                        return one.context
        return self.default


class TlsContexts:
    """The certificates of one server; `front` is the context to accept connections with."""

    def __init__(
        self,
        options: ServingOptions,
        *,
        clock: Callable[[], float],
        utc_now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        """`clock`: monotonic seconds. Raises `UsageError` when a file cannot be used as it is."""
        assert options.tls is not None, "plain HTTP needs no contexts"
        self._options = options
        self._tls = options.tls
        self._authorities = options.authentication.client_ca_file
        self._published = ""
        """PEM of authorities that the cluster publishes; they count beside those of the file."""
        self._utc_now = utc_now
        self._renew_at: datetime.datetime | None = None
        _check(self._tls)
        self._contexts = self._made()
        self._changes = FileChanges(self._files(), clock)
        self.front = self._made().default  # a context of its own: the callback must not be in those it chooses from
        self.front.sni_callback = self._choose

    def trust(self, authorities: str) -> None:
        """Accept client certificates of these authorities too (PEM), from the next handshake on.

        Replaces those of the call before; empty = none. Raises `UsageError`, and then nothing changes.
        """
        if authorities == self._published:
            return
        before, self._published = self._published, authorities
        try:
            self._contexts = self._made()
            if authorities:
                load_published(self.front, authorities)  # what a handshake asks for is the front's
        except UsageError:
            self._published = before
            raise

    def _choose(self, socket_: ssl.SSLSocket | ssl.SSLObject, name: str | None, _front: ssl.SSLContext) -> None:
        """OpenSSL calls this at every handshake, with None where the client names no server."""
        old = self._renew_at is not None and self._utc_now() >= self._renew_at
        if old or self._changes.any():
            self._reload()
        socket_.context = self._contexts.of(name)

    def _reload(self) -> None:
        try:
            self._contexts = self._made()
        except (UsageError, ValueError, OSError) as error:
            log.warning("serving_certificates_kept error=%r", str(error))
        else:
            log.info("serving_certificates_loaded")

    def _files(self) -> list[Path]:
        files = [self._tls.cert_file, self._tls.key_file, self._authorities]
        files += [path for pair in self._tls.sni_pairs for path in (pair.cert_file, pair.key_file)]
        if self._tls.cert_dir is not None:
            files += [self._tls.cert_dir / f"{self._tls.pair_name}{suffix}" for suffix in (".crt", ".key")]
        return [path for path in files if path is not None]

    def _made(self) -> _Contexts:
        """Make every context. Raises `UsageError`."""
        default = self._empty()
        if self._tls.cert_file is not None and self._tls.key_file is not None:
            options = ("--tls-cert-file", "--tls-private-key-file")
            load_files(default, self._tls.cert_file, self._tls.key_file, options)
        else:
            self._load_self_signed(default)
        return _Contexts(default, tuple(map(self._named, self._tls.sni_pairs)))

    def _named(self, pair: SniPair) -> _Named:
        context = self._empty()
        load_files(context, pair.cert_file, pair.key_file, ("--tls-sni-cert-key",) * 2)
        extracted = not pair.patterns
        return _Named(names_in(pair.cert_file) if extracted else pair.patterns, extracted, context)

    def _load_self_signed(self, context: ssl.SSLContext) -> None:
        now = self._utc_now()
        made = self_signed(self._options.component, _own_names(self._options.address), now)
        if self._tls.cert_dir is not None:
            load_files(context, *kept_in(self._tls.cert_dir, self._tls.pair_name, made), ("--cert-dir",) * 2)
            return
        load_pair(context, made.cert, made.key)  # no disk gets the key, and none that can be written is needed
        self._renew_at = now + LIFE - RENEWED_BEFORE

    def _empty(self) -> ssl.SSLContext:
        """A context without a certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = VERSIONS[self._tls.min_version]
        suites = [SUITES[name] for name in self._tls.cipher_suites if name in SUITES]
        if suites:
            context.set_ciphers(":".join(suites))
        context.set_alpn_protocols(["http/1.1"])
        context.num_tickets = (
            0  # a resumed session would show the client's certificate of an authority that was replaced
        )
        context.options |= ssl.OP_NO_TICKET
        if self._authorities is not None:
            load_authorities(context, self._authorities)
        if self._published:
            load_published(context, self._published)
        return context


def _check(tls: TlsOptions) -> None:
    """Raises `UsageError` for values that are no names of versions or suites."""
    if tls.min_version not in VERSIONS:
        known = ", ".join(name for name in VERSIONS if name)
        raise UsageError(f"--tls-min-version: {tls.min_version!r} is no version (known are {known})")
    if tls.min_version in ("VersionTLS10", "VersionTLS11"):
        log.warning("tls_min_version_raised asked=%s served=VersionTLS12", tls.min_version)
    unknown = [name for name in tls.cipher_suites if name not in SUITES and name not in ALWAYS_ON]
    if unknown:
        raise UsageError(
            f"--tls-cipher-suites: {', '.join(unknown)}: unknown or not offered (offered are {', '.join(SUITES)})"
        )


def _own_names(address: str) -> tuple[str, ...]:
    """What clients may call this machine: for a self-signed certificate."""
    names = [socket.gethostname().lower(), "localhost", "127.0.0.1", "::1"]
    if address and address not in ("0.0.0.0", "::"):  # noqa: S104 - these are no names of a machine
        names.append(address)
    return tuple(dict.fromkeys(names))
