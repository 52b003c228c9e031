"""TLS to an extender: what is trusted, and which certificate is shown. Nothing secret is in any message.

Unlike kube-scheduler, `enableHTTPS` without an authority does not switch verification off: the system's authorities
are trusted then, and only `tlsConfig.insecure` trusts anybody.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from wharfinger.apiserver.certificates import blocks
from wharfinger.apiserver.key_files import load_pair
from wharfinger.errors import ConfigurationError
from wharfinger.objects.model.extenders import ExtenderTls

REREAD_AFTER = 60.0
"""Seconds after which files are read again, because certificates are rotated in place."""
_NOTHING = ExtenderTls()

Read = Callable[[Path], bytes]


@dataclass(frozen=True, slots=True)
class _Pems:
    authorities: bytes
    certificate: bytes
    key: bytes = field(repr=False)


class ExtenderTrust:
    """The TLS context for one extender. The same object while the files are the same, so connections are reused."""

    def __init__(self, tls: ExtenderTls | None, clock: Callable[[], float], read: Read = Path.read_bytes) -> None:
        """`clock`: monotonic, in seconds."""
        self._tls = tls or _NOTHING
        self._clock = clock
        self._read = read
        self._pems: _Pems | None = None
        self._context: ssl.SSLContext | None = None
        self._read_at = 0.0

    @property
    def server_name(self) -> str | None:
        """Name that the certificate must have; None = the host of the URL."""
        return self._tls.server_name or None

    def context(self) -> ssl.SSLContext:
        """What connections are made with. Blocks where files are due. Raises `ConfigurationError`, one line."""
        tls = self._tls
        from_files = bool(tls.ca_file or tls.cert_file or tls.key_file)
        if self._context is None or (from_files and self._clock() >= self._read_at + REREAD_AFTER):
            pems = _Pems(
                self._pem(tls.ca_data, tls.ca_file),
                self._pem(tls.cert_data, tls.cert_file),
                self._pem(tls.key_data, tls.key_file),
            )
            if self._context is None or pems != self._pems:
                self._context = _made(pems, insecure=tls.insecure)
                self._pems = pems
            self._read_at = self._clock()
        return self._context

    def forget(self) -> None:
        """A handshake failed: files are read again for the next call, should they have changed."""
        self._read_at = float("-inf")

    def _pem(self, data: bytes, file: str) -> bytes:
        if data or not file:
            return data
        try:
            return self._read(Path(file))
        except OSError as error:
            raise ConfigurationError(f"cannot read {file}: {error.strerror or error}") from error


def _made(pems: _Pems, *, insecure: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif pems.authorities:
        _trust(context, pems.authorities)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if pems.certificate:
        try:
            load_pair(context, pems.certificate, pems.key)
        except ConfigurationError as error:
            raise ConfigurationError(f"the client certificate under tlsConfig {error}") from error
    return context


def _trust(context: ssl.SSLContext, authorities: bytes) -> None:
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as Go: also what stands there and is not self-signed
    try:
        context.load_verify_locations(cadata="\n".join(blocks(authorities)))
    except (ssl.SSLError, ValueError):
        raise ConfigurationError("the authorities under tlsConfig cannot be used by OpenSSL") from None
